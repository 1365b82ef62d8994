"""Protocols of models: a trunk, an output head and, where the files have them, MTP heads."""

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import ConversationCaches
from mlx_engine.models.kernel_matrices import FewRowMatrix
from mlx_engine.models.layers import Linear
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words


class JointForward(Protocol):
    """Protocol of a model's forward pass over rows of several sequences, concatenated along T."""

    def __call__(self, tokens: mx.array, caches: ConversationCaches) -> mx.array:
        """Run the model on int tokens [1, T] of several sequences -> hidden states [1, T, H]."""


PASSES_OF_ONE = Reason(
    "passes-of-one",
    Words("Chats answered at the same time take turns: this model can work on only one at a time."),
)


WAITS_FOR_TOKENS = Reason(
    "waits-for-tokens",
    Words(
        "Each step waits for the one before it: which rows of a table are read from the disk "
        "depends on the tokens of that step."
    ),
)


class MtpHead(Protocol):
    """Protocol of one multi-token-prediction (MTP) head, which drafts tokens for verification.

    Row k pairs token x_k with the trunk's hidden state at position k-1 and predicts token x_{k+1}.
    Whether that hidden state is taken before or after the final norm depends on the family;
    `Model.forward` returns the right one.
    """

    @property
    def vocabulary(self) -> int:
        """Vocabulary size V of an MTP head's logits."""

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create an MTP head's empty KV caches.

        bits: of keys and values, 16 unless the model's `packed_cache` is None.
        """

    def mtp_forward(
        self,
        tokens: mx.array,
        hidden: mx.array,
        caches: LayerCaches | ConversationCaches,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run an MTP head: tokens [1, T], previous hidden states [1, T, H] -> its own [1, T, H].

        Rows may belong to several sequences if the model has a `joint_forward`. pictures: what
        stands in rows of pictures; only for heads of a model with a vision tower.
        """

    @property
    def mtp_output(self) -> Linear | None:
        """An MTP head's output matrix, applied last; None without one. Heads may share it."""

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Hidden states of an MTP head [1, T, H] -> logits [1, T, V] in the hidden states' dtype.

        output: matrix to use instead of `mtp_output`, perhaps with a smaller vocabulary.
        """


class Model(Protocol):
    """Protocol of a language model with batch size one.

    Shapes: T rows in a pass, hidden size H, vocabulary size V. A single MTP head drafts further
    tokens from its own hidden states; of several heads, head n drafts the n-th token.
    """

    @property
    def vocabulary(self) -> int:
        """Vocabulary size V of the model's logits."""

    @property
    def hidden_size(self) -> int:
        """Size H of the model's hidden states."""

    @property
    def heads(self) -> Sequence[MtpHead]:
        """The model's MTP heads in drafting order; empty where it has none."""

    @property
    def why_no_drafts(self) -> Reason | None:
        """Reason why the model cannot verify drafts (caches without rollback); None if it can."""

    @property
    def why_no_lookahead(self) -> Reason | None:
        """Reason why a pass cannot be begun before the host knows its tokens; None if it can."""

    @property
    def output_matrix(self) -> FewRowMatrix | None:
        """Kernels that pick tokens by the output matrix, without logits; None without them."""

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why the model's KV cache stays in 16 bits; None where 8 and 4 bits work too."""

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create the empty caches of the model's layers, without those of MTP heads.

        bits: of keys and values, 16 unless `packed_cache` is None.
        """

    def forward(
        self, tokens: mx.array, caches: LayerCaches, pictures: PictureRows | None = None
    ) -> mx.array:
        """Run the model on int tokens [1, T] -> hidden states [1, T, H] for output and heads.

        pictures: what stands in rows of pictures; only for models with a vision tower.
        """

    @property
    def joint_forward(self) -> JointForward | None:
        """Forward pass over concatenated rows of several sequences; None if unsupported."""

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden states [1, T, H] -> float32 logits [1, T, V]."""

    def switch_to_bfloat16(self) -> bool:
        """Compute in bfloat16 from the next pass on, if in float16; return whether it changes."""


class ModelWithoutMtp:
    """Base class of models without MTP heads, which process one sequence per pass."""

    heads: tuple[MtpHead, ...] = ()
    why_no_lookahead: Reason | None = None
    output_matrix: FewRowMatrix | None = None
    joint_forward: JointForward | None = None

    def switch_to_bfloat16(self) -> bool:
        """Compute in bfloat16 from the next pass on, where that is possible: not here."""
        return False
