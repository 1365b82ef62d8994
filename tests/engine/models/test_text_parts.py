"""Of models with eyes the text part runs, and has the logits that transformers has."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from compared import relative
from model_edits import Arrays, edit_tensors, logits
from tiny_published import VOCABULARY, draw, sizes_of
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine

_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
_BY_SENSE = {"rope_parameters": _ROPE | {"mrope_section": [2, 3, 3]}}
_HALF = {"rope_parameters": _ROPE | {"mrope_section": [1, 1, 2], "partial_rotary_factor": 0.5}}
_EXPERTS = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 2,
}
CASES = {
    "qwen2_vl": ("Qwen2VL", _BY_SENSE),
    "qwen2_5_vl": ("Qwen2_5_VL", _BY_SENSE),
    "qwen3_vl": ("Qwen3VL", _BY_SENSE),
    "qwen3_vl_moe": ("Qwen3VLMoe", _BY_SENSE | _EXPERTS | {"moe_intermediate_size": 48}),
    "glm4v": ("Glm4v", _HALF),
    "glm4v_moe": ("Glm4vMoe", _HALF | _EXPERTS),
    "llava": ("Llava", {"model_type": "llama"}),
    "internvl": ("InternVL", {"model_type": "qwen3"}),
    "smolvlm": ("SmolVLM", {"model_type": "llama"}),
    "mistral3": ("Mistral3", {"model_type": "mistral"}),
    "mistral3 of today": ("Mistral3", sizes_of("ministral3") | {"model_type": "ministral3"}),
    "deepseek_vl": ("DeepseekVL", {"model_type": "llama"}),
    "video_llava": ("VideoLlava", {"model_type": "llama"}),
}
"""model_type -> transformers' classes (without Config, ForConditionalGeneration), and what the
config of their text part gets."""
_TOKENS = [int(t) for t in np.random.default_rng(1).integers(1, 200, 25)]


def publish(kind: str, folder: Path) -> np.ndarray:
    """Writes the folder; transformers' logits of the tokens."""
    name, changes = CASES[kind]
    text = sizes_of("llama") | {"head_dim": 16, "rope_parameters": _ROPE} | changes
    eyes = {"hidden_size": 32, "num_hidden_layers": 1, "depth": 1, "out_hidden_size": 64,
            "num_attention_heads": 2, "num_heads": 2, "embed_dim": 32}  # fmt: skip
    config = getattr(hf, f"{name}Config")(text_config=text, vision_config=eyes)
    return written(getattr(hf, f"{name}ForConditionalGeneration")(config), folder)


def written(model: hf.PreTrainedModel, folder: Path) -> np.ndarray:
    """Draws the values and writes the folder; transformers' logits of the tokens."""
    torch.manual_seed(0)
    model = model.eval().float()
    with torch.no_grad():
        for part, value in model.named_parameters():
            draw(part, value, 1.0)
        model.tie_weights()
        model.save_pretrained(folder)
        make_tiny_tokenizer(folder, VOCABULARY)
        found: np.ndarray = model(input_ids=torch.tensor([_TOKENS])).logits[0].numpy()
    return found


@pytest.mark.parametrize("published", [False, True])
def test_nemotron_omni(tmp_path, published):
    """The text part of what also sees and hears: as transformers 5 writes it, and as published."""
    folder = tmp_path / "m"
    eyes = {"model_type": "radio", "hidden_size": 32, "num_hidden_layers": 1,
            "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32, "patch_size": 16,
            "cpe_max_size": 64, "video_temporal_patch_size": 2}  # fmt: skip
    whole = {"vision_config": eyes, "vision_hidden_size": 32, "projector_hidden_size": 32}
    text = sizes_of("nemotron_h") | {"model_type": "nemotron_h"}
    config = hf.NemotronH_Omni_Reasoning_V3_Config(text_config=text, audio_config=None, **whole)
    wanted = written(hf.NemotronH_Omni_Reasoning_V3(config), folder)
    if published:
        told = json.loads((folder / "config.json").read_text())
        told |= {"llm_config": told.pop("text_config"), "model_type": "NemotronH_Nano_Omni"}
        (folder / "config.json").write_text(json.dumps(told))
    assert relative(logits(folder, _TOKENS)[:, : wanted.shape[1]], wanted) < 1e-5


def test_experts_turned_as_published(tmp_path):
    """Gates and ups side by side as columns, which transformers 5 writes as rows."""
    wanted = publish("qwen3_vl_moe", tmp_path / "m")

    def turned(arrays: Arrays) -> Arrays:
        return {n: a.swapaxes(1, 2) if ".experts." in n else a for n, a in arrays.items()}

    edit_tensors(tmp_path / "m", turned)
    assert relative(logits(tmp_path / "m", _TOKENS), wanted) < 1e-5


@pytest.mark.parametrize("kind", CASES)
def test_logits_equal_transformers(tmp_path, kind):
    wanted = publish(kind, tmp_path / kind)
    assert relative(logits(tmp_path / kind, _TOKENS)[:, : wanted.shape[1]], wanted) < 1e-5
    groups = {group.name: group for group in mlx_engine.inspect(tmp_path / kind).groups}
    why = "read with the first one" if kind.startswith("qwen3_vl") else "which are not read"
    group = groups["vision" if kind.startswith("qwen3_vl") else "skipped"]
    assert group.why_not == f"for pictures, {why}"
