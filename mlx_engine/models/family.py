"""Interface of a model family for loading: names, shapes, sizes, canonical values, build."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from mlx_engine.models.layer_specs import CacheSize, Shape, sum_of_sizes
from mlx_engine.models.tensor_recipes import Recipes
from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WorkSize

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Model
    from mlx_engine.models.weights import WeightTable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts(Generic[T]):
    """Tensors sorted by the part that needs them, under canonical names.

    T is whatever the caller has by that name: headers or arrays. skipped: tensors that text does
    not need (vision, a copy of tied embeddings, buffers), under the names of the file. Tensors
    that come in other pieces stand under names of their own, and recipes put them together.
    """

    trunk: dict[str, T]
    head: dict[str, T]
    skipped: dict[str, T]
    trunk_recipes: Recipes = field(default_factory=dict)
    head_recipes: Recipes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes of a model, from its config.

    promised_heads: MTP heads the config claims, true or not. cache: of the trunk. head_caches: of
    each head in order. asked_experts: the share of a layer's experts that one token is sent
    through. packed_cache: why keys and values are kept in 16 bits only. work:
    what a pass takes. unpacks: a small model's matrices are unpacked where there is no Metal.
    """

    layers: int
    hidden_size: int
    vocabulary: int
    context_length: int
    promised_heads: int
    cache: CacheSize
    head_caches: tuple[CacheSize, ...] = ()
    active_expert_share: float = 1.0
    packed_cache: Reason | None = None
    work: WorkSize = field(default_factory=WorkSize)
    unpacks: bool = True

    def of_heads(self, count: int) -> CacheSize:
        """Cache size of `heads` MTP heads."""
        return sum_of_sizes(self.head_caches[:count])


@dataclass(frozen=True, slots=True)
class CanonicalPart:
    """A trunk or a head as the model uses it.

    norm_shift: 0 when the file stored norm weights as w (used as 1 + w), 1 as used, 2 when 1 had
    been added twice. reasons: what had to be put right.
    """

    arrays: dict[str, mx.array]
    norm_shift: int
    reasons: tuple[Reason, ...]


class Family(ABC):
    """The family of one model. Only the last three need MLX, which they import on use.

    config: the whole config.json. Origins name the files in messages, `origin` the config's. All
    raise BadModelFile for files that contradict themselves, UnsupportedModel for sound ones of an
    unknown variant. What is no abstract method is so where heads are not run, and where the trunk
    is checked while it is built.
    """

    def __init__(self, model_type: str, config: Mapping[str, object], origin: str) -> None:
        self.model_type, self.config, self.origin = model_type, config, origin

    @abstractmethod
    def figures(self) -> Figures:
        """Sizes by the config."""

    @abstractmethod
    def split(self, raw: Mapping[str, T], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part."""

    def split_heads_file(self, raw: Mapping[str, T], origin: str) -> Parts[T]:
        """Tensors of a file or folder given for its heads; names may lack the heads' prefix."""
        del origin
        return Parts({}, dict(raw), {})

    def trunk_shapes(self, present: Collection[str]) -> Mapping[str, Shape]:
        """Unpacked shapes of the trunk's tensors; empty where only a built class knows them.

        In the forms these canonical names have, where a tensor may be stored in two ways.
        """
        del present
        return {}

    def head_shapes(self, present: Collection[str]) -> Mapping[str, Shape]:
        """Unpacked shapes of the heads' tensors, some optional; empty where heads are not run."""
        del present
        return {}

    def repeats(self) -> Mapping[str, str]:
        """Matrices of heads that may be copies of a trunk matrix: head's name -> trunk's name."""
        return {}

    def published_name(self, head_name: str) -> str:
        """The name in files of a head's tensor with this canonical name, without prefixes."""
        return head_name

    def missing_heads_hint(self) -> str:
        """A sentence about traces of heads that were dropped from the files."""
        return "there is none in the files"

    @abstractmethod
    def group(self, trunk_name: str) -> str:
        """The tensor group of a trunk tensor, in words for the user."""

    def canonical_trunk(self, raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Values as the model uses them."""
        del origin
        return CanonicalPart(dict(raw), 1, ())

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """The same for heads; trunk_shift: the trunk's norm shift if both are of one file set."""
        raise NotImplementedError("heads of this family are not run")

    @abstractmethod
    def build(self, trunk: WeightTable, head: WeightTable | None) -> Model:
        """The model; raises for tensors that are missing, misshapen or left over."""
