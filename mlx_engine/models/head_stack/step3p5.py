"""The heads of Step-3.5-Flash: layers behind the last one, with output heads of their own.

As llama.cpp (#24340) and vLLM run them: the residual before the trunk's final norm, and of a head
before its norm; three heads in turns. Their feed-forwards are dense. Lists by layer in the config
go on over the heads; where they end early, a head sees everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.head_stack.definition import HeadSizes, StackDefinition
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    from mlx.nn.layers.base import Module

_FULL, _SLIDING = "full_attention", "sliding_attention"


def _kind(fields: ConfigFields, number: int) -> str:
    layer, kinds = fields.count("num_hidden_layers") + number, fields.words("layer_types")
    if not kinds:
        return _FULL if layer % 2 else _SLIDING
    return kinds[layer] if layer < len(kinds) else _FULL


def _sizes(fields: ConfigFields, number: int) -> HeadSizes:
    hidden, inner = fields.count("hidden_size"), fields.count("intermediate_size")
    size, is_sliding = fields.count("head_dim"), _kind(fields, number) == _SLIDING
    other = fields.section("attention_other_setting") if is_sliding else None
    of_layer = other or fields
    heads = of_layer.count("num_attention_heads")
    kept = of_layer.count("num_attention_groups")
    layer: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (heads * size, hidden),
        "self_attn.k_proj.weight": (kept * size, hidden),
        "self_attn.v_proj.weight": (kept * size, hidden),
        "self_attn.o_proj.weight": (hidden, heads * size),
        "self_attn.q_norm.weight": (size,),
        "self_attn.k_norm.weight": (size,),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if fields.flag("use_head_wise_attn_gate", default=True):
        layer["self_attn.g_proj.weight"] = (heads, hidden)
    window = fields.count("sliding_window", 512) if is_sliding else None
    return HeadSizes(layer, 2 * kept * size, window, has_output=True)


def _make_layer(flat: Mapping[str, object], number: int) -> Module:
    from mlx_lm.models.step3p5 import ModelArgs, Step3p5DecoderLayer

    layers = int(str(flat["num_hidden_layers"]))
    dense = {"moe_layers_enum": "-1"}  # no layer; those of the trunk are built elsewhere
    own = {**flat, **_lengthened(flat, layers + number + 1), **dense}
    args = ModelArgs.from_dict(own)  # type: ignore[no-untyped-call]
    layer: Module = Step3p5DecoderLayer(args, layers + number)
    return layer


def _lengthened(flat: Mapping[str, object], length: int) -> dict[str, object]:
    """Lists by layer that end before `length`, with the first full layer's entries behind."""
    kinds = flat.get("layer_types")
    if not isinstance(kinds, list):
        return {}
    first = kinds.index(_FULL) if _FULL in kinds else 0
    made: dict[str, object] = {}
    for name in ("layer_types", "rope_theta", "partial_rotary_factors"):
        listed = flat.get(name)
        if isinstance(listed, list) and first < len(listed):
            made[name] = listed + [listed[first]] * (length - len(listed))
    if _FULL not in kinds:
        made["layer_types"] = kinds + [_FULL] * (length - len(kinds))
    return made


STEP3P5 = StackDefinition(
    model_type="step3p5",
    most=3,
    names=r"(?:.*\.)?layers\.(\d{1,6})\.(?:transformer\.|mtp_block\.)?(.+)",
    renamed={
        "eh_proj": "join",
        "shared_head.norm": "norm",
        "shared_head.output": "output",
        "shared_head.head": "output",
    },
    is_embedding_first=True,
    trunk_state="residual",
    chain_state="residual",
    norm_offset=1,
    eps="rms_norm_eps",
    sizes=_sizes,
    make_layer=_make_layer,
    is_behind_trunk=True,
)
