"""What loading asks of the types whose trunk is mlx-lm's and whose heads are NextN layers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import CanonicalPart, Parts
from mlx_engine.models.mlx_lm_trunk.family import LibraryFamily
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config
from mlx_engine.models.nextn.deepseek_v3 import DEEPSEEK_V3
from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.glm4_moe import GLM4_MOE
from mlx_engine.models.nextn.glm4_moe_lite import GLM4_MOE_LITE
from mlx_engine.models.nextn.head_names import HEAD, bare, heads_of_file, with_first_head
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Adapter
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")

DEFINITIONS = {entry.model_type: entry for entry in (GLM4_MOE, GLM4_MOE_LITE, DEEPSEEK_V3)}
"""The table of heads."""


class NextnFamily(LibraryFamily):
    """The Family (models/family.py) of one entry of the table."""

    def __init__(self, definition: HeadDefinition) -> None:
        super().__init__(definition.model_type)
        self._definition = definition

    def split(self, raw: Mapping[str, T], config: Mapping[str, object], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part, the first head under `layers.0`."""
        parts = super().split(raw, config, origin)
        return with_first_head(parts, self.figures(config, origin).layers, origin)

    def split_heads_file(
        self, raw: Mapping[str, T], config: Mapping[str, object], origin: str
    ) -> Parts[T]:
        """Tensors of a file given for its heads, whatever number their layer has."""
        del config
        return heads_of_file(raw, origin)

    def head_shapes(
        self, config: Mapping[str, object], present: Collection[str], origin: str
    ) -> dict[str, Shape]:
        """Those of the first head, in the form that is there."""
        fields = ConfigFields(flat_config(self._definition.model_type, config, origin), origin)
        hidden, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
        names, own = bare(present), [f"{name}.weight" for name in self._definition.own]
        shapes: dict[str, Shape] = {
            "eh_proj.weight": (hidden, 2 * hidden),
            "enorm.weight": (hidden,),
            "hnorm.weight": (hidden,),
            "shared_head.norm.weight": (hidden,),
            **self._definition.layer(fields, names),
            **{name: (vocabulary, hidden) for name in own if name in names},
        }
        return {f"{HEAD}.{name}": shape for name, shape in shapes.items()}

    def repeats(self) -> dict[str, str]:
        """Embedding and output head."""
        return {f"{HEAD}.{name}": twin for name, twin in self._definition.own.items()}

    def sign_of_no_heads(self, config: Mapping[str, object], origin: str) -> str:
        """The layer that has none."""
        return f"layer {self.figures(config, origin).layers} has no eh_proj"

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """As it is, norms with the architecture's offset."""
        del origin, trunk_shift
        offset = self._definition.norm_offset
        if offset == 0:
            return CanonicalPart(dict(raw), 1, ())
        shifted = {
            name: array + offset if name.endswith("norm.weight") else array
            for name, array in raw.items()
        }
        return CanonicalPart(shifted, 1 - offset, ())

    def build(
        self, config: Mapping[str, object], trunk: WeightTable, head: WeightTable | None
    ) -> Adapter:
        """The model with its head."""
        from mlx_engine.models.nextn.adapter import build_nextn

        return build_nextn(self._definition, config, trunk, head)
