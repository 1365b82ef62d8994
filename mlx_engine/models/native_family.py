"""Base of model families that run on the engine's own layers, described by a ModelSpec."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from mlx_engine.models.config_fields import ConfigFields, fields_by_model_type
from mlx_engine.models.family import CanonicalPart, Family, ModelSizes, TensorParts
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.model_spec import ModelSpec
from mlx_engine.models.norm_shift import apply_norm_shift, norm_shift, norm_shift_reasons
from mlx_engine.models.tensor_names import HeadNames, Renames, TensorNames, tensor_group
from mlx_engine.models.tensor_recipes import Recipes, expert_recipes

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Model
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")
_TABLES = fields_by_model_type(Path(__file__).with_name("config_defaults.json"))
"""Tables by model_type: "fixed", fields with the one value that is run; "defaults", what
transformers takes for absent fields where it is not what a family's `_read_spec` takes.
"""

_CONVOLUTIONS = ("conv1d.weight", ".conv.weight")
_USUAL_RENAMES = {"mlp.shared_experts": "mlp.shared_expert"}


class NativeFamily(Family):
    """Base class of model families that run on the engine's own layers instead of mlx-lm.

    renames: tensor names within a layer of the files -> canonical names. head_names: names of MTP
    heads; None where heads are not run. heads_key: config field with the number of heads. norms:
    "w" for norm weights used as stored, "1+w" for zero-centred ones, "either" where files have one
    or the other (norm_shift.py).
    """

    can_widen: ClassVar = True
    renames: ClassVar[Renames] = {}
    head_names: ClassVar[HeadNames | None] = None
    heads_key: ClassVar = "num_nextn_predict_layers"
    norms: ClassVar[Literal["w", "1+w", "either"]] = "w"

    @cached_property
    def spec(self) -> ModelSpec:
        """ModelSpec read from config.json; raises BadModelFile or UnsupportedModel."""
        fields = self._fields
        fields.require(_TABLES["fixed"].get(self._kind, {}))
        return self._read_spec(fields).drop_full_context_windows()

    @property
    def _kind(self) -> str:
        return self.model_type.removesuffix("_text")

    @property
    def _fields(self) -> ConfigFields:
        fields = ConfigFields(self.config, self.origin)
        return fields.with_defaults(**_TABLES["defaults"].get(self._kind, {}))

    @cached_property
    def _names(self) -> TensorNames:
        return TensorNames({**_USUAL_RENAMES, **self.renames}, self.head_names, self.spec)

    @abstractmethod
    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        """Turn the fields of a config.json into a ModelSpec.

        Raises BadModelFile for inconsistent fields and UnsupportedModel for variants that cannot be
        run.
        """

    def tensor_recipes(self, names: Iterable[str]) -> Recipes:
        """Recipes that assemble canonical weights from fused or split tensors of the files."""
        return expert_recipes(names)

    def convert_stored(self, tensors: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Convert stored weights lazily where a recipe cannot.

        Convolutions become [C, K, 1], A_log float32.
        """
        import mlx.core as mx

        made = dict(tensors)
        for name, array in tensors.items():
            if name.endswith(_CONVOLUTIONS) and array.ndim == 3 and array.shape[1] == 1:
                made[name] = array.swapaxes(1, 2)
            elif name.endswith(".A_log"):
                made[name] = array.astype(mx.float32)
        return made

    def expected_norm_shift(self, tensors: Mapping[str, mx.array]) -> int | None:
        """Norm shift that other tensors suggest: 0 for norm weights w, 1 for 1 + w, or None."""
        del tensors
        return None

    def compute_sizes(self) -> ModelSizes:
        """Compute a model's sizes (caches, MTP heads, experts) from its spec."""
        spec, heads = self.spec, self.spec.heads
        return ModelSizes(
            layers=len(spec.blocks),
            hidden_size=spec.hidden,
            vocabulary=spec.vocabulary,
            context_length=spec.context,
            promised_heads=self._fields.count(self.heads_key, 0, 0),
            cache=spec.cache,
            head_caches=tuple(block.cache for block in heads.blocks) if heads else (),
            active_expert_share=spec.active_expert_share,
            packed_cache=spec.packed_cache,
            work=spec.work_size,
        )

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a model's own files by use: trunk, MTP heads and skipped."""
        parts = self._names.split_tensors(tensors, origin)
        tables = {name: part for name, part in parts.trunk.items() if self.stays_on_disk(name)}
        trunk = {name: tensor for name, tensor in parts.trunk.items() if name not in tables}
        return self._with_recipes(replace(parts, trunk=trunk, on_disk=tables))

    def split_heads_file(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a separate file of MTP heads."""
        return self._with_recipes(self._names.split_heads_file(tensors, origin))

    def trunk_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Shapes of the trunk's tensors before quantisation."""
        return self.spec.tensors(stored_names)

    def head_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Shapes of the MTP heads' tensors before quantisation, at least of the first head."""
        return self.spec.head_tensors(stored_names)

    def trunk_copies(self) -> Mapping[str, str]:
        """Map names of the first MTP head's embedding and output to trunk matrices."""
        names = {"embed_tokens": "embed_tokens", "output": "lm_head"}
        return {f"layers.0.{name}": twin for name, twin in names.items()}

    def published_name(self, head_name: str) -> str:
        """Name of an MTP head's tensor in published files, without prefixes."""
        return self._names.published_tensor_name(head_name)

    def missing_heads_hint(self) -> str:
        """Sentence for the user that names the tensors which MTP heads would have."""
        if self.head_names is not None and self.head_names.behind_trunk:
            return f"layer {len(self.spec.blocks)} has no eh_proj"
        return "no mtp.* tensor is in the files"

    def size_group(self, trunk_name: str) -> str:
        """Group that size tables list a trunk tensor under, such as "attention" or "experts"."""
        return tensor_group(trunk_name)

    def canonical_trunk(self, tensors: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Convert the trunk's stored weights to the values that the model computes with."""
        expected = self.expected_norm_shift(tensors) if self.norms == "either" else None
        return self._canonical_weights(tensors, expected, "model", origin)

    def canonical_head(
        self, tensors: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """Convert the MTP heads' stored weights to the values that the model computes with."""
        return self._canonical_weights(tensors, trunk_shift, "heads", origin)

    def build(self, trunk: WeightTable, head_weights: WeightTable | None) -> Model:
        """Build a decoder with its MTP heads from canonical weights."""
        from mlx_engine.models.decoder import build_decoder

        return build_decoder(self.spec, trunk, head_weights)

    def _with_recipes(self, parts: TensorParts[T]) -> TensorParts[T]:
        return replace(
            parts,
            trunk_recipes=self.tensor_recipes(parts.trunk),
            head_recipes=self.tensor_recipes(parts.head),
        )

    def _canonical_weights(
        self, tensors: Mapping[str, mx.array], expected: int | None, tensor_scope: str, origin: str
    ) -> CanonicalPart:
        arrays = self.convert_stored(tensors)
        if self.norms == "w":
            return CanonicalPart(arrays, 1, ())
        shift = norm_shift(arrays, expected, tensor_scope, origin) if self.norms == "either" else 0
        reasons = (
            norm_shift_reasons(expected, shift, tensor_scope) if self.norms == "either" else ()
        )
        return CanonicalPart(apply_norm_shift(arrays, shift), shift, reasons)
