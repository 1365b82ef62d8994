"""Products by 8 x 8 tiles: right against float64, each row its own, weights read once."""

import mlx.core as mx
import numpy as np
import pytest
from compared import normal, wide
from gguf_blocks import random_blocks
from kernel_launchers import kernel_launcher
from kernel_models import FASTER
from metal_emulator import EmulatorLauncher, RegisterLauncher
from metal_emulator.registers import M1

from metal_kernels.choice import Kernels, Verdict
from metal_kernels.tile_product import tile_product
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from metal_kernels.weight_formats.mlx_formats import DENSE, MXFP4, affine_format
from mlx_engine.models.kernel_matrices import FewRowMatrix
from mlx_engine.models.matrix import Matrix

ROUNDING = {mx.float32: 2e-6, mx.float16: 1e-3, mx.bfloat16: 8e-3}
BLOCKS = [BLOCK_FORMS[name] for name in ("q6_k", "iq4_xs", "iq2_s")]
FORMS = (affine_format(4, 64), affine_format(3, 32), MXFP4, DENSE, *BLOCKS)
"""One for each way in which units are unpacked."""

LARGEST = (affine_format(4, 64), BLOCK_FORMS["q6_k"], BLOCK_FORMS["q3_k"], BLOCK_FORMS["q2_k"])
"""Those of which a lane holds most."""


def stored(form: WeightFormat, outputs: int, width: int) -> tuple[mx.array, ...]:
    if form.name in BLOCK_FORMS:
        blocks = width // (32 if form.name == "iq4_nl" else 256)
        return (mx.array(random_blocks(form.name.upper(), outputs, blocks, 3, scale=0.01)),)
    values = normal((outputs, width), 3, mx.float16)
    if form.name == "dense":
        return (values,)
    sizes = {parameter.name: int(parameter.value) for parameter in form.parameters}
    mode = form.name if form.name == "mxfp4" else "affine"
    return tuple(mx.quantize(values, sizes["GROUP"], sizes.get("BITS", 4), mode))


@pytest.mark.parametrize(
    ("form", "dtype", "outputs", "width"),
    [
        *((form, mx.float16, 37, 512) for form in FORMS),
        *((FORMS[0], dtype, 70, 192) for dtype in (mx.bfloat16, mx.float32)),
        (affine_format(4, 32), mx.float32, 1, 96),
        (BLOCK_FORMS["iq4_nl"], mx.bfloat16, 33, 160),
    ],
    ids=lambda case: getattr(case, "name", str(case)),
)
def test_every_form_and_type(form: WeightFormat, dtype: mx.Dtype, outputs: int, width: int) -> None:
    """Of 17 rows, three tiles of them; and a few alone, with the bits they have beside others."""
    weights, x = stored(form, outputs, width), normal((17, width), 4, dtype)
    whole = tile_product(x, weights, form, kernel_launcher(shuffle=1))
    truth = wide(x) @ wide(form.dequantise(weights)).T
    assert np.abs(wide(whole) - truth).max() < ROUNDING[dtype] * np.abs(truth).max()
    for rows in (slice(3, 4), slice(9, 17)):
        few = tile_product(x[rows], weights, form, kernel_launcher())
        assert mx.array_equal(few, whole[rows]).item(), rows


@pytest.mark.parametrize("rows", [6, 16, 32])
def test_weights_are_read_once_and_lie_in_registers(rows: int) -> None:
    launcher, form = EmulatorLauncher(), BLOCK_FORMS["q6_k"]
    weights = stored(form, 96, 512)
    tile_product(normal((rows, 512), 2), weights, form, launcher)
    assert launcher.last.buffers["w"].times_read == 1
    for any_form in LARGEST:
        counted = RegisterLauncher()
        weights = stored(any_form, 64, 512)
        tile_product(mx.zeros((rows, 512), mx.bfloat16), weights, any_form, counted)
        assert counted.runs[0].fits(M1) and not counted.runs[0].need.in_memory, any_form.name


@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("kind", ["affine", "q6_k"])
def test_they_are_chosen_where_bits_are_free(kind: str, numerics: str) -> None:
    """Exact numerics promise a row's bits in passes of up to nine, MLX multiplies many rows."""
    kernels = Kernels(EmulatorLauncher(check=False), exact=numerics == "exact", presumed=FASTER)
    values = stored(affine_format(4, 64) if kind == "affine" else BLOCK_FORMS[kind], 8, 512)
    matrix = (
        Matrix(*values, 64, 4, "affine")
        if kind == "affine"
        else Matrix(values[0], None, None, 0, 0, "q6_k", mx.float32)
    )
    products, added = (
        FewRowMatrix.from_matrix(matrix, kernels, n) for n in ("products", "product-add")
    )
    assert products is not None and added is not None
    counts = {rows for rows in range(1, 40) if rows in products.tiled}
    most = 16 if kind == "affine" else 32
    fewest = 6 if numerics == "fast" else 10 if kind == "q6_k" else 40
    assert counts == set(range(fewest, most + 1))
    assert not any(added.supports_rows(mx.zeros((rows, 512))) for rows in counts)
    launcher = kernels.launcher
    assert isinstance(launcher, EmulatorLauncher)
    products.product(normal((12, 512), 1))
    assert launcher.last.kernel.startswith("tile_product" if counts else "few_row")
    if kind == "q6_k":  # found to be faster for no pass: as before
        kernels.add_trial_verdicts({"tiles q6_k": Verdict(faster=frozenset())})
        assert not any(rows in products.tiled for rows in range(40))
        assert added.supports_rows(mx.zeros((20, 512)))
