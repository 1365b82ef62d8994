"""What is accepted of random heads is what heads of an independent implementation draft."""

import numpy as np
import pytest
import tiny_nextn
from qwen_reference import qwen_reference
from stack_reference import StackReference
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_stacks import HEADS, KINDS, VOCABULARY, dequantised, write_stack
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

import mlx_engine
from mlx_engine import DraftOptions, SamplingOptions

PROMPTS = ([5, 78, 30, 110, 2, 9, 9], [257, 4, 78, 30], [75, 220, 31, 8])
LENGTH = 28
WORDS = dict.fromkeys((75, 78, 220, 270), 20.0)
"""Biased to these alone, even a random head is right now and then."""
BIAS = np.zeros(VOCABULARY)
BIAS[list(WORDS)] = 20.0
GREEDY = SamplingOptions(temperature=0, logit_bias=WORDS)


def check(folder, depth, drafts_of):
    """Texts are those without drafts, and as many stand as `drafts_of` says of them.

    drafts_of: of a text, [heads, T - 1, V], row k of head j for token k + 2 + j.
    """
    engine, stood, wanted = mlx_engine.load(folder), 0, 0
    asked = {"max_tokens": LENGTH, "ignore_eos": True, "sampling": GREEDY}
    for prompt in PROMPTS:
        plain = engine.generate(prompt, draft=DraftOptions(source="none"), **asked)
        found = engine.generate(prompt, draft=DraftOptions(depth=depth), **asked)
        assert found.tokens == plain.tokens
        stood += found.stats.accepted
        text = [*prompt, *found.tokens]
        wanted += accepted(text, len(prompt) - 1, drafts_of(text))
    engine.close()
    assert stood == wanted > 0


def accepted(text, last, drafts):
    """Round by round from token `last` on, which is known; a wrong draft ends one, and so does the
    text, whose last token is never drafted.
    """
    rows, total = drafts.shape[1], 0
    while last < rows:
        row = last - 1
        picked = (drafts[:, row] + BIAS).argmax(axis=-1)[: rows - last - 1]
        right = picked == text[last + 1 : last + 1 + len(picked)]
        stood = int(np.cumprod(right).sum())
        total, last = total + stood, last + 1 + stood
    return total


@pytest.mark.parametrize("kind", [*tiny_nextn.TYPES, *tiny_nextn.OTHERS])
def test_one_head(tmp_path, kind):
    tiny = tiny_nextn.publish(kind, tmp_path / "m", own=False)
    check(tiny.folder, 1, lambda text: tiny.drafts(text)[None])


def test_qwens_head(tmp_path):
    write_tiny_qwen3_5(tmp_path / "m", tied=False)

    def drafts(text):
        told = qwen_reference(tmp_path / "m", Qwen3_5TextConfig, Qwen3_5ForCausalLM, text)
        return told.draft_logits(told.hidden())[None]

    check(tmp_path / "m", 1, drafts)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_in_turns(tmp_path, kind):
    """As many drafts as heads; one that follows a right one reads what is in the text."""
    reference = StackReference(kind, dequantised(kind))
    check(write_stack(tmp_path / "m", kind), HEADS[kind], reference.draft_logits)
