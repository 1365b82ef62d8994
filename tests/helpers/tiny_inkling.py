"""A tiny random Inkling as published, with MTP heads, and transformers' figures.

Heads are those of transformers' MtpModel, which here read embeddings behind the trunk's norm and
have the windows that their config asks for, as in vLLM and SGLang.
"""

import json
from collections.abc import Callable
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
from transformers.modeling_layers import MtpModel

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY + 20,
    "unpadded_vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "swa_num_attention_heads": 2,
    "swa_num_key_value_heads": 1,
    "swa_head_dim": 64,
    "sliding_window_size": 8,
    "d_rel": 4,
    "rel_extent": 12,
    "log_scaling_n_floor": 16,
    "log_scaling_alpha": 0.5,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 2,
    "local_layer_ids": [0, 2],
    "mlp_layer_types": ["dense", "sparse", "sparse"],
    "max_position_embeddings": 512,
    "logits_mup_width_multiplier": 3.0,
    "num_mtp_layers": 2,
    "mtp_local_layer_ids": [1],
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 297,
}
_NAMES = {
    "self_attn.q_proj": "attn.wq_du",
    "self_attn.k_proj": "attn.wk_dv",
    "self_attn.v_proj": "attn.wv_dv",
    "self_attn.r_proj": "attn.wr_du",
    "self_attn.o_proj": "attn.wo_ud",
    "self_attn.": "attn.",
    "sconv.conv1d": "sconv",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "mlp_norm",
    "mlp.gate.e_score_correction_bias": "mlp.gate.bias",
    "embed_tokens.embed_norm": "embed_norm",
    "embed_tokens": "embed",
}
_OF_HEADS = {"hnorm": "hidden_norm", "enorm": "embed_norm", "eh_proj": "input_proj"}


def _interleaved(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Rows of both by turns."""
    return torch.stack([gate, up], dim=-2).flatten(-3, -2)


def _stored(values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors by published names."""
    made: dict[str, torch.Tensor] = {}
    for name, value in values.items():
        base, _, part = name.rpartition("mlp.")
        if part == "experts.gate_up_proj":
            made[f"{base}mlp.experts.w13_weight"] = _interleaved(*value.chunk(2, dim=1))
        elif part == "experts.down_proj":
            made[f"{base}mlp.experts.w2_weight"] = value
        elif part == "shared_experts.gate_proj":
            both = _interleaved(value, values[f"{base}mlp.shared_experts.up_proj"])
            made[f"{base}mlp.shared_experts.shared_w13_weight"] = both
        elif part == "shared_experts.down_proj":
            made[f"{base}mlp.shared_experts.shared_w2_weight"] = value
        elif part == "gate_proj.weight":
            both = _interleaved(value, values[f"{base}mlp.up_proj.weight"])
            made[f"{base}mlp.w13_dn.weight"] = both
        elif part == "down_proj.weight":
            made[f"{base}mlp.w2_md.weight"] = value
        elif not part.endswith(("up_proj", "up_proj.weight")) or not base:
            for ours, theirs in _NAMES.items():
                name = name.replace(ours, theirs)  # noqa: PLW2901
            made[name] = value
    return made


def _published_head(name: str) -> str:
    number, _, within = name.removeprefix("layers.").partition(".")
    base = within.partition(".")[0]
    if base in _OF_HEADS:
        return f"model.mtp.layers.{number}.{within.replace(base, _OF_HEADS[base])}"
    return f"model.mtp.layers.{number}.{within.replace('mtp_block', 'transformer_block')}"


def _nest(folder: Path) -> None:
    """Put config.json in the published form: of a whole with a text part."""
    path = folder / "config.json"
    inner = json.loads(path.read_text())
    kinds = inner.pop("mlp_layer_types")
    for name in ("layer_types", "model_type", "conv_kernel_size"):
        inner.pop(name, None)
    inner |= {
        "dense_mlp_idx": kinds.count("dense"),
        "dense_intermediate_size": inner["intermediate_size"],
        "intermediate_size": inner.pop("moe_intermediate_size"),
        "model_max_length": inner.pop("max_position_embeddings"),
        "sconv_kernel_size": 4,
        "use_sconv": True,
    }
    heads = {
        "num_nextn_predict_layers": inner.pop("num_mtp_layers"),
        "local_layer_ids": inner.pop("mtp_local_layer_ids"),
        "chain_hidden_post_norm": inner.pop("chain_hidden_post_norm"),
    }
    whole = {"model_type": "inkling_mm_model", "text_config": inner, "mtp_config": heads}
    path.write_text(json.dumps(whole))


def publish(
    folder: Path, seed: int = 0, *, is_as_published: bool = True, **changes: Any
) -> Published:
    """Writes the folder; is_as_published: else as transformers saves the text part.

    changes: of the config.
    """
    config = hf.InklingTextConfig(**SIZES | changes, attn_implementation="eager")
    torch.manual_seed(seed)
    model = hf.InklingForCausalLM(config).eval().float()
    heads = MtpModel(model, config.num_mtp_layers).eval().float()
    heads.embed_tokens = model.get_input_embeddings()
    with torch.no_grad():
        own = [*heads.layers.named_parameters(), *heads.layers.named_buffers()]
        if heads.use_shared_post_norm:
            own += heads.shared_post_norm.named_parameters()
        for part, value in [*model.named_parameters(), *model.named_buffers()]:
            draw(part, value, 2.0 * SIZES["logits_mup_width_multiplier"])
        for part, value in own:
            draw(part, value, 1.0)
        model.save_pretrained(folder)
    make_tiny_tokenizer(folder, VOCABULARY)
    values = {n: v for n, v in heads.state_dict().items() if n.startswith("layers.")}
    stored = {_published_head(n): v for n, v in _stored(values).items()}
    if heads.use_shared_post_norm:
        stored["model.mtp.chain_norm.weight"] = heads.shared_post_norm.weight.detach()
    if is_as_published:
        _nest(folder)
        whole = _stored(dict(model.state_dict()))
        whole = {n.replace("model.", "model.llm.", 1): v for n, v in whole.items()}
        whole["model.llm.unembed.weight"] = whole.pop("lm_head.weight")
        stored |= whole
    else:
        edit_config(folder, model_type="inkling_text")
    arrays = {name: mx.array(value.contiguous().numpy()) for name, value in stored.items()}

    def of_folder(saved: Arrays) -> Arrays:
        return arrays if is_as_published else saved | arrays

    edit_tensors(folder, of_folder)
    tokens = [int(t) for t in np.random.default_rng(seed).integers(0, VOCABULARY, 41)]

    def states_of(number: int) -> Callable[[list[int], torch.Tensor], torch.Tensor]:
        @torch.no_grad()
        def states(read: list[int], hidden: torch.Tensor) -> torch.Tensor:
            distances = torch.arange(len(read))[:, None] - torch.arange(len(read))
            slides = number in (config.mtp_local_layer_ids or ())
            most = config.sliding_window_size if slides else len(read)
            is_seen = (distances >= 0) & (distances < most)
            mask = torch.where(is_seen, 0.0, -torch.inf)[None, None]
            embedded = heads.embed_tokens(torch.tensor([read]))
            made: torch.Tensor = heads.layers[number](embedded, hidden, None, mask, None, None)
            return heads.shared_post_norm(made) if heads.use_shared_post_norm else made

        return states

    @torch.no_grad()
    def trunk(read: list[int]) -> torch.Tensor:
        hidden: torch.Tensor = model.model(torch.tensor([read]), use_cache=False).last_hidden_state
        return hidden

    def output(rows: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = heads._project_to_logits(rows)
        return made

    last = states_of(config.num_mtp_layers - 1)
    return published(folder, tokens, trunk, output, states_of(0), later_states=last)
