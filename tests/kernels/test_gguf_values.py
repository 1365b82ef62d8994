"""Blocks of GGUF by plain operations: every bit as the gguf package has it."""

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from gguf_blocks import random_blocks
from metal_emulator import EmulatorLauncher

from metal_kernels.block_embedding import block_embedding
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_name_for


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_values_are_those_of_the_gguf_package(name: str) -> None:
    kind, data = GGMLQuantizationType[name.upper()], random_blocks(name.upper(), 15, 7, seed=3)
    found = BLOCK_FORMS[name].dequantise((mx.array(data.reshape(3, 5, -1)),))
    wanted = dequantize(data, kind).reshape(3, 5, -1)
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(np.array(found).view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_embedded_rows_are_those_of_the_gguf_package(name: str) -> None:
    kind, data = GGMLQuantizationType[name.upper()], random_blocks(name.upper(), 15, 7, seed=4)
    tokens, blocks = mx.array([[2, 0], [1, 2]]), mx.array(data.reshape(3, -1))
    form, launcher = BLOCK_FORMS[name], EmulatorLauncher()
    found = block_embedding(tokens, blocks, form, mx.float32, launcher)
    wanted = dequantize(data, kind).reshape(3, -1)[np.array(tokens)]
    np.testing.assert_array_equal(np.array(found).view(np.uint32), wanted.view(np.uint32))
    assert len(launcher.reports) == 1
    halves = block_embedding(tokens, blocks, form, mx.bfloat16, launcher)
    assert mx.array_equal(halves, mx.array(wanted).astype(mx.bfloat16))


@pytest.mark.parametrize("name", BLOCK_FORMS)
def test_blocks_are_told_by_the_bytes_of_a_row(name: str) -> None:
    elements, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
    assert block_name_for(3 * nbytes, 3 * elements) == name
    assert block_name_for(3 * nbytes + 1, 3 * elements) is None
    assert block_name_for(256, 256) is None
