"""Models on our kernels, in the emulator: near the plain path, rows exact, words kept."""

import itertools
from dataclasses import dataclass

import mlx.core as mx
import pytest
from dialled_draft import DialledDraft
from graph_operations import operations
from kernel_models import VOCABULARY, Kind, every_kernel, kernel_model
from metal_emulator import EmulatorLauncher
from plain_run import CyclingDepth, run

from metal_kernels.choice import KERNELS, MOST_ROWS
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.models.decoder import Decoder
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.self_check.numerics import compare_row_counts
from mlx_engine.values.options import DraftOptions, SamplingOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4, 60, 61, 3]
LENGTH = 9
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "sampled": SamplingOptions(temperature=0.8),
    "filtered": SamplingOptions(temperature=0.8, top_k=7, repetition_penalty=1.2),
}
EVERYWHERE = (
    "few_row_matvec_affine few_row_matvec_add few_row_gate_up gated_delta_inputs "
    "gated_delta_block mtp_input "
)
USED = {
    "dense": EVERYWHERE + "attention_parts",
    "experts": EVERYWHERE + "expert_union_matvec",
}


@dataclass(frozen=True)
class Pair:
    kind: Kind
    plain: Decoder
    mine: Decoder
    launcher: EmulatorLauncher


@pytest.fixture(scope="module", params=["dense", "experts"])
def pair(request: pytest.FixtureRequest) -> Pair:
    launcher = EmulatorLauncher(check=False)
    kind = request.param
    return Pair(kind, kernel_model(kind), kernel_model(kind, every_kernel(launcher)), launcher)


def logits_of(model: Decoder, tokens: list[int]) -> mx.array:
    return model.logits(model.forward(mx.array([tokens]), model.make_caches()))


def head_logits(model: Decoder, tokens: list[int]) -> mx.array:
    hidden = model.forward(mx.array([tokens]), model.make_caches())
    (head,) = model.heads
    states = head.mtp_forward(mx.array([tokens[1:]]), hidden[:, :-1], head.make_head_caches())
    return head.mtp_logits(states)


def test_logits_are_those_of_the_plain_path(pair: Pair) -> None:
    mine, plain = (logits_of(model, PROMPT[:MOST_ROWS]) for model in (pair.mine, pair.plain))
    assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item()
    mine, plain = (head_logits(model, PROMPT[:MOST_ROWS]) for model in (pair.mine, pair.plain))
    assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item()
    names = {report.kernel for report in pair.launcher.reports}
    assert all(any(name.startswith(kernel) for name in names) for kernel in USED[pair.kind].split())


def test_a_row_is_itself_in_every_pass(pair: Pair) -> None:
    """Nine rows at once, and cut in two at every place, after a prompt that stock MLX reads."""

    def read(parts: list[list[int]]) -> mx.array:
        caches, seen = pair.mine.make_caches(), []
        for part in parts:
            seen.append(pair.mine.logits(pair.mine.forward(mx.array([part]), caches)))
            caches.commit(len(part))
        return mx.concatenate(seen[1:], axis=1)

    rows = [7, 3, 90, 11, 12, 4, 4, 50, 8]
    whole = read([PROMPT, rows])
    for cut in range(1, MOST_ROWS):
        assert mx.array_equal(read([PROMPT, rows[:cut], rows[cut:]]), whole).item(), cut
    assert set(compare_row_counts(pair.mine, 600)) == {""}


@pytest.mark.parametrize("rows", [1, 8, 9])
def test_adding_in_the_product_changes_no_bit(pair: Pair, rows: int) -> None:
    apart = kernel_model(
        pair.kind, every_kernel(pair.launcher, off={"product-add": "for this test"})
    )
    mine, its = (logits_of(model, PROMPT[:rows]) for model in (pair.mine, apart))
    assert mx.array_equal(mine, its).item()


def after_a_block(model: Decoder, block: list[int], kept: int) -> LayerCaches:
    caches = model.make_caches()
    for part, stands in ((PROMPT, len(PROMPT)), (block, kept)):
        if part:
            mx.eval(model.forward(mx.array([part]), caches))
            caches.commit(stands)
    return caches


def window_of(caches: LayerCaches) -> mx.array:
    return next(
        one.window.slice_window(3) for one in caches.layers if isinstance(one, RecurrentCache)
    )


@pytest.mark.parametrize("kept", range(MOST_ROWS + 1))
def test_a_block_that_was_cut_leaves_what_its_rows_alone_leave(pair: Pair, kept: int) -> None:
    """Windows and logits after any prefix, from there, and from a snapshot of it."""
    rows = [7, 3, 90, 11, 12, 4, 4, 50, 8]
    cut = after_a_block(pair.mine, rows, kept)
    alone = after_a_block(pair.mine, rows[:kept], kept)
    plain = after_a_block(pair.plain, rows, kept)
    assert mx.array_equal(window_of(cut), window_of(alone)).item()
    assert mx.allclose(window_of(cut), window_of(plain), rtol=1e-4, atol=1e-4).item()
    snapshot, seen = cut.snapshot(), []
    for caches in (cut, alone, cut):
        seen.append(pair.mine.logits(pair.mine.forward(mx.array([[6, 2]]), caches)))
        caches.commit(1)
        cut.restore(snapshot)
    assert mx.array_equal(seen[0], seen[1]).item()
    assert mx.array_equal(seen[0], seen[2]).item()


@pytest.mark.parametrize("way", ["greedy", "sampled"])
def test_nine_rows_pick_what_each_picks_alone(pair: Pair, way: str) -> None:
    rows, sampler = pair.mine.output_matrix, Sampler(WAYS[way], VOCABULARY, 5)
    hidden = mx.random.normal((1, MOST_ROWS, 64), key=mx.random.key(2))
    how = sampler.token_choice_arguments(20, MOST_ROWS)
    assert rows is not None
    assert how is not None
    alone = [
        rows.pick_argmax(
            hidden[:, row : row + 1], sampler.token_choice_arguments(20 + row, 1) or how
        )
        for row in range(MOST_ROWS)
    ]
    together = rows.pick_argmax(hidden, how)
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
        source = MtpDraft(pair.mine.heads, DraftOptions())
        ran = run(pair.mine, PROMPT, source, depth, options=options, max_tokens=LENGTH)
        assert ran.tokens == truth, depth
        assert ran.stats.drafted > 0
        accepted += ran.stats.accepted
    right = itertools.cycle([2, 0, 1, 8, 3])
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    lengths = CyclingDepth([2, 4, 1, 8, 0, 3])
    ran = run(pair.mine, PROMPT, source, lengths, options=options, max_tokens=LENGTH)
    assert ran.tokens == truth
    assert accepted + ran.stats.accepted > 2
    picked = any(report.kernel == "vocabulary_pick" for report in pair.launcher.reports[before:])
    assert picked == (way != "filtered")


def test_turns_return_to_a_boundary(pair: Pair) -> None:
    """A second turn on caches that drafting has cut equals the same on caches that it has not."""
    first = run(pair.mine, PROMPT, MtpDraft(pair.mine.heads, DraftOptions()), 3, max_tokens=5)
    plain = run(pair.mine, PROMPT, NoDraft(), 0, max_tokens=5)
    assert first.tokens == plain.tokens
    again = [*PROMPT, *first.tokens, 8, 3, 3]
    turned = [
        run(pair.mine, again, ran.sequence.drafter, depth, max_tokens=4, sequence=ran.sequence)
        for ran, depth in ((first, 2), (plain, 0))
    ]
    assert turned[0].tokens == turned[1].tokens
    snapshot = first.sequence.caches.snapshot()
    token = mx.array([[7]])
    once = pair.mine.logits(pair.mine.forward(token, first.sequence.caches))
    first.sequence.caches.commit(1)
    first.sequence.caches.restore(snapshot)
    assert mx.array_equal(
        pair.mine.logits(pair.mine.forward(token, first.sequence.caches)), once
    ).item()


def test_a_pass_copies_nothing_and_takes_fewer_launches() -> None:
    """Counted in the graph of one row: operations that are no views, a kernel's call as one."""
    both = {"delta-inputs": "for this test", "product-add": "for this test"}
    apart, without_inputs, together = (
        operations({name: both[name] for name in off}) for off in (both, ("delta-inputs",), ())
    )
    assert without_inputs.total() == apart.total() - 2 * 2  # out and down projections, two layers
    assert together.total() <= without_inputs.total() - 11
    assert together["Convolution"] == 0
    assert together["Gather"] == 3  # the embedding's: an index on a first axis would be another


def test_a_pass_of_halves_casts_nothing_but_logits() -> None:
    assert operations({}, on_metal=True)["AsType"] == 1


def test_without_a_kernel_stock_does_its_work() -> None:
    launcher = EmulatorLauncher(check=False)
    plain = logits_of(kernel_model("dense"), PROMPT[:3])
    for name in KERNELS:
        kernels = every_kernel(launcher, off={name: "for this test"})
        mine = logits_of(kernel_model("dense", kernels), PROMPT[:3])
        assert mx.allclose(mine, plain, rtol=1e-4, atol=1e-4).item(), name
    everything_off = every_kernel(launcher, off=dict.fromkeys(KERNELS, "for this test"))
    mine = logits_of(kernel_model("dense", everything_off), PROMPT[:3])
    assert mx.array_equal(mine, plain).item()
