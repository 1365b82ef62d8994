"""What an architecture says of its NextN heads: one entry of the table of heads.

Common to all (arXiv 2412.19437, section 2.2): layer N + i of the files, for N layers in the config,
holds head i: enorm, hnorm, eh_proj, one decoder layer, and shared_head.norm. Row k of a head is
eh_proj([enorm(embedding of x_k), hnorm(hidden of k-1)]), the decoder layer, the norm, the output
head; it predicts token k+1. Rows begin with (x_1, h_0); rotation is relative, so row k may stand
at position k-1 of the head's cache. The first head drafts every token, chained on its own states.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.specs import Shape

State = Literal["normed", "residual"]
"""A hidden state after or before the norm that ends trunk or head."""

OWN = {"embed_tokens": "model.embed_tokens", "shared_head.head": "lm_head"}


@dataclass(frozen=True, slots=True)
class HeadDefinition:
    """One architecture's entry.

    promised_by: the config's key for the number of heads. is_embedding_first: order in eh_proj's
    input. trunk_state, chain_state: what a head reads of the trunk, and of itself from the second
    draft on. norm_offset: 1 where norms are stored as w and used as 1 + w. layer: shapes of the
    decoder layer by name, given the names there are, for what may be stored in two forms. own:
    matrices that are trained on their own, or repeat one of the trunk (named behind it), or are
    absent: then the trunk's is taken. The cache is of the kind the decoder layer's class has.
    """

    model_type: str
    promised_by: str
    layer: Callable[[ConfigFields, Mapping[str, object]], dict[str, Shape]]
    is_embedding_first: bool = True
    trunk_state: State = "normed"
    chain_state: State = "normed"
    norm_offset: int = 0
    own: Mapping[str, str] = field(default_factory=lambda: dict(OWN))
