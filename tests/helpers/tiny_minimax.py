"""A tiny random MiniMax-M3 as published, perhaps with MTP heads as vLLM loads them, in PyTorch.

A head is transformers' layer in a frame of its own: transformers 5.23 runs no head of the family.
"""

import json
from copy import copy
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import Arrays, edit_config, edit_tensors
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw_all
from tiny_sparse import hidden_states_of, published, states_of
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as minimax

SPARSE = "minimax_m3_sparse"
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 32,
    "dense_intermediate_size": 96,
    "shared_intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rotary_dim": 16,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
    "layer_types": ["full_attention", SPARSE, SPARSE],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "index_n_heads": 2,
    "index_head_dim": 32,
    "index_block_size": 4,
    "index_topk_blocks": 3,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}


class Head(torch.nn.Module):
    """A sparse layer; rows (x_k, hidden state of k-1) -> residuals, and what logits are made of."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        for name in ("enorm", "hnorm", "final_layernorm"):
            setattr(self, name, minimax.MiniMaxM3VLRMSNorm(size, eps=eps))
        self.eh_proj = torch.nn.Linear(2 * size, size, bias=False)
        config = copy(config)
        config.layer_types, config.mlp_layer_types = [SPARSE], ["sparse"]
        self.transformer_layer = minimax.MiniMaxM3VLDecoderLayer(config, 0)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor, rotary: Any) -> torch.Tensor:
        rows = embedded.shape[1]
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        places = torch.arange(rows)[None]
        mask = torch.full((rows, rows), -torch.inf).triu(1)[None, None]
        made: torch.Tensor = self.transformer_layer(x, rotary(embedded, places), mask, places)
        return made


_PUBLISHED = {
    ".mlp.gate.e_score": ".block_sparse_moe.e_score",
    **{f".mlp.{part}": f".block_sparse_moe.{part}" for part in ("gate.", "experts.", "shared_")},
    ".indexer.": ".index_",
}


def _stored(part: torch.nn.Module, prefix: str) -> Arrays:
    """Tensors by published names, to which transformers 5.23 does not find back in saving."""
    made: dict[str, torch.Tensor] = {}
    for name, value in part.state_dict().items():
        for ours, theirs in _PUBLISHED.items():
            name = name.replace(ours, theirs)  # noqa: PLW2901
        base, _, within = name.rpartition(".experts.")
        for expert, rows in enumerate(value) if base else ():
            of = f"{base}.experts.{expert}"
            if within == "gate_up_proj":
                made[f"{of}.w1.weight"], made[f"{of}.w3.weight"] = rows.chunk(2)
            else:
                made[f"{of}.w2.weight"] = rows
        if name.endswith("gate_up_proj.weight"):
            gate, up = (name.replace("gate_up", half) for half in ("gate", "up"))
            made[gate], made[up] = value.chunk(2)
        elif not base:
            made[name] = value
    return {f"{prefix}{n}": mx.array(value.contiguous().numpy()) for n, value in made.items()}


def _nest(folder: Path) -> None:
    """Put config.json in the published form, in which the text part is a part."""
    path = folder / "config.json"
    inner = json.loads(path.read_text())
    flags = [kind == SPARSE for kind in inner.pop("layer_types")]
    names = {
        "index_n_heads": "sparse_num_index_heads",
        "index_head_dim": "sparse_index_dim",
        "index_block_size": "sparse_block_size",
        "index_topk_blocks": "sparse_topk_blocks",
        "index_local_blocks": "sparse_local_block",
    }
    inner["sparse_attention_config"] = {name: inner.pop(old) for old, name in names.items()}
    inner["sparse_attention_config"]["sparse_attention_freq"] = [int(flag) for flag in flags]
    inner["moe_layer_freq"] = [int(kind == "sparse") for kind in inner.pop("mlp_layer_types")]
    whole = {"model_type": "minimax_m3_vl", "text_config": inner, "vision_config": {}}
    path.write_text(json.dumps(whole))


def publish(folder: Path, seed: int = 0, *, heads: int = 1, **changes: Any) -> Published:
    """Writes the folder; changes: of the config."""
    config = hf.MiniMaxM3VLTextConfig(**SIZES | changes, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.MiniMaxM3VLForCausalLM(config).eval().float()
    inner, every = model.model, [Head(config).eval().float() for _ in range(heads)]
    with torch.no_grad():
        draw_all(model, 2.0)
        for head in every:
            draw_all(head, 1.0)
        for head in every[1:]:  # figures know one norm
            head.final_layernorm.weight.copy_(every[0].final_layernorm.weight)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_mtp_modules=heads)
    _nest(folder)
    stored = _stored(model, "language_model.")
    for number, head in enumerate(every):
        stored |= _stored(head, f"language_model.model.mtp.layers.{number}.")
    edit_tensors(folder, lambda _: stored)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    first, last = (
        states_of(head, inner.embed_tokens, inner.rotary_emb) for head in (every[0], every[-1])
    )

    def draft_output(rows: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = model.lm_head(every[0].final_layernorm(rows))
        return made

    return published(
        folder, tokens, hidden_states_of(inner), model.lm_head, first, draft_output, last
    )
