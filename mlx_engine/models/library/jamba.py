"""Jamba's experts as they were trained, which mlx-lm's class weights otherwise."""

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_unflatten


def use_trained_weights(model: Module) -> None:
    """Exchange every block of experts of mlx-lm's Jamba; its parameters stay."""
    from mlx_lm.models.jamba import JambaSparseMoeBlock

    modules = model.named_modules()  # type: ignore[no-untyped-call]
    made = [
        (path, _Experts(block)) for path, block in modules if type(block) is JambaSparseMoeBlock
    ]
    if made:
        model.update_modules(tree_unflatten(made))


class _Experts(Module):
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
