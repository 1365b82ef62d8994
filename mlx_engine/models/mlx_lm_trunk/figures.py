"""Sizes of a model by its config, as far as loading and the memory figures need them."""

from collections.abc import Mapping

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import Figures
from mlx_engine.models.mlx_lm_trunk.model_types import STRUCTURED
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config, merged_config
from mlx_engine.models.mlx_lm_trunk.windows import Windows, windows_of
from mlx_engine.models.specs import CacheSize

_ALIASES = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_transformer_layers"),
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("n_kv_heads", "num_kv_heads", "num_attention_groups"),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "max_sequence_length"),
}
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "moe_top_k")
_WINDOW_UNKNOWN = ("gemma2", "starcoder2")
"""Types whose windows mlx-lm's classes do not know: right only as far as the window reaches."""

_CONTEXT = 4096
"""Taken where a config does not say how far its model reaches."""


def figures_of(model_type: str, config: Mapping[str, object], origin: str) -> Figures:
    """BadModelFile names the key that is wrong or missing."""
    flat = (flat_config if model_type in STRUCTURED else merged_config)(model_type, config, origin)
    for name, others in _ALIASES.items():
        found = (flat[other] for other in others if flat.get(other) is not None)
        flat.setdefault(name, next(found, None))
    fields = ConfigFields(flat, origin)
    layers = fields.count("num_hidden_layers")
    windows = windows_of(model_type, fields) if model_type in STRUCTURED else Windows()
    context = fields.count("max_position_embeddings", _CONTEXT, least=8)
    if model_type in _WINDOW_UNKNOWN and fields.has("sliding_window"):
        context = min(context, fields.count("sliding_window", least=8))
    values = _unpacked(fields) if model_type == "deepseek_v2" else _values(fields)
    return Figures(
        layers=layers,
        hidden_size=fields.count("hidden_size"),
        vocabulary=fields.count("vocab_size"),
        context_length=context,
        promised_heads=_promised_heads(fields),
        cache=CacheSize(
            (layers - windows.layers) * values,
            windows.layers * windows.size * _windowed_values(model_type, flat, fields),
        ),
        head_caches=(CacheSize(values),),
        asked_experts=_asked(fields),
    )


def _asked(fields: ConfigFields) -> float:
    """The share of a layer's experts that one token is sent through; 1 where there are none."""
    experts = next((fields.count(key) for key in _EXPERTS if fields.has(key)), 0)
    chosen = next((fields.count(key) for key in _CHOSEN if fields.has(key)), 0)
    return min(1.0, chosen / experts) if experts and chosen else 1.0


def _promised_heads(fields: ConfigFields) -> int:
    key = "num_nextn_predict_layers"
    return fields.count(key if fields.has(key) else "mtp_num_hidden_layers", 0, least=0)


def _unpacked(fields: ConfigFields) -> int:
    """The same for the class of DeepSeek V2, which caches keys and values in place of latents."""
    head = sum(map(fields.count, ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")))
    return fields.count("num_attention_heads") * head


def _values(fields: ConfigFields) -> int:
    """Elements a token adds to an attention layer's cache."""
    if fields.has("kv_lora_rank"):  # latent attention: one latent and one rotated key for all heads
        return fields.count("kv_lora_rank") + fields.count("qk_rope_head_dim")
    heads = fields.count("num_attention_heads", 1)
    kept = fields.count("num_key_value_heads", heads)
    size = fields.count("head_dim", max(1, fields.count("hidden_size") // heads))
    return kept * (size + fields.count("v_head_dim", size))


def _windowed_values(model_type: str, flat: Mapping[str, object], fields: ConfigFields) -> int:
    """The same for a layer with a window, whose heads may be of another kind."""
    if model_type == "mimo_v2_flash":
        size = fields.count("swa_head_dim") + fields.count("swa_v_head_dim")
        return fields.count("swa_num_key_value_heads") * size
    other = flat.get("attention_other_setting")
    if isinstance(other, Mapping):
        kept = other.get("num_attention_groups")
        if not isinstance(kept, int) or isinstance(kept, bool) or kept < 1:
            raise fields.wrong("num_attention_groups", kept, "a whole number from 1 on")
        return 2 * kept * fields.count("head_dim")
    return _values(fields)
