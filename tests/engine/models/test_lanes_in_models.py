"""Models on our kernels, in the emulator: near the plain path, rows exact, words kept."""

import itertools
from dataclasses import dataclass

import mlx.core as mx
import pytest
from lane_models import VOCABULARY, Kind, every_lane, lane_model
from metal_emulator import EmulatorLauncher
from plain_run import CyclingLength, run

from metal_kernels.lanes import LANES, MOST_ROWS
from mlx_engine.decoding.row_check import rows_are_exact
from mlx_engine.drafting.dialled_draft import DialledDraft
from mlx_engine.drafting.mtp_draft import MtpDraft
from mlx_engine.drafting.no_draft import NoDraft
from mlx_engine.models.qwen3_5 import Qwen35
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import SamplingOptions

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4, 60, 61, 3]
LENGTH = 9
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "sampled": SamplingOptions(temperature=0.8),
    "filtered": SamplingOptions(temperature=0.8, top_k=7, repetition_penalty=1.2),
}
KERNELS = {
    "dense": "few_row_matvec few_row_gate_up attention_parts gated_delta_block mtp_input",
    "experts": "expert_union_matvec few_row_matvec few_row_gate_up gated_delta_block mtp_input",
}


@dataclass(frozen=True)
class Pair:
    kind: Kind
    plain: Qwen35
    mine: Qwen35
    launcher: EmulatorLauncher


@pytest.fixture(scope="module", params=["dense", "experts"])
def pair(request: pytest.FixtureRequest) -> Pair:
    launcher = EmulatorLauncher(check=False)
    kind = request.param
    return Pair(kind, lane_model(kind), lane_model(kind, every_lane(launcher)), launcher)


def logits_of(model: Qwen35, tokens: list[int]) -> mx.array:
    return model.logits(model.forward(mx.array([tokens]), model.make_caches()))


def head_logits(model: Qwen35, tokens: list[int]) -> mx.array:
    hidden = model.forward(mx.array([tokens]), model.make_caches())
    states = model.mtp_forward(mx.array([tokens[1:]]), hidden[:, :-1], model.make_head_caches())
    return model.mtp_logits(states)


def test_logits_are_those_of_the_plain_path(pair: Pair) -> None:
    mine, plain = (logits_of(model, PROMPT[:MOST_ROWS]) for model in (pair.mine, pair.plain))
    assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item()
    mine, plain = (head_logits(model, PROMPT[:MOST_ROWS]) for model in (pair.mine, pair.plain))
    assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item()
    names = {report.kernel for report in pair.launcher.reports}
    assert all(
        any(name.startswith(kernel) for name in names) for kernel in KERNELS[pair.kind].split()
    )


def test_a_row_is_itself_in_every_pass(pair: Pair) -> None:
    """Nine rows at once, and cut in two at every place, after a prompt that stock MLX reads."""

    def read(parts: list[list[int]]) -> mx.array:
        caches, seen = pair.mine.make_caches(), []
        for part in parts:
            seen.append(pair.mine.logits(pair.mine.forward(mx.array([part]), caches)))
            caches.keep(len(part))
        return mx.concatenate(seen[1:], axis=1)

    rows = [7, 3, 90, 11, 12, 4, 4, 50, 8]
    whole = read([PROMPT, rows])
    for cut in range(1, MOST_ROWS):
        assert mx.array_equal(read([PROMPT, rows[:cut], rows[cut:]]), whole).item(), cut
    assert rows_are_exact(pair.mine)


@pytest.mark.parametrize("way", ["greedy", "sampled"])
def test_nine_rows_pick_what_each_picks_alone(pair: Pair, way: str) -> None:
    rows, sampler = pair.mine.output_rows, Sampler(WAYS[way], VOCABULARY, 5)
    hidden = mx.random.normal((1, MOST_ROWS, 64), key=mx.random.key(2))
    how = sampler.choosing(20, MOST_ROWS)
    assert rows is not None
    assert how is not None
    alone = [
        rows.pick(hidden[:, row : row + 1], sampler.choosing(20 + row, 1) or how)
        for row in range(MOST_ROWS)
    ]
    together = rows.pick(hidden, how)
    assert together.tolist() == mx.concatenate(alone).tolist()
    logits = pair.plain.logits(hidden)[0]
    wanted = sampler.pick(logits, 20, mx.zeros((MOST_ROWS,), dtype=mx.int32))
    assert together.tolist() == wanted.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_drafting_keeps_the_words(pair: Pair, way: str) -> None:
    options, before = WAYS[way], len(pair.launcher.reports)
    truth = run(pair.mine, PROMPT, NoDraft(), 0, options=options, max_tokens=LENGTH).tokens
    assert len(set(truth)) > 3
    accepted = 0
    for depth in (1, 2, 3, 4) if way == "sampled" else (3,):
        ran = run(pair.mine, PROMPT, MtpDraft(pair.mine), depth, options=options, max_tokens=LENGTH)
        assert ran.tokens == truth, depth
        assert ran.stats.drafted > 0
        accepted += ran.stats.accepted
    right = itertools.cycle([2, 0, 1, 8, 3])
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    lengths = CyclingLength([2, 4, 1, 8, 0, 3])
    ran = run(pair.mine, PROMPT, source, lengths, options=options, max_tokens=LENGTH)
    assert ran.tokens == truth
    assert accepted + ran.stats.accepted > 2
    picked = any(report.kernel == "vocabulary_pick" for report in pair.launcher.reports[before:])
    assert picked == (way != "filtered")


def test_turns_return_to_a_boundary(pair: Pair) -> None:
    """A second turn on caches that drafting has cut equals the same on caches that it has not."""
    first = run(pair.mine, PROMPT, MtpDraft(pair.mine), 3, max_tokens=5)
    plain = run(pair.mine, PROMPT, NoDraft(), 0, max_tokens=5)
    assert first.tokens == plain.tokens
    again = [*PROMPT, *first.tokens, 8, 3, 3]
    turned = [
        run(pair.mine, again, ran.track.source, depth, max_tokens=4, track=ran.track)
        for ran, depth in ((first, 2), (plain, 0))
    ]
    assert turned[0].tokens == turned[1].tokens
    snapshot = first.track.caches.snapshot()
    token = mx.array([[7]])
    once = pair.mine.logits(pair.mine.forward(token, first.track.caches))
    first.track.caches.keep(1)
    first.track.caches.restore(snapshot)
    assert mx.array_equal(
        pair.mine.logits(pair.mine.forward(token, first.track.caches)), once
    ).item()


def test_without_a_lane_stock_does_its_work() -> None:
    launcher = EmulatorLauncher(check=False)
    plain = logits_of(lane_model("dense"), PROMPT[:3])
    for name in LANES:
        lanes = every_lane(launcher, off={name: "for this test"})
        mine = logits_of(lane_model("dense", lanes), PROMPT[:3])
        assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item(), name
    everything_off = every_lane(launcher, off=dict.fromkeys(LANES, "for this test"))
    mine = logits_of(lane_model("dense", everything_off), PROMPT[:3])
    assert mx.array_equal(mine, plain).item()
