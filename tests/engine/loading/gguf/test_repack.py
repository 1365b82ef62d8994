"""Every block type against the gguf package's own formulas, on random and on edge blocks."""

import tracemalloc

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.quants import dequantize
from numpy.typing import NDArray

from mlx_engine.loading.gguf.blocks import NotNumbersError
from mlx_engine.loading.gguf.repack import PackedTensor, repack
from mlx_engine.loading.gguf.rounded import relative_error
from mlx_engine.loading.gguf.types import PLANS, BlockType, block_types, plan_of
from mlx_engine.values.errors import UnsupportedModel

KINDS = {kind.name: kind for kind in block_types().values()}
PACKED = [name for name, plan in PLANS.items() if plan.becomes != "dense"]
EXACT = [name for name in PACKED if PLANS[name].exact]
ROUNDED = [name for name in PACKED if not PLANS[name].exact]

# Byte places of float16 numbers in a block; IQ1_M spreads its own over four others.
HALVES = dict.fromkeys(("Q4_1", "Q5_1", "Q4_K", "Q5_K"), (0, 2)) | {
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q6_K": (208,),
    "TQ1_0": (52,),
    "TQ2_0": (64,),
}


def random_blocks(name: str, rows: int, blocks: int, seed: int) -> NDArray[np.uint8]:
    """Rows of blocks with random bytes and sane float16 scales."""
    draw = np.random.default_rng(seed)
    kind = KINDS[name]
    data = draw.integers(0, 256, (rows * blocks, kind.nbytes), dtype=np.uint8)
    if name == "Q8_K":
        data[:, :4] = draw.normal(0, 1, (len(data), 1)).astype("<f4").view(np.uint8)
    elif name == "MXFP4":
        data[:, 0] = draw.integers(100, 140, len(data))
    elif name == "NVFP4":
        data[:, :4] &= 0x7F
        data[:, 0] = 0x7F
    elif name == "IQ1_M":
        data[:, 55] &= 0x3F  # below 2
    else:
        for place in HALVES.get(name, (0,)):
            halves = draw.normal(0, 1, (len(data), 1)).astype("<f2")
            data[:, place : place + 2] = halves.view(np.uint8)
    return data.reshape(rows, -1)


def spread_half(block: NDArray[np.uint8], half: float) -> None:
    """Into the highest four bits of the last four words of an IQ1_M block."""
    fours = np.array(half, "<f2").view("<u2") >> np.arange(0, 16, 4, dtype="<u2") & 15
    block[:, 49::2] = block[:, 49::2] & 15 | (fours << 4).astype(np.uint8)


def values(packed: PackedTensor, name: str) -> NDArray[np.float32]:
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


def reference(blocks: NDArray[np.uint8], name: str) -> NDArray[np.float32]:
    if name == "Q8_K":  # the package has no formula
        raw = blocks.reshape(-1, 292)
        scale = np.ascontiguousarray(raw[:, :4]).view("<f4")
        return (raw[:, 4:260].view(np.int8) * scale).reshape(len(blocks), -1)
    with np.errstate(all="ignore"):
        return dequantize(blocks, gguf.GGMLQuantizationType[name])


def packed_of(name: str, blocks: NDArray[np.uint8], dtype: type = np.float32) -> PackedTensor:
    return repack(blocks, KINDS[name], PLANS[name], dtype)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (7, 5), (300, 40)])
@pytest.mark.parametrize("name", EXACT)
def test_exact_types_are_the_same_bit_for_bit(name: str, shape: tuple[int, int]) -> None:
    blocks = random_blocks(name, *shape, seed=sum(shape))
    packed = packed_of(name, blocks)
    np.testing.assert_array_equal(values(packed, name), reference(blocks, name))


def edge_blocks(name: str) -> NDArray[np.uint8]:
    """Blocks of all zeros and all ones, and every byte value, with tiny, huge and negative d."""
    rows = []
    for fill in (0x00, 0xFF, 0x0F, 0xF0, 0x80, 0x7F):
        for half in (0.0, -0.0, 6e-8, -6e-8, 6.1e-5, 1.0, -1.0, 500.0, -500.0):
            block = np.full((1, KINDS[name].nbytes), fill, np.uint8)
            if name == "IQ1_M":
                spread_half(block, half)
            else:
                for place in HALVES.get(name, (0,)):
                    block[0, place : place + 2] = np.array([half], "<f2").view(np.uint8)
            if name == "MXFP4":
                block[0, 0] = {0x00: 1, 0xFF: 253}.get(fill, fill)
            if name == "NVFP4":
                block[0, :4] &= 0x7F
            rows.append(block)
    return np.concatenate(rows)


@pytest.mark.parametrize("name", EXACT)
def test_exact_types_at_the_edges(name: str) -> None:
    blocks = edge_blocks(name)
    np.testing.assert_array_equal(values(packed_of(name, blocks), name), reference(blocks, name))


def test_which_types_are_exact() -> None:
    assert set(ROUNDED) == {"Q2_K", "Q6_K", "Q8_K", "IQ2_XS", "IQ2_S"}


@pytest.mark.parametrize("name", ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ3_XXS", "IQ3_S", "TQ1_0"])
def test_every_entry_of_a_table(name: str) -> None:
    blocks = random_blocks(name, 100, 40, seed=7)
    np.testing.assert_array_equal(values(packed_of(name, blocks), name), reference(blocks, name))


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
    apart = np.abs(values(wide, name) - reference(blocks, name))
    assert (apart <= np.repeat(limit, size, axis=1)).all()


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("shape", [(1, 1), (9, 3)])
def test_rounded_types_stay_within_half_a_step(name: str, shape: tuple[int, int]) -> None:
    blocks = random_blocks(name, *shape, seed=1)
    packed, wanted = packed_of(name, blocks), reference(blocks, name)
    got = values(packed, name)
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
    packed, wanted = packed_of(name, blocks, np.float16), reference(blocks, name)
    got = values(packed, name)
    assert packed.scales.dtype in (np.float16, np.float32, np.uint8)
    assert np.sqrt(np.square(got - wanted).mean()) < 0.006 * np.sqrt(np.square(wanted).mean())


def test_scales_beyond_half_precision_keep_float32() -> None:
    blocks = random_blocks("Q4_K", 4, 2, seed=3)
    blocks[0, :2] = np.array([60000.0], "<f2").view(np.uint8)
    packed = packed_of("Q4_K", blocks, np.float16)
    assert packed.scales.dtype == np.float32
    np.testing.assert_array_equal(values(packed, "Q4_K"), reference(blocks, "Q4_K"))


def test_values_beyond_half_precision_are_rounded_in_float32() -> None:
    blocks = random_blocks("Q6_K", 4, 2, seed=3)
    blocks[0, 208:210] = np.array([60000.0], "<f2").view(np.uint8)
    packed = packed_of("Q6_K", blocks, np.float16)
    assert packed.scales.dtype == np.float32
    wanted = reference(blocks, "Q6_K")
    assert np.abs(values(packed, "Q6_K") - wanted).max() < 0.006 * np.abs(wanted).max()


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
