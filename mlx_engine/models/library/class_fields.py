"""Config fields that mlx-lm 0.32.2 reads differently than transformers 5.23, by model type.

A class of mlx-lm can run a config if it reads every field that changes the result, or does what the
field says anyway. A test checks the tables against both libraries.
"""

from collections.abc import Mapping
from pathlib import Path

from mlx_engine.models.config_fields import ConfigFields, fields_by_model_type
from mlx_engine.values.errors import UnsupportedModel
from mlx_engine.values.words import Words

Fields = Mapping[str, object]

_TABLES = fields_by_model_type(Path(__file__).with_suffix(".json"))

FIXED = _TABLES["fixed"]
"""Model type -> fields with the one value a class runs; a dotted name is of a nested object."""

DEFAULTS = _TABLES["defaults"]
"""Model type -> transformers' defaults of absent fields, where mlx-lm's class has others."""

_NULL_MEANS_NONE = ("final_logit_softcapping",)
"""Fields that mean something where they are null, though classes take another default."""

_CHECKS_SCALING = ("hunyuan_v1_dense", "hunyuan_v1_moe", "internlm3")
"""Types whose classes refuse scaling that they do not do; rotation.py does it."""

_NORM_ROTATED = ("llama4", "llama4_text")
"""Types that norm queries and keys once they are rotated, by which no magnitude is left."""

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


def class_fields(config: Fields, model_type: str, origin: str) -> dict[str, object]:
    """Return the config as mlx-lm's class for a model type reads it, nested configs included.

    Adds transformers' defaults, head_dim, and RoPE under the older names (rope_theta,
    rope_scaling). Raises UnsupportedModel that names a field the class would ignore.
    """
    fields = ConfigFields(config, origin)
    text = config.get("text_config")
    filled = _fill_absent_fields(config, model_type, fields)
    if isinstance(text, Mapping):
        filled["text_config"] = _fill_absent_fields(text, model_type, fields)
        _check_fixed_values(
            {**filled, **_fill_absent_fields(text, model_type, fields)}, model_type, origin
        )
        return filled
    if fields.has("num_attention_heads"):
        heads, width = fields.count("num_attention_heads"), fields.count("hidden_size", 1)
        filled.setdefault("head_dim", max(1, width // heads))
    _check_fixed_values(filled, model_type, origin)
    return filled


def _fill_absent_fields(
    config_object: Fields, model_type: str, fields: ConfigFields
) -> dict[str, object]:
    """Copy an object of a config, with fields that mlx-lm's class for this model type needs.

    config_object: the outer or `text_config`. Adds defaults of absent fields, RoPE fields in the
    form that the class reads.
    """
    is_whole = "text_config" in config_object
    default = {"rope_theta": 10000.0} if model_type in FIXED else {}
    absent = {} if is_whole else {**default, **DEFAULTS.get(model_type, {})}
    scaling = absent.pop("rope_scaling", None)
    given = {n: v for n, v in config_object.items() if v is not None or n in _NULL_MEANS_NONE}
    filled = {**absent, **given}
    if not is_whole or "rope_parameters" in config_object or "rope_scaling" in config_object:
        filled |= _rotation(filled, model_type, fields)
        if model_type in _CHECKS_SCALING and _rope_type(filled.get("rope_scaling")) != "dynamic":
            filled.pop("rope_scaling", None)
        filled.setdefault("rope_scaling", scaling)
    attention = filled.get("attn_config")
    if isinstance(attention, Mapping) and (
        "rope_parameters" in config_object or "rope_scaling" in config_object
    ):
        filled["attn_config"] = {**attention, "rope_theta": filled["rope_theta"]}  # DBRX's
    return filled


def _check_fixed_values(class_config: Fields, model_type: str, origin: str) -> None:
    for name, value in FIXED.get(model_type, {}).items():
        asked: object = class_config
        for key in name.split("."):
            asked = asked.get(key, value) if isinstance(asked, Mapping) else value
        if _without_synonyms(asked) != _without_synonyms(value):
            raise UnsupportedModel(
                "{origin}: asks for {key} {value}, which mlx-lm does not know for this "
                "architecture. Take another model.",
                origin=origin,
                key=name,
                value=ascii(asked)[:40],
            )


def _without_synonyms(value: object) -> object:
    """Map config values that mean the same to one: synonyms, and lists that repeat one string."""
    if isinstance(value, str):
        return _SAME.get(value, value)
    if isinstance(value, list | tuple):
        parts = list(value)
        return parts[0] if parts and isinstance(parts[0], str) and len({*parts}) == 1 else parts
    return value


def _rotation(class_config: dict[str, object], model_type: str, fields: ConfigFields) -> Fields:
    """RoPE fields of a config in both forms: rope_parameters (transformers 5) and the older ones.

    As in transformers, rope_scaling overrides rope_parameters, and nested fields override outer
    ones, except for the trained length.
    """
    scaling = class_config.pop("rope_scaling", None)
    given = _as_object(scaling or class_config.get("rope_parameters") or {}, fields)
    top_level = {name: class_config[name] for name in _OUTER if name in class_config}
    local, longest = (
        class_config.get("rope_local_base_freq"),
        class_config.get("max_position_embeddings"),
    )
    if local is not None and "full_attention" not in given:
        given = {"full_attention": given, "sliding_attention": {"rope_theta": local}}
    if class_config.get("use_qk_norm") is True and model_type in _NORM_ROTATED:
        given = {**given, "attention_factor": 1.0}
    if not any(isinstance(one, Mapping) for one in given.values()):
        trained = {_TRAINED: top_level[_TRAINED]} if _TRAINED in top_level else {}
        made = _rope_of_layer_type(
            {**given, **trained}, top_level, longest
        )  # as Phi-3's configs say it
        return {**_legacy_rope_fields(made), "rope_parameters": made} if made else {}
    parts = {name: _as_object(part, fields) for name, part in given.items() if part}
    kinds = {name: _rope_of_layer_type(part, top_level, longest) for name, part in parts.items()}
    found = _legacy_rope_fields(kinds.get("full_attention", {}))
    found.pop("partial_rotary_factor", None)
    if "sliding_attention" in kinds:
        found["rope_local_base_freq"] = kinds["sliding_attention"].get("rope_theta", 1e4)
    return {**found, "rope_parameters": kinds}


def _rope_type(scaling: object) -> object:
    return scaling.get("rope_type") if isinstance(scaling, Mapping) else None


def _rope_of_layer_type(
    rope_config: Fields, top_level: Fields, longest_text: object
) -> dict[str, object]:
    """RoPE fields of one layer type, with the scaling type as both `rope_type` and `type`."""
    filled = {name: value for name, value in rope_config.items() if value is not None}
    made = {**top_level, **filled}
    if made.get("rope_type", made.get("type")) == "yarn" and "factor" not in made:
        made["factor"] = _yarn_factor(made.get(_TRAINED), longest_text)
    if "rope_type" in made or "type" in made:
        made["type"] = made["rope_type"] = made.get("rope_type", made.get("type"))
    return made


def _yarn_factor(trained_length: object, longest_text: object) -> float:
    lengths = [
        one for one in (longest_text, trained_length) if isinstance(one, int | float) and one > 0
    ]
    return lengths[0] / lengths[1] if len(lengths) == 2 else 1.0


def _legacy_rope_fields(rope_config: Fields) -> dict[str, object]:
    found = {name: rope_config[name] for name in _OUTER if name in rope_config}
    is_plain = rope_config.get("rope_type", "default") == "default"
    return found if is_plain else {**found, "rope_scaling": dict(rope_config)}


def _as_object(config_value: object, fields: ConfigFields) -> Fields:
    if not isinstance(config_value, Mapping):
        raise fields.bad_field("rope_parameters", config_value, Words("an object"))
    return config_value
