"""nanochat: norms without weights, normed embeddings, and RoPE in the opposite direction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import plain_attention, plain_model, read_activation
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.layer_specs import AttentionSpec, Shape
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_recipes import Recipe, Recipes, StoredPiece

if TYPE_CHECKING:
    import mlx.core as mx

_CAP = "final_logit_softcapping"
_WEIGHTS = "norm.weight"


class NanoChat(NativeFamily):
    """nanochat (model type `nanochat`): norms without weights, RoPE in the opposite direction.

    nanochat norms queries and keys after rotation; norming before is equivalent, since rotation
    keeps lengths and the norms have no weights.
    """

    renames: ClassVar = {
        "wte": "embed_tokens",
        "attn": "self_attn",
        "attn.c_q": "self_attn.query_proj",
        "attn.c_k": "self_attn.key_proj",
        "attn.c_v": "self_attn.v_proj",
        "attn.c_proj": "self_attn.o_proj",
        "self_attn.q_proj": "self_attn.query_proj",
        "self_attn.k_proj": "self_attn.key_proj",
        **dict.fromkeys(("mlp.fc1", "mlp.c_fc"), "mlp.up_proj"),
        **dict.fromkeys(("mlp.fc2", "mlp.c_proj"), "mlp.down_proj"),
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = plain_attention(fields, bias="attention_bias")
        assert attention.rope is not None
        rope = replace(attention.rope, magnitude=1.0)
        attention = replace(attention, qk_norm="head", rope=rope)
        inner = fields.count("intermediate_size")
        feed = FeedForwardSpec(inner, read_activation(fields, "relu2"), gated=False)
        is_capped = fields.has(_CAP) or _CAP not in fields
        return replace(
            plain_model(fields, [BlockSpec(attention, feed)] * fields.layers()),
            embed_norm="final",
            tied=False,
            logit_cap=fields.number(_CAP, 15.0) if is_capped else 0.0,
        )

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How query and key matrices are built: halves of heads swapped, to reverse RoPE."""
        listed, mixer = list(names), self.spec.blocks[0].mixer
        assert isinstance(mixer, AttentionSpec)
        size, made = mixer.key_dim // 2, dict[str, Recipe]()
        for stored, ours in (("query_proj", "q_proj"), ("key_proj", "k_proj")):
            heads = mixer.heads if ours == "q_proj" else mixer.kv_heads
            rows = [
                row
                for head in range(heads)
                for half in (2 * head + 1, 2 * head)
                for row in range(half * size, (half + 1) * size)
            ]
            for name in listed:
                if f".self_attn.{stored}." in name:
                    piece = StoredPiece(name, rows, -1 if name.endswith(".bias") else -2)
                    made[name.replace(stored, ours)] = Recipe((piece,))
        return made

    def trunk_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Tensor name -> shape for nanochat's trunk, without norm weights, which no file has."""
        shapes = super().trunk_shapes(stored_names).items()
        return {name: shape for name, shape in shapes if not name.endswith(_WEIGHTS)}

    def convert_stored(self, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Return the trunk's tensors with norm weights of one, which nanochat's files lack."""
        import mlx.core as mx

        shapes = self.spec.tensors().items()
        norms = {name: mx.ones(shape) for name, shape in shapes if name.endswith(_WEIGHTS)}
        return super().convert_stored(tensors) | norms
