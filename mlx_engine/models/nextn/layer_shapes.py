"""Shapes of the decoder layers that NextN heads are made of, by canonical name."""

from collections.abc import Mapping

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.specs import Shape


def with_grouped_attention(fields: ConfigFields, present: Mapping[str, object]) -> dict[str, Shape]:
    """Grouped-query attention and experts, as GLM-4.5 has them."""
    del present
    hidden, size = fields.count("hidden_size"), fields.count("head_dim")
    queries = fields.count("num_attention_heads") * size
    keys = fields.count("num_key_value_heads") * size
    shapes: dict[str, Shape] = {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
    }
    if fields.flag("attention_bias", default=False):
        shapes |= {"self_attn.q_proj.bias": (queries,)}
        shapes |= {f"self_attn.{kind}_proj.bias": (keys,) for kind in "kv"}
    if fields.flag("use_qk_norm", default=False):
        shapes |= {f"self_attn.{kind}_norm.weight": (size,) for kind in "qk"}
    return shapes | _norms_and_experts(fields)


def with_latent_attention(fields: ConfigFields, present: Mapping[str, object]) -> dict[str, Shape]:
    """Multi-head latent attention and experts; kv_b_proj may come split, as MLX stores it."""
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    rank, rotated = fields.count("kv_lora_rank"), fields.count("qk_rope_head_dim")
    straight, value = fields.count("qk_nope_head_dim"), fields.count("v_head_dim")
    queries = heads * (straight + rotated)
    shapes: dict[str, Shape] = {
        "self_attn.kv_a_proj_with_mqa.weight": (rank + rotated, hidden),
        "self_attn.kv_a_layernorm.weight": (rank,),
        "self_attn.o_proj.weight": (hidden, heads * value),
    }
    if fields.has("q_lora_rank"):
        low = fields.count("q_lora_rank")
        shapes |= {
            "self_attn.q_a_proj.weight": (low, hidden),
            "self_attn.q_a_layernorm.weight": (low,),
            "self_attn.q_b_proj.weight": (queries, low),
        }
    else:
        shapes["self_attn.q_proj.weight"] = (queries, hidden)
    if fields.flag("attention_bias", default=False):
        shapes |= _latent_biases(fields)
    if "self_attn.embed_q.weight" in present:
        shapes |= {
            "self_attn.embed_q.weight": (heads, rank, straight),
            "self_attn.unembed_out.weight": (heads, value, rank),
        }
    else:
        shapes["self_attn.kv_b_proj.weight"] = (heads * (straight + value), rank)
    return shapes | _norms_and_experts(fields)


def _latent_biases(fields: ConfigFields) -> dict[str, Shape]:
    inner = fields.count("kv_lora_rank") + fields.count("qk_rope_head_dim")
    biases: dict[str, Shape] = {
        "self_attn.kv_a_proj_with_mqa.bias": (inner,),
        "self_attn.o_proj.bias": (fields.count("hidden_size"),),
    }
    if fields.has("q_lora_rank"):
        biases["self_attn.q_a_proj.bias"] = (fields.count("q_lora_rank"),)
    return biases


def _norms_and_experts(fields: ConfigFields) -> dict[str, Shape]:
    """Heads have experts whatever the first layers of the trunk have."""
    hidden, inner = fields.count("hidden_size"), fields.count("moe_intermediate_size")
    count = fields.count("n_routed_experts")
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "mlp.gate.weight": (count, hidden),
        "mlp.gate.e_score_correction_bias": (count,),
        "mlp.switch_mlp.gate_proj.weight": (count, inner, hidden),
        "mlp.switch_mlp.up_proj.weight": (count, inner, hidden),
        "mlp.switch_mlp.down_proj.weight": (count, hidden, inner),
    }
    if fields.has("n_shared_experts"):
        shared = inner * fields.count("n_shared_experts")
        shapes |= {
            "mlp.shared_experts.gate_proj.weight": (shared, hidden),
            "mlp.shared_experts.up_proj.weight": (shared, hidden),
            "mlp.shared_experts.down_proj.weight": (hidden, shared),
        }
    return shapes
