"""Interface of model families for loading: tensor names, shapes, sizes, values, building."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

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
class TensorParts(Generic[T]):
    """Tensors of a model's files by canonical name: those of the trunk, of MTP heads, and skipped.

    T is a tensor's header or array. skipped: tensors that text generation does not need (vision,
    copies of tied embeddings, buffers), by their names in the file. on_disk: parts of embedding
    tables that are not loaded, as single rows are read when needed. Tensors stored fused or split
    keep other names; the recipes assemble them.
    """

    trunk: dict[str, T]
    head: dict[str, T]
    skipped: dict[str, T]
    trunk_recipes: Recipes = field(default_factory=dict)
    head_recipes: Recipes = field(default_factory=dict)
    on_disk: dict[str, T] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes of a model, computed from its config.json: caches, MTP heads, activations of a pass.

    promised_heads: MTP heads that the config declares, whether or not the files have them. cache,
    head_caches: cache sizes of the trunk and of each MTP head. active_expert_share: share of a
    layer's experts that process one token. packed_cache: reason why keys and values stay in 16
    bits. work: memory for activations of a pass. unpacks: small models are dequantised where there
    is no Metal.
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

    def head_cache_size(self, count: int) -> CacheSize:
        """Cache size of the model's first `count` MTP heads together."""
        return sum_of_sizes(self.head_caches[:count])


@dataclass(frozen=True, slots=True)
class CanonicalPart:
    """Weights of a model's trunk or of its MTP heads, with canonical names and values.

    norm_shift: what the file had added to zero-centred norm weights: 0 (w), 1 (1 + w), 2 (added
    twice). reasons: notices about corrected values.
    """

    arrays: dict[str, mx.array]
    norm_shift: int
    reasons: tuple[Reason, ...]


class Family(ABC):
    """Abstract base of model families (architectures), created for one model's config.json.

    config: the whole config.json. origin arguments name files in messages, the attribute the
    config. Methods raise BadModelFile for inconsistent files and UnsupportedModel for variants that
    cannot be run. MLX is imported only by the last three methods. Defaults suit families whose MTP
    heads are not run.

    can_widen: a model that computes in float16 can go on in bfloat16 (`Model.widen`).
    """

    can_widen: ClassVar = False

    def __init__(self, model_type: str, config: Mapping[str, object], origin: str) -> None:
        self.model_type, self.config, self.origin = model_type, config, origin

    @abstractmethod
    def compute_sizes(self) -> ModelSizes:
        """Compute a model's sizes (caches, MTP heads, experts) from its config.json."""

    @abstractmethod
    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a model's own files by use: trunk, MTP heads and skipped."""

    def split_heads_file(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort the tensors of a separate file of MTP heads; names may lack the heads' prefix."""
        del origin
        return TensorParts({}, dict(tensors), {})

    def stays_on_disk(self, name: str) -> bool:
        """Whether a tensor is a part of an embedding table that stays on disk."""
        del name
        return False

    def trunk_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Shapes of the trunk's tensors before quantisation; empty where only mlx-lm knows them.

        stored_names: canonical names in the files, which decide between layouts of a tensor.
        """
        del stored_names
        return {}

    def head_shapes(self, stored_names: Collection[str]) -> Mapping[str, Shape]:
        """Shapes of the MTP heads' tensors before quantisation; empty where no heads are run."""
        del stored_names
        return {}

    def trunk_copies(self) -> Mapping[str, str]:
        """Map names of MTP head matrices to those of trunk matrices they may be copies of."""
        return {}

    def published_name(self, head_name: str) -> str:
        """Name of an MTP head's tensor in published files, without prefixes."""
        return head_name

    def missing_heads_hint(self) -> str:
        """Sentence for the user about how the absence of MTP heads shows in the files."""
        return "there is none in the files"

    @abstractmethod
    def size_group(self, trunk_name: str) -> str:
        """Group that size tables list a trunk tensor under, such as "attention" or "experts"."""

    def canonical_trunk(self, tensors: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Convert the trunk's stored weights to the values that the model computes with."""
        del origin
        return CanonicalPart(dict(tensors), 1, ())

    def canonical_head(
        self, tensors: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """Convert the MTP heads' stored weights to the values that the model computes with.

        trunk_shift: the trunk's norm shift if trunk and heads come from one set of files, else
        None.
        """
        raise NotImplementedError("heads of this family are not run")

    @abstractmethod
    def build(self, trunk: WeightTable, head_weights: WeightTable | None) -> Model:
        """Build a model; raises BadModelFile for weights missing, misshapen or left over."""
