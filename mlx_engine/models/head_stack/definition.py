"""What an architecture says of its heads: one entry of the table of heads.

Row k of a head is join([enorm(embedding of x_k), hnorm(hidden of k-1)]), one decoder layer, a norm,
an output head; it predicts token k+1. Rows begin with (x_1, h_0); rotation is relative, so row k
may stand at position k-1 of the head's cache. Embedding is the trunk's. A single head drafts on
from its own states, several take turns (drafting/chained_mtp_draft.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.specs import Shape

if TYPE_CHECKING:
    from mlx.nn.layers.base import Module

State = Literal["normed", "residual"]
"""A hidden state after or before the norm that ends trunk or head."""


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """One head's decoder layer: shapes by name, and what its cache takes.

    values: elements of keys and values a token adds. window: tokens a row sees, its own included;
    None for all. has_output: the head has an output head of its own, else the trunk's.
    """

    layer: Mapping[str, Shape]
    values: int
    window: int | None = None
    has_output: bool = False


@dataclass(frozen=True, slots=True)
class StackDefinition:
    """One architecture's entry. Its fields are read from a flat config (text_config.py).

    most: how many heads are run. names: finds number and name within a head in a tensor's published
    name. is_behind_trunk: these numbers go on from the trunk's layers. renamed: published names
    within a head to ours. is_fused: queries, keys and values may be published as one matrix.
    trunk_state, chain_state: what a head reads of the trunk, and what it hands on. norm_offset: 1
    where norms are published as w and used as 1 + w. sizes and make_layer: of head i; the module
    takes (x, mask, cache).
    """

    model_type: str
    most: int
    names: str
    renamed: Mapping[str, str]
    is_embedding_first: bool
    trunk_state: State
    chain_state: State
    norm_offset: int
    eps: str
    sizes: Callable[[ConfigFields, int], HeadSizes]
    make_layer: Callable[[Mapping[str, object], int], Module]
    is_behind_trunk: bool = False
    is_fused: bool = False
