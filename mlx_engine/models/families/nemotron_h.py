"""Nemotron-H, Nemotron 3 and 3.5 (arXiv 2504.03624): layers of Mamba-2, attention or experts.

A layer may be a dense feed-forward, too; each has one norm and is added to the residual.
Attention has no positions, feed-forwards no gate; experts may work on a projection of the hidden
state (`moe_latent_size`). The MTP head is a layer of attention and one of experts, stored as
`mtp.layers.0` and `mtp.layers.1` and run here as one block; it reads and passes on normed states.
Its last norm is an RMS norm in vLLM and mlx-vlm, a layer norm in llama.cpp: an RMS norm here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.granite_hybrid import mamba_spec
from mlx_engine.models.families.llama import plain_attention, plain_model, read_activation
from mlx_engine.models.family import TensorParts
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec, MtpHeadsSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import Mamba2Spec
from mlx_engine.models.tensor_names import HeadNames
from mlx_engine.values.words import Words

T = TypeVar("T")
Kind = Literal["mamba", "attention", "mlp", "moe"]
_SIGNS: dict[str, Kind] = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_KINDS: dict[str, Kind] = {
    "mamba": "mamba",
    "conv": "mamba",
    "linear_attention": "mamba",
    "attention": "attention",
    "full_attention": "attention",
    "mlp": "mlp",
    "moe": "moe",
}
"""Names of kinds of layers in configs -> ours."""

_HEAD_LAYER = re.compile(r"(.*\bmtp\.layers\.)(\d{1,4})\.(.+)")
_FEED_NORM = "post_attention_layernorm"


class NemotronH(NativeFamily):
    """Nemotron-H, Nemotron 3 and 3.5 (`nemotron_h`): a Mamba-2 hybrid with or without experts."""

    renames: ClassVar = {
        "embeddings": "embed_tokens",
        "norm_f": "norm",
        "norm": "input_layernorm",
        "mixer": "mamba",
        **{f"mixer.{part}_proj": f"self_attn.{part}_proj" for part in "qkvo"},
        **{f"mixer.{part}_proj": f"mlp.{part}_proj" for part in ("up", "down")},
        "mixer.gate": "mlp.gate",
        "mixer.experts": "mlp.experts",
        "mixer.switch_mlp": "mlp.switch_mlp",
        "mixer.switch_mlp.fc1": "mlp.switch_mlp.up_proj",
        "mixer.switch_mlp.fc2": "mlp.switch_mlp.down_proj",
        "mixer.shared_experts": "mlp.shared_expert",
        "mixer.fc1_latent_proj": "mlp.latent_down",
        "mixer.fc2_latent_proj": "mlp.latent_up",
    }
    head_names = HeadNames(
        {"eh_proj": "join", "final_layernorm": "norm", _FEED_NORM: _FEED_NORM}, numbered=True
    )

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        kinds = _layer_kinds(fields, "hybrid_override_pattern", "layers_block_type", "layer_types")
        if not {"mamba", "attention"} & {*kinds}:
            name = "layers_block_type"
            raise fields.bad_field(name, list(kinds), Words("a layer of attention or Mamba"))
        attention, mamba = _attention_spec(fields), None
        if "mamba" in kinds:
            mamba = _mamba_spec(fields)
        feeds = {kind: _FEEDS[kind](fields) for kind in _FEEDS if kind in kinds}
        mixers = {"mamba": mamba, "attention": attention}
        blocks = (BlockSpec(mixers.get(kind), feeds.get(kind), norms="shared") for kind in kinds)
        head = _mtp_layer_kinds(fields)
        heads = None
        if head == ("attention", "moe") and "moe" in kinds:
            heads = MtpHeadsSpec((BlockSpec(attention, feeds["moe"]),), output="either")
        count = {"num_hidden_layers": len(kinds)}
        eps = fields.number("layer_norm_epsilon", 1e-5)
        model = plain_model(fields.with_values(**count, rms_norm_eps=eps), blocks)
        # transformers uses an output head of the files, whatever the config says of a tied one
        tied = None if fields.ties_embeddings() else False
        return replace(model, tied=tied, heads=heads)

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort tensors by use; the two layers of the MTP head become one block."""
        return super().split_tensors(_join_mtp_layers(tensors), origin)

    def split_heads_file(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a separate file of MTP heads, whose two layers become one block."""
        if not any(_HEAD_LAYER.fullmatch(name) for name in tensors):
            tensors = {
                f"mtp.{n}" if n.startswith("layers.") else n: tensor
                for n, tensor in tensors.items()
            }
        return super().split_heads_file(_join_mtp_layers(tensors), origin)


def _join_mtp_layers(tensors: Mapping[str, T]) -> dict[str, T]:
    """Rename the tensors of an MTP head's second layer, of experts, to those of its first."""
    made = dict[str, T]()
    for name, tensor in tensors.items():
        layer = _HEAD_LAYER.fullmatch(name)
        within = "" if layer is None else layer[3]
        if layer is not None and int(layer[2]) % 2:
            within = re.sub(r"^norm\.", f"{_FEED_NORM}.", within)
        made[name if layer is None else f"{layer[1]}{int(layer[2]) // 2}.{within}"] = tensor
    return made


def _layer_kinds(fields: ConfigFields, pattern: str, *list_names: str) -> tuple[Kind, ...]:
    """Read kinds of layers from a pattern such as "M-M*" or from a list; empty where absent."""
    named = next((name for name in list_names if fields.has(name)), pattern)
    if not fields.has(named):
        return ()
    signs = fields.string(pattern, "") if named == pattern else fields.strings(named)
    known = _SIGNS if named == pattern else _KINDS
    if not set(signs) <= {*known}:
        raise fields.bad_field(
            named, signs, Words("one of {known} for each layer", known=" ".join(known))
        )
    return tuple(known[sign] for sign in signs)


def _mtp_layer_kinds(fields: ConfigFields) -> tuple[Kind, ...]:
    found = _layer_kinds(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    return found or ("attention", "moe")


def _attention_spec(fields: ConfigFields) -> AttentionSpec:
    head = fields.count("attention_head_dim", 128)
    named = fields.with_defaults(head_dim=head)
    return replace(plain_attention(named), rope=None)


def _mamba_spec(fields: ConfigFields) -> Mamba2Spec:
    heads = fields.count("mamba_num_heads", 128, maximum=2**16)
    bias = fields.flag("use_bias", default=fields.flag("mamba_proj_bias", default=False))
    return mamba_spec(
        fields.with_values(
            mamba_n_heads=heads,
            mamba_d_ssm=heads * fields.count("mamba_head_dim", 64, maximum=2**14),
            mamba_n_groups=fields.count("n_groups", 8),
            mamba_d_state=fields.count("ssm_state_size", 128, maximum=2**16),
            mamba_d_conv=fields.count("conv_kernel", 4, maximum=2**10),
            mamba_conv_bias=fields.flag("use_conv_bias", default=True),
            mamba_proj_bias=bias,
        )
    )


def _ungated_feed_forward(fields: ConfigFields, inner_size: int) -> FeedForwardSpec:
    activation = read_activation(fields, "relu2", "mlp_hidden_act")
    bias = fields.flag("mlp_bias", default=False)
    return FeedForwardSpec(inner_size, activation, bias=bias, gated=False)


def _dense_feed_forward(fields: ConfigFields) -> FeedForwardSpec:
    return _ungated_feed_forward(fields, fields.count("intermediate_size"))


def _experts_spec(fields: ConfigFields) -> ExpertsSpec:
    count = fields.count("n_routed_experts", maximum=2**16)
    groups = fields.count("n_group", 1)
    fields.with_values(n_group=groups).require_multiple("n_routed_experts", "n_group")
    shared = None
    if fields.count("n_shared_experts", 1, minimum=0):
        shared = _ungated_feed_forward(fields, fields.count("moe_shared_expert_intermediate_size"))
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 2, maximum=count),
        feed=replace(
            _ungated_feed_forward(fields, fields.count("moe_intermediate_size")), bias=False
        ),
        score="sigmoid",
        choice_bias=True,
        float32_router=True,
        groups=groups,
        kept_groups=fields.count("topk_group", 1, maximum=groups),
        normalise=fields.flag("norm_topk_prob", default=True),
        least_sum=1e-20,
        scale=fields.number("routed_scaling_factor", 1.0),
        shared=shared,
        latent=fields.count("moe_latent_size", 0, minimum=0),
    )


_FEEDS: Mapping[Kind, Callable[[ConfigFields], FeedForwardSpec | ExpertsSpec]] = {
    "mlp": _dense_feed_forward,
    "moe": _experts_spec,
}
