"""The heads of MiMo-V2-Flash: windowed attention with sinks, scaled values, dense feed-forward.

As llama.cpp runs them (#26228): the residual before the trunk's final norm, three heads in turns.
vLLM, which uses the first head only, hands on states after the head's norm; the two have not been
compared on real weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.head_stack.definition import HeadSizes, StackDefinition
from mlx_engine.models.mlx_lm_trunk.windows import windows_of
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    from mlx.nn.layers.base import Module


def _sizes(fields: ConfigFields, number: int) -> HeadSizes:
    del number
    hidden, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    heads, kept = fields.count("swa_num_attention_heads"), fields.count("swa_num_key_value_heads")
    size, value = fields.count("swa_head_dim"), fields.count("swa_v_head_dim")
    layer: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (heads * size, hidden),
        "self_attn.k_proj.weight": (kept * size, hidden),
        "self_attn.v_proj.weight": (kept * value, hidden),
        "self_attn.o_proj.weight": (hidden, heads * value),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if fields.flag("add_swa_attention_sink_bias", default=False):
        layer["self_attn.attention_sink_bias"] = (heads,)
    window = windows_of("mimo_v2_flash", fields).size
    return HeadSizes(layer, kept * (size + value), window)


def _make_layer(flat: Mapping[str, object], number: int) -> Module:
    from mlx_lm.models.mimo_v2_flash import DecoderLayer, ModelArgs

    del number
    args = ModelArgs.from_dict(dict(flat))  # type: ignore[no-untyped-call]
    layer: Module = DecoderLayer(args, is_moe=False, is_sliding_window=True)
    return layer


MIMO_V2_FLASH = StackDefinition(
    model_type="mimo_v2_flash",
    most=3,
    names=r"(?:.*\.)?mtp\.layers\.(\d{1,6})\.(.+)",
    renamed={
        "eh_proj": "join",
        "final_layernorm": "norm",
        "pre_mlp_layernorm": "post_attention_layernorm",
    },
    is_embedding_first=True,
    trunk_state="residual",
    chain_state="residual",
    norm_offset=0,
    eps="layernorm_epsilon",
    sizes=_sizes,
    make_layer=_make_layer,
    is_fused=True,
)
