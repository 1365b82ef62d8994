"""The head of Xiaomi MiMo-7B: a Qwen2 layer; hidden state first, everything after norms.

Hugging Face's modeling_mimo.py and vLLM's mimo_mtp.py agree; the latter's blanking of the embedding
at position 0 is left out. Further heads, if any, are not run: nobody says how they are to be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.head_stack.definition import HeadSizes, StackDefinition
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    from mlx.nn.layers.base import Module


def _sizes(fields: ConfigFields, number: int) -> HeadSizes:
    del number
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    kept, size = fields.count("num_key_value_heads", heads), hidden // heads
    inner = fields.count("intermediate_size")
    rows = {"q": heads * size, "k": kept * size, "v": kept * size}
    layer: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        **{f"self_attn.{kind}_proj.weight": (rows[kind], hidden) for kind in rows},
        **{f"self_attn.{kind}_proj.bias": (rows[kind],) for kind in rows},
        "self_attn.o_proj.weight": (hidden, heads * size),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    return HeadSizes(layer, 2 * kept * size)


def _make_layer(flat: Mapping[str, object], number: int) -> Module:
    from mlx_lm.models.mimo import ModelArgs, TransformerBlock

    del number
    args = ModelArgs.from_dict(dict(flat))  # type: ignore[no-untyped-call]
    layer: Module = TransformerBlock(args)
    return layer


MIMO = StackDefinition(
    model_type="mimo",
    most=1,
    names=r"(?:.*\.)?mtp_layers\.(\d{1,6})\.(.+)",
    renamed={
        "token_layernorm": "enorm",
        "hidden_layernorm": "hnorm",
        "input_proj": "join",
        "final_layernorm": "norm",
    },
    is_embedding_first=False,
    trunk_state="normed",
    chain_state="normed",
    norm_offset=0,
    eps="rms_norm_eps",
    sizes=_sizes,
    make_layer=_make_layer,
)
