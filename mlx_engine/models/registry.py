"""Which family runs a model_type; families are imported on use."""

from mlx_engine.models.family import Family
from mlx_engine.models.mlx_lm_trunk.model_types import STRUCTURED, module_of
from mlx_engine.values.errors import UnsupportedModel

OWN = ("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next")
"""Types with layers of our own; all others run through mlx-lm's classes."""


def is_known(model_type: object) -> bool:
    """Whether there is a family for this model_type."""
    return isinstance(model_type, str) and (model_type in OWN or module_of(model_type) is not None)


def family_for(model_type: str) -> Family:
    """The family of a config's model_type; UnsupportedModel names those there are."""
    if model_type == "qwen3_next":
        from mlx_engine.models.qwen3_next_family import Qwen3NextFamily

        return Qwen3NextFamily()
    if model_type in OWN:
        from mlx_engine.models.qwen3_5_family import Qwen35Family

        return Qwen35Family()
    if model_type.endswith("_mtp"):
        raise UnsupportedModel(
            f"model_type {model_type!r}: these files hold MTP heads only. Open the model they "
            "belong to and give them as its heads."
        )
    if is_known(model_type):
        from mlx_engine.models.mlx_lm_trunk.family import LibraryFamily

        return LibraryFamily(model_type)
    raise UnsupportedModel(
        f"model_type {ascii(model_type)[:60]} is not one this version runs: "
        f"{', '.join((*OWN, *STRUCTURED))}, and the others that mlx-lm has a class for."
    )
