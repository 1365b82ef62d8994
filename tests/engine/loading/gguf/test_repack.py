"""Every block type against the gguf package's own formulas, on random and on edge blocks."""

from contextlib import suppress

import mlx.core as mx
import numpy as np
import pytest
from gguf_blocks import HALVES, dequantised, edge_blocks, random_blocks
from numpy.typing import NDArray

from mlx_engine.loading.gguf.header import BlockType, block_types
from mlx_engine.loading.gguf.part import PLANS, block_plan
from mlx_engine.loading.gguf.repack import NotFiniteError, PackedTensor, repack
from mlx_engine.values.errors import UnsupportedModel

KINDS = {kind.name: kind for kind in block_types().values()}
PACKED = [name for name, plan in PLANS.items() if plan.group_size]
EXACT = [name for name in PACKED if name != "Q8_K"]  # whose scales have 24 bits


def unpacked(packed: PackedTensor, name: str) -> NDArray[np.float32]:
    """What MLX makes of it, in float32."""
    plan = PLANS[name]
    return np.array(
        mx.dequantize(
            *packed,
            group_size=plan.group_size,
            bits=plan.bits,
            mode=plan.storage,
            dtype=mx.float32,
        )
    )


def packed_of(name: str, blocks: NDArray[np.uint8]) -> PackedTensor:
    return repack(blocks, KINDS[name], PLANS[name])


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (7, 5), (300, 40)])
@pytest.mark.parametrize("name", EXACT)
def test_types_are_the_same_bit_for_bit(name: str, shape: tuple[int, int]) -> None:
    blocks = random_blocks(name, *shape, seed=sum(shape))
    packed = packed_of(name, blocks)
    np.testing.assert_array_equal(unpacked(packed, name), dequantised(blocks, name))


@pytest.mark.parametrize("name", EXACT)
def test_types_at_the_edges(name: str) -> None:
    blocks = edge_blocks(name)
    np.testing.assert_array_equal(
        unpacked(packed_of(name, blocks), name), dequantised(blocks, name)
    )


def test_values_with_wide_scales_are_the_nearest() -> None:
    blocks = random_blocks("Q8_K", 5, 3, seed=6)
    found, wanted = unpacked(packed_of("Q8_K", blocks), "Q8_K"), dequantised(blocks, "Q8_K")
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("name", PACKED)
def test_tiles_make_the_same_bits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    blocks = random_blocks(name, 300, 8, seed=2)
    whole = packed_of(name, blocks)
    monkeypatch.setattr("mlx_engine.loading.gguf.repack.TILE_VALUES", 2**13)
    for found, wanted in zip(packed_of(name, blocks), whole, strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_which_types_have_no_packed_form() -> None:
    unpacked = {name for name, plan in PLANS.items() if plan.storage == "unpacked"}
    assert unpacked == {"Q2_K", "Q6_K", "IQ2_XS", "IQ2_S"}


@pytest.mark.parametrize("name", ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ3_XXS", "IQ3_S", "TQ1_0"])
def test_every_entry_of_a_table(name: str) -> None:
    blocks = random_blocks(name, 100, 40, seed=7)
    np.testing.assert_array_equal(
        unpacked(packed_of(name, blocks), name), dequantised(blocks, name)
    )


@pytest.mark.parametrize("name", [name for name in PACKED if PLANS[name].group_size == 128])
def test_groups_of_128_may_be_of_32(name: str) -> None:
    """Where heads that change places are narrower."""
    blocks = random_blocks(name, 5, 3, seed=8)
    wide, plan = packed_of(name, blocks), PLANS[name]._replace(group_size=32)
    narrow = repack(blocks, KINDS[name], plan)
    np.testing.assert_array_equal(narrow.weight, wide.weight)
    assert wide.biases is not None
    np.testing.assert_array_equal(narrow.scales, np.repeat(np.array(wide.scales), 4, axis=1))
    np.testing.assert_array_equal(narrow.biases, np.repeat(np.array(wide.biases), 4, axis=1))


@pytest.mark.parametrize("name", sorted(set(PACKED) - {"IQ1_M"}))
def test_scales_that_are_not_numbers(name: str) -> None:
    blocks = random_blocks(name, 5, 2, seed=4)
    place = HALVES.get(name, (0,))[0]
    blocks[3, place : place + 4] = 0xFF
    with pytest.raises(NotFiniteError):
        packed_of(name, blocks)


@pytest.mark.parametrize("name", PACKED)
def test_bytes_of_any_kind_bring_no_warning(name: str) -> None:
    """Warnings are errors here."""
    kind, draw = KINDS[name], np.random.default_rng(9)
    width = 256 // kind.elements * kind.nbytes if kind.elements < 256 else kind.nbytes
    for _ in range(40):
        with suppress(NotFiniteError):
            packed_of(name, draw.integers(0, 256, (2, width), dtype=np.uint8))


def test_every_type_of_the_format_is_planned_or_refused() -> None:
    unplanned = {name for name in KINDS if name not in PLANS}
    assert unplanned == {"Q8_1", "I8", "I16", "I64"}
    with pytest.raises(UnsupportedModel, match="w is stored as Q8_1"):
        block_plan(BlockType("Q8_1", 32, 40), "w", "a.gguf")


@pytest.mark.parametrize("name", ["Q4_K", "IQ4_XS"])
def test_memory_on_the_way_stays_below_the_tensor(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Tiles are written in place: never is there a second copy of the whole."""
    monkeypatch.setattr("mlx_engine.loading.gguf.repack.TILE_VALUES", 2**18)
    blocks = np.repeat(random_blocks(name, 1, 16, seed=5), 3000, axis=0)
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    packed = packed_of(name, blocks)
    peak = mx.get_peak_memory() - before
    made = sum(array.nbytes for array in packed if array is not None)
    assert made < peak < made + 24 * 2**18
