"""A config.json as mlx-lm's classes read it: one level, rotation keys under their older names."""

from collections.abc import Mapping

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.mlx_lm_trunk.stretched_periods import UNAWARE, listed_for_unaware
from mlx_engine.models.mlx_lm_trunk.windows import windows_of

_LEFT_OUT: dict[str, dict[str, object]] = {
    "mimo_v2_flash": {"n_shared_experts": None, "routed_scaling_factor": None},
}
_NONE_WHERE_ABSENT = dict.fromkeys(
    ("deepseek_v2", "deepseek_v3", "glm4_moe_lite"), ("q_lora_rank",)
)
"""Keys that say something by being null, for which mlx-lm's class has another default."""

_ROTATION = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings")


def flat_config(model_type: str, config: Mapping[str, object], origin: str) -> dict[str, object]:
    """Text part and whole in one level, as the class of a STRUCTURED type wants it.

    BadModelFile names the first key that is wrong; keys only some classes read are left to them.
    """
    flat = merged_config(model_type, config, origin)
    fields = ConfigFields(flat, origin)
    heads = fields.count("num_attention_heads")
    fields.count("num_key_value_heads", heads)
    fields.number("rms_norm_eps", 1e-6)
    flat["head_dim"] = fields.count("head_dim", max(1, fields.count("hidden_size") // heads))
    windows = windows_of(model_type, fields)
    if model_type in UNAWARE:
        flat["rope_scaling"] = listed_for_unaware(flat, origin)
    if model_type == "deepseek_v2" and flat.get("rope_scaling") is None:
        flat["rope_scaling"] = {"type": "yarn", "rope_type": "yarn", "factor": 1.0}  # always asked
    if model_type == "mimo_v2_flash":
        flat["sliding_window_size"] = windows.size
    return flat


def merged_config(model_type: str, config: Mapping[str, object], origin: str) -> dict[str, object]:
    """Text part and whole in one level, the text part first, with defaults and rotation keys."""
    fields = ConfigFields(config, origin)
    text = config.get("text_config")
    defaults = _LEFT_OUT.get(model_type, {})
    inner = text if isinstance(text, Mapping) else {}
    given = {name: value for name, value in {**config, **inner}.items() if value is not None}
    flat = {**defaults, **given, "model_type": model_type}
    flat.pop("text_config", None)
    for name in _NONE_WHERE_ABSENT.get(model_type, ()):
        flat.setdefault(name, None)
    return flat | _rotation(flat, fields)


def with_rotation(config: Mapping[str, object], origin: str) -> dict[str, object]:
    """The config of another type as it is, with the older rotation keys added."""
    fields = ConfigFields(config, origin)
    found = _rotation(config, fields)
    if fields.has("num_attention_heads") and "text_config" not in config:
        heads, width = fields.count("num_attention_heads"), fields.count("hidden_size", 1)
        found["head_dim"] = max(1, width // heads)
    return {**found, **{name: value for name, value in config.items() if value is not None}}


def _rotation(flat: Mapping[str, object], fields: ConfigFields) -> dict[str, object]:
    """rope_theta, rope_scaling and their like out of rope_parameters (transformers 5)."""
    given = flat.get("rope_parameters")
    if given is None:
        scaling = flat.get("rope_scaling")
        return {"rope_scaling": None if scaling is None else _named_twice(scaling, fields)}
    full = _object(given, fields)
    by_kind = "full_attention" in full
    found = _of_one_kind(full["full_attention"] if by_kind else full, fields)
    if by_kind and "sliding_attention" in full:
        local = _of_one_kind(full["sliding_attention"], fields)
        found["rope_local_base_freq"] = local.get("rope_theta", 1e4)
    return found


def _of_one_kind(given: object, fields: ConfigFields) -> dict[str, object]:
    inner = _object(given, fields)
    found = {name: inner[name] for name in _ROTATION if inner.get(name) is not None}
    return found | {"rope_scaling": _named_twice(inner, fields)}


def _named_twice(given: object, fields: ConfigFields) -> dict[str, object] | None:
    """The kind of stretching under both names it has had; None for no stretching."""
    inner = _object(given, fields)
    kind = inner.get("rope_type", inner.get("type", "default"))
    return None if kind == "default" else {**inner, "type": kind, "rope_type": kind}


def _object(given: object, fields: ConfigFields) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise fields.wrong("rope_parameters", given, "an object")
    return given
