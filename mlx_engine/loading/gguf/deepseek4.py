"""GGUF architecture of DeepSeek-V4; its converter puts the MTP head into a file of its own."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import OUTSIDE, Architecture
from mlx_engine.loading.gguf.metadata import Kind
from mlx_engine.loading.gguf.part import HfTensor

_SQRTSOFTPLUS = 4
"""Value of expert_gating_func."""

_PARTS = ("fn", "base", "scale")
_COMPRESSOR = {"kv": "wkv", "gate": "wgate", "norm": "norm"}


class DeepseekV4Gguf(Architecture):
    """GGUF files of DeepSeek-V4, with DeepSeek's own tensor names."""

    model_type = "deepseek_v4"
    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("yarn",)
    outside: ClassVar = OUTSIDE | {f"output_hc_{part}": f"hc_head_{part}" for part in _PARTS}
    names: ClassVar = {
        "attn_norm": "attn_norm",
        "attn_sinks.weight": "attn.attn_sink",
        "attn_q_a": "attn.wq_a",
        "attn_q_a_norm": "attn.q_norm",
        "attn_q_b": "attn.wq_b",
        "attn_kv": "attn.wkv",
        "attn_kv_a_norm": "attn.kv_norm",
        "attn_output_a": "attn.wo_a",
        "attn_output_b": "attn.wo_b",
        "indexer.attn_q_b": "attn.indexer.wq_b",
        "indexer.proj": "attn.indexer.weights_proj",
        **{
            f"{base}_compressor_{part}": f"{published}.compressor.{name}"
            for base, published in (("attn", "attn"), ("indexer", "attn.indexer"))
            for part, name in _COMPRESSOR.items()
        },
        "attn_compressor_ape.weight": "attn.compressor.ape",
        "indexer_compressor_ape.weight": "attn.indexer.compressor.ape",
        **{
            f"hc_{site}_{part}.weight": f"hc_{site}_{part}"
            for site in ("attn", "ffn")
            for part in _PARTS
        },
        "ffn_norm": "ffn_norm",
        "ffn_gate_inp": "ffn.gate",
        "ffn_gate_tid2eid.weight": "ffn.gate.tid2eid",
        "exp_probs_b.bias": "ffn.gate.bias",
        "exp_probs_b_vl.bias": "ffn.gate.bias_vl",
        **{f"ffn_{part}_exps": f"ffn.switch_mlp.{part}_proj" for part in ("gate", "up", "down")},
        **{
            f"ffn_{part}_shexp": f"ffn.shared_experts.{name}"
            for part, name in (("gate", "w1"), ("down", "w2"), ("up", "w3"))
        },
        "nextn.eh_proj": "eh_proj",
        "nextn.enorm": "enorm",
        "nextn.hnorm": "hnorm",
        "nextn.shared_head_norm": "norm",
    }

    def hf_tensors(self, name: str) -> tuple[HfTensor, ...]:
        """Map a tensor's name; a file of the head alone has the head's last connection outside."""
        found = super().hf_tensors(name)
        if name.startswith("output_hc_") and "blk.0.attn_norm.weight" not in self._file.tensors:
            return tuple(HfTensor(f"mtp.0.{tensor.name}") for tensor in found)
        return found

    def _layer_prefix(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer_prefix(block)
        return f"mtp.{block - self._main_blocks}."

    def _family_config(self) -> dict[str, object]:
        metadata, count = self._metadata, self._positive_count
        if metadata.count("expert_gating_func", 0) != _SQRTSOFTPLUS:
            raise self._unknown_router()
        connections, ratios = "hyper_connection", "attention.compress_ratios"
        return {
            **self._expert_fields(
                "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"
            ),
            "n_shared_experts": metadata.count("expert_shared_count", 1),
            "routed_scaling_factor": metadata.number("expert_weights_scale", 1.0),
            "swiglu_limit": metadata.numbers("swiglu_clamp_exp", 1, 0.0)[0],
            "num_hash_layers": metadata.count("hash_layer_count", 0),
            "q_lora_rank": count("attention.q_lora_rank"),
            "qk_rope_head_dim": self._rotary_dim(),
            "sliding_window": count("attention.sliding_window"),
            "o_groups": count("attention.output_group_count"),
            "o_lora_rank": count("attention.output_lora_rank"),
            "compress_ratios": list(metadata.counts(ratios, self._main_blocks)),
            "compress_rope_theta": metadata.number("attention.compress_rope_freq_base", 1.6e5),
            "index_n_heads": count("attention.indexer.head_count"),
            "index_head_dim": count("attention.indexer.key_length"),
            "index_topk": count("attention.indexer.top_k"),
            "hc_mult": count(f"{connections}.count"),
            "hc_sinkhorn_iters": count(f"{connections}.sinkhorn_iterations"),
            "hc_eps": metadata.number(f"{connections}.epsilon", 1e-6),
        }
