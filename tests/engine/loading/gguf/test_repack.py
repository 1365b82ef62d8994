"""Every block type against the gguf package's own formulas, on random and on edge blocks."""

import tracemalloc

import mlx.core as mx
import numpy as np
import pytest
from gguf_blocks import HALVES, edge_blocks, random_blocks, values_of
from numpy.typing import NDArray

from mlx_engine.loading.gguf.blocks import NotNumbersError
from mlx_engine.loading.gguf.header import BlockType, block_types
from mlx_engine.loading.gguf.part import PLANS, plan_of
from mlx_engine.loading.gguf.rounded import relative_error
from mlx_engine.loading.gguf.weights import PackedTensor, repack
from mlx_engine.values.errors import UnsupportedModel

KINDS = {kind.name: kind for kind in block_types().values()}
PACKED = [name for name, plan in PLANS.items() if plan.becomes != "dense"]
EXACT = [name for name in PACKED if PLANS[name].exact]
ROUNDED = [name for name in PACKED if not PLANS[name].exact]


def unpacked(packed: PackedTensor, name: str) -> NDArray[np.float32]:
    """What MLX makes of it, in float32."""
    plan = PLANS[name]
    return np.array(
        mx.dequantize(
            mx.array(packed.weight),
            mx.array(packed.scales),
            None if packed.biases is None else mx.array(packed.biases),
            group_size=plan.group_size,
            bits=plan.bits,
            mode=plan.becomes,
            dtype=mx.float32,
        )
    )


def packed_of(name: str, blocks: NDArray[np.uint8], dtype: type = np.float32) -> PackedTensor:
    return repack(blocks, KINDS[name], PLANS[name], dtype)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (7, 5), (300, 40)])
@pytest.mark.parametrize("name", EXACT)
def test_exact_types_are_the_same_bit_for_bit(name: str, shape: tuple[int, int]) -> None:
    blocks = random_blocks(name, *shape, seed=sum(shape))
    packed = packed_of(name, blocks)
    np.testing.assert_array_equal(unpacked(packed, name), values_of(blocks, name))


@pytest.mark.parametrize("name", EXACT)
def test_exact_types_at_the_edges(name: str) -> None:
    blocks = edge_blocks(name)
    np.testing.assert_array_equal(unpacked(packed_of(name, blocks), name), values_of(blocks, name))


def test_which_types_are_exact() -> None:
    assert set(ROUNDED) == {"Q2_K", "Q6_K", "Q8_K", "IQ2_XS", "IQ2_S"}


@pytest.mark.parametrize("name", ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ3_XXS", "IQ3_S", "TQ1_0"])
def test_every_entry_of_a_table(name: str) -> None:
    blocks = random_blocks(name, 100, 40, seed=7)
    np.testing.assert_array_equal(unpacked(packed_of(name, blocks), name), values_of(blocks, name))


@pytest.mark.parametrize("name", [name for name in EXACT if PLANS[name].group_size == 128])
def test_groups_of_128_may_be_of_32(name: str) -> None:
    """Where heads that change places are narrower."""
    blocks = random_blocks(name, 5, 3, seed=8)
    wide, plan = packed_of(name, blocks), PLANS[name]._replace(group_size=32)
    narrow = repack(blocks, KINDS[name], plan, np.float32)
    np.testing.assert_array_equal(narrow.weight, wide.weight)
    assert wide.biases is not None
    np.testing.assert_array_equal(narrow.scales, np.repeat(wide.scales, 4, axis=1))
    np.testing.assert_array_equal(narrow.biases, np.repeat(wide.biases, 4, axis=1))


@pytest.mark.parametrize("name", [name for name in EXACT if PLANS[name].becomes == "affine"])
def test_half_precision_scales_of_exact_types_are_the_nearest(name: str) -> None:
    """Scale and bias are off by 2^-11 at most, and a value by as much of their sum."""
    blocks = random_blocks(name, 20, 4, seed=9)
    kept, exact = packed_of(name, blocks, np.float16), packed_of(name, blocks)
    assert kept.scales.dtype == np.float16
    np.testing.assert_array_equal(kept.weight, exact.weight)
    assert exact.biases is not None and kept.biases is not None
    wide = PackedTensor(
        kept.weight, kept.scales.astype(np.float32), kept.biases.astype(np.float32)
    )  # or MLX would compute in half precision as well
    top, size = 2 ** PLANS[name].bits - 1, PLANS[name].group_size
    limit = 2.0**-11 * (np.abs(exact.scales) * float(top) + np.abs(exact.biases)) + 1e-5
    apart = np.abs(unpacked(wide, name) - values_of(blocks, name))
    assert (apart <= np.repeat(limit, size, axis=1)).all()


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("shape", [(1, 1), (9, 3)])
def test_rounded_types_stay_within_half_a_step(name: str, shape: tuple[int, int]) -> None:
    blocks = random_blocks(name, *shape, seed=1)
    packed, wanted = packed_of(name, blocks), values_of(blocks, name)
    got = unpacked(packed, name)
    groups = wanted.reshape(-1, 32)
    reach = np.ptp(groups, axis=1, keepdims=True)
    slack = 1e-6 * np.abs(groups).max(axis=1, keepdims=True)
    assert (np.abs(got.reshape(-1, 32) - groups) <= reach / 510 + slack).all()
    lost = np.sqrt(np.square(got - wanted).sum() / np.square(wanted).sum())
    assert relative_error(blocks.reshape(-1, KINDS[name].nbytes), KINDS[name]) == pytest.approx(
        lost, 1e-2
    )
    assert lost < 0.006


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_half_precision_scales(name: str) -> None:
    blocks = random_blocks(name, 20, 4, seed=2)
    packed, wanted = packed_of(name, blocks, np.float16), values_of(blocks, name)
    got = unpacked(packed, name)
    assert packed.scales.dtype in (np.float16, np.float32, np.uint8)
    assert np.sqrt(np.square(got - wanted).mean()) < 0.006 * np.sqrt(np.square(wanted).mean())


def test_scales_beyond_half_precision_keep_float32() -> None:
    blocks = random_blocks("Q4_K", 4, 2, seed=3)
    blocks[0, :2] = np.array([60000.0], "<f2").view(np.uint8)
    packed = packed_of("Q4_K", blocks, np.float16)
    assert packed.scales.dtype == np.float32
    np.testing.assert_array_equal(unpacked(packed, "Q4_K"), values_of(blocks, "Q4_K"))


def test_values_beyond_half_precision_are_rounded_in_float32() -> None:
    blocks = random_blocks("Q6_K", 4, 2, seed=3)
    blocks[0, 208:210] = np.array([60000.0], "<f2").view(np.uint8)
    packed = packed_of("Q6_K", blocks, np.float16)
    assert packed.scales.dtype == np.float32
    wanted = values_of(blocks, "Q6_K")
    assert np.abs(unpacked(packed, "Q6_K") - wanted).max() < 0.006 * np.abs(wanted).max()


@pytest.mark.parametrize("name", sorted(set(PACKED) - {"IQ1_M"}))
def test_scales_that_are_not_numbers(name: str) -> None:
    blocks = random_blocks(name, 5, 2, seed=4)
    place = HALVES.get(name, (0,))[0]
    blocks[3, place : place + 4] = 0xFF
    with pytest.raises(NotNumbersError):
        packed_of(name, blocks)


def test_every_type_of_the_format_is_planned_or_refused() -> None:
    unplanned = {name for name in KINDS if name not in PLANS}
    assert unplanned == {"Q8_1", "Q1_0", "I8", "I16", "I32", "I64"}
    with pytest.raises(UnsupportedModel, match="w is stored as Q8_1"):
        plan_of(BlockType("Q8_1", 32, 40), "w", "a.gguf")


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_memory_on_the_way_stays_below_the_tensor(name: str) -> None:
    blocks = np.repeat(random_blocks(name, 1, 16, seed=5), 9000, axis=0)
    tracemalloc.start()
    try:
        packed = packed_of(name, blocks, np.float16)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    made = sum(array.nbytes for array in packed if array is not None)
    assert made < peak < made + blocks.nbytes
