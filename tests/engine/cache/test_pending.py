"""Blocks read behind rows whose number only the device knows: as if the host had told it."""

from dataclasses import replace
from functools import cache

import mlx.core as mx
import numpy as np
import pytest
import tiny_ling
from kernel_launchers import kernel_launcher
from kernel_models import every_kernel, kernel_model
from tiny_ling import LING_2_5, LING_3
from tiny_model import TinySizes, tiny_model

from metal_kernels.stock import StockOperations
from mlx_engine.cache.attention import GROWTH, AttentionCache
from mlx_engine.cache.contract import RowCount
from mlx_engine.cache.joint import combine_caches
from mlx_engine.cache.window import WindowCache
from mlx_engine.loading.load import load_model
from mlx_engine.values.memory_plan import WINDOW_SLACK
from mlx_engine.values.options import LoadOptions

PROMPT, BLOCK = [5, 1, 30, 17, 2, 9, 9], [21, 4, 8, 3]
AFTER, LATER = [7, 11, 2], [6, 13]


def read(model, tokens, caches):
    return np.array(model.forward(mx.array([tokens]), caches))


def on_device(rows):
    return RowCount(mx.array([rows], dtype=mx.int32), len(BLOCK))


def begun(model):
    """Caches that stand in a block none of whose rows is committed."""
    caches = model.make_caches()
    read(model, PROMPT, caches)
    caches.commit(len(PROMPT))
    read(model, BLOCK, caches)
    return caches


@pytest.fixture(scope="module")
def model():
    return tiny_model(3, TinySizes(layers=2, vocabulary=37))


def alike(a, b):
    """Nearly: MLX's sums over longer rows are rounded otherwise."""
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)


def test_with_our_kernels_no_bit_depends_on_who_told_it():
    model = kernel_model("dense", replace(every_kernel(kernel_launcher()), stock=StockOperations()))
    told, pends = begun(model), begun(model)
    told.commit(2)
    pends.commit(on_device(2))
    np.testing.assert_array_equal(read(model, AFTER, pends), read(model, AFTER, told))


@pytest.fixture(scope="module")
def linear(tmp_path_factory):
    """Ling, whose linear attention rotates by position or decays by channel."""
    configs = {"lightning": LING_2_5, "by channel": LING_3}

    @cache
    def get(name):
        place = tmp_path_factory.mktemp("ling") / "m"
        tiny_ling.publish(place, configs[name])
        return load_model(place, LoadOptions(check_heads=False), place).model

    return get


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("kind", ["plain", "lightning", "by channel"])
def test_what_is_read_behind_them_stands(model, linear, kind, rows):
    model = model if kind == "plain" else linear(kind)
    told, pends = begun(model), begun(model)
    told.commit(rows)
    count = on_device(rows)
    pends.commit(count)
    alike(read(model, AFTER, pends), read(model, AFTER, told))
    count.known = rows
    for caches in (told, pends):
        caches.commit(2)
    assert pends.length == told.length
    alike(read(model, LATER, pends), read(model, LATER, told))


@pytest.mark.parametrize("with_kernels", [False, True])
def test_two_texts_of_one_length_behind_which_not_as_many_count(model, with_kernels):
    """In one pass each sees its own rows, as many as count."""
    if with_kernels:
        model = kernel_model(
            "dense", replace(every_kernel(kernel_launcher()), stock=StockOperations())
        )
    counts = (1, 4, 2)
    told, together = [begun(model) for _ in counts], [begun(model) for _ in counts]
    for alone, joint, rows in zip(told, together, counts, strict=True):
        alone.commit(on_device(rows))
        joint.commit(on_device(rows))
    wanted = [read(model, AFTER, caches) for caches in told]
    joint = combine_caches(together, [len(AFTER)] * len(counts))
    found = np.array(model.joint_forward(mx.array([AFTER * len(counts)]), joint))
    np.testing.assert_array_equal(found, np.concatenate(wanted, axis=1))


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("known", [3, 2, 0])
def test_what_is_read_behind_them_is_forgotten(model, known, is_read):
    """Also where fewer of them count than the device has found, or none."""
    told, pends = begun(model), begun(model)
    told.commit(known)
    count = on_device(3)
    pends.commit(count)
    if is_read:
        read(model, AFTER, pends)
        pends.commit(0)
    count.known = known
    assert pends.length == told.length
    alike(read(model, LATER, pends), read(model, LATER, told))


@pytest.mark.parametrize("make", [AttentionCache, lambda: WindowCache(70)])
def test_room_is_made_for_all_that_may_count(make):
    """MLX does not check where a number on the device says to write."""
    cache, told = make(), make()
    rows = mx.random.normal((1, 2, max(GROWTH, WINDOW_SLACK) - 5, 4))
    for its in (cache, told):
        its.write(rows, rows)
        its.commit(rows.shape[2])
    for _ in range(4):
        block = mx.random.normal((1, 2, 4, 4))
        for its in (cache, told):
            its.write(block, block)
        told.commit(3)
        count = on_device(3)
        cache.commit(count)
        seen = cache.write(block, block)
        assert seen.keys.shape[2] <= cache.nbytes // (2 * 4 * 2 * 4)
        count.known = 3
        cache.commit(2)
        told.write(block, block)
        told.commit(2)
        for a, b in zip(cache.keys_and_values(), told.keys_and_values(), strict=True):
            assert mx.array_equal(a, b)
