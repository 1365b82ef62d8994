"""What a config says of Gemma 4's assistant."""

from collections.abc import Mapping
from dataclasses import dataclass

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.mlx_lm_trunk.gemma4 import with_head_sizes
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

MODEL_TYPES = ("gemma4_assistant", "gemma4_unified_assistant")

_ROTATIONS: dict[str, dict[str, object]] = {
    "full_attention": {
        "rope_type": "proportional",
        "partial_rotary_factor": 0.25,
        "rope_theta": 1e6,
    },
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
"""What is left out of a config where it is the default."""


@dataclass(frozen=True, slots=True)
class AssistantConfig:
    """Sizes; layer_types: "full_attention" or "sliding_attention" for each layer.

    centroids: clusters of the vocabulary, 0 for a plain output head; chosen: how many are looked
    into. rotations: a config for the rotation of each kind of layer.
    """

    target_hidden: int
    hidden: int
    inner: int
    heads: int
    sliding_size: int
    full_size: int
    eps: float
    vocabulary: int
    layer_types: tuple[str, ...]
    rotations: Mapping[str, Mapping[str, object]]
    centroids: int
    chosen: int

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "AssistantConfig":
        """BadModelFile for a wrong key, UnsupportedModel for variants that are not run."""
        flat = with_head_sizes(config)
        fields = ConfigFields(flat, origin)
        text = flat.get("text_config")
        inner = text if isinstance(text, Mapping) else flat
        if fields.count("hidden_size_per_layer_input", 0, least=0) or fields.flag(
            "enable_moe_block", default=False
        ):
            raise UnsupportedModel(
                f"{origin}: assistants with experts or embeddings of each layer are not run."
            )
        types = fields.words("layer_types")
        unknown = [kind for kind in types if kind not in _ROTATIONS]
        if unknown or len(types) != fields.count("num_hidden_layers"):
            raise fields.wrong("layer_types", list(types), "the kind of every layer")
        size = fields.count("head_dim")
        vocabulary = fields.count("vocab_size")
        ordered = fields.flag("use_ordered_embeddings", default=False)
        centroids = fields.count("num_centroids", 2048) if ordered else 0
        chosen = fields.count("centroid_intermediate_top_k", 32)
        if centroids and (vocabulary % centroids or chosen > centroids):
            raise BadModelFile(
                f"{origin}: {centroids} centroids, {chosen} of them looked into, do not go with a "
                f"vocabulary of {vocabulary}. Get the config again."
            )
        return AssistantConfig(
            target_hidden=fields.count("backbone_hidden_size"),
            hidden=fields.count("hidden_size"),
            inner=fields.count("intermediate_size"),
            heads=fields.count("num_attention_heads"),
            sliding_size=size,
            full_size=fields.count("global_head_dim", size),
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            layer_types=types,
            rotations=_rotations(inner, fields),
            centroids=centroids,
            chosen=chosen,
        )


def _rotations(
    inner: Mapping[str, object], fields: ConfigFields
) -> dict[str, Mapping[str, object]]:
    given = inner.get("rope_parameters")
    if given is None:
        return dict(_ROTATIONS)
    if not isinstance(given, Mapping) or not all(
        isinstance(given.get(kind), Mapping) for kind in _ROTATIONS
    ):
        raise fields.wrong("rope_parameters", given, "an object for each kind of layer")
    return {kind: given[kind] for kind in _ROTATIONS}
