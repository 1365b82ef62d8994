"""The toy checkpoint's GGUFs against llama.cpp: logits, greedy text, acceptance, same words."""

import json
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from shared_case import FOLDER, QUANTISATIONS, gguf_of, needs_case

import mlx_engine
from mlx_engine import DraftOptions, Generation, SamplingOptions
from mlx_engine.engine import Engine

pytestmark = needs_case
GREEDY = SamplingOptions(temperature=0)

LOGITS = 2e-3
"""Largest difference of logits allowed; every type keeps its values."""

# llama.cpp rounds activations to 8 bits even in its exact runs; what is closer than this is a tie.
TIE = 0.05


@cache
def engine(quantisation: str) -> Engine:
    return mlx_engine.load(gguf_of(quantisation))


def runs(quantisation: str, kind: str) -> list[dict]:
    file = FOLDER / "server" / f"srv_qwen35-{quantisation}-exact.json"
    return json.loads(file.read_text())[kind]


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_logits_are_those_of_the_dequantised_file(quantisation: str) -> None:
    tokens = [int(token) for token in (FOLDER / "prompt.tok").read_text().split()]
    with np.load(FOLDER / "llamacpp.npz") as arrays:
        wanted = arrays[f"{quantisation}_deq/logits"]
    got = engine(quantisation).logits(tokens)[-len(wanted) :]
    assert np.abs(got - wanted).max() < LOGITS


@cache
def logits_along(quantisation: str, prompt: str, text: tuple[int, ...]) -> NDArray[np.float32]:
    """Of each token of a text, [T, V]."""
    asked = engine(quantisation).tokenize(prompt, True)
    return engine(quantisation).logits([*asked, *text[:-1]])[len(asked) - 1 :]


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_greedy_text_is_llama_cpps_except_at_ties(quantisation: str) -> None:
    for run in runs(quantisation, "plain"):
        logits = logits_along(quantisation, run["prompt"], tuple(run["tokens"]))
        behind = logits.max(-1) - logits[np.arange(len(logits)), run["tokens"]]
        assert behind.max() < TIE
        assert (behind > 0).sum() <= 8  # the same tie comes again in text that repeats itself


class Drafts(NamedTuple):
    drafted: int
    accepted: int
    ties: int


def drafts_along(quantisation: str, run: dict) -> Drafts:
    """Counts over llama.cpp's text; where a tie falls otherwise, it goes on behind their token."""
    prompt, text = engine(quantisation).tokenize(run["prompt"], True), run["tokens"]
    logits = logits_along(quantisation, run["prompt"], tuple(text))
    ties = np.flatnonzero(logits.argmax(-1) != text).tolist()
    drafted = accepted = 0
    for start, end in zip([0, *(tie + 1 for tie in ties)], [*ties, len(text)], strict=True):
        if start < end:
            ours = drafted_text(quantisation, [*prompt, *text[:start]], end - start)
            assert list(ours.tokens) == text[start:end], "drafts change no word"
            drafted, accepted = drafted + ours.stats.drafted, accepted + ours.stats.accepted
    return Drafts(drafted, accepted, len(ties))


def drafted_text(quantisation: str, tokens: list[int], count: int) -> Generation:
    """With a head that has read all, as theirs has: not what an answer without drafts has left."""
    engine(quantisation).forget_conversations()
    return engine(quantisation).generate(
        tokens, count, GREEDY, DraftOptions(depth=3), ignore_eos=True
    )


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
def test_drafts_are_accepted_as_often(quantisation: str) -> None:
    drafted = accepted = theirs_drafted = theirs_accepted = 0
    for run in runs(quantisation, "mtp")[::2]:
        ours, timings = drafts_along(quantisation, run), run["timings"]
        if ours.ties == 0:
            assert ours.drafted == pytest.approx(timings["draft_n"], rel=0.03)
            assert ours.accepted == pytest.approx(timings["draft_n_accepted"], rel=0.03)
        drafted, accepted = drafted + ours.drafted, accepted + ours.accepted
        theirs_drafted += timings["draft_n"]
        theirs_accepted += timings["draft_n_accepted"]
    assert drafted == pytest.approx(theirs_drafted, rel=0.02)
    assert accepted == pytest.approx(theirs_accepted, rel=0.01)
