"""One MTP head of a decoder: token embedding and previous hidden state -> logits of the next token.

norm(embedding) and norm(hidden) are concatenated and projected; a decoder block, a norm and an
output head follow (DeepSeek-V3, arXiv 2412.19437, section 2.2). A single head drafts further tokens
from its own hidden states; several heads draft one token each (model_spec.MtpHeadsSpec). Families
differ in which hidden state a head reads and passes on: the one after the final norm, or the
residual before it.
"""

import mlx.core as mx

from metal_kernels.mtp_input import Norms
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import JointCaches
from mlx_engine.models import model_spec
from mlx_engine.models.attention import Masks
from mlx_engine.models.blocks import DecoderBlock
from mlx_engine.models.kernel_matrices import FewRowMatrix
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class DecoderHead:
    """MTP head number `number` of a decoder, built from its own and the trunk's weights.

    embedding, norm, output: the trunk's, used where the head has none of its own.
    """

    def __init__(
        self,
        spec: model_spec.ModelSpec,
        number: int,
        part: Part,
        embedding: Embedding,
        norm: Norm,
        output: Linear,
    ) -> None:
        assert spec.heads is not None
        eps = spec.eps
        self.vocabulary = spec.vocabulary
        self._heads, self._stock = spec.heads, part.kernels.stock
        order = ("enorm", "hnorm") if spec.heads.embedding_first else ("hnorm", "enorm")
        self._both_norms = Norm.read_rows(part, dict.fromkeys(order, 1), eps)
        self._join = Linear.read(part, "join")
        first, second = self._both_norms.weight.astype(mx.float32)
        self._norms = Norms(first, second, eps)
        can_join = spec.heads.embedding_first
        matrix = self._join.matrix
        self._joining = FewRowMatrix.of(matrix, part.kernels, "mtp-input") if can_join else None
        self._block = DecoderBlock(spec.heads.blocks[number], part, spec)
        self._norm = Norm.read(part, "norm", eps) if spec.heads.norm == "own" else norm
        self._embed = embedding
        if "embed_tokens.weight" in part:
            own = part.matrix("embed_tokens")
            self._embed = Embedding.of(own, own.dtype, part.kernels, spec.embed_scale)
        self.mtp_output = Linear.read(part, "output") if "output.weight" in part else output

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create an empty cache for the decoder block of an MTP head."""
        return LayerCaches(self._block.make_caches(bits))

    def mtp_forward(
        self, tokens: mx.array, hidden: mx.array, caches: LayerCaches | JointCaches
    ) -> mx.array:
        """Run an MTP head: tokens [1, T], previous hidden states [1, T, H] -> its own [1, T, H]."""
        state = self._block(self._joined(self._embed(tokens), hidden), caches.layers, Masks())
        made = self._norm(state) if self._heads.chain_state == "normed" else state
        self._stock.start_evaluation(made)
        return made

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Hidden states of an MTP head [1, T, H] -> logits [1, T, V].

        output: matrix to use instead of the head's own output matrix.
        """
        is_normed = self._heads.chain_state == "normed"
        normed = hidden if is_normed else self._norm(hidden)
        return (output or self.mtp_output)(normed)

    def _joined(self, embedded: mx.array, hidden: mx.array) -> mx.array:
        if self._joining is not None and self._joining.takes(embedded):
            return self._joining.join(embedded, hidden, self._norms)
        ordered = [embedded, hidden] if self._heads.embedding_first else [hidden, embedded]
        both = mx.concatenate(ordered, axis=-1)
        return self._join(self._both_norms(both).reshape(both.shape))
