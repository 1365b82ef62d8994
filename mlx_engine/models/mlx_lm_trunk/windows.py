"""Which layers of a model see only the last tokens, told from its config."""

from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields

_MOST_LAYERS = 1000  # they are listed one by one, so a wild number would hang


@dataclass(frozen=True, slots=True)
class Windows:
    """layers: how many have the window; size: tokens a row sees, its own included, 0 for none."""

    layers: int = 0
    size: int = 0


def windows_of(model_type: str, fields: ConfigFields) -> Windows:
    """Read from a flat config; BadModelFile names a wrong key."""
    layers = fields.count("num_hidden_layers", most=_MOST_LAYERS)
    types = fields.words("layer_types")
    if model_type == "mimo_v2_flash":
        size = "sliding_window" if fields.has("sliding_window") else "sliding_window_size"
        return Windows(sum(fields.counts("hybrid_layer_pattern")[:layers]), fields.count(size))
    if not types and model_type == "step3p5":
        types = ("sliding_attention", "full_attention") * layers
    sliding = types[:layers].count("sliding_attention")
    return Windows(sliding, fields.count("sliding_window")) if sliding else Windows()
