"""Which layers of a model see only the last tokens, told from its config."""

from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields

_EVERY_LAYER = ("mistral", "mixtral", "phi3")
"""Types whose `sliding_window` is for all layers; mlx-lm's classes for them do not know it."""

_MOST_LAYERS = 1000  # they are listed one by one, so a wild number would hang


@dataclass(frozen=True, slots=True)
class Windows:
    """layers: how many have the window; size: tokens a row sees, its own included, 0 for none.

    interval: where every interval-th layer sees everything and the others the window, else 0.
    """

    layers: int = 0
    size: int = 0
    interval: int = 0


def windows_of(model_type: str, fields: ConfigFields) -> Windows:
    """Read from a flat config; BadModelFile names a wrong key."""
    layers = fields.count("num_hidden_layers", most=_MOST_LAYERS)
    types = fields.words("layer_types")
    if model_type in ("gemma3", "gemma3_text"):
        return _by_interval(types, layers, fields)
    if model_type == "mimo_v2_flash":
        size = "sliding_window" if fields.has("sliding_window") else "sliding_window_size"
        return Windows(sum(fields.counts("hybrid_layer_pattern")[:layers]), fields.count(size))
    if model_type in _EVERY_LAYER and not types:
        windowed = fields.has("sliding_window") and fields.flag("use_sliding_window", default=True)
        return Windows(layers, fields.count("sliding_window")) if windowed else Windows()
    if not types and model_type in ("gpt_oss", "step3p5"):
        types = ("sliding_attention", "full_attention") * layers
    sliding = types[:layers].count("sliding_attention")
    return Windows(sliding, fields.count("sliding_window")) if sliding else Windows()


def _by_interval(types: tuple[str, ...], layers: int, fields: ConfigFields) -> Windows:
    """Gemma 3: five layers with the window to one without, or another number."""
    interval = fields.count("sliding_window_pattern", 6)
    if types:
        full = [n for n, kind in enumerate(types) if kind == "full_attention"]
        interval = full[0] + 1 if full else layers + 1
        expected = [
            "sliding_attention" if (n + 1) % interval else "full_attention" for n in range(layers)
        ]
        if list(types) != expected:
            raise fields.wrong("layer_types", list(types), "one full layer at regular intervals")
    sliding = layers - layers // interval
    return Windows(sliding, fields.count("sliding_window"), interval)
