"""The sampler: exact distribution, seeds, rows that do not see each other, nothing evaluated."""

import threading
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
import pytest
from graph_operations import Unrun
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_models import every_kernel
from lazy_graph import primitives
from sampling_reference import penalised_row, picked_share, softmax

from mlx_engine.sampling.position_noise import plain_noise
from mlx_engine.sampling.sampler import (
    DRAFTED_FROM,
    Sampler,
    SamplerKernels,
    finite_rows,
    fresh_seed,
    presence_and_frequency_penalty,
    repetition_penalty,
)
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import SamplingOptions

DRAWS = 50_000
NOTHING = mx.array(np.zeros(0, dtype=np.int32))
ROW = np.array([1.2, -0.3, 0.4, 2.0, -1.5, 0.0, 1.9, -4.0, 0.4, -2.0])


def tokens(values: Sequence[int]) -> mx.array:
    return mx.array(np.array(values, dtype=np.int32))


def draw(options: SamplingOptions, seed: int, count: int = DRAWS) -> np.ndarray:
    logits = mx.broadcast_to(mx.array(ROW.astype(np.float32)), (count, len(ROW)))
    return np.array(Sampler(options, len(ROW), seed).pick(logits, 100, NOTHING))


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(temperature=1.0),
        SamplingOptions(temperature=0.6, logit_bias={7: 4.5}),
        SamplingOptions(temperature=1.5, top_k=5),
        SamplingOptions(temperature=1.3, top_p=0.83),
        SamplingOptions(temperature=1.0, min_p=0.09),
        SamplingOptions(temperature=2.0, top_k=8, top_p=0.9, min_p=0.1),
    ],
)
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_picks_follow_the_exact_distribution(options: SamplingOptions, seed: int) -> None:
    share = picked_share(penalised_row(ROW, [], [], options), options)
    counts = np.bincount(draw(options, seed), minlength=len(ROW))
    possible = share > 0
    assert counts[~possible].sum() == 0
    expected = share[possible] * DRAWS
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    # Chi-square, p = 0.001, for 1 to 9 degrees of freedom.
    critical = [10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12, 27.88]
    assert statistic < critical[possible.sum() - 2]


def test_picks_at_neighbouring_positions_are_independent() -> None:
    picks = draw(SamplingOptions(temperature=1.0, top_k=4), 9)
    _, ranks = np.unique(picks, return_inverse=True)
    for lag in (1, 2, 3):
        pairs = np.bincount(ranks[:-lag] * 4 + ranks[lag:], minlength=16).reshape(4, 4)
        expected = pairs.sum(1, keepdims=True) * pairs.sum(0, keepdims=True) / pairs.sum()
        assert ((pairs - expected) ** 2 / expected).sum() < 27.88  # 9 degrees, p = 0.001


def test_seeds_decide_the_text() -> None:
    options = SamplingOptions(temperature=1.0)
    seeds = [0, 1, 2**32, 2**63, 2**64 - 1]
    picks = [draw(options, seed, 300).tolist() for seed in seeds]
    assert [draw(options, seed, 300).tolist() for seed in seeds] == picks
    agreement = softmax(ROW)
    for one in range(len(seeds)):
        for other in range(one):
            same = np.mean(np.array(picks[one]) == np.array(picks[other]))
            assert abs(same - (agreement**2).sum()) < 0.12


def test_fresh_seeds_are_in_range_and_new() -> None:
    seeds = {fresh_seed() for _ in range(64)}
    assert len(seeds) == 64 and all(0 <= seed < 2**64 for seed in seeds)
    assert max(seeds) >= 2**60


@st.composite
def settings_of(draw: st.DrawFn) -> SamplingOptions:
    return SamplingOptions(
        temperature=draw(st.sampled_from([0.0, 1e-40, 0.3, 1.0, 3.0])),
        top_k=draw(st.sampled_from([0, 1, 3, 40])),
        top_p=draw(st.sampled_from([1.0, 0.95, 0.4])),
        min_p=draw(st.sampled_from([0.0, 0.05, 0.5])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.4, 0.8])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        frequency_penalty=draw(st.sampled_from([0.0, -0.3, 0.5])),
        logit_bias=draw(st.sampled_from([{}, {0: 1.5}])),
    )


@settings(max_examples=150)
@given(
    settings_of(),
    st.sampled_from([1, 2, 5, 257]),
    st.integers(1, 5),
    st.integers(0, 3),
    st.integers(0, 2**32),
)
def test_a_row_is_the_same_alone_committed_and_in_a_block(
    options: SamplingOptions, vocabulary: int, rows: int, earlier: int, chance: int
) -> None:
    rng = np.random.default_rng(chance)
    logits = mx.array(np.round(rng.normal(size=(rows, vocabulary)) * 12).astype(np.float32) / 4)
    prefix = rng.integers(0, vocabulary, size=earlier + rows - 1).tolist()
    prompt, answer = rng.integers(0, vocabulary, size=(2, 4)).tolist()
    sampler = Sampler(options, vocabulary, chance)
    sampler.begin(prompt)
    sampler.commit(tokens(answer), len(answer))
    block = sampler.pick(logits, 50, tokens(prefix))
    greedy = sampler.pick_greedy(logits, 50, tokens(prefix))
    likely = sampler.probability(logits, block, tokens(prefix))
    assert block.dtype == mx.int32 and block.shape == (rows,)
    assert likely.dtype == mx.float32 and likely.shape == (rows,)
    for row in range(rows):
        one, before = logits[row : row + 1], prefix[: earlier + row]
        plain = Sampler(options, vocabulary, chance)
        plain.begin(prompt)
        plain.commit(tokens(answer + before), len(answer + before))
        for asked, context in ((sampler, tokens(before)), (plain, NOTHING)):
            picked = asked.pick(one, 50 + row, context)
            assert picked.item() == block[row].item()
            assert asked.pick_greedy(one, 50 + row, context).item() == greedy[row].item()
            assert asked.probability(one, picked, context).item() == likely[row].item()


@settings(max_examples=100)
@given(settings_of(), st.sampled_from([1, 2, 5, 257]), st.integers(0, 2**32))
def test_greedy_and_probability_follow_the_penalised_row(
    options: SamplingOptions, vocabulary: int, chance: int
) -> None:
    rng = np.random.default_rng(chance)
    logits = rng.normal(size=(2, vocabulary)).astype(np.float32) * 3
    prompt, answer = rng.integers(0, vocabulary, size=(2, 4)).tolist()
    drafted = rng.integers(0, vocabulary, size=2).tolist()
    sampler = Sampler(options, vocabulary, 1)
    sampler.begin(prompt)
    sampler.commit(tokens(answer), len(answer))
    asked = rng.integers(0, vocabulary, size=2)
    greedy = np.array(sampler.pick_greedy(mx.array(logits), 0, tokens(drafted)))
    likely = np.array(sampler.probability(mx.array(logits), tokens(asked), tokens(drafted)))
    for row in range(2):
        expected = penalised_row(logits[row], prompt, answer + drafted[: 1 + row], options)
        assert expected[greedy[row]] >= expected.max() - 1e-5
        assert likely[row] == pytest.approx(softmax(expected)[asked[row]], rel=1e-4, abs=1e-9)


@settings(max_examples=100)
@given(
    st.sampled_from([1, 2, 5, 257]),
    st.integers(0, 2**31),
    st.sampled_from([0.5, 1.0, 1.3]),
    st.sampled_from([-1.0, 0.0, 0.6]),
    st.sampled_from([-0.5, 0.0, 0.4]),
)
def test_penalties(
    size: int, seed: int, repetition: float, presence: float, frequency: float
) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(size=size).astype(np.float32) * 3
    prompt, answer = rng.integers(0, size, size=3).tolist(), rng.integers(0, size, size=5).tolist()
    counts = mx.array(np.bincount(answer, minlength=size).astype(np.int32))[None]
    seen = mx.array(np.isin(np.arange(size), prompt + answer))
    penalised = presence_and_frequency_penalty(
        repetition_penalty(mx.array(row[None]), seen, repetition), counts, presence, frequency
    )
    options = SamplingOptions(
        repetition_penalty=repetition, presence_penalty=presence, frequency_penalty=frequency
    )
    expected = penalised_row(row, prompt, answer, options)
    assert penalised.dtype == mx.float32
    np.testing.assert_allclose(np.array(penalised)[0], expected, rtol=1e-5, atol=1e-6)


def test_noise_of_a_round_is_drawn_once() -> None:
    """Each row gets that of its position, within what was drawn and elsewhere."""
    drawn: list[int] = []

    def noise(keys: mx.array, vocabulary: int) -> mx.array:
        drawn.append(keys.shape[0])
        return plain_noise(keys, vocabulary)

    sampler = Sampler(SamplingOptions(temperature=2.0), len(ROW), 3, SamplerKernels(noise))
    logits = mx.array(np.tile(ROW, (6, 1)).astype(np.float32))
    plain = [
        Sampler(SamplingOptions(temperature=2.0), len(ROW), 3).pick(logits[:1], p, NOTHING).item()
        for p in range(30, 42)
    ]
    assert len(set(plain)) > 3
    sampler.draw_noise(33, 5)
    drafted = [sampler.pick(logits[:1], p, NOTHING).item() for p in range(33, 37)]
    verified = sampler.pick(logits[:5], 33, NOTHING).tolist()
    assert (drafted, verified, drawn) == (plain[3:7], plain[3:8], [5])
    for start, rows in ((33, 5), (32, 3), (36, 3), (30, 6), (41, 1)):
        sampler.draw_noise(33, 5)
        assert sampler.pick(logits[:rows], start, NOTHING).tolist() == plain[start - 30 :][:rows]


def test_temperature_zero_is_greedy_and_first_of_ties() -> None:
    logits = mx.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])
    for temperature in (0.0, 1e-40):
        sampler = Sampler(SamplingOptions(temperature=temperature, top_k=1), 4, 5)
        assert sampler.pick(logits, 0, tokens([0])).tolist() == [1, 0]


def test_bias_can_force_and_forbid_a_token() -> None:
    forced = Sampler(SamplingOptions(temperature=1.0, logit_bias={2: 1000.0}), 10, 5)
    banned = Sampler(SamplingOptions(temperature=1.0, logit_bias={3: -1000.0}), 10, 5)
    logits = mx.broadcast_to(mx.array(ROW.astype(np.float32)), (500, 10))
    assert set(forced.pick(logits, 0, NOTHING).tolist()) == {2}
    assert 3 not in banned.pick(logits, 0, NOTHING).tolist()


def test_bias_outside_the_vocabulary_is_refused() -> None:
    Sampler(SamplingOptions(logit_bias={9: 1.0}), 10, 0)
    with pytest.raises(BadOption, match=r"logit_bias.*10.*below 10"):
        Sampler(SamplingOptions(logit_bias={1: 1.0, 10: 1.0}), 10, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1, 5, 257])
def test_one_bad_number_marks_its_row_and_no_other(bad: float, size: int) -> None:
    logits = np.full((3, size), -3e38, dtype=np.float32)
    assert finite_rows(mx.array(logits)).tolist() == [True] * 3
    logits[1, size - 1] = bad
    assert finite_rows(mx.array(logits)).tolist() == [True, False, True]
    sampler = Sampler(SamplingOptions(), size, 1)
    picked = sampler.pick(mx.array(logits), 4, NOTHING)
    marked = sampler.mark_not_finite(mx.array(logits), picked).tolist()
    assert marked == [picked[0].item(), -1, picked[2].item()]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_numbers_still_give_a_token_id(bad: float) -> None:
    """Rows are marked while the picks are made: the picks must do no harm."""
    options = SamplingOptions(top_k=3, top_p=0.5, min_p=0.1, repetition_penalty=1.2)
    picked = Sampler(options, 5, 1).pick(mx.full((2, 5), bad), 0, tokens([1])).tolist()
    assert all(0 <= token < 5 for token in picked)


FULL = SamplingOptions(
    top_k=3, top_p=0.9, min_p=0.1, repetition_penalty=1.1, frequency_penalty=0.2, logit_bias={1: 1}
)


def test_nothing_is_evaluated(compiling: None) -> None:
    """While MLX traces a function, evaluating anything that depends on its inputs raises."""
    sampler = Sampler(FULL, 10, 1)

    def everything(logits: mx.array, prefix: mx.array) -> list[mx.array]:
        picked = sampler.pick(logits, 4, prefix)
        greedy = sampler.pick_greedy(logits, 4, prefix)
        return [
            picked,
            greedy,
            sampler.probability(logits, picked, prefix),
            sampler.mark_not_finite(logits, picked),
        ]

    mx.compile(everything)(mx.zeros((2, 10)), tokens([3]))


def test_what_is_off_costs_nothing() -> None:
    logits = mx.array(np.zeros((2, 10), dtype=np.float32))

    def work(options: SamplingOptions) -> dict[str, int]:
        return primitives(Sampler(options, 10, 1).pick(logits, 0, tokens([1])))

    full, plain, greedy = work(FULL), work(SamplingOptions()), work(SamplingOptions(temperature=0))
    assert full["Sort"] == full["Partition"] == 1 and full["CumSum"] == 3
    assert not {"Sort", "Partition", "CumSum", "Select", "Exp", "Sum", "Concatenate"} & set(plain)
    assert greedy == {"ArgReduce": 1, "Squeeze": 1, "View int32": 1}


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(temperature=0.6, top_k=20, top_p=0.95),
        SamplingOptions(temperature=1.0, top_k=64, top_p=0.95),
        SamplingOptions(temperature=1.0, top_p=0.95),
        SamplingOptions(temperature=1.0, min_p=0.05),
    ],
)
def test_filters_are_one_launch_of_a_kernel(options: SamplingOptions) -> None:
    """For drafts and for the target, which says itself where a row is no number."""
    kernels = SamplerKernels.for_kernels(every_kernel(Unrun()), 3000)
    logits = mx.array(np.zeros((2, 3000), dtype=np.float32))
    sampler = Sampler(options, 3000, 1, kernels)
    sampler.draw_noise(5, 4)
    picked = sampler.pick(logits, 5, tokens([1]))
    assert primitives(picked) == primitives(sampler.pick_draft(logits, 5, tokens([1])))
    assert primitives(picked) == {"Depends": 1}
    assert primitives(sampler.mark_not_finite(logits, picked)) == {"Depends": 1}


def test_a_sampler_works_on_the_thread_that_made_it() -> None:
    found: list[list[int]] = []

    def converse() -> None:
        sampler = Sampler(FULL, 10, 77)
        sampler.begin([1, 2])
        sampler.commit(tokens([3]), 1)
        logits = mx.broadcast_to(mx.array(ROW.astype(np.float32)), (3, 10))
        found.append(sampler.pick(logits, 5, tokens([4, 5])).tolist())

    converse()
    for _ in range(2):
        thread = threading.Thread(target=converse)
        thread.start()
        thread.join()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("top_p", [0.5, 0.95])
def test_a_draft_is_drawn_from_the_nucleus_or_from_its_likeliest_tokens(top_p: float) -> None:
    """Drafts of a nucleus within reach are the target's; of a wider one they are likely tokens."""
    rng = np.random.default_rng(4)
    options = SamplingOptions(temperature=1.0, top_p=top_p)
    steep, flat = (rng.normal(size=(30, 2000)) * spread for spread in (5.0, 0.1))
    sampler = Sampler(options, 2000, 3)
    prefix = tokens([0] * 30)
    narrow = mx.array(steep.astype(np.float32))
    assert mx.array_equal(sampler.pick_draft(narrow, 7, prefix), sampler.pick(narrow, 7, prefix))
    wide = mx.array(flat.astype(np.float32))
    drafted = np.array(sampler.pick_draft(wide, 7, prefix))
    assert all(drafted[row] in np.argsort(-flat[row])[:DRAFTED_FROM] for row in range(30))
    assert not np.array_equal(drafted, np.array(sampler.pick(wide, 7, prefix)))
