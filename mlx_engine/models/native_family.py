"""A family defined by a ModelSpec; all but the config's keys and names is derived from it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from mlx_engine.models.config_fields import ConfigFields, tables_by_type
from mlx_engine.models.family import CanonicalPart, Family, Figures, Parts
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.model_spec import ModelSpec
from mlx_engine.models.norm_shift import apply_norm_shift, norm_shift, norm_shift_reasons
from mlx_engine.models.tensor_names import HeadNames, Renames, TensorNames, group_of
from mlx_engine.models.tensor_recipes import Recipes, expert_recipes

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Model
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")
_TABLES = tables_by_type(Path(__file__).with_name("config_defaults.json"))
"""Tables by model_type: "fixed", fields with the one value that is run; "defaults", what
transformers takes for absent fields where it is not what a family's `_read_spec` takes.
"""

_CONVOLUTIONS = (".conv1d.weight", ".conv.weight")


class NativeFamily(Family):
    """A family on our own layers; family files derive from this class.

    renames: the files' names within a layer where they are not ours (tensor_names.py). head_names:
    how heads are named; None where none are run. norms: "w" for weights used as stored, "1+w" for
    zero-centred ones, "either" where files have one or the other (norm_shift.py).
    """

    renames: ClassVar[Renames] = {}
    head_names: ClassVar[HeadNames | None] = None
    norms: ClassVar[Literal["w", "1+w", "either"]] = "w"

    @cached_property
    def spec(self) -> ModelSpec:
        """The model's spec; raises what `_read_spec` raises."""
        fields = ConfigFields(self.config, self.origin)
        kind = self.model_type.removesuffix("_text")
        fields.require(_TABLES["fixed"].get(kind, {}))
        return self._read_spec(
            fields.with_defaults(**_TABLES["defaults"].get(kind, {}))
        ).without_full_windows()

    @cached_property
    def _names(self) -> TensorNames:
        return TensorNames(self.renames, self.head_names, self.spec)

    @abstractmethod
    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        """The spec of a config; BadModelFile, UnsupportedModel for what cannot run."""

    def recipes(self, names: Iterable[str]) -> Recipes:
        """How tensors are made from stored ones: stacks of experts, parts of joined matrices."""
        return expert_recipes(names)

    def stored(self, raw: Mapping[str, mx.array]) -> dict[str, mx.array]:
        """Values in the layout the model uses, where a recipe cannot say it; lazy.

        Convolutions are [C, K, 1] as MLX has them, [C, 1, K] as Hugging Face has them; decay rates
        are float32.
        """
        import mlx.core as mx

        made = dict(raw)
        for name, array in raw.items():
            if name.endswith(_CONVOLUTIONS) and array.ndim == 3 and array.shape[1] == 1:
                made[name] = array.swapaxes(1, 2)
            elif name.endswith(".A_log"):
                made[name] = array.astype(mx.float32)
        return made

    def expected_norm_shift(self, raw: Mapping[str, mx.array]) -> int | None:
        """For norms of "either" kind: what the rest of the trunk's files suggests."""
        del raw
        return None

    def figures(self) -> Figures:
        """Sizes by the config."""
        spec, heads = self.spec, self.spec.heads
        return Figures(
            layers=len(spec.blocks),
            hidden_size=spec.hidden,
            vocabulary=spec.vocabulary,
            context_length=spec.context,
            promised_heads=self._declared_heads() if heads is None else heads.promised,
            cache=spec.cache,
            head_caches=tuple(block.mixer.cache for block in heads.blocks) if heads else (),
            active_expert_share=spec.active_expert_share,
            packed_cache=spec.packed_cache,
            work=spec.work,
        )

    def split(self, raw: Mapping[str, T], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part."""
        return self._with_recipes(self._names.split(raw, origin))

    def split_heads_file(self, raw: Mapping[str, T], origin: str) -> Parts[T]:
        """Tensors of a file given for its heads."""
        return self._with_recipes(self._names.split_heads_file(raw, origin))

    def trunk_shapes(self, present: Collection[str]) -> Mapping[str, Shape]:
        """Unpacked shapes of the trunk's tensors."""
        return self.spec.tensors(present)

    def head_shapes(self, present: Collection[str]) -> Mapping[str, Shape]:
        """Unpacked shapes of the present heads' tensors, at least of the first."""
        return self.spec.head_tensors(present)

    def repeats(self) -> Mapping[str, str]:
        """Embedding and output head of a head, which may be copies."""
        names = {"embed_tokens": "embed_tokens", "output": "lm_head"}
        return {f"layers.0.{name}": twin for name, twin in names.items()}

    def published_name(self, head_name: str) -> str:
        """The name in published files."""
        return self._names.published(head_name)

    def missing_heads_hint(self) -> str:
        """A sentence about where the heads would be."""
        if self.head_names is not None and self.head_names.behind_trunk:
            return f"layer {len(self.spec.blocks)} has no eh_proj"
        return "no mtp.* tensor is in the files"

    def group(self, trunk_name: str) -> str:
        """The tensor group of a trunk tensor."""
        return group_of(trunk_name)

    def canonical_trunk(self, raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Values as the model uses them."""
        expected = self.expected_norm_shift(raw) if self.norms == "either" else None
        return self._canonical(raw, expected, "model", origin)

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """The heads' values as the model uses them."""
        return self._canonical(raw, trunk_shift, "heads", origin)

    def build(self, trunk: WeightTable, head: WeightTable | None) -> Model:
        """The model with its heads."""
        from mlx_engine.models.decoder import build_decoder

        return build_decoder(self.spec, trunk, head)

    def _declared_heads(self) -> int:
        """Number of heads that a config claims, for a family whose heads are not run."""
        fields = ConfigFields(self.config, self.origin)
        return fields.count("num_nextn_predict_layers", 0, least=0)

    def _with_recipes(self, parts: Parts[T]) -> Parts[T]:
        return replace(
            parts,
            trunk_recipes=self.recipes(parts.trunk),
            head_recipes=self.recipes(parts.head),
        )

    def _canonical(
        self, raw: Mapping[str, mx.array], expected: int | None, part: str, origin: str
    ) -> CanonicalPart:
        arrays = self.stored(raw)
        if self.norms == "w":
            return CanonicalPart(arrays, 1, ())
        shift = norm_shift(arrays, expected, part, origin) if self.norms == "either" else 0
        reasons = norm_shift_reasons(expected, shift, part) if self.norms == "either" else ()
        return CanonicalPart(apply_norm_shift(arrays, shift), shift, reasons)
