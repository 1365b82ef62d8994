"""Maps tensor names of published files and MLX conversions to canonical names.

Canonical names are those within the text model: `embed_tokens`, `layers.3.self_attn.q_proj`, `norm`
and `lm_head` for the trunk, `layers.0.join` and the like for the first MTP head. Files add
prefixes, families rename parts (`renames`), and MTP heads are stored under `mtp.` or as layers
behind the trunk's last one.
"""

import re
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from mlx_engine.models.family import TensorParts
from mlx_engine.models.model_spec import CONNECTIONS, ModelSpec
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.words import Words

T = TypeVar("T")
Renames = Mapping[str, str]
"""A family's tensor name within a layer, or a prefix of it up to a dot -> the canonical one."""

_WRAPPERS = re.compile(
    r"(?:(?:language_|text_)?model\.|llm\.|gpt_neox\.|transformer\.|backbone\.)*(h\.(?=\d))?"
)
"""Prefixes of wrapper models before a text model's tensors; `h.` is GPT-2's name of layers."""

_OUTSIDE = r"(?:[a-z_]+\.)*"
"""Any prefix of a tensor name without a layer number in it."""
_UNNEEDED = {
    re.compile(
        rf"{_OUTSIDE}(visual|vision|vision_\w+|multi_modal_projector|mm_projector|vit_large_projector|"
        r"connector|embed_vision|mlp1|image_newline|img_processor|vpm|resampler|aligner|merger|"
        r"projector|image_tower|video_tower|high_res_\w+)(\.|$)|(v|mm)\."
    ): Words("for pictures, which are not read"),
    re.compile(
        rf"{_OUTSIDE}(audio|audio_\w+|speech_\w+|sound_\w+|embed_audio|apm|tts)\."
        r"|(model\.)?encoder\.|a\."
    ): Words("for sound, which is not read"),
    re.compile(
        r".*(\brotary_emb\.(\w+_)?(inv_freq|cos_cached|sin_cached)"
        r"|\.(attention|attn)\.(masked_)?bias"
        r"|\.ple_embedding\.(layer_multipliers|ngram_heads_(vocab_sizes|offsets)))$"
    ): Words("computed from the config"),
    re.compile(r".*attn\.(\w+\.)?(q|k|v|kv|prob|prob_output)_(scale|zero_point)$"): Words(
        "for an 8-bit cache, which is not scaled here"
    ),
    re.compile(r"(.+\.)?(d2t|t2d)$"): Words("for drafts from a smaller vocabulary"),
}
"""Names of tensors, published or as Ollama and llama.cpp have them, not needed for text -> why."""
_LAYER = re.compile(r"layers\.(\d{1,6})\.(.+)")
_HEAD = re.compile(
    r"(?:mtp_layers\.|mtp_block\.|mtp\.|nextn\.)?(?:layers\.)?(?:(\d{1,6})\.)?(?:transformer\.|transformer_layer\.|transformer_block\.|mtp_block\.)?(.+)"
)
_HEAD_TENSOR = re.compile(r"layers\.(\d{1,6})\.(?:eh_proj|enorm|hnorm)\..+")
"""Tensors that join an MTP head's inputs, in a layer that is a head."""

_NUMBERED_HEAD = re.compile(r"^mtp\.(\d{1,6})\.", re.MULTILINE)
"""Numbers of heads that stand under `mtp.` themselves; published files may begin with 1."""

_OF_KEYS = re.compile(r"\.self_attn\.[kv]_(proj|norm)\.")
_LIMITS = ("input_max", "input_min", "output_max", "output_min")
_HEAD_PREFIXES = ("mtp.", "mtp_", "nextn.")
_JOIN = "join.weight"
_GROUPS = (
    ("ngrams", "embedding"),
    ("switch_mlp", "experts"),
    ("linear_attn", "linear attention"),
    ("conv", "short convolutions"),
    ("mamba", "state spaces"),
    ("self_attn", "attention"),
    ("mlp", "mlp"),
)


@dataclass(frozen=True, slots=True)
class HeadNames:
    """How a family's files name the tensors of MTP heads.

    renames: names within a head -> canonical names (join, enorm, hnorm, norm, embed_tokens,
    output). behind_trunk: heads are layers behind the trunk's last one, else they are under `mtp.`.
    numbered: renamed tensors carry the head's number too.
    """

    renames: Renames = field(default_factory=dict)
    behind_trunk: bool = False
    numbered: bool = True


NEXTN_NAMES = HeadNames(
    {
        "eh_proj": "join",
        "shared_head.norm": "norm",
        "shared_head_norm": "norm",
        "shared_head.head": "output",
        "shared_head.output": "output",
    },
    behind_trunk=True,
)
"""Names in MTP heads as DeepSeek-V3 publishes them, and most families after it.

`shared_head_norm`: in heads that mlx-vlm split off.
"""

FINAL_NORM_NAMES = HeadNames(
    {"eh_proj": "join", "shared_head.norm": "norm", "final_layernorm": "norm"}, behind_trunk=True
)
"""Names in MTP heads of Ling and Hy3, whose GGUF files use DeepSeek's."""

MTP_NAMES = HeadNames(
    {
        "fc": "join",
        "pre_fc_norm_embedding": "enorm",
        "pre_fc_norm_hidden": "hnorm",
        "shared_head.head": "output",
        "lm_head": "output",
    },
    numbered=False,
)
"""Names in an MTP head as Qwen3-Next publishes it, and others after it."""

CONNECTION_PARTS = {"fn": "mix.weight", "base": "base", "scale": "scale"}
"""Names of a hyper-connection's tensors in published files -> canonical names."""

CONNECTION_NORMS = ("input_layernorm", "post_attention_layernorm")
"""Names in published files of the norms behind a block's hyper-connections."""

CONNECTION_NAMES = {
    name: f"{connection}.{canonical}"
    for connection, site in zip(CONNECTIONS, ("attn", "ffn"), strict=True)
    for part, canonical in CONNECTION_PARTS.items()
    for name in (f"hc_{site}_{part}", f"{site}_hc.{part}")
} | {
    norm: f"{connection}.norm"
    for connection, norm in zip(CONNECTIONS, CONNECTION_NORMS, strict=True)
}
"""Names of a block's hyper-connections in DeepSeek's files and transformers' -> canonical names."""


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Translates tensor names of one model's files; heads: None where MTP heads are not run."""

    renames: Renames
    heads: HeadNames | None
    spec: ModelSpec

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a model's own files by canonical name: trunk, MTP heads, skipped.

        Heads that are not run keep their names. Raises BadModelFile for duplicates and for layers
        behind the last one that are no MTP heads.
        """
        parts: TensorParts[T] = TensorParts({}, {}, {})
        bare_names, layers = {name: strip_prefixes(name) for name in tensors}, len(self.spec.blocks)
        is_behind = self.heads is None or self.heads.behind_trunk
        head_layers = mtp_layer_numbers(bare_names.values()) if is_behind else set()
        first_head = min(
            map(int, _NUMBERED_HEAD.findall("\n".join(bare_names.values()))), default=0
        )
        for name, tensor in tensors.items():
            bare = bare_names[name]
            if why_unneeded(name):
                parts.skipped[name] = tensor
            elif is_head_tensor(bare, layers, head_layers):
                self._put_head_tensor(parts, name, tensor, origin, first_head)
            elif layer_number(bare) >= layers:
                raise BadModelFile(
                    "{origin}: no place for {name}, the config asks for {layers} layers. The "
                    "config does not belong to these weights.",
                    origin=origin,
                    name=bare,
                    layers=layers,
                )
            elif self.spec.tied and bare.startswith("lm_head.") and not self._is_bias(bare):
                parts.skipped[name] = tensor  # a copy of the embedding
            else:
                _put_tensor(parts.trunk, rename_tensor(bare, self.renames), tensor, origin)
        return parts

    def split_heads_file(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a separate file of MTP heads, whatever numbers and prefixes it uses.

        If any name has a head prefix, only those are heads; else layers with a `join` matrix, or
        unnumbered names if a join is among them. Unnumbered tensors are the first head's.
        """
        parts: TensorParts[T] = TensorParts({}, {}, {})
        prefixed = any(map(_has_head_prefix, map(strip_prefixes, tensors)))
        places = {
            name: self._locate(name)
            for name in tensors
            if not prefixed or strip_prefixes(name).startswith(_HEAD_PREFIXES)
        }
        joined = {place.number for place in places.values() if place.name == _JOIN}
        first = min((number for number in joined if number is not None), default=0)
        wanted = range(first, first + self._head_count)
        lonely = None in joined or prefixed
        for name, tensor in tensors.items():
            place = places.get(name)
            is_wanted = place is not None and (
                lonely if place.number is None else place.number in wanted
            )
            if place is None or not is_wanted or self._is_trunk_copy(name) or why_unneeded(name):
                parts.skipped[name] = tensor
            else:
                number = 0 if place.number is None else place.number - first
                _put_tensor(parts.head, f"layers.{number}.{place.name}", tensor, origin)
        return parts

    def published_tensor_name(self, head_name: str) -> str:
        """Translate an MTP head's canonical tensor name to the files', without prefixes."""
        prefix, number, within = head_name.split(".", 2)
        base, _, kind = within.rpartition(".")
        theirs = {} if self.heads is None else {o: t for t, o in self.heads.renames.items()}
        if base in theirs and self.heads is not None and not self.heads.numbered:
            return f"{theirs[base]}.{kind}"
        return f"{prefix}.{number}.{theirs.get(base, base)}.{kind}"

    def _put_head_tensor(
        self, parts: TensorParts[T], name: str, tensor: T, origin: str, first_head: int
    ) -> None:
        """Put a head's tensor among the heads'; first_head: least number under `mtp.`."""
        if self.heads is None or self.spec.heads is None:
            _put_tensor(parts.head, name, tensor, origin)
            return
        place, prefixed = self._locate(name), strip_prefixes(name).startswith(_HEAD_PREFIXES)
        number = (place.number or 0) - (first_head if prefixed else len(self.spec.blocks))
        if not 0 <= number < self._head_count:
            parts.skipped[name] = tensor  # more heads than are run
        else:
            _put_tensor(parts.head, f"layers.{number}.{place.name}", tensor, origin)

    def _locate(self, name: str) -> "_HeadTensor":
        """Find the MTP head's number in a tensor name (None without one) and the canonical name."""
        found = _HEAD.fullmatch(strip_prefixes(name))
        assert found is not None
        renames = self.heads.renames if self.heads is not None else {}
        within = rename_tensor(found[2], {**self.renames, **renames})
        return _HeadTensor(int(found[1]) if found[1] else None, within)

    @property
    def _head_count(self) -> int:
        return len(self.spec.heads.blocks) if self.spec.heads is not None else 0

    def _is_bias(self, bare_name: str) -> bool:
        """Whether a tensor is the output head's bias, which exists even with tied embeddings."""
        return self.spec.logit_bias and bare_name == "lm_head.bias"

    def _is_trunk_copy(self, name: str) -> bool:
        """Whether a tensor of a heads file is a copy of a trunk tensor that the heads share."""
        heads, bare = self.spec.heads, strip_prefixes(name)
        shares = heads is None or heads.embedding == "trunk"
        return bare.startswith("lm_head.") or (shares and bare.startswith("embed_tokens."))


class _HeadTensor(NamedTuple):
    number: int | None
    name: str


def tensor_group(name: str) -> str:
    """Group that size tables list a canonical trunk tensor under: "embedding", "attention", ..."""
    if name.startswith(("embed_tokens.", "embed_positions.")):
        return "embedding"
    if name.startswith("lm_head."):
        return "output head"
    if name.endswith(("norm.weight", "norm.bias")):
        return "norms"
    return next((words for part, words in _GROUPS if f".{part}." in name), "other")


def why_tensor_skipped(name: str, skipped: Collection[str] = ()) -> str:
    """Explain to the user why loading leaves a tensor out; skipped: all names left out."""
    if (why := why_unneeded(name)) is not None:
        return why
    if strip_prefixes(name).startswith("lm_head."):
        return Words("a copy of the embedding")
    layer = name.partition("self_attn.")[0]
    is_whole = any(other.startswith(layer) and not is_key_value_tensor(other) for other in skipped)
    if is_key_value_tensor(name) and not is_whole:
        return Words("keys of layers that read those of earlier ones")
    if is_clipping_limit(name):
        return Words("limits of rounding that is not done")
    if "mtp.0.main_proj.weight" in skipped:  # DeepSeek-V4-Flash-0731
        return Words("a draft model, offered by this folder's name")
    return Words("more drafting heads than are run")


def is_key_value_tensor(name: str) -> bool:
    """Whether a tensor name is that of an attention layer's key or value projection or norm."""
    return _OF_KEYS.search(name) is not None


def is_clipping_limit(name: str) -> bool:
    """Whether a tensor is a limit for clipping a layer's input or output, from QAT."""
    return name.endswith(_LIMITS)


def rename_tensor(name: str, renames: Renames) -> str:
    """Rename a tensor by the rule with the longest matching prefix that ends at a dot."""
    layer = _LAYER.fullmatch(name)
    if layer is not None:
        return f"layers.{layer[1]}.{rename_tensor(layer[2], renames)}"
    start = name
    while start:
        if start in renames:
            return renames[start] + name.removeprefix(start)
        start = start.rpartition(".")[0]
    return name


def mtp_layer_numbers(bare_names: Iterable[str]) -> set[int]:
    """Numbers of the layers that have tensors which only an MTP head has."""
    return {int(found[1]) for found in map(_HEAD_TENSOR.fullmatch, bare_names) if found}


def is_head_tensor(bare_name: str, layers: int, head_layers: Container[int]) -> bool:
    """Whether a tensor is an MTP head's: under `mtp.`, or in a head layer behind the trunk's."""
    number = layer_number(bare_name)
    return bare_name.startswith(_HEAD_PREFIXES) or (number >= layers and number in head_layers)


def _has_head_prefix(bare_name: str) -> bool:
    """Whether a name has a prefix of MTP heads, but for the block's that mlx-vlm splits off."""
    return bare_name.startswith(_HEAD_PREFIXES) and not bare_name.startswith("mtp_block.")


def layer_number(bare_name: str) -> int:
    """Layer number in a tensor name, -1 for none."""
    found = _LAYER.fullmatch(bare_name)
    return -1 if found is None else int(found[1])


def why_unneeded(name: str) -> Words | None:
    """Explain to the user why text generation does not need a tensor; None where it does."""
    return next((why for pattern, why in _UNNEEDED.items() if pattern.match(name)), None)


def strip_prefixes(name: str) -> str:
    """Remove the prefixes of multimodal and wrapper models from a tensor name."""
    return _WRAPPERS.sub(lambda found: "layers." if found[1] else "", name, count=1)


def _put_tensor(tensors: dict[str, T], name: str, tensor: T, origin: str) -> None:
    if name in tensors:
        raise BadModelFile(
            "{origin}: the tensor {name} is there twice, under two names. Two conversions were "
            "put into one folder: keep one of them.",
            origin=origin,
            name=name,
        )
    tensors[name] = tensor
