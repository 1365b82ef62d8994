"""Models with layer norms: Command R, StarCoder, Nemotron, StableLM, Phi, GPT-NeoX, GPT-2."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.llama import (
    interleaved_windows,
    plain_attention,
    plain_feed_forward,
    plain_model,
    read_activation,
)
from mlx_engine.models.family import TensorParts
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.model_spec import BlockSpec, ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.tensor_recipes import Recipe, Recipes, StoredPiece, qkv_recipes

T = TypeVar("T")
_HEAD_NORM = re.compile(r"(.+\.self_attn\.[qk])_layernorm\.norms\.\d{1,4}\.weight")


class Cohere(NativeFamily):
    """Command R, Aya (`cohere`), Command R7B and A (`cohere2`): parallel blocks with one norm.

    Logits are scaled. In `cohere2` every fourth layer has full attention without RoPE, the others
    have a sliding window.
    """

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        is_second = self.model_type.startswith("cohere2")
        slides = replace(
            plain_attention(fields, interleaved=True, bias="attention_bias"),
            qk_norm="heads" if fields.flag("use_qk_norm", default=False) else "none",
        )
        full = replace(slides, rope=None) if is_second else slides
        windows = interleaved_windows(fields) if is_second else (None,) * fields.layers()
        mixers = (replace(slides, window=window) if window else full for window in windows)
        feed = plain_feed_forward(fields)
        blocks = (BlockSpec(mixer, feed, norms="shared") for mixer in mixers)
        model = _layer_norm_model(fields, blocks, "layer_norm_eps", has_bias=False)
        return replace(model, logit_scale=fields.number("logit_scale", 0.0625))


class Starcoder2(NativeFamily):
    """StarCoder 2 (`starcoder2`, arXiv 2402.19173): biases, window, ungated feed-forward."""

    renames: ClassVar = {"mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = plain_attention(fields, bias="use_bias", bias_default=True)
        attention = replace(attention, window=fields.window_size(None))
        feed = _ungated_feed_forward(fields, "gelu_pytorch_tanh", has_bias=attention.qkv_bias)
        blocks = [BlockSpec(attention, feed)] * fields.layers()
        return _layer_norm_model(fields, blocks, "norm_epsilon")


class Nemotron(NativeFamily):
    """Nemotron 3, 4, Minitron (`nemotron`, arXiv 2402.16819): ungated squared-ReLU MLP."""

    norms = "1+w"

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = plain_attention(fields, rotated_share=0.5, bias="attention_bias")
        bias = fields.flag("mlp_bias", default=False)
        feed = _ungated_feed_forward(fields, "relu2", has_bias=bias)
        return _layer_norm_model(fields, [BlockSpec(attention, feed)] * fields.layers(), "norm_eps")


class StableLm(NativeFamily):
    """StableLM (`stablelm`, arXiv 2402.17834): Llama with layer norms.

    The 12B model norms each head's queries and keys and has parallel blocks with one norm.
    """

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(
            plain_attention(fields, rotated_share=0.25),
            qkv_bias=fields.flag("use_qkv_bias", default=False),
            qk_norm="heads" if fields.flag("qk_layernorm", default=False) else "none",
        )
        is_parallel = fields.flag("use_parallel_residual", default=False)
        feed = plain_feed_forward(fields)
        block = BlockSpec(attention, feed, norms="shared" if is_parallel else "before")
        return _layer_norm_model(fields, [block] * fields.layers(), "layer_norm_eps")

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How query and key norms are stacked from tensors stored for each attention head."""
        stacks: dict[str, list[StoredPiece]] = {}
        for found in filter(None, map(_HEAD_NORM.fullmatch, names)):
            stacks.setdefault(f"{found[1]}_norm.weight", []).append(StoredPiece(found[0]))
        return {
            name: Recipe(tuple(sorted(pieces, key=_head_number)), is_stack=True)
            for name, pieces in stacks.items()
        }


class Phi(NativeFamily):
    """Phi-1 and Phi-2 (`phi`): parallel blocks with one norm, biases everywhere."""

    renames: ClassVar = {
        "self_attn.dense": "self_attn.o_proj",
        "mlp.fc1": "mlp.up_proj",
        "mlp.fc2": "mlp.down_proj",
        "final_layernorm": "norm",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        attention = replace(
            plain_attention(fields, rotated_share=0.5), qkv_bias=True, out_bias=True
        )
        block = BlockSpec(
            attention, _ungated_feed_forward(fields, "gelu_new", has_bias=True), norms="shared"
        )
        model = _layer_norm_model(fields, [block] * fields.layers(), "layer_norm_eps")
        return replace(model, logit_bias=True)


class _FusedQkvFamily(NativeFamily):
    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        return qkv_recipes(names, self.spec.blocks[0])


class GptNeoX(_FusedQkvFamily):
    """GPT-NeoX and Pythia (`gpt_neox`, arXiv 2204.06745): parallel blocks, fused qkv."""

    renames: ClassVar = {
        "embed_in": "embed_tokens",
        "embed_out": "lm_head",
        "final_layer_norm": "norm",
        "attention.query_key_value": "self_attn.qkv_proj",
        "attention.dense": "self_attn.o_proj",
        "mlp.dense_h_to_4h": "mlp.up_proj",
        "mlp.dense_4h_to_h": "mlp.down_proj",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        fields = fields.with_values(
            rope_theta=fields.number("rotary_emb_base", 10000.0),
            partial_rotary_factor=fields.number("rotary_pct", 0.25),
        )
        fields = fields.with_values(num_key_value_heads=None)
        plain = plain_attention(
            fields, rotated_share=0.25, bias="attention_bias", bias_default=True
        )
        attention = replace(plain, qkv_blocks=plain.heads)
        is_parallel = fields.flag("use_parallel_residual", default=True)
        feed = _ungated_feed_forward(fields, "gelu", has_bias=True)
        block = BlockSpec(attention, feed, norms="parallel" if is_parallel else "before")
        return _layer_norm_model(fields, [block] * fields.layers(), "layer_norm_eps")


class GptBigCode(_FusedQkvFamily):
    """StarCoder, SantaCoder (`gpt_bigcode`, arXiv 2305.06161): learned positions, one key head."""

    renames: ClassVar = {
        "wte": "embed_tokens",
        "wpe": "embed_positions",
        "ln_f": "norm",
        "ln_1": "input_layernorm",
        "ln_2": "post_attention_layernorm",
        "attn.c_attn": "self_attn.qkv_proj",
        "attn.c_proj": "self_attn.o_proj",
        "mlp.c_fc": "mlp.up_proj",
        "mlp.c_proj": "mlp.down_proj",
    }

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        width, longest = fields.count("n_embd"), fields.count("n_positions", 1024, minimum=8)
        is_gpt2 = self.model_type == "gpt2"
        has_one_key = not is_gpt2 and fields.flag("multi_query", default=True)
        fields = fields.with_values(
            hidden_size=width,
            intermediate_size=fields.count("n_inner", 4 * width),
            num_hidden_layers=fields.count("n_layer"),
            num_attention_heads=fields.count("n_head"),
            num_key_value_heads=1 if has_one_key else fields.count("n_head"),
            max_position_embeddings=longest,
        ).with_defaults(tie_word_embeddings=True)
        plain = plain_attention(fields)
        is_scaled = fields.flag("scale_attn_weights", default=True)
        by_layer = fields.flag("scale_attn_by_inverse_layer_idx", default=False)
        feed = _ungated_feed_forward(
            fields, "gelu_pytorch_tanh", has_bias=True, field_name="activation_function"
        )
        blocks = []
        for layer in range(fields.layers()):
            attention = replace(
                plain,
                rope=None,
                qkv_bias=True,
                out_bias=True,
                scale=plain.key_dim ** (-0.5 * is_scaled) / (layer + 1 if by_layer else 1),
                qkv_blocks=1 if has_one_key or is_gpt2 else plain.heads,
            )
            blocks.append(BlockSpec(attention, feed))
        model = _layer_norm_model(fields, blocks, "layer_norm_epsilon")
        return replace(model, positions=longest)


class Gpt2(GptBigCode):
    """GPT-2 (`gpt2`): published matrices are transposed, [inputs, outputs]."""

    renames = GptBigCode.renames | {
        "attn.c_proj": "self_attn.o_stored",
        "mlp.c_fc": "mlp.up_stored",
        "mlp.c_proj": "mlp.down_stored",
    }

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort GPT-2's tensors into trunk, MTP heads and skipped, and mark transposed matrices.

        MLX conversions (names with `model.`) are not transposed.
        """
        parts = super().split_tensors(tensors, origin)
        if any(name.startswith("model.") for name in tensors):
            return parts
        made = parts.trunk_recipes.items()
        return replace(
            parts,
            trunk_recipes={name: _recipe_of_transposed(name, recipe) for name, recipe in made},
        )

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """How GPT-2's matrices are built: fused query/key/value split, transposed ones renamed."""
        listed = list(names)
        made = dict(super().tensor_recipes(listed))
        for name in listed:
            base, found, kind = name.partition("_stored.")
            if found:
                made[f"{base}_proj.{kind}"] = Recipe((StoredPiece(name),))
        return made


def _recipe_of_transposed(name: str, recipe: Recipe) -> Recipe:
    """Change a tensor's recipe to read a matrix that is stored transposed, [inputs, outputs]."""
    if not name.endswith(".weight"):
        return recipe
    pieces = tuple(piece._replace(axis=-1) for piece in recipe.pieces)
    return recipe._replace(pieces=pieces, form="transposed")


def _head_number(piece: StoredPiece) -> int:
    return int(piece.name.split(".")[-2])


def _ungated_feed_forward(
    fields: ConfigFields, default: str, *, has_bias: bool, field_name: str = "hidden_act"
) -> FeedForwardSpec:
    act = read_activation(fields, default, field_name)
    return FeedForwardSpec(fields.count("intermediate_size"), act, bias=has_bias, gated=False)


def _layer_norm_model(
    fields: ConfigFields, blocks: Iterable[BlockSpec], eps: str, *, has_bias: bool = True
) -> ModelSpec:
    model = plain_model(fields, blocks)
    return replace(model, eps=fields.number(eps, 1e-5), norm="layer", norm_bias=has_bias)
