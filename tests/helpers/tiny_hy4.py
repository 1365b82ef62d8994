"""A tiny random Hy4 as published, with its MTP head, and figures in PyTorch.

Transformers 5.23 rotates halves of heads where the published weights want neighbours, so rows are
put in their order.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import Arrays, edit_config, edit_tensors
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw_all
from tiny_sparse import MOST, hidden_states_of, published, run_layer, states_of
from tiny_sparse import SIZES as _SPARSE
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.hy_v4.modeling_hy_v4 import HYV4Attention, HYV4MoE, HYV4RMSNorm

_ABSENT = ("n_group", "topk_group", "first_k_dense_replace")
SIZES: dict[str, Any] = {name: size for name, size in _SPARSE.items() if name not in _ABSENT}
SIZES |= {"indexer_types": ["full", "shared", "full"], "num_nextn_predict_layers": 1}
__all__ = ["MOST", "SIZES", "publish"]


class Head(torch.nn.Module):
    """A layer with a single stream; rows (x_k, hidden state of k-1) -> normed states."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        names = ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm", "final_layernorm")
        for name in names:
            setattr(self, name, HYV4RMSNorm(size, eps=eps))
        self.eh_proj = torch.nn.Linear(2 * size, size, bias=False)
        self.self_attn = HYV4Attention(config, 0)
        self.mlp = HYV4MoE(config)

    def forward(self, embedded: torch.Tensor, hidden: torch.Tensor, rotary: Any) -> torch.Tensor:
        made: torch.Tensor = self.final_layernorm(run_layer(self, embedded, hidden, rotary))
        return made


_PUBLISHED = {
    ".self_attn.gate_proj.": ".self_attn.linear_gate.",
    ".self_attn.sinks": ".self_attn.learnable_sink_param",
    ".attn_hc.": ".hc_attn_layer.hc_pre.hc_",
    ".ffn_hc.": ".hc_mlp_layer.hc_pre.hc_",
    ".hc_head.": ".hc_head.hc_head_",
    ".hc_head.hc_head_hc_": ".hc_head.hc_head_",
}


def _stored(part: torch.nn.Module, prefix: str) -> Arrays:
    """Tensors by published names, to which transformers 5.23 does not find back in saving."""
    made = {}
    for name, value in part.state_dict().items():
        full = prefix + name
        for theirs, published_name in _PUBLISHED.items():
            full = full.replace(theirs, published_name)
        made[full] = mx.array(value.contiguous().numpy())
    return made


def _with_neighbours(arrays: Arrays, config: Any) -> Arrays:
    """Put the rotated rows of attention and indexers in the published order."""
    width = config.qk_rope_head_dim
    order = [row for pair in range(width // 2) for row in (pair, pair + width // 2)]
    heads = {
        "self_attn.q_b_proj.weight": config.qk_nope_head_dim + width,
        "self_attn.kv_a_proj_with_mqa.weight": config.kv_lora_rank + width,
        **dict.fromkeys(
            (f"indexer.{n}" for n in ("wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias")),
            config.index_head_dim,
        ),
        "self_attn.kv_a_proj_with_mqa.bias": config.kv_lora_rank + width,
    }
    made = dict(arrays)
    for name, array in arrays.items():
        size = next((size for end, size in heads.items() if name.endswith(end)), None)
        if size is not None:
            rows = [*range(size - width), *(size - width + row for row in order)]
            split = array.reshape(-1, size, *array.shape[1:])
            made[name] = split[:, mx.array(rows)].reshape(array.shape)
    return made


def publish(folder: Path, seed: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config."""
    config = hf.HYV4Config(**SIZES | changes, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.HYV4ForCausalLM(config).eval().float()
    inner, head = model.model, Head(config).eval().float()
    with torch.no_grad():
        draw_all(model, 2.0)
        draw_all(head, 1.0)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_nextn_predict_layers=1)
    stored = _stored(model, "") | _stored(head, "model.mtp_layers.0.")
    edit_tensors(folder, lambda _: _with_neighbours(stored, config))
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    states = states_of(head, inner.embed_tokens, inner.rotary_emb)
    return published(folder, tokens, hidden_states_of(inner), model.lm_head, states)
