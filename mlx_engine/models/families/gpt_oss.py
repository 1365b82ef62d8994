"""gpt-oss (arXiv 2508.10925): attention sinks, biases, a sliding window in every other layer.

Experts are published in MXFP4: `gate_up_proj_blocks` [E, 2 D, G, 16] bytes with scales [E, 2 D, G],
gate and up rows alternating; transformers dequantises them to [E, H, 2 D].
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_recipes import Form, Recipe, Recipes, StoredPiece, StridedRows

_YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
_STORED = re.compile(r"(.+\.switch_mlp)\.(gate_up|down)_proj(_blocks|_scales|_bias|)")
_ENDINGS = {"_blocks": "weight", "_scales": "scales", "_bias": "bias", "": "weight"}
_TURNS: dict[str, StridedRows | None] = {"gate": StridedRows(0, 2), "up": StridedRows(1, 2)}
_FORMS: dict[str, Form] = {"_blocks": "words", "": "transposed"}
_ROWS = {"_blocks": -3, "_scales": -2, "_bias": -1, "": -1}
"""The axis that outputs lie along."""


class GptOss(NativeFamily):
    """gpt-oss (model type `gpt_oss`): attention sinks, experts in MXFP4, sliding windows."""

    renames: ClassVar = {"mlp.router": "mlp.gate", "mlp.experts": "mlp.switch_mlp"}

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        if not fields.has("rope_parameters") and not fields.has("rope_scaling"):
            fields = fields.with_defaults(rope_scaling=_YARN)
        attention = plain_attention(fields, bias="attention_bias", bias_default=True)
        attention = replace(attention, sinks=True)
        limit = fields.number("swiglu_limit", 7.0)
        count = fields.count("num_local_experts", maximum=2**16)
        experts = ExpertsSpec(
            count,
            fields.count("num_experts_per_tok", 4, maximum=count),
            FeedForwardSpec(fields.count("intermediate_size"), "oai", limit, bias=True),
            router_bias=True,
        )
        windows = fields.layer_windows(
            fields.count("sliding_window", 128), lambda layer: layer % 2 == 0
        )
        blocks = (BlockSpec(replace(attention, window=w), experts) for w in windows)
        return plain_model(fields, blocks)

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How gate and up are split from expert stacks in which their rows alternate."""
        recipes: dict[str, Recipe] = {}
        for found in filter(None, map(_STORED.fullmatch, names)):
            name, ending = found[0], found[3]
            turns = {"down": None} if found[2] == "down" else _TURNS
            for part, rows in turns.items():
                piece = StoredPiece(name, rows, _ROWS[ending])
                made = f"{found[1]}.{part}_proj.{_ENDINGS[ending]}"
                recipes[made] = Recipe((piece,), form=_FORMS.get(ending, "stored"))
        return recipes
