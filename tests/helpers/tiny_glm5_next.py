"""A tiny random GLM-5.3-Flash as published, with its MTP head, and figures in PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from model_edits import edit_config, edit_tensors
from tiny_nextn import Published, stored_layer
from tiny_published import VOCABULARY, draw_all
from tiny_sparse import hidden_states_of, published, states_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.glm5_next import modeling_glm5_next as parts

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "indexed_attention", "indexed_attention"],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "index_n_heads": 32,  # of few heads many scores are 0, and any of those may be selected
    "index_head_dim": 16,
    "index_topk": 8,
    "index_kpool": 4,
    "linear_head_dim": 16,
    "linear_num_heads": 4,
    "hc_sinkhorn_iters": 3,
    "swiglu_limit": 0.7,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}
_VISION = {
    "depth": 1,
    "hidden_size": 8,
    "num_heads": 2,
    "intermediate_size": 8,
    "out_hidden_size": 32,
    "projection_intermediate_size": 8,
    "patch_size": 2,
    "image_size": 4,
}


class Head(torch.nn.Module):
    """A layer with a single stream; rows (x_k, hidden state of k-1) -> normed states."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm"):
            setattr(self, name, parts.Glm5NextTextRMSNorm(size, eps))
        self.shared_head = torch.nn.ModuleDict({"norm": parts.Glm5NextTextRMSNorm(size, eps)})
        self.eh_proj = torch.nn.Linear(2 * size, size, bias=False)
        layer = config.layer_types.index("indexed_attention")
        self.self_attn = parts.Glm5NextTextAttention(config, layer)
        self.mlp = parts.Glm5NextTextMoE(config)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        embedded = torch.cat([torch.zeros_like(embedded[:, :1]), embedded[:, 1:]], dim=1)
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        mask = torch.ones(1, x.shape[1], dtype=torch.bool)
        x = x + self.self_attn(self.input_layernorm(x), mask)[0]
        made: torch.Tensor = self.shared_head["norm"](
            x + self.mlp(self.post_attention_layernorm(x))
        )
        return made


def publish(folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the text config."""
    sizes = SIZES | changes
    config = hf.Glm5NextConfig(
        text_config=sizes,
        vision_config=_VISION,
        tie_word_embeddings=sizes.get("tie_word_embeddings", False),
    )
    config.text_config._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = hf.Glm5NextForConditionalGeneration(config).eval().float()
    inner, head = model.model.language_model, Head(config.text_config).eval().float()
    with torch.no_grad():
        draw_all(model, 2.0)
        draw_all(head, 1.0)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_nextn_predict_layers=1)
    layer = f"model.language_model.layers.{len(inner.layers)}."
    stored = {layer + name: array for name, array in stored_layer(head.state_dict()).items()}
    edit_tensors(folder, lambda arrays: arrays | stored)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 37)]

    states = states_of(head, inner.embed_tokens)
    return published(folder, tokens, hidden_states_of(inner), model.lm_head, states)
