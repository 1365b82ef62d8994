"""Drafts of several conversations at the same time: each as if alone, in passes they share."""

from collections import Counter

import mlx.core as mx
import numpy as np
import pytest
from drafts_again import draft_alone, tell
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_model import TinySizes, tiny_model
from tiny_published import publish
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine.drafting.drafter import Proposal, Step, run_steps
from mlx_engine.drafting.drafters import draft_with
from mlx_engine.drafting.lookup import CombinedDraft
from mlx_engine.drafting.model_drafter import FEW_WAITING
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.drafting.small_model import SmallModelDraft
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

TEXTS = [[int(t) for t in np.random.default_rng(n).integers(0, 37, 90)] for n in range(4)]
SAMPLING = SamplingOptions(temperature=0.9, top_k=9, repetition_penalty=1.2)


def head(folder):
    del folder
    model = tiny_model(6, TinySizes(layers=2, vocabulary=37))
    return model, lambda options: MtpDraft(model.heads, options)


def heads_in_turns(folder):
    engine = mlx_engine.load(write_stack(folder / "stack", "mimo_v2_flash"))
    engine.draft_logits(TEXTS[0][:4])  # the heads are read
    model = engine.parts.model
    return model, lambda options: MtpDraft(model.heads, options)


def head_beside_copies(folder):
    model, make = head(folder)
    return model, lambda options: CombinedDraft(make(options))


def small_model(folder):
    model, _ = head(folder)
    small = tiny_model(8, TinySizes(layers=2, vocabulary=37), with_head=False)
    return model, lambda options: SmallModelDraft(small, 37, options)


def eagle(folder):
    publish("gpt_oss", folder / "target")
    its = mlx_engine.inspect(folder / "target")
    sizes = TinyEagle(its.hidden_size, its.vocabulary, size=32)
    path = write_tiny_eagle(folder / "drafter", sizes)
    options = LoadOptions(draft_model=path, check_heads=False)
    engine = mlx_engine.load(folder / "target", options=options)
    drafter, model = engine.parts.drafting.small.opened, engine.parts.model
    return drafter.target, lambda options: draft_with(drafter, options, model.vocabulary)


@pytest.mark.parametrize(
    "make",
    [head, heads_in_turns, head_beside_copies, small_model, eagle],
    ids=lambda it: it.__name__,
)
@pytest.mark.parametrize("hesitant", [False, True])
def test_each_draft_is_what_it_is_alone(tmp_path, make, hesitant):
    """Whatever each has read, rests included, and of any depth."""
    model, new_source = make(tmp_path)
    options = DraftOptions(min_probability=0.04 if hesitant else 0.0)

    def conversations():
        for number, text in enumerate(TEXTS):
            source, caches, place = new_source(options), model.make_caches(), 0
            sampler = Sampler(SAMPLING, model.vocabulary, number)
            sampler.begin(text[:9])
            rests = [FEW_WAITING + 3] if number == 3 else []
            for rows in (9, *rests, 1 + number, 2):
                tokens = mx.array(text[place : place + rows], dtype=mx.int32)
                hidden = model.forward(tokens[None], caches)
                caches.commit(rows)
                tell(source, tokens, hidden)
                source.append(text[place : place + rows])
                place += rows
                if rows != 2:  # the draft before is not the first
                    last = mx.array(text[place : place + 1], dtype=mx.int32)
                    source.offers(text[place])
                    draft_alone(source, Proposal(2, last, place + 1), sampler)
            last = mx.array(text[place : place + 1], dtype=mx.int32)
            source.offers(text[place])
            yield source, Proposal(1 + number % 3, last, place + 1), sampler

    alone = [draft_alone(source, wanted, sampler) for source, wanted, sampler in conversations()]
    many = [source.draft(wanted, sampler) for source, wanted, sampler in conversations()]
    together = run_steps(many)
    assert [draft.tokens.tolist() for draft in together] == [its.tokens.tolist() for its in alone]
    assert [draft.passes for draft in together] == [draft.passes for draft in alone]
    assert hesitant or [draft.depth for draft in together] == [1, 2, 3, 1]


def test_passes_over_the_same_weights_are_one():
    passes = Counter()

    def double(rows):
        passes["double"] += 1
        return 2 * rows

    def halve(rows):
        passes["halve"] += 1
        return rows / 2

    def doubled(number, times, joint):
        rows = mx.full((1, 1 + number, 2), float(number))
        for _ in range(times):
            rows = yield Step((rows,), double, joint)
        return (yield Step((rows,), halve, halve)).tolist()

    def wanted(number, times):
        return [[[number * 2.0**times / 2] * 2] * (1 + number)]

    found = run_steps([doubled(number, times, double) for number, times in enumerate((3, 1, 2))])
    assert found == [wanted(0, 3), wanted(1, 1), wanted(2, 2)]
    assert passes == {"double": 3, "halve": 3}, "the last of each comes at another time"
    passes.clear()
    run_steps([doubled(number, 2, None) for number in range(3)])
    assert passes == {"double": 6, "halve": 1}
    assert run_steps([]) == []
