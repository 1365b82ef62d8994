"""What loading asks of a model type that runs through mlx-lm's own class, without MTP heads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import CanonicalPart, Figures, Parts
from mlx_engine.models.mlx_lm_trunk import names
from mlx_engine.models.mlx_lm_trunk.figures import figures_of
from mlx_engine.models.mlx_lm_trunk.model_types import STRUCTURED
from mlx_engine.models.mlx_lm_trunk.text_config import merged_config
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Adapter
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")


class LibraryFamily:
    """The Family (models/family.py) of one model type; its heads, if any, are not run.

    Canonical names are those of mlx-lm's class after its `sanitize`, which is part of `build`: so
    names of the published files are as good, and GGUF files are mapped to the former.
    """

    def __init__(self, model_type: str) -> None:
        self._model_type = model_type
        self._structured = model_type in STRUCTURED

    def figures(self, config: Mapping[str, object], origin: str) -> Figures:
        """Sizes by the config."""
        return figures_of(self._model_type, config, origin)

    def split(self, raw: Mapping[str, T], config: Mapping[str, object], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part; heads are recognised and set aside."""
        layers = self.figures(config, origin).layers
        fields = ConfigFields(merged_config(self._model_type, config, origin), origin)
        tied = fields.flag("tie_word_embeddings", default=False)
        return names.split(
            raw, layers=layers, structured=self._structured, tied=tied, origin=origin
        )

    def split_heads_file(
        self, raw: Mapping[str, T], config: Mapping[str, object], origin: str
    ) -> Parts[T]:
        """All of it: there is no telling heads that are not run from anything else."""
        del config, origin
        return Parts({}, dict(raw), {})

    def trunk_shapes(
        self, config: Mapping[str, object], present: Collection[str], origin: str
    ) -> dict[str, Shape]:
        """None: the trunk is checked while it is built."""
        del config, present, origin
        return {}

    def head_shapes(
        self, config: Mapping[str, object], present: Collection[str], origin: str
    ) -> dict[str, Shape]:
        """None: heads are not run."""
        del config, present, origin
        return {}

    def repeats(self) -> dict[str, str]:
        """None."""
        return {}

    def name_in_files(self, head_name: str) -> str:
        """The same."""
        return head_name

    def sign_of_no_heads(self, config: Mapping[str, object], origin: str) -> str:
        """Whatever a file may call them."""
        del config, origin
        return "there is none in the files"

    def group(self, trunk_name: str) -> str:
        """The tensor group of a trunk tensor."""
        return names.group(trunk_name)

    def canonical_trunk(self, raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """As it is; `build` sees to the rest."""
        del origin
        return CanonicalPart(dict(raw), 1, ())

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """Never called: heads of this family are not run."""
        del raw, origin, trunk_shift
        raise AssertionError("heads of this family are not run")

    def build(
        self, config: Mapping[str, object], trunk: WeightTable, head: WeightTable | None
    ) -> Adapter:
        """The model."""
        from mlx_engine.models.mlx_lm_trunk.make_adapter import trunk_adapter, whole_adapter

        assert head is None
        make = trunk_adapter if self._structured else whole_adapter
        return make(self._model_type, config, trunk)
