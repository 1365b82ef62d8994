"""A tiny random DeepSeek-V4 as published, with its MTP head, and figures in PyTorch.

Transformers 5.23 leaves the head out, so it is built here of its parts, as DeepSeek's own code has
it: a sum of products for each stream, a layer with the window alone, a collapse of its own.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import torch
import transformers as hf
from model_edits import Arrays, edit_config, edit_tensors
from tiny_nextn import Published
from tiny_published import VOCABULARY, draw
from tiny_sparse import published
from tiny_tokenizer import make_tiny_tokenizer
from transformers.models.deepseek_v4 import modeling_deepseek_v4 as theirs

SLIDING, SPARSE, HEAVY = (
    "sliding_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "partial_rotary_factor": 0.25,
    "q_lora_rank": 24,
    "o_groups": 2,
    "o_lora_rank": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "layer_types": [SPARSE, HEAVY, SPARSE],
    "compress_rates": {SPARSE: 4, HEAVY: 8},
    "mlp_layer_types": ["hash_moe", "moe", "moe"],
    "sliding_window": 6,
    "hc_sinkhorn_iters": 4,
    "index_n_heads": 32,  # of few heads many scores are 0, and any of those may be selected
    "index_head_dim": 16,
    "index_topk": 3,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}


class Head(torch.nn.Module):
    """Rows (x_k, streams of k-1) -> streams, and what the output head reads of them."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        for name in ("enorm", "hnorm", "norm"):
            setattr(self, name, theirs.DeepseekV4RMSNorm(size, eps=eps))
        for name in ("e_proj", "h_proj"):
            setattr(self, name, torch.nn.Linear(size, size, bias=False))
        self.block = theirs.DeepseekV4DecoderLayer(config, 0)
        self.hc_head = theirs.DeepseekV4HyperHead(config)

    def forward(self, embedded: torch.Tensor, streams: torch.Tensor, rotary: Any) -> torch.Tensor:
        rows = embedded.shape[1]
        at = torch.arange(rows)[None]
        x = self.e_proj(self.enorm(embedded))[:, :, None] + self.h_proj(self.hnorm(streams))
        turned = {"main": rotary(embedded, at, layer_type="main")}
        behind = at.T - at
        hidden = (behind < 0) | (behind >= self.block.self_attn.sliding_window)
        mask = torch.zeros(rows, rows).masked_fill(hidden, -torch.inf)[None, None]
        made: torch.Tensor = self.block(
            x, position_embeddings=turned, position_ids=at, attention_mask=mask
        )
        return made


_NAMES = (
    ("model.", ""),
    ("embed_tokens.", "embed."),
    ("lm_head.", "head."),
    ("block.", ""),
    ("hc_head.hc_", "hc_head_"),
    ("input_layernorm.", "attn_norm."),
    ("post_attention_layernorm.", "ffn_norm."),
    ("attn_hc.", "hc_attn_"),
    ("ffn_hc.", "hc_ffn_"),
    ("self_attn.", "attn."),
    ("mlp.", "ffn."),
    ("compressor.indexer.q_b_proj.", "indexer.wq_b."),
    ("compressor.indexer.scorer.weights_proj.", "indexer.weights_proj."),
    ("compressor.indexer.", "indexer.compressor."),
    ("compressor.kv_proj.", "compressor.wkv."),
    ("compressor.gate_proj.", "compressor.wgate."),
    ("compressor.position_bias", "compressor.ape"),
    ("compressor.kv_norm.", "compressor.norm."),
    ("attn.sinks", "attn.attn_sink"),
    ("q_a_proj.", "wq_a."),
    ("q_b_proj.", "wq_b."),
    ("attn.kv_proj.", "attn.wkv."),
    ("q_a_norm.", "q_norm."),
    ("o_a_proj.", "wo_a."),
    ("o_b_proj.", "wo_b."),
    ("gate.e_score_correction_bias", "gate.bias"),
    ("shared_experts.gate_proj.", "shared_experts.w1."),
    ("shared_experts.down_proj.", "shared_experts.w2."),
    ("shared_experts.up_proj.", "shared_experts.w3."),
)


def _stored(part: torch.nn.Module, prefix: str) -> Arrays:
    """Tensors by DeepSeek's names, experts one by one."""
    made: Arrays = {}
    for name, value in part.state_dict().items():
        full = prefix + name
        for ours, published_name in _NAMES:
            full = full.replace(ours, published_name)
        array = mx.array(value.contiguous().numpy())
        if full.endswith("experts.gate_up_proj"):
            for number, both in enumerate(array):
                base = f"{full.removesuffix('gate_up_proj')}{number}"
                made[f"{base}.w1.weight"], made[f"{base}.w3.weight"] = mx.split(both, 2)
        elif full.endswith("experts.down_proj"):
            for number, one in enumerate(array):
                made[f"{full.removesuffix('down_proj')}{number}.w2.weight"] = one
        else:
            made[full] = array
    return made


def publish(folder: Path, seed: int = 0, *, head_number: int = 0, **changes: Any) -> Published:
    """Writes the folder; changes: of the config. head_number: that of `mtp.`."""
    sizes = SIZES | changes
    config = hf.DeepseekV4Config(**sizes, attn_implementation="eager")
    of_head = hf.DeepseekV4Config(
        **sizes | {"layer_types": [SLIDING] * 3, "mlp_layer_types": ["moe"] * 3},
        attn_implementation="eager",
    )
    torch.manual_seed(seed)
    model, head = hf.DeepseekV4ForCausalLM(config).eval().float(), Head(of_head).eval().float()
    inner = model.model
    with torch.no_grad():
        for part, value in head.named_parameters():
            if value.ndim == 1 and "norm" not in part:
                value.zero_()  # transformers fills such vectors of whole models alone
        for whole, sharpness in ((model, 2.0), (head, 1.0)):
            for part, value in [*whole.named_parameters(), *whole.named_buffers()]:
                if part.endswith("tid2eid"):
                    value.copy_(torch.rand(*value.shape[:1], 8).argsort()[:, : value.shape[1]])
                elif not part.endswith("inv_freq"):
                    draw(part, value, sharpness)
                if part.endswith(("hc.scale", "hc_scale")):
                    value.add_(1)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    edit_config(folder, num_nextn_predict_layers=1)
    stored = _stored(model, "") | _stored(head, f"mtp.{head_number}.")
    edit_tensors(folder, lambda _: stored)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    @torch.no_grad()
    def states(read: list[int], streams: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = head(
            inner.embed_tokens(torch.tensor([read])), streams, inner.rotary_emb
        )
        return made

    @torch.no_grad()
    def trunk(read: list[int]) -> torch.Tensor:
        seen = []
        hook = inner.hc_head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        inner(torch.tensor([read]), use_cache=False)
        hook.remove()
        streams: torch.Tensor = seen[0]
        return streams

    def output(streams: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model.lm_head(inner.norm(inner.hc_head(streams)))
        return logits

    def draft_output(streams: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model.lm_head(head.norm(head.hc_head(streams)))
        return logits

    return published(folder, tokens, trunk, output, states, draft_output)
