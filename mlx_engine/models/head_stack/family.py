"""What loading asks of the types whose heads each have a decoder layer of the trunk's class."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import CanonicalPart, Figures, Parts
from mlx_engine.models.head_stack import names
from mlx_engine.models.head_stack.definition import StackDefinition
from mlx_engine.models.head_stack.mimo import MIMO
from mlx_engine.models.head_stack.mimo_v2_flash import MIMO_V2_FLASH
from mlx_engine.models.head_stack.step3p5 import STEP3P5
from mlx_engine.models.mlx_lm_trunk.family import LibraryFamily
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config
from mlx_engine.models.specs import CacheSize, Shape

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Adapter
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")

STACKS = {entry.model_type: entry for entry in (MIMO, MIMO_V2_FLASH, STEP3P5)}
"""The table of heads."""

_STORED_AS_W = (".moe.", ".share_expert.")
"""In names of Step's trunk as published, where its norms are stored as w; mlx-lm's are 1 + w."""


class StackFamily(LibraryFamily):
    """The Family (models/family.py) of one entry of the table."""

    def __init__(self, definition: StackDefinition) -> None:
        super().__init__(definition.model_type)
        self._definition = definition

    def figures(self, config: Mapping[str, object], origin: str) -> Figures:
        """Sizes by the config."""
        fields = self._fields(config, origin)
        heads = [self._definition.sizes(fields, n) for n in range(self._definition.most)]
        caches = tuple(
            CacheSize(0, head.window * head.values) if head.window else CacheSize(head.values)
            for head in heads
        )
        return replace(super().figures(config, origin), head_caches=caches)

    def split(self, raw: Mapping[str, T], config: Mapping[str, object], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part."""
        parts, fields = super().split(raw, config, origin), self._fields(config, origin)
        layers, definition = fields.count("num_hidden_layers"), self._definition
        first = layers if definition.is_behind_trunk else 0
        parts = names.heads_of_model(parts, definition, first, origin)
        return names.split_projections(parts, fields) if definition.is_fused else parts

    def split_heads_file(
        self, raw: Mapping[str, T], config: Mapping[str, object], origin: str
    ) -> Parts[T]:
        """Tensors of a file given for its heads."""
        del config
        return names.heads_of_file(raw, self._definition, origin)

    def head_shapes(
        self, config: Mapping[str, object], present: Collection[str], origin: str
    ) -> dict[str, Shape]:
        """Of as many heads as are there, the first in any case."""
        count = 1
        while any(name.startswith(f"layers.{count}.") for name in present):
            count += 1
        return self._shapes(self._fields(config, origin), count)

    def sign_of_no_heads(self, config: Mapping[str, object], origin: str) -> str:
        """Where they would be."""
        if self._definition.is_behind_trunk:
            return f"layer {self.figures(config, origin).layers} has no eh_proj"
        return "no mtp tensor is in the files"

    def canonical_trunk(self, raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """As it is; mlx-lm's class adds what is missing to norms."""
        part = super().canonical_trunk(raw, origin)
        stored_as_w = self._definition.norm_offset and any(
            mark in name and f".mlp{mark}" not in name for name in raw for mark in _STORED_AS_W
        )
        return replace(part, norm_shift=0) if stored_as_w else part

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """The heads' values as the model uses them."""
        if not self._definition.norm_offset:
            return CanonicalPart(dict(raw), 1, ())
        from mlx_engine.models.head_stack.norm_offset import as_used

        return as_used(raw, trunk_shift, origin)

    def build(
        self, config: Mapping[str, object], trunk: WeightTable, head: WeightTable | None
    ) -> Adapter:
        """The model with its heads."""
        from mlx_engine.models.head_stack.adapter import build_stack

        if head is None:
            return super().build(config, trunk, None)
        return build_stack(self._definition, config, trunk, head)

    def _fields(self, config: Mapping[str, object], origin: str) -> ConfigFields:
        return ConfigFields(flat_config(self._definition.model_type, config, origin), origin)

    def _shapes(self, fields: ConfigFields, count: int) -> dict[str, Shape]:
        hidden, vocabulary = fields.count("hidden_size"), fields.count("vocab_size")
        shapes: dict[str, Shape] = {}
        for number in range(count):
            sizes = self._definition.sizes(fields, number)
            own: dict[str, Shape] = {
                "enorm.weight": (hidden,),
                "hnorm.weight": (hidden,),
                "join.weight": (hidden, 2 * hidden),
                "norm.weight": (hidden,),
                **sizes.layer,
            }
            if sizes.has_output:
                own["output.weight"] = (vocabulary, hidden)
            shapes |= {f"layers.{number}.{name}": shape for name, shape in own.items()}
        return shapes
