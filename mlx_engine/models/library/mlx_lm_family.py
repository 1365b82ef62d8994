"""Family of models that run in mlx-lm's model classes, described without importing mlx-lm.

Tensors are left to the class and its `sanitize`, except MTP heads, which are not run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import Family, ModelSizes, TensorParts
from mlx_engine.models.layer_specs import LEAST_GROUP, CacheSize
from mlx_engine.models.library.class_fields import FIXED, class_fields
from mlx_engine.models.tensor_names import (
    is_head_tensor,
    mtp_layer_numbers,
    strip_prefixes,
    why_unneeded,
)
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.memory_plan import WorkSize
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from mlx_engine.models.contract import Model
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")

_ANOTHER_NAME = {
    "llava": "mistral3",
    "phi-msft": "phixtral",
    "falcon_mamba": "mamba",
    "minimax_m2": "minimax",
    "hunyuan_v1_moe": "hunyuan",
    "gemma3n_text": "gemma3n",
}
"""Types that share the module of another; as mlx-lm 0.32.2 has it."""

_WRAPPED = {"gemma3n": "model.language_model."}
"""Modules of wholes that run text alone: what they have before names of the text model."""

_IN_TRAINING_ALONE = {"altup_coef_clip": inf}
"""What Gemma 3n's class clips coefficients by in any pass."""

_NO_MODELS = frozenset(
    (
        "__init__",
        "activations",
        "base",
        "bitlinear_layers",
        "cache",
        "gated_delta",
        "mla",
        "phi3small",
        "pipeline",
        "rope_utils",
        "ssm",
        "switch_layers",
    )
)
"""Modules that hold parts of models, and one that writes beyond its arrays and sees what comes."""

_ALIASES = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim", "hidden_dim"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "num_query_heads"),
    "num_key_value_heads": ("n_kv_heads", "num_kv_heads", "num_attention_groups"),
    "max_position_embeddings": (
        *("n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "max_context_length"),
    ),
}
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "moe_top_k")
_RECUR = ("conv", "mamba", "recurrent", "linear_attention", "mlp", "moe")
"""Kinds of layers whose state, if they have one, does not grow with the text."""

_WINDOW_UNKNOWN = {
    "phimoe": ("sliding_window",),
    "llama4_text": ("attention_chunk_size", "floor_scale"),
}
"""Types whose windows and scales of long texts mlx-lm's classes do not know: right up to there."""

_CONTEXT = 4096
"""Taken where a config does not say how far its model reaches."""

_RENAMED = {
    "laguna": {".shared_experts.": ".shared_expert."},
    "phimoe": {".mlp.router.": ".block_sparse_moe.gate.", ".mlp.": ".block_sparse_moe."},
    "llama4_text": {"lm_head.": "output."},
}
"""By type: parts of names that transformers 5 writes otherwise than classes of mlx-lm have them."""

_TIED = "tie_word_embeddings"


def mlx_lm_module_name(model_type: str) -> str | None:
    """Name of the module in `mlx_lm.models` that runs a model type; None if there is none."""
    name = _ANOTHER_NAME.get(model_type, model_type)
    return name if name in _mlx_lm_modules() else None


@cache
def _mlx_lm_modules() -> frozenset[str]:
    spec = find_spec("mlx_lm")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [path for folder in folders or () for path in Path(folder, "models").glob("*.py")]
    return frozenset(path.stem for path in files) - _NO_MODELS


class MlxLmFamily(Family):
    """Model types that only mlx-lm has a class for; MTP heads, if any, are not run.

    Of a multimodal model without a class of its own, the text part is run.
    """

    def __init__(self, model_type: str, config: Mapping[str, object], origin: str) -> None:
        super().__init__(model_type, config, origin)
        module, self._prefix = mlx_lm_module_name(model_type), ""  # as the files have it
        if module in _WRAPPED:
            text = _flat_config(config, origin) | _IN_TRAINING_ALONE
            self.model_type, self._prefix = module, _WRAPPED[module]
            self.config = {"model_type": module, "text_config": text}
        elif "text_config" in config and config.get("model_type") != model_type:
            self._prefix = "model."
            self.config = _flat_config(config, origin) | {"model_type": model_type}

    def compute_sizes(self) -> ModelSizes:
        """Compute the model's sizes from its config; raises BadModelFile for a bad field."""
        flat = _flat_config(self.config, self.origin)
        for name, others in _ALIASES.items():
            found = (flat[other] for other in others if flat.get(other) is not None)
            value = flat.setdefault(name, next(found, None))
            if isinstance(value, list) and all(isinstance(one, int) for one in value):
                flat[name] = max(value, default=0)  # OpenELM's layers differ
        fields = ConfigFields(flat, self.origin)
        blocks = fields.strings("layers_block_type")
        layers = fields.layers(len(blocks) or None)
        kinds = (fields.strings("layer_types") or blocks)[:layers]
        attend = sum(kind not in _RECUR for kind in kinds) if kinds else layers
        context = fields.count("max_position_embeddings", _CONTEXT, minimum=8)
        for window in filter(fields.has, _WINDOW_UNKNOWN.get(self.model_type, ())):
            context = min(context, fields.count(window, minimum=8))
        return ModelSizes(
            layers=layers,
            hidden_size=fields.count("hidden_size"),
            vocabulary=fields.count("vocab_size"),
            context_length=context,
            promised_heads=_configured_mtp_heads(fields),
            cache=CacheSize(
                attend * _cache_elements_per_token(fields),
                attend * _cache_elements_per_token(fields) // LEAST_GROUP,
            ),
            active_expert_share=_active_expert_share(fields),
            work=WorkSize(
                2 * _widest_feed_forward(fields),
                fields.count("num_attention_heads", 1),
                _cache_elements_per_token(fields),
                fields.count("vocab_size"),
            ),
            unpacks=False,
        )

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a model's files into trunk, MTP heads and skipped."""
        del origin
        skipped = {name: tensors[name] for name in tensors if self._is_unneeded_tensor(name)}
        tensors = {
            _text_model_name(name, self._prefix) if self._prefix else name: tensors[name]
            for name in tensors
            if name not in skipped
        }
        layers, bare = self.compute_sizes().layers, {name: strip_prefixes(name) for name in tensors}
        behind = mtp_layer_numbers(bare.values())
        heads = {n: tensors[n] for n in tensors if is_head_tensor(bare[n], layers, behind)}
        trunk = {
            self._library_tensor_name(n): tensor for n, tensor in tensors.items() if n not in heads
        }
        return TensorParts(trunk, heads, skipped)

    def _is_unneeded_tensor(self, name: str) -> bool:
        is_copy = self.model_type in _WRAPPED and strip_prefixes(name).startswith("lm_head.")
        return is_copy or why_unneeded(name) is not None

    def _library_tensor_name(self, name: str) -> str:
        for theirs, its in _RENAMED.get(self.model_type, {}).items():
            name = name.replace(theirs, its)
        return name

    def size_group(self, trunk_name: str) -> str:
        """Group of a trunk tensor in a model's size table: "attention", "experts" and so on."""
        name = trunk_name
        if "embed_tokens." in name or ".wte." in name:
            return "embedding"
        if name.startswith("lm_head."):
            return "output head"
        if name.endswith(("norm.weight", "norm.bias")):
            return "norms"
        if any(part in name for part in (".experts.", ".switch_mlp.", ".moe.")):
            return "experts"
        if "attn." in name or "attention." in name:
            return "attention"
        return "mlp" if ".mlp." in name or ".block_sparse_moe." in name else "other"

    def build(self, trunk: WeightTable, head_weights: WeightTable | None) -> Model:
        """Build the model from its tensors; raises UnsupportedModel if mlx-lm has no class."""
        from mlx_engine.models.library.model import build_class, wrap_mlx_lm_model
        from mlx_engine.models.library.rotation import use_engine_rope

        assert head_weights is None
        module, origin = mlx_lm_module_name(self.model_type), trunk.origin
        if module is None:
            raise UnsupportedModel(
                "{origin}: mlx-lm has no class for model_type {model_type}.",
                origin=origin,
                model_type=repr(self.model_type),
            )
        fields = class_fields(
            _with_untied_head(trunk.untaken_names, self.config), self._class_type(), self.origin
        )
        model = build_class(module, fields, trunk)
        return wrap_mlx_lm_model(model, origin, use_engine_rope(model, fields, self.origin))

    def _class_type(self) -> str:
        """Model type whose mlx-lm class reads the config: for wrappers the text part's."""
        text = self.config.get("text_config")
        inner = text.get("model_type") if isinstance(text, Mapping) else None
        return inner if self.model_type not in FIXED and isinstance(inner, str) else self.model_type


def _with_untied_head(names: Collection[str], config: Mapping[str, object]) -> Mapping[str, object]:
    """Set tie_word_embeddings to false in a config without it if the files have an output head."""
    has_head = any(name.startswith("lm_head.") for name in names)
    is_silent = config.get(_TIED) is None and "text_config" not in config
    return {**config, _TIED: False} if has_head and is_silent else config


def _flat_config(config: Mapping[str, object], origin: str) -> dict[str, object]:
    """Merge a config's `text_config` into its outer level; returns a new dict without nulls."""
    ConfigFields(config, origin)  # refuses what is no object
    text = config.get("text_config")
    inner = text if isinstance(text, Mapping) else {}
    given = {name: value for name, value in {**config, **inner}.items() if value is not None}
    given.pop("text_config", None)
    return given


def _text_model_name(name: str, prefix: str) -> str:
    """Rename a tensor of a multimodal model as files of the text model alone call it."""
    bare = strip_prefixes(name)
    return bare if bare.startswith(("lm_head.", "backbone.")) else f"{prefix}{bare}"


def _widest_feed_forward(fields: ConfigFields) -> int:
    """Largest feed-forward width of a model; its config may list one per layer."""
    usual = 4 * fields.count("hidden_size")
    widest = max(fields.per_layer_numbers("intermediate_size"), default=usual)
    if not 0 <= widest < 2**31:
        raise fields.bad_field(
            "intermediate_size", widest, Words("a whole number, or a list of them, below 2**31")
        )
    return int(widest)


def _active_expert_share(fields: ConfigFields) -> float:
    """Share of a layer's experts that process one token, 0 to 1; 1 without experts."""
    experts = next((fields.count(key, minimum=0) for key in _EXPERTS if fields.has(key)), 0)
    chosen = next((fields.count(key, minimum=0) for key in _CHOSEN if fields.has(key)), 0)
    return min(1.0, chosen / experts) if experts and chosen else 1.0


def _configured_mtp_heads(fields: ConfigFields) -> int:
    key = "num_nextn_predict_layers"
    return fields.count(key if fields.has(key) else "mtp_num_hidden_layers", 0, minimum=0)


def _cache_elements_per_token(fields: ConfigFields) -> int:
    if fields.has("kv_lora_rank"):  # latent attention: one latent and one rotated key for all heads
        return fields.count("kv_lora_rank") + fields.count("qk_rope_head_dim")
    heads = fields.count("num_attention_heads", 1)
    kept = fields.count("num_key_value_heads", heads)
    size = fields.count("head_dim", max(1, fields.count("hidden_size") // heads))
    return kept * (size + fields.count("v_head_dim", size))
