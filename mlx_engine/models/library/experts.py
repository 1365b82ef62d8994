"""Experts weighted as they were trained, where mlx-lm's classes weigh otherwise."""

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten


def use_trained_weights(model: Module) -> None:
    """Exchange every block of experts of mlx-lm's Jamba or Hunyuan; its parameters stay."""
    from mlx_lm.models.hunyuan import MoeBlock
    from mlx_lm.models.jamba import JambaSparseMoeBlock

    modules = model.named_modules()  # type: ignore[no-untyped-call]
    made: list[tuple[str, Module]] = []
    for path, block in modules:
        if type(block) is JambaSparseMoeBlock:
            made.append((path, _OfJamba(block)))
        elif type(block) is MoeBlock:
            made.append((path, _OfHunyuan(block)))
    if made:
        model.update_modules(tree_unflatten(made))


class _OfJamba(Module):
    """Each chosen expert counts by its share of a softmax over all of them (arXiv 2403.19887).

    So the weights of those chosen add up to less than one; mlx-lm 0.32.2 makes it one.
    """

    def __init__(self, stock: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.router, self.switch_mlp = stock.router, stock.switch_mlp
        self._chosen: int = stock.num_experts_per_tok

    def __call__(self, x: mx.array) -> mx.array:
        """x [..., H] -> [..., H]."""
        shares = mx.softmax(self.router(x), axis=-1, precise=True)
        best = mx.argpartition(-shares, kth=self._chosen - 1, axis=-1)[..., : self._chosen]
        weights = mx.take_along_axis(shares, best, axis=-1)
        y: mx.array = self.switch_mlp(x, best)
        return (y * weights[..., None]).sum(axis=-2)


class _OfHunyuan(Module):
    """The weights of those chosen add up to one; mlx-lm 0.32.2 leaves them as they are."""

    def __init__(self, stock: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gate, self.switch_mlp = stock.gate, stock.switch_mlp
        self._chosen: int = stock.top_k
        if stock.use_shared_mlp:
            self.shared_mlp = stock.shared_mlp

    def __call__(self, x: mx.array) -> mx.array:
        """x [..., H] -> [..., H]."""
        scores = self.gate(x)
        best = mx.argpartition(-scores, kth=self._chosen - 1, axis=-1)[..., : self._chosen]
        weights = mx.softmax(mx.take_along_axis(scores, best, axis=-1), axis=-1, precise=True)
        y: mx.array = (self.switch_mlp(x, best) * weights[..., None]).sum(axis=-2)
        return y + self.shared_mlp(x) if "shared_mlp" in self else y
