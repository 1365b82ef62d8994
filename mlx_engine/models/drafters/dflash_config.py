"""What a config says of a DFlash draft model."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_KINDS = ("full_attention", "sliding_attention")
_NEWER = ("selector_rank", "conv_kernel_size")
"""Keys of DFlash 2, whose layers have convolutions."""


def is_dflash(config: Mapping[str, object]) -> bool:
    """Told by its own part of the config, which no other kind has."""
    return "dflash_config" in config


@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """Sizes; layers: those of the target whose residuals are read, in the order of the join.

    config: for the rotation. block: rows of a draft, the newest token's included. windows: for each
    layer how many tokens a row sees, None for all. causal: for each layer whether rows of a block
    see only those before them. scale, multiplier: of embeddings and logits; cap: of logits.
    """

    config: Mapping[str, object]
    layers: tuple[int, ...]
    block: int
    mask_token: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_size: int
    eps: float
    vocabulary: int
    windows: tuple[int | None, ...]
    causal: tuple[bool, ...]
    scale: float
    multiplier: float
    cap: float | None

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "DFlashConfig":
        """BadModelFile for a wrong key, UnsupportedModel for variants that are not run."""
        own = config.get("dflash_config")
        flat = {**config, **(own if isinstance(own, Mapping) else {})}
        fields = ConfigFields(flat, origin)
        if any(fields.has(key) for key in _NEWER):
            raise UnsupportedModel(f"{origin}: is a DFlash 2 model, which is not run yet.")
        if fields.flag("attention_bias", default=False):
            raise UnsupportedModel(f"{origin}: attention_bias is not run in DFlash models.")
        count = fields.count("num_hidden_layers")
        kinds = fields.words("layer_types") or (_KINDS[0],) * count
        if len(kinds) != count or not set(kinds) <= set(_KINDS):
            raise fields.wrong("layer_types", list(kinds), "the kind of every layer")
        sliding = [kind == _KINDS[1] for kind in kinds]
        window = fields.count("sliding_window") if any(sliding) else None
        causal = fields.flag("is_causal", default=False) if fields.has("is_causal") else None
        layers = fields.counts("target_layer_ids")
        hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
        vocabulary = fields.count("vocab_size")
        if not layers:
            raise BadModelFile(f"{origin}: the config names no target_layer_ids. Get it again.")
        return DFlashConfig(
            config=flat,
            layers=layers,
            block=fields.count("block_size", 16, least=2, most=256),
            mask_token=fields.count("mask_token_id", least=0, most=vocabulary - 1),
            hidden=hidden,
            inner=fields.count("intermediate_size"),
            heads=heads,
            kv_heads=fields.count("num_key_value_heads", heads),
            head_size=fields.count("head_dim", max(1, hidden // heads)),
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            windows=tuple(window if slides else None for slides in sliding),
            causal=tuple(slides if causal is None else causal for slides in sliding),
            scale=fields.number("input_embedding_scale", 1.0),
            multiplier=fields.number("output_multiplier", 1.0),
            cap=fields.number("final_logit_softcapping", 1.0)
            if fields.has("final_logit_softcapping")
            else None,
        )
