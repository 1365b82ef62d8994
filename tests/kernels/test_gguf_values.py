"""Blocks of GGUF by plain operations: every bit as the gguf package has it."""

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, blocks_in

STEPS = {"q6_k": (208,), "q3_k": (108,), "q2_k": (80, 82), "iq4_nl": (0,)} | dict.fromkeys(
    ("iq4_xs", "iq2_xxs", "iq2_xs", "iq2_s"), (0,)
)


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_values_are_those_of_the_gguf_package(name: str) -> None:
    kind = GGMLQuantizationType[name.upper()]
    elements, nbytes = GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(nbytes)
    data = random.integers(0, 256, (3, 5, 7, nbytes), dtype=np.uint8)
    for at in STEPS[name]:
        steps = random.normal(0, 0.01, (3, 5, 7)).astype(np.float16)
        data[..., at : at + 2] = steps[..., None].view(np.uint8)
    found = BLOCK_FORMS[name].dequantise((mx.array(data.reshape(3, 5, -1)),))
    wanted = dequantize(data.reshape(15, -1), kind).reshape(3, 5, -1)
    assert found.shape == (3, 5, 7 * elements)
    np.testing.assert_array_equal(np.array(found).view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_blocks_are_told_by_the_bytes_of_a_row(name: str) -> None:
    elements, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
    assert blocks_in(3 * nbytes, 3 * elements) == name
    assert blocks_in(3 * nbytes + 1, 3 * elements) is None
    assert blocks_in(256, 256) is None
