"""Every cache can keep any prefix of a block: afterwards it is as if only that had been read."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_step import assert_layers_in_step
from tiny_model import TinySizes, tiny_model

from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import StockOperations
from mlx_engine.cache.attention import GROWTH, AttentionCache
from mlx_engine.cache.recurrent import RecurrentCache

TEXT = [int(t) for t in np.random.default_rng(1).integers(0, 61, 80)]


@pytest.fixture(scope="module")
def model():
    return tiny_model(2, TinySizes(layers=3, interval=3))


@pytest.fixture(scope="module")
def truth(model):
    """Hidden states of TEXT read in one pass."""
    return np.array(model.forward(mx.array([TEXT]), model.make_caches()))[0]


blocks = st.lists(
    st.integers(1, 9).flatmap(lambda rows: st.tuples(st.just(rows), st.integers(0, rows))),
    min_size=1,
    max_size=12,
)


@settings(max_examples=40)
@given(blocks=blocks)
def test_any_blocks_and_prefixes(model, truth, blocks):
    """Rows that are not kept are wrong tokens; kept rows are bit for bit those of one pass."""
    caches = model.make_caches()
    for rows, keep in blocks:
        at = caches.length
        if at + rows > len(TEXT):
            break
        wrong = [(token + 7) % 61 for token in TEXT[at + keep : at + rows]]
        tokens = TEXT[at : at + keep] + wrong
        hidden = np.array(model.forward(mx.array([tokens]), caches))[0]
        assert np.array_equal(hidden[:keep], truth[at : at + keep])
        caches.commit(keep)
        assert_layers_in_step(caches)
        assert caches.length == at + keep


@settings(max_examples=15)
@given(cut=st.integers(0, 20), more=st.integers(1, 20), partial=st.booleans())
def test_restore_goes_back_exactly(model, truth, cut, more, partial):
    caches = model.make_caches()
    if cut:
        model.forward(mx.array([TEXT[: cut + 3]]), caches)
        caches.commit(cut)
    boundary = caches.snapshot()
    for _ in range(2):
        model.forward(mx.array([[5] * more]), caches)
        caches.commit(more - 1 if partial else more)
        caches.restore(boundary)
        assert caches.length == cut
    hidden = np.array(model.forward(mx.array([TEXT[cut : cut + 9]]), caches))[0]
    assert np.array_equal(hidden, truth[cut : cut + 9])


@settings(max_examples=15)
@given(cut=st.integers(1, 20), more=st.integers(1, 20), partial=st.booleans())
def test_forks_go_on_by_themselves_and_a_place_is_come_back_to(model, truth, cut, more, partial):
    """In the middle of a block, whose rows each of them keeps otherwise."""
    caches = model.make_caches()
    model.forward(mx.array([TEXT[: cut + 3]]), caches)
    forks = {kept: caches.fork() for kept in (0, cut)}
    caches.commit(cut + 3)
    for kept, fork in forks.items():
        fork.commit(kept)
        place = fork.temporary_snapshot()
        for _ in range(2):
            model.forward(mx.array([[5] * more]), fork)
            fork.commit(more - 1 if partial else more)
            fork.restore(place)
    for at, one in {**forks, cut + 3: caches}.items():
        hidden = np.array(model.forward(mx.array([TEXT[at : at + 9]]), one))[0]
        assert np.array_equal(hidden, truth[at : at + 9])


def test_attention_buffers_are_nan_proof():
    """Scratch rows beyond the committed ones never reach the result, even as NaN."""
    cache = AttentionCache()
    ones = mx.ones((1, 2, 3, 4))
    cache.write(ones, ones)
    cache.commit(1)
    cache.write(mx.full((1, 2, 5, 4), float("nan")), mx.full((1, 2, 5, 4), float("nan")))
    cache.commit(0)
    seen = cache.write(2 * ones, 2 * ones)
    assert seen.keys.shape == (1, 2, 4, 4)
    assert np.array_equal(np.array(seen.values)[0, 0, :, 0], [1, 2, 2, 2])


@pytest.mark.parametrize("rows", [1, GROWTH - 1, GROWTH, GROWTH + 1, 3 * GROWTH])
def test_buffers_grow_in_steps(rows):
    cache = AttentionCache()
    block = mx.random.normal((1, 1, rows, 2))
    seen = cache.write(block, block)
    cache.commit(rows)
    assert mx.array_equal(seen.keys, block)
    assert cache.nbytes == 2 * 4 * 2 * (-(-rows // GROWTH) * GROWTH)
    again = cache.write(block, block)
    assert mx.array_equal(again.keys, mx.concatenate([block, block], axis=2))


def delta_rows(rng, rows):
    def draw(*shape):
        return mx.array(rng.normal(size=shape).astype(np.float32))

    keys = draw(1, rows, 2, 8)
    return DeltaRows(
        draw(1, rows, 2, 8),
        keys / mx.linalg.norm(keys, axis=-1, keepdims=True),
        draw(1, rows, 4, 5),
        mx.sigmoid(draw(1, rows, 4)),
        mx.sigmoid(draw(1, rows, 4)),
    )


def delta_rule_float64(rows, state):
    """Eq. 10 of arXiv 2412.06464, step by step."""
    q, k, v, decay, beta = (np.array(a, dtype=np.float64)[0] for a in rows)
    outputs = np.zeros_like(v)
    for step in range(len(q)):
        for head in range(v.shape[1]):
            shared = head // (v.shape[1] // q.shape[1])
            memory = decay[step, head] * state[head]
            error = v[step, head] - memory @ k[step, shared]
            state[head] = memory + beta[step, head] * np.outer(error, k[step, shared])
            outputs[step, head] = state[head] @ q[step, shared]
    return outputs


@pytest.mark.parametrize("keep", [0, 1, 4, 7])
def test_deferred_replay_against_float64(keep):
    rng = np.random.default_rng(keep)
    cache = RecurrentCache(mx.zeros((1, 3, 6)), mx.zeros((1, 4, 5, 8)))
    first, second = delta_rows(rng, 7), delta_rows(rng, 2)
    cache.run(first, mx.zeros((1, 10, 6)))
    cache.commit(keep)
    found = np.array(cache.run(second, mx.zeros((1, 5, 6))))[0]
    state = np.zeros((4, 5, 8))
    delta_rule_float64(DeltaRows(*(part[:, :keep] for part in first)), state)
    wanted = delta_rule_float64(second, state)
    assert np.abs(found - wanted).max() < 2e-6 * np.abs(wanted).max()


@pytest.mark.parametrize(("rows", "kept"), [(4, 2), (200, 200), (200, 7)])
def test_a_window_copies_only_what_would_keep_a_long_block_alive(rows, kept):
    copied = []

    class Counted(StockOperations):
        def make_contiguous(self, x):
            copied.append(x.shape)
            return super().make_contiguous(x)

    rng = np.random.default_rng(rows)
    convolved = rng.normal(size=(1, 3 + rows, 6)).astype(np.float32)
    cache = RecurrentCache(mx.zeros((1, 3, 6)), mx.zeros((1, 4, 5, 8)), stock=Counted())
    cache.run(delta_rows(rng, rows), mx.array(convolved))
    cache.commit(kept)
    np.testing.assert_array_equal(cache.window.slice_window(3), convolved[:, kept : kept + 3])
    assert copied == ([] if rows == 4 else [(1, 3, 6)])


def test_a_row_to_replay_costs_about_a_hundredth_of_a_state():
    """With the sizes of a published 27B model and float32 inputs; nothing is kept per step."""
    state = mx.zeros((1, 48, 128, 128))
    cache = RecurrentCache(mx.zeros((1, 3, 10240), dtype=mx.float16), state)
    shapes = ((1, 9, 16, 128), (1, 9, 16, 128), (1, 9, 48, 128), (1, 9, 48), (1, 9, 48))
    rows = DeltaRows(*(mx.zeros(shape) for shape in shapes))
    cache.run(rows, mx.zeros((1, 12, 10240), mx.float16))
    cache.commit(2)
    added = cache.nbytes - state.nbytes - cache.window.rows.nbytes
    assert added == 2 * 4 * (16 * 128 + 48 * 128 + 2 * 48)
    assert added < 0.011 * 2 * state.nbytes
