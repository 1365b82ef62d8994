"""mlx-lm's models as adapters: taken apart where we know the class, as a whole where we do not."""

from collections.abc import Callable

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import MtpHead
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.layers import Linear
from mlx_engine.models.mlx_lm_trunk.caches import as_the_class_has_them
from mlx_engine.models.mlx_lm_trunk.trunk import Trunk
from mlx_engine.values.reason import Reason

PLAIN_ONLY = Reason(
    "plain-only",
    "Layers of this model cannot take back part of a pass, so nothing can be drafted for it; it "
    "runs plain.",
)

MakeCaches = Callable[[], LayerCaches]


class Headless:
    """The part of the adapter contract that concerns MTP heads, for models without any.

    Logits are always made, by mlx-lm's own output head.
    """

    mtp_depth = 0
    output_rows: FewRows | None = None
    later_heads: tuple[MtpHead, ...] = ()
    mtp_output: Linear | None = None

    def make_head_caches(self) -> LayerCaches:
        """None to make."""
        return LayerCaches([])

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Never called: mtp_depth is 0."""
        del tokens, hidden, caches
        raise AssertionError("this model has no MTP heads")

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Never called: mtp_depth is 0."""
        del hidden, output
        raise AssertionError("this model has no MTP heads")


class TrunkAdapter(Headless):
    """A model taken apart; hidden states are those after the final norm.

    A family whose heads read the other side derives from this: `forward` then returns
    `trunk.residual(...)` and `logits` applies `trunk.norm` first.
    """

    def __init__(self, trunk: Trunk, make_caches: MakeCaches) -> None:
        self.trunk = trunk
        self._make_caches = make_caches
        self.plain_only = None if make_caches().keeps_any_prefix else PLAIN_ONLY
        caches, token = make_caches(), mx.zeros((1, 1), dtype=mx.int32)
        normed = trunk.norm(trunk.residual(token, caches))  # shapes only: nothing is computed
        self.hidden_size = normed.shape[-1]
        self.vocabulary = trunk.output(normed).shape[-1]

    def make_caches(self) -> LayerCaches:
        """Empty caches for all layers."""
        return self._make_caches()

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states after the final norm [1, T, H]."""
        return self.trunk.norm(self.trunk.residual(tokens, caches))

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""
        return self.trunk.output(hidden).astype(mx.float32)


class WholeAdapter(Headless):
    """A model whose class we know nothing about: its "hidden states" are its logits.

    So H is V. Reading a prompt costs no more for it, for what nobody asks for is never computed,
    but what is asked for is kept V wide. No head could read it.
    """

    def __init__(self, model: Module, make_caches: MakeCaches) -> None:
        self._model = model
        self._make_caches = make_caches
        self.plain_only = None if make_caches().keeps_any_prefix else PLAIN_ONLY
        seen = self.forward(mx.zeros((1, 1), dtype=mx.int32), make_caches())
        self.hidden_size = self.vocabulary = seen.shape[-1]

    def make_caches(self) -> LayerCaches:
        """Empty caches for all layers."""
        return self._make_caches()

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> logits [1, T, V]."""
        handed = as_the_class_has_them(caches, tokens.shape[1])
        logits: mx.array = self._model(tokens, cache=handed)
        return logits

    def logits(self, hidden: mx.array) -> mx.array:
        """The same in float32."""
        return hidden.astype(mx.float32)
