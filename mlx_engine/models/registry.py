"""Which family runs a model_type; families are imported on use."""

from mlx_engine.models.family import Family
from mlx_engine.values.errors import UnsupportedModel

SUPPORTED = ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next")


def family_for(model_type: str) -> Family:
    """The family of a config's model_type; UnsupportedModel names those there are."""
    if model_type == "qwen3_next":
        from mlx_engine.models.qwen3_next_family import Qwen3NextFamily

        return Qwen3NextFamily()
    if model_type in SUPPORTED:
        from mlx_engine.models.qwen3_5_family import Qwen35Family

        return Qwen35Family()
    if model_type.endswith("_mtp"):
        raise UnsupportedModel(
            f"model_type {model_type!r}: these files hold MTP heads only. Open the model they "
            "belong to and give them as its heads."
        )
    raise UnsupportedModel(
        f"model_type {model_type!r} is not one this version runs ({', '.join(SUPPORTED)})."
    )
