"""Config fields that mlx-lm 0.32.2 reads otherwise than transformers 5.23, by model type.

A class of mlx-lm runs a config if it reads every field that changes the result, or does anyway what
the field says. A test holds these tables against both libraries.
"""

from collections.abc import Mapping
from pathlib import Path

from mlx_engine.models.config_fields import ConfigFields, tables_by_type
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.words import Words

Fields = Mapping[str, object]

_TABLES = tables_by_type(Path(__file__).with_suffix(".json"))

FIXED = _TABLES["fixed"]
"""Model type -> fields with the one value a class runs; a dotted name is of a nested object."""

DEFAULTS = _TABLES["defaults"]
"""Model type -> transformers' defaults of absent fields, where mlx-lm's class has others."""

RENAMED = _TABLES["renamed"]
"""Model type -> field names of mlx-lm's class -> names of the same fields in transformers 5."""

_NULL_MEANS_NONE = ("final_logit_softcapping",)
"""Fields that mean something where they are null, though classes take another default."""

_CHECKS_SCALING = ("hunyuan_v1_dense", "hunyuan_v1_moe", "internlm3")
"""Types whose classes refuse scaling that they do not do; rotation.py does it."""

_NORM_ROTATED = ("llama4", "llama4_text")
"""Types that norm queries and keys once they are rotated, by which no magnitude is left."""

_NORMS_SEVERAL = {
    "deepseek_v32": "norm_topk_prob",
    "glm_moe_dsa": "norm_topk_prob",
    "kimi_linear": "moe_renormalize",
    "nemotron_h": "norm_topk_prob",
}
"""Types whose classes leave the share of a single expert as it is -> the field to make it one."""

_TRAINED = "original_max_position_embeddings"
_OUTER = ("rope_theta", "partial_rotary_factor", _TRAINED)
"""Fields of the rotation that may stand beside the others."""

_SAME: Mapping[str, object] = {
    "swish": "silu",
    "gelu_new": "gelu_pytorch_tanh",
    "gelu_fast": "gelu_pytorch_tanh",
    "gelu_python": "gelu",
    "per-head": True,
}
"""Values -> others that mean the same: activations, and Laguna's gates."""


def class_fields(config: Fields, kind: str, origin: str) -> dict[str, object]:
    """The config as the class of `kind` reads it; UnsupportedModel names a field it would lose.

    What transformers would add is added, the rotation is told by the older fields (rope_theta,
    rope_scaling) too, and so is head_dim. A nested config stays nested.
    """
    fields = ConfigFields(config, origin)
    text = config.get("text_config")
    told = _filled(config, kind, fields)
    if isinstance(text, Mapping):
        told["text_config"] = _filled(text, kind, fields)
        _refuse_lost({**told, **_filled(text, kind, fields)}, kind, origin)
        return told
    if fields.has("num_attention_heads"):
        heads, width = fields.count("num_attention_heads"), fields.count("hidden_size", 1)
        told.setdefault("head_dim", max(1, width // heads))
    _refuse_lost(told, kind, origin)
    return told


def _filled(level: Fields, kind: str, fields: ConfigFields) -> dict[str, object]:
    """One level of a config with everything that the class looks for there."""
    is_whole = "text_config" in level
    default = {"rope_theta": 10000.0} if kind in FIXED else {}
    absent = {} if is_whole else {**default, **DEFAULTS.get(kind, {})}
    scaling = absent.pop("rope_scaling", None)
    given = {n: v for n, v in level.items() if v is not None or n in _NULL_MEANS_NONE}
    told = {**absent, **given}
    if not is_whole or "rope_parameters" in level or "rope_scaling" in level:
        told |= _rotation(told, kind, fields)
        if kind in _CHECKS_SCALING and _kind_of(told.get("rope_scaling")) != "dynamic":
            told.pop("rope_scaling", None)
        told.setdefault("rope_scaling", scaling)
    renamed = RENAMED.get(kind, {}).items()
    told = {new: told[str(old)] for new, old in renamed if old in told} | told
    attention = told.get("attn_config")
    if isinstance(attention, Mapping) and ("rope_parameters" in level or "rope_scaling" in level):
        told["attn_config"] = {**attention, "rope_theta": told["rope_theta"]}  # DBRX's
    if kind == "kimi_linear" and "linear_num_heads" in told:
        told.setdefault("linear_attn_config", _kimi_delta(told, fields))
    kinds = told.get("mlp_layer_types")
    if "first_k_dense_replace" in told and isinstance(kinds, list) and "sparse" in kinds:
        told["first_k_dense_replace"] = kinds.index("sparse")
    return told


def _kimi_delta(told: Fields, fields: ConfigFields) -> dict[str, object]:
    """Kimi Linear's delta layers, which are numbered from 1, as its class looks for them."""
    kinds = fields.words("layer_types")
    full = [number for number, kind in enumerate(kinds, 1) if kind == "full_attention"]
    return {
        "head_dim": told.get("linear_head_dim"),
        "num_heads": told["linear_num_heads"],
        "short_conv_kernel_size": told.get("linear_conv_kernel_dim", 4),
        "full_attn_layers": full,
        "kda_layers": [number for number in range(1, len(kinds) + 1) if number not in full],
    }


def _refuse_lost(told: Fields, kind: str, origin: str) -> None:
    fixed = dict(FIXED.get(kind, {}))
    if kind in _NORMS_SEVERAL and told.get("num_experts_per_tok") == 1:
        fixed[_NORMS_SEVERAL[kind]] = False
        told = {_NORMS_SEVERAL[kind]: True, **told}
    for name, value in fixed.items():
        asked: object = told
        for key in name.split("."):
            asked = asked.get(key, value) if isinstance(asked, Mapping) else value
        if _plain(asked) != _plain(value):
            raise UnsupportedModel(
                "{origin}: asks for {key} {value}, which mlx-lm does not know for this "
                "architecture. Take another model.",
                origin=origin,
                key=name,
                value=ascii(asked)[:40],
            )


def _plain(value: object) -> object:
    """One value for what has several names or forms, as a word for all layers has."""
    if isinstance(value, str):
        return _SAME.get(value, value)
    if isinstance(value, list | tuple):
        parts = list(value)
        return parts[0] if parts and isinstance(parts[0], str) and len({*parts}) == 1 else parts
    return value


def _rotation(told: dict[str, object], kind: str, fields: ConfigFields) -> Fields:
    """The rotation by rope_parameters (transformers 5) and by the older fields, both the same.

    As in transformers: rope_scaling wins over rope_parameters, and what is in there over what is
    beside it, but for the length of texts trained on.
    """
    scaling = told.pop("rope_scaling", None)
    given = _object(scaling or told.get("rope_parameters") or {}, fields)
    outer = {name: told[name] for name in _OUTER if name in told}
    local, longest = told.get("rope_local_base_freq"), told.get("max_position_embeddings")
    if local is not None and "full_attention" not in given:
        given = {"full_attention": given, "sliding_attention": {"rope_theta": local}}
    if told.get("use_qk_norm") is True and kind in _NORM_ROTATED:
        given = {**given, "attention_factor": 1.0}
    if not any(isinstance(one, Mapping) for one in given.values()):
        trained = {_TRAINED: outer[_TRAINED]} if _TRAINED in outer else {}
        made = _of_one_kind({**given, **trained}, outer, longest)  # as Phi-3's configs say it
        return {**_older_fields(made), "rope_parameters": made} if made else {}
    parts = {name: _object(part, fields) for name, part in given.items() if part}
    kinds = {name: _of_one_kind(part, outer, longest) for name, part in parts.items()}
    found = _older_fields(kinds.get("full_attention", {}))
    found.pop("partial_rotary_factor", None)
    if "sliding_attention" in kinds:
        found["rope_local_base_freq"] = kinds["sliding_attention"].get("rope_theta", 1e4)
    return {**found, "rope_parameters": kinds}


def _kind_of(scaling: object) -> object:
    return scaling.get("rope_type") if isinstance(scaling, Mapping) else None


def _of_one_kind(given: Fields, outer: Fields, longest: object) -> dict[str, object]:
    """What is said of one kind of layers, the kind of stretching under both names it has had."""
    told = {name: value for name, value in given.items() if value is not None}
    made = {**outer, **told}
    if made.get("rope_type", made.get("type")) == "yarn" and "factor" not in made:
        made["factor"] = _stretched(made.get(_TRAINED), longest)
    if "rope_type" in made or "type" in made:
        made["type"] = made["rope_type"] = made.get("rope_type", made.get("type"))
    return made


def _stretched(trained: object, longest: object) -> float:
    """By how much a context is, where a config does not say."""
    lengths = [one for one in (longest, trained) if isinstance(one, int | float) and one > 0]
    return lengths[0] / lengths[1] if len(lengths) == 2 else 1.0


def _older_fields(made: Fields) -> dict[str, object]:
    """rope_theta and its like, and rope_scaling if there is any."""
    found = {name: made[name] for name in _OUTER if name in made}
    is_plain = made.get("rope_type", "default") == "default"
    return found if is_plain else {**found, "rope_scaling": dict(made)}


def _object(given: object, fields: ConfigFields) -> Fields:
    if not isinstance(given, Mapping):
        raise fields.wrong("rope_parameters", given, Words("an object"))
    return given
