"""Models that run through mlx-lm's classes have the logits that transformers has."""

import json
import shutil

import pytest
from compared import relative
from mlx_lm.utils import dequantize_model, quantize_model, save_model
from mlx_lm.utils import load_model as open_in_mlx_lm
from model_edits import logits
from tiny_published import publish

CASES = {
    "cohere": ("cohere", {}),
    "falcon_h1": ("falcon_h1", {}),
    "hunyuan moe": (
        "hunyuan_v1_moe",
        {
            "rope_parameters": {
                "rope_type": "dynamic",
                "rope_theta": 1e4,
                "factor": 1.0,
                "alpha": 5.0,
            }
        },
    ),
    "jamba": ("jamba", {}),
    "lfm2": ("lfm2", {}),
    "glm_moe_dsa": ("glm_moe_dsa", {}),
    "granite 4": ("granitemoehybrid", {}),
    "solar_open": ("solar_open", {}),
    "jamba, all experts": ("jamba", {"num_experts_per_tok": 4}),
    "jamba without experts": ("jamba", {"num_experts": 1, "num_experts_per_tok": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(tmp_path, name):
    kind, changes = CASES[name]
    tiny = publish(kind, tmp_path / "m", changes=changes)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5


def test_packed_experts_of_jamba(tmp_path):
    """As mlx-lm packs them, router and all; compared with the same values unpacked."""
    tiny = publish("jamba", tmp_path / "dense")
    packed = shutil.copytree(tiny.folder, tmp_path / "packed")
    model, config = open_in_mlx_lm(tiny.folder)
    model, config = quantize_model(model, config, 32, 4)
    save_model(packed, model)
    (packed / "config.json").write_text(json.dumps(config))
    save_model(tiny.folder, dequantize_model(model))
    wanted = logits(tiny.folder, tiny.tokens)
    assert relative(logits(packed, tiny.tokens), wanted) < 1e-5
    assert relative(wanted, tiny.logits) > 1e-3
