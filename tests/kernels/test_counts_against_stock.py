"""Our kernels move and compute less than MLX's own, counted by the emulator alike."""

import kernel_measures as measures
import mlx.core as mx
import pytest


@pytest.mark.parametrize("rows", range(1, 10))
def test_weights(rows: int) -> None:
    """Lines once whatever the rows; loads and instructions below those of M3 and later.

    For one row, where memory is the bound, decoding a weight whole takes as much.
    """
    ours, stock = measures.ours(rows, 4), measures.stock_product(rows, 4, wide=True)
    assert ours.lines == 1
    assert stock.lines == -(-rows // 5)
    assert ours.loads < stock.loads / 6
    counted = measures.our_instructions(4, rows, mx.bfloat16).total
    its = measures.stock_instructions(4, rows, mx.bfloat16, wide=True).total
    assert counted < {1: 1.15, 2: 0.9}.get(rows, 0.85) * its


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_weights_before_m3(rows: int) -> None:
    """In float16, with shifts and conversions at a quarter of the rate of the rest."""
    assert measures.stock_product(rows, 4, wide=False).lines == rows
    ours = measures.our_instructions(4, rows, mx.float16)
    stock = measures.stock_instructions(4, rows, mx.float16, wide=False)
    cycles, its = (count.total + 3 * count.slow for count in (ours, stock))
    assert cycles < (0.8 if rows == 1 else 0.5) * its


@pytest.mark.parametrize(("rows", "heads"), [(2, 6), (4, 8)])
def test_keys(rows: int, heads: int) -> None:
    """A lane's share of a key serves four rows; MLX's kernels fetch it for every row."""
    ours = measures.our_attention(rows, heads)
    stock = measures.stock_attention(rows, heads, two_pass=True)
    one_pass = measures.stock_attention(rows, heads, two_pass=False)
    assert stock is not None and one_pass is not None
    assert ours == (1, heads * rows / 4, 4)
    assert stock == (1, heads * rows, 4)
    assert one_pass.lines == pytest.approx(heads * rows, rel=0.01)


def test_keys_where_mlx_has_no_fused_kernel() -> None:
    assert measures.stock_attention(8, 6, two_pass=True) is None
    assert measures.our_attention(8, 6) == (
        2,
        12,
        4,
    )  # two threadgroups, the second out of the cache


@pytest.mark.parametrize("kept", [0, 3, 8])
def test_states(kept: int) -> None:
    assert measures.our_state(8, kept) == (1, 1)


def test_memory_of_a_block() -> None:
    memory = measures.state_memory(8)
    assert memory.snapshots == 8 * 3 * 2**20
    assert memory.steps < memory.snapshots / 50
