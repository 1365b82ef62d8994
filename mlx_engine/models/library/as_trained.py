"""What mlx-lm 0.32.2 does otherwise than was trained, done as it was."""

from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.activations import silu
from mlx.nn.layers.base import Module

from mlx_engine.models.library.exchange import Maker

_CONV = "model.layers.0.mamba.conv1d.weight"


class _Experts(Module):
    """The `chosen` best; Hunyuan weighs them by a softmax over these, where mlx-lm has their shares
    of one over all, and Jamba (arXiv 2403.19887) by those shares, where mlx-lm makes them one.
    """

    def __init__(self, gate: Module, stock: Module, chosen: int, *, of_all: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gate, self.switch_mlp = gate, stock.switch_mlp
        self._chosen, self._of_all = chosen, of_all
        if "shared_mlp" in stock:
            self.shared_mlp = stock.shared_mlp

    def __call__(self, x: mx.array) -> mx.array:
        """x [..., H] -> [..., H]."""
        scores = self.gate(x)
        best = mx.argpartition(-scores, kth=self._chosen - 1, axis=-1)[..., : self._chosen]
        shares = mx.softmax(scores, axis=-1, precise=True) if self._of_all else scores
        weights = mx.take_along_axis(shares, best, axis=-1)
        if not self._of_all:
            weights = mx.softmax(weights, axis=-1, precise=True)
        y: mx.array = (self.switch_mlp(x, best) * weights[..., None]).sum(axis=-2)
        return y + self.shared_mlp(x) if "shared_mlp" in self else y


class _GroupedNorm(Module):
    """Mamba 2's behind the gate, over each group by itself (arXiv 2405.21060, section 8.2).

    mlx-lm's is over all groups at once.
    """

    def __init__(self, stock: Module, groups: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight: mx.array = stock.weight
        self._eps: float = stock.eps
        self._groups = groups

    def __call__(self, x: mx.array, gate: mx.array) -> mx.array:
        """x and gate [..., groups * G] -> the same shape."""
        gated = mx.unflatten(silu(gate) * x, -1, (self._groups, -1))
        return self.weight * mx.fast.rms_norm(gated, None, self._eps).flatten(-2)


def _with_grouped_norm(block: Module) -> None:
    """The block stays; it alone knows how many groups there are."""
    block.norm = _GroupedNorm(block.norm, block.n_groups)


def _without_norm_where_unrotated(attention: Module) -> None:
    """Llama 4's, which stays; mlx-lm norms queries and keys of all layers."""
    attention.use_qk_norm = attention.use_qk_norm and attention.use_rope


AS_TRAINED: dict[str, Maker] = {
    "mlx_lm.models.jamba.JambaSparseMoeBlock": lambda block: _Experts(
        block.router, block, block.num_experts_per_tok, of_all=True
    ),
    "mlx_lm.models.hunyuan.MoeBlock": lambda block: _Experts(
        block.gate, block, block.top_k, of_all=False
    ),
    "mlx_lm.models.llama4_text.Attention": _without_norm_where_unrotated,
    "mlx_lm.models.mamba2.Mamba2Block": _with_grouped_norm,
}
"""By the class of mlx-lm's that does otherwise."""


def with_all_factors(
    arrays: Mapping[str, mx.array], config: Mapping[str, object]
) -> dict[str, mx.array]:
    """Keys and values with Falcon-H1's factors, which transformers multiplies by and mlx-lm does
    not in files it has not converted.

    Convolutions tell: [channels, 1, taps] as published. Others have all factors in their matrices.
    """
    conv = arrays.get(_CONV)
    if conv is None or conv.shape[-1] <= conv.shape[1]:
        return dict(arrays)
    told = {key: config.get(key, 1.0) for key in ("key_multiplier", "attention_in_multiplier")}
    factors = {part: told[key] for part, key in zip("kv", told, strict=True)}
    made = dict(arrays)
    for name, array in arrays.items():
        factor = factors.get(name.removesuffix("_proj.weight")[-1:])
        if name.endswith(("k_proj.weight", "v_proj.weight")) and isinstance(factor, float):
            made[name] = array * factor
    return made
