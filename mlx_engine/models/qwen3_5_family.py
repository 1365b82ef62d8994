"""Qwen3.5 dense as loading sees it: one object that gathers its names, figures and build."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from mlx_engine.models import qwen3_5_names
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.family import CanonicalPart, Figures, Parts, Shape
from mlx_engine.models.qwen3_5_config import Qwen35Config

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.contract import Adapter
    from mlx_engine.models.weight_table import WeightTable

T = TypeVar("T")


class Qwen35Family:
    """The Family (models/family.py) of `qwen3_5` and `qwen3_5_text`."""

    def figures(self, config: Mapping[str, object], origin: str) -> Figures:
        """Sizes by the config."""
        sizes, fields = Qwen35Config.read(config, origin), ConfigFields(config, origin)
        layers, experts = sizes.num_hidden_layers, sizes.experts
        recurrent = sum(sizes.is_recurrent(layer) for layer in range(layers))
        state = sizes.value_size * sizes.linear_key_head_dim
        window = (sizes.linear_conv_kernel_dim - 1) * sizes.convolved_size
        return Figures(
            layers=layers,
            attention_layers=layers - recurrent,
            hidden_size=sizes.hidden_size,
            vocabulary=sizes.vocab_size,
            context_length=fields.count("max_position_embeddings", least=8),
            promised_heads=fields.count("mtp_num_hidden_layers", 0, least=0),
            attention_values=2 * sizes.num_key_value_heads * sizes.head_dim,
            state_elements=recurrent * state,
            window_elements=recurrent * window,
            asked_experts=experts.per_token / experts.count if experts else 1.0,
        )

    def split(self, raw: Mapping[str, T], config: Mapping[str, object], origin: str) -> Parts[T]:
        """Tensors of a model's own files by part."""
        tied = Qwen35Config.read(config, origin).tie_word_embeddings
        return qwen3_5_names.split(raw, tied=tied, origin=origin)

    def split_heads_file(self, raw: Mapping[str, T], origin: str) -> Parts[T]:
        """Tensors of a file given for its heads."""
        return qwen3_5_names.split_heads_file(raw, origin)

    def shapes(self, config: Mapping[str, object], origin: str) -> Parts[Shape]:
        """Unpacked shapes of trunk and head."""
        return qwen3_5_names.shapes(Qwen35Config.read(config, origin))

    def head_shapes(
        self, config: Mapping[str, object], present: Collection[str], origin: str
    ) -> dict[str, Shape]:
        """Those of `shapes`: heads of this family come in one form."""
        del present
        return self.shapes(config, origin).head

    def repeats(self) -> dict[str, str]:
        """None."""
        return {}

    def sign_of_no_heads(self, config: Mapping[str, object], origin: str) -> str:
        """Their prefix."""
        del config, origin
        return "no mtp.* tensor is in the files"

    def group(self, trunk_name: str) -> str:
        """The tensor group of a trunk tensor."""
        return qwen3_5_names.group(trunk_name)

    def canonical_trunk(self, raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
        """Values as the model uses them."""
        from mlx_engine.models.qwen3_5_weights import canonical_trunk

        return canonical_trunk(raw, origin)

    def canonical_head(
        self, raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
    ) -> CanonicalPart:
        """The head's values as the model uses them."""
        from mlx_engine.models.qwen3_5_weights import canonical_head

        return canonical_head(raw, origin, trunk_shift)

    def build(
        self, config: Mapping[str, object], trunk: WeightTable, head: WeightTable | None
    ) -> Adapter:
        """The model with its head."""
        from mlx_engine.models.qwen3_5 import build_qwen3_5

        return build_qwen3_5(config, trunk, head)
