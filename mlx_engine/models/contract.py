"""What the engine asks of a model family: a trunk, an output head, and perhaps MTP heads."""

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import JointCaches
from mlx_engine.models.kernel_matrices import FewRowMatrix
from mlx_engine.models.layers import Linear
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words


class JointForward(Protocol):
    """Like `forward`, for rows of several conversations, one after the other."""

    def __call__(self, tokens: mx.array, caches: JointCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states [1, T, H]."""


PASSES_OF_ONE = Reason(
    "passes-of-one",
    Words(
        "Chats answered at the same time take turns: this model runs in a class of mlx-lm or "
        "changes its position encoding for long prompts, so that passes cannot be shared."
    ),
)


class MtpHead(Protocol):
    """One MTP head. A row pairs token x_k with the hidden state of position k-1.

    It predicts token k+1. Which hidden state that is (before or after the final norm) is the
    family's business: `Model.forward` returns the one its heads want.
    """

    @property
    def vocabulary(self) -> int:
        """V."""

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for the head; bits: of keys and values, where `packed_cache` is None."""

    def mtp_forward(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """Tokens [1, T] and the hidden states before them [1, T, H] -> the head's states.

        Of several conversations where passes of the model can be joint.
        """

    @property
    def mtp_output(self) -> Linear | None:
        """The matrix that `mtp_logits` ends with, to make cheaper ones of; None where it has none.

        Heads that share it return the same object.
        """

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The head's states [1, T, H] -> logits [1, T, V] of the states' type.

        output: goes in the place of `mtp_output`; its rows need not be as many as V.
        """


class Model(Protocol):
    """A model with a batch of one. T is the number of rows of a pass, H hidden size, V vocabulary.

    A single head drafts further tokens from its own states; where there are more, they take turns:
    the second drafts the second token, and so on.
    """

    @property
    def vocabulary(self) -> int:
        """V."""

    @property
    def hidden_size(self) -> int:
        """H."""

    @property
    def heads(self) -> Sequence[MtpHead]:
        """MTP heads, in order."""

    @property
    def plain_only(self) -> Reason | None:
        """Why nothing can be drafted: caches take whole blocks only; None where drafting works."""

    @property
    def output_rows(self) -> FewRowMatrix | None:
        """The output head for choosing tokens without logits; None where logits are made."""

    @property
    def packed_cache(self) -> Reason | None:
        """Why keys and values of trunk and heads are kept in 16 bits only; None: in any."""

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for the trunk; bits: of keys and values, where `packed_cache` is None."""

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states [1, T, H] as output head and MTP head read them."""

    @property
    def joint(self) -> JointForward | None:
        """One pass over rows of several conversations; None where each needs its own."""

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""


class Headless:
    """A model without MTP heads.

    Logits are always made, by the model's own output head; passes are of one conversation.
    """

    heads: tuple[MtpHead, ...] = ()
    output_rows: FewRowMatrix | None = None
    joint: JointForward | None = None
