"""Latent attention, and many chosen experts: a row is the same whatever lies beside it."""

from functools import cache

import mlx.core as mx
import numpy as np
import pytest
from model_edits import edit_tensors
from tiny_published import VOCABULARY, publish

import mlx_engine
from mlx_engine.models import latent_attention

LATENT = ("glm4_moe_lite", "deepseek_v2", "deepseek_v3")
CHOSEN = {"num_experts_per_tok": 8, "n_routed_experts": 32, "qk_nope_head_dim": 32}
BLOCK = 9


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each type once, with eight experts of sixteen for a token."""

    @cache
    def get(name, bits=None):
        folder = tmp_path_factory.mktemp("tiny") / name
        tiny = publish(name, folder, changes=CHOSEN)
        if bits is not None:
            edit_tensors(folder, lambda arrays: pack(arrays, bits))
        return tiny, mlx_engine.load(folder)

    return get


def pack(arrays, bits):
    """All matrices, as a conversion of the published names would."""
    for name in [name for name, array in arrays.items() if array.ndim == 2]:
        if not name.endswith("mlp.gate.weight"):
            matrix = name.removesuffix(".weight")
            parts = mx.quantize(arrays.pop(name), 32, bits)
            named = (f"{matrix}.{part}" for part in ("weight", "scales", "biases"))
            arrays |= dict(zip(named, parts, strict=True))
    return arrays


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("name", ["glm4_moe", *LATENT])
def test_a_block_of_nine_is_nine_rows_bit_for_bit(opened, name, bits):
    """72 expert choices, more than SORTED_FROM_ROWS."""
    model = opened(name, bits)[1].parts.model
    tokens = mx.array(np.random.default_rng(1).integers(0, VOCABULARY, (1, 4 * BLOCK)))
    together, alone = model.make_caches(), model.make_caches()
    for start in range(0, 4 * BLOCK, BLOCK):
        block = tokens[:, start : start + BLOCK]
        logits = model.logits(model.forward(block, together))
        together.commit(BLOCK)
        for row in range(BLOCK):
            single = model.logits(model.forward(block[:, row : row + 1], alone))
            alone.commit(1)
            assert mx.array_equal(single[:, 0], logits[:, row]), (start, row)


@pytest.mark.parametrize("name", LATENT)
def test_long_blocks_are_unpacked_to_the_same_logits(opened, monkeypatch, name):
    """On both sides of the change, over a cache that holds rows already."""
    tiny, engine = opened(name)
    model, found = engine.parts.model, []
    for most in (2, 1000):
        monkeypatch.setattr(latent_attention, "ABSORBED_ROWS", most)
        caches = model.make_caches()
        for part in (tiny.tokens[:17], tiny.tokens[17:]):
            hidden = model.forward(mx.array([part]), caches)
            caches.commit(len(part))
        found.append(np.array(model.logits(hidden)[0]))
    for logits in found:
        wanted = tiny.logits[17:]
        assert np.abs(logits - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert not np.array_equal(*found)
