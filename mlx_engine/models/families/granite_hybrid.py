"""Granite 3 with experts and Granite 4: attention or Mamba-2, routed experts and a shared one.

`granitemoe` has attention everywhere and no shared expert, `granitemoeshared` adds that, and in
`granitemoehybrid` most layers are recurrent; without routed experts the shared one is the
feed-forward.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_feed_forward, plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.recurrent_specs import Mamba2Spec
from mlx_engine.models.tensor_recipes import (
    Recipe,
    Recipes,
    StoredPiece,
    expert_recipes,
    fused_recipes,
)
from mlx_engine.values.words import Words

_KINDS = {"mamba": True, "linear_attention": True, "attention": False, "full_attention": False}
"""Names of kinds of layers in configs -> whether they recur."""


class GraniteHybrid(NativeFamily):
    """Granite with experts (`granitemoe`, `granitemoeshared`), Granite 4 (`granitemoehybrid`)."""

    renames: ClassVar = {
        "block_sparse_moe": "mlp",
        "block_sparse_moe.router": "mlp.gate",
        "block_sparse_moe.router.layer": "mlp.gate",
        "block_sparse_moe.input_linear": "mlp.experts.gate_up_proj",
        "block_sparse_moe.output_linear": "mlp.experts.down_proj",
        "shared_mlp": "mlp.shared_expert",
        "shared_mlp.output_linear": "mlp.shared_expert.down_proj",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        is_hybrid = "granitemoehybrid" in fields.model_types
        recurs = _recurrent_layers(fields) if is_hybrid else [False] * fields.layers()
        mamba = mamba_spec(fields) if any(recurs) else None
        attention, feed = _attention_spec(fields, is_hybrid=is_hybrid), _feed_forward_spec(fields)
        scale = fields.number("residual_multiplier", 1.0)
        blocks = [
            BlockSpec(mamba if mamba and one else attention, feed, residual_scale=scale)
            for one in recurs
        ]
        return replace(
            plain_model(fields, blocks),
            tied=fields.flag("tie_word_embeddings", default=False),
            embed_scale=fields.number("embedding_multiplier", 1.0),
            logit_scale=1 / fields.number("logits_scaling", 1.0),
        )

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How Granite's expert stacks and shared feed-forward, stored fused, are split."""
        listed, feed = list(names), self.spec.blocks[0].feed
        inside = "mlp.shared_expert"
        shared = feed.shared if isinstance(feed, ExpertsSpec) else feed
        ours = inside if isinstance(feed, ExpertsSpec) else "mlp"
        if shared is None:
            return expert_recipes(listed)
        halves = [(f"{ours}.{part}_proj", shared.inner) for part in ("gate", "up")]
        made = expert_recipes(listed) | fused_recipes(listed, f"{inside}.input_linear", halves)
        if isinstance(feed, FeedForwardSpec):
            alone = (n for n in listed if f".{inside}." in n and ".input_linear." not in n)
            made |= {name.replace(inside, ours): Recipe((StoredPiece(name),)) for name in alone}
        return made


def mamba_spec(fields: ConfigFields) -> Mamba2Spec:
    """Read the Mamba-2 spec from a config of Granite 4 or Falcon-H1."""
    heads = fields.count("mamba_n_heads", 128, maximum=2**16)
    expanded = fields.count("mamba_expand", 2, maximum=2**10) * fields.count("hidden_size")
    inner = fields.count("mamba_d_ssm", expanded)
    if inner % heads:
        raise fields.bad_field("mamba_n_heads", heads, f"a divisor of {inner}")
    groups = fields.count("mamba_n_groups", 1)
    if heads % groups:
        raise fields.bad_field("mamba_n_groups", groups, f"a divisor of mamba_n_heads={heads}")
    limits = fields.numbers("time_step_limit") or (0.0, math.inf)
    if len(limits) != 2 or not 0 <= limits[0] <= limits[1]:
        raise fields.bad_field("time_step_limit", list(limits), Words("two numbers that go up"))
    bias = fields.flag("mamba_proj_bias", default=False)
    return Mamba2Spec(
        heads=heads,
        head_dim=inner // heads,
        state=fields.count("mamba_d_state", 256, maximum=2**16),
        groups=groups,
        taps=fields.count("mamba_d_conv", 4, maximum=2**10),
        least_step=limits[0],
        most_step=limits[1],
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        in_bias=bias,
        out_bias=bias,
    )


def _recurrent_layers(fields: ConfigFields) -> list[bool]:
    """List whether each layer is recurrent, by `layer_types`; without that all layers are."""
    kinds = fields.layer_types(*_KINDS) or fields.layer_types(*_KINDS, name="layers_block_type")
    return [_KINDS[kind] for kind in kinds] or [True] * fields.layers()


def _attention_spec(fields: ConfigFields, *, is_hybrid: bool) -> AttentionSpec:
    attention = plain_attention(fields, bias="attention_bias")
    attention = replace(attention, scale=fields.number("attention_multiplier", 1.0))
    turns = not is_hybrid or fields.string("position_embedding_type", "nope") == "rope"
    return attention if turns else replace(attention, rope=None)


def _feed_forward_spec(fields: ConfigFields) -> FeedForwardSpec | ExpertsSpec:
    width = fields.count("shared_intermediate_size", 0, minimum=0)
    shared = plain_feed_forward(fields, width) if width else None
    count = fields.count("num_local_experts", 8, minimum=0, maximum=2**16)
    if not count:
        return shared or plain_feed_forward(fields)
    return ExpertsSpec(
        count=count,
        per_token=fields.count("num_experts_per_tok", 2, maximum=count),
        feed=plain_feed_forward(fields),
        shared=shared,
    )
