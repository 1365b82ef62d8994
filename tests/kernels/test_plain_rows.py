"""The plain-ops versions have exact rows, too: a row's bits are the same for 1 to 8 rows."""

import mlx.core as mx
from compared import normal

from metal_kernels import (
    few_query_attention,
    few_row_matvec,
    gated_delta_block,
    gated_delta_inputs,
    mtp_input,
)
from metal_kernels.few_query_attention import KeyExtent
from metal_kernels.key_value_formats import cache_format
from metal_kernels.weight_formats.mlx_formats import affine_format

FOUR, ROWS = affine_format(4, 64), range(1, 8)


def test_products() -> None:
    x, weights = normal((8, 256), 1), tuple(mx.quantize(normal((64, 256), 2), bits=4))
    norms = mtp_input.MtpInputNorms(normal((128,), 3), normal((128,), 4), 1e-6)
    e, h = x[:, :128], x[:, 128:]
    whole = few_row_matvec.reference(x, weights, FOUR)
    both = few_row_matvec.gate_up_reference(x, weights, FOUR)
    joined = mtp_input.reference(e, h, norms, weights, FOUR)
    for rows in ROWS:
        few = few_row_matvec.reference(x[:rows], weights, FOUR)
        assert mx.array_equal(few, whole[:rows]).item()
        few = few_row_matvec.gate_up_reference(x[:rows], weights, FOUR)
        assert mx.array_equal(few, both[:rows]).item()
        few = mtp_input.reference(e[:rows], h[:rows], norms, weights, FOUR)
        assert mx.array_equal(few, joined[:rows]).item()


def test_attention() -> None:
    q, cache = normal((4, 8, 64), 5), (normal((2, 200, 64), 6), normal((2, 200, 64), 7))
    whole = few_query_attention.reference(q, cache, cache_format(), KeyExtent(200), 0.1)
    for rows in ROWS:
        place = KeyExtent(192 + rows)
        few = few_query_attention.reference(q[:, :rows], cache, cache_format(), place, 0.1)
        assert mx.array_equal(few, whole[:, :rows]).item(), rows


def test_delta_layers() -> None:
    parts = [normal(shape, seed) for seed, shape in enumerate([(8, 96), (8, 2), (8, 2)], 8)]
    fixed = gated_delta_inputs.DeltaConstants(
        normal((96, 4), 11), normal((2,), 12), -mx.exp(normal((2,), 13)), 1, 16, 32
    )
    before, state = normal((3, 96), 14), normal((2, 32, 16), 15)
    none = gated_delta_block.ReplaySteps(
        *(mx.zeros((1, n, m)) for n, m in ((1, 16), (2, 32), (2, 1)))
    )

    def outputs(rows: int) -> mx.array:
        projected = gated_delta_inputs.ProjectedInputs(*(part[:rows] for part in parts))
        inputs = gated_delta_inputs.reference(projected, before, 0, fixed).rows
        return gated_delta_block.reference(state, 0, none, inputs).y

    whole = outputs(8)
    assert all(mx.array_equal(outputs(rows), whole[:rows]).item() for rows in ROWS)
