"""What mlx-lm 0.32.2 does otherwise than was trained, done as it was."""

from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.activations import silu
from mlx.nn.layers.base import Module

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.library.exchange import Maker


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
    """Mamba 2's beside the gate, over each group by itself (arXiv 2405.21060, section 8.2).

    mlx-lm's is over all groups at once.
    """

    def __init__(self, weight: mx.array, eps: float, groups: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight, self._eps, self._groups = weight, eps, groups

    def __call__(self, x: mx.array, gate: mx.array) -> mx.array:
        """x and gate [..., groups * G] -> the same shape."""
        rows = mx.unflatten(silu(gate) * x, -1, (self._groups, -1))
        return self.weight * mx.fast.rms_norm(rows, None, self._eps).flatten(-2)


def _with_grouped_norm(block: Module) -> None:
    """Exchange the norm within a Mamba 2 block, which knows the number of groups."""
    block.norm = _GroupedNorm(block.norm.weight, block.norm.eps, block.n_groups)


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


def _divisor_of_minicpm3(model: Module) -> None:
    """That of logits, also where the output head is the embedding."""
    if model.args.tie_word_embeddings:
        model.model.norm.weight *= model.args.dim_model_base / model.args.hidden_size


LEFT_OUT = {"minicpm3": _divisor_of_minicpm3}
"""By module: puts in numbers that mlx-lm leaves out."""


def with_unused_keys(
    arrays: Mapping[str, mx.array], config: Mapping[str, object], origin: str
) -> dict[str, mx.array]:
    """Zeros for keys and values of Gemma 3n's last layers, which read those of others.

    transformers 5 does not write them, and the class has a place for them.
    """
    fields = ConfigFields(config, origin)
    layers, size = fields.layers(), fields.count("head_dim")
    shared = fields.count("num_kv_shared_layers", least=0, most=layers)
    shape = fields.count("num_key_value_heads") * size, fields.count("hidden_size")
    parts = {"k_proj.weight": shape, "v_proj.weight": shape, "k_norm.weight": (size,)}
    zeros = {
        f"model.language_model.layers.{layer}.self_attn.{part}": mx.broadcast_to(mx.array(0.0), its)
        for layer in range(layers - shared, layers)
        for part, its in parts.items()
    }
    return {**zeros, **arrays}
