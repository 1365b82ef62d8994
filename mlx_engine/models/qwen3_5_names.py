"""Tensor names and shapes of Qwen3.5 files, Hugging Face and MLX, without MLX."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

from mlx_engine.models.family import Parts, Shape
from mlx_engine.models.qwen3_5_config import Qwen35Config
from mlx_engine.models.stored_forms import expert_recipes
from mlx_engine.values.errors import BadModelFile

T = TypeVar("T")

# Longest first: the first that fits is taken off.
_WRAPPERS = ("model.language_model.", "language_model.model.", "language_model.", "model.")
_VISION = ("model.visual.", "visual.", "vision_tower.", "model.vision_tower.")
_BUFFER = "rotary_emb.inv_freq"
_GROUPS = (
    ("linear_attn", "linear attention"),
    ("self_attn", "attention"),
    ("switch_mlp", "experts"),
)
_SHARED = ("embed_tokens.", "lm_head.")


def _with_recipes(parts: Parts[T]) -> Parts[T]:
    return replace(
        parts,
        trunk_recipes=expert_recipes(parts.trunk),
        head_recipes=expert_recipes(parts.head),
    )


class _Place(NamedTuple):
    part: Literal["trunk", "head", "skipped"]
    name: str


def split(raw: Mapping[str, T], *, tied: bool, origin: str) -> Parts[T]:
    """Tensors of a model by part; tied: the output head is the embedding, a copy is skipped."""
    parts: Parts[T] = Parts({}, {}, {})
    for name, tensor in raw.items():
        place = _place(name)
        if tied and place.part == "trunk" and place.name.startswith("lm_head."):
            place = _Place("skipped", name)
        _put(parts, place, tensor, origin)
    return _with_recipes(parts)


def split_heads_file(raw: Mapping[str, T], origin: str) -> Parts[T]:
    """Tensors of a file given for its heads.

    When any name has the heads' prefix only those are heads; else all are, except copies of what
    heads of this family share with the trunk.
    """
    places = {name: _place(name) for name in raw}
    prefixed = any(place.part == "head" for place in places.values())
    parts: Parts[T] = Parts({}, {}, {})
    for name, place in places.items():
        is_head = place.part == "head" or (
            place.part == "trunk" and not prefixed and not place.name.startswith(_SHARED)
        )
        wanted = _Place("head", place.name) if is_head else _Place("skipped", name)
        _put(parts, wanted, raw[name], origin)
    return _with_recipes(parts)


def shapes(sizes: Qwen35Config) -> Parts[Shape]:
    """Unpacked shapes of every tensor of trunk and head."""
    hidden, vocabulary = sizes.hidden_size, sizes.vocab_size
    trunk: dict[str, Shape] = {
        "embed_tokens.weight": (vocabulary, hidden),
        "norm.weight": (hidden,),
    }
    if not sizes.tie_word_embeddings:
        trunk["lm_head.weight"] = (vocabulary, hidden)
    for layer in range(sizes.num_hidden_layers):
        mixer = _recurrent(sizes) if sizes.is_recurrent(layer) else _attention(sizes)
        mixer |= _experts(sizes) if sizes.has_experts(layer) else _feed_forward(sizes)
        trunk |= {f"layers.{layer}.{name}": shape for name, shape in mixer.items()}
    head: dict[str, Shape] = {
        "fc.weight": (hidden, 2 * hidden),
        "pre_fc_norm_embedding.weight": (hidden,),
        "pre_fc_norm_hidden.weight": (hidden,),
        "norm.weight": (hidden,),
    }
    inner = _experts(sizes) if sizes.experts is not None else _feed_forward(sizes)
    layer_of_head = _attention(sizes) | inner
    head |= {f"layers.0.{name}": shape for name, shape in layer_of_head.items()}
    return Parts(trunk, head, {})


def group(trunk_name: str) -> str:
    """The tensor group of a canonical trunk name."""
    if trunk_name.startswith("embed_tokens."):
        return "embedding"
    if trunk_name.startswith("lm_head."):
        return "output head"
    if trunk_name.endswith("norm.weight"):
        return "norms"
    for part, words in _GROUPS:
        if f".{part}." in trunk_name:
            return words
    return "mlp" if ".mlp." in trunk_name else "other"


def _attention(sizes: Qwen35Config) -> dict[str, Shape]:
    """An attention layer; queries come with a gate of their own width, head by head."""
    hidden, head = sizes.hidden_size, sizes.head_dim
    queries, keys = sizes.num_attention_heads * head, sizes.num_key_value_heads * head
    return {
        "self_attn.q_proj.weight": (2 * queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "self_attn.q_norm.weight": (head,),
        "self_attn.k_norm.weight": (head,),
        **_shell(sizes),
    }


def _recurrent(sizes: Qwen35Config) -> dict[str, Shape]:
    hidden, values = sizes.hidden_size, sizes.value_size
    heads, channels = sizes.linear_num_value_heads, sizes.convolved_size
    return {
        "linear_attn.in_proj_qkv.weight": (channels, hidden),
        "linear_attn.in_proj_z.weight": (values, hidden),
        "linear_attn.in_proj_b.weight": (heads, hidden),
        "linear_attn.in_proj_a.weight": (heads, hidden),
        "linear_attn.out_proj.weight": (hidden, values),
        "linear_attn.conv1d.weight": (channels, sizes.linear_conv_kernel_dim, 1),
        "linear_attn.dt_bias": (heads,),
        "linear_attn.A_log": (heads,),
        "linear_attn.norm.weight": (sizes.linear_value_head_dim,),
        **_shell(sizes),
    }


def _shell(sizes: Qwen35Config) -> dict[str, Shape]:
    """What both kinds of layer have around their mixer."""
    hidden = sizes.hidden_size
    return {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }


def _feed_forward(sizes: Qwen35Config) -> dict[str, Shape]:
    hidden, inner = sizes.hidden_size, sizes.intermediate_size
    return {
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }


def _experts(sizes: Qwen35Config) -> dict[str, Shape]:
    """A router, a stack of experts, and the one that is always asked, behind a gate."""
    assert sizes.experts is not None
    hidden, experts = sizes.hidden_size, sizes.experts
    count, inner, shared = experts.count, experts.size, experts.shared_size
    return {
        "mlp.gate.weight": (count, hidden),
        "mlp.switch_mlp.gate_proj.weight": (count, inner, hidden),
        "mlp.switch_mlp.up_proj.weight": (count, inner, hidden),
        "mlp.switch_mlp.down_proj.weight": (count, hidden, inner),
        "mlp.shared_expert.gate_proj.weight": (shared, hidden),
        "mlp.shared_expert.up_proj.weight": (shared, hidden),
        "mlp.shared_expert.down_proj.weight": (hidden, shared),
        "mlp.shared_expert_gate.weight": (1, hidden),
    }


def _place(name: str) -> _Place:
    if name.startswith(_VISION) or name.endswith(_BUFFER):
        return _Place("skipped", name)
    wrapper = next((prefix for prefix in _WRAPPERS if name.startswith(prefix)), "")
    bare = name.removeprefix(wrapper)
    if bare.startswith("mtp."):
        return _Place("head", bare.removeprefix("mtp."))
    return _Place("trunk", bare)


def _put(parts: Parts[T], place: _Place, tensor: T, origin: str) -> None:
    chosen = {"trunk": parts.trunk, "head": parts.head, "skipped": parts.skipped}[place.part]
    if place.name in chosen:
        raise BadModelFile(
            f"{origin}: the {place.part} tensor {place.name} is there twice, under two names. Two "
            "conversions were put into one folder: keep one of them."
        )
    chosen[place.name] = tensor
