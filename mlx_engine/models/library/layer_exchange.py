"""Replaces layers in models of mlx-lm: by ones with our kernels, or as the model was trained."""

from collections.abc import Callable, Mapping
from typing import cast

import mlx.core as mx
from mlx.nn.layers.activations import silu
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear
from mlx.utils import tree_unflatten

from metal_kernels.choice import Kernels
from mlx_engine.models import layers
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.matrix import Matrix, Packing

Maker = Callable[[Module], Module | None]
"""Of a layer, what takes its place; None where it stays."""


def replace_layers(model: Module, replacements: Mapping[str, Maker]) -> None:
    """Replace layers of an mlx-lm model in place by others with the same parameters.

    replacements: qualified class name -> function that takes a layer and returns the new one or
    None. Subclasses are left alone, since they may mean something else.
    """
    modules = model.named_modules()  # type: ignore[no-untyped-call]
    made = []
    for path, layer in modules:
        kind = type(layer)
        maker = replacements.get(f"{kind.__module__}.{kind.__qualname__}") if path else None
        mine = maker(layer) if maker is not None else None
        if mine is not None:
            made.append((path, mine))
    if made:
        model.update_modules(tree_unflatten(made))


class _SparseExperts(Module):
    """Mixture-of-experts layer with the router weights that Hunyuan and Jamba were trained with.

    normalise_all: softmax over all experts (Jamba, arXiv 2403.19887), else over the selected ones
    (Hunyuan). mlx-lm does it the other way round in both.
    """

    def __init__(
        self, gate: Module, mlx_layer: Module, experts_per_token: int, *, normalise_all: bool
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gate, self.switch_mlp = gate, mlx_layer.switch_mlp
        self._chosen, self._of_all = experts_per_token, normalise_all
        if "shared_mlp" in mlx_layer:
            self.shared_mlp = mlx_layer.shared_mlp

    def __call__(self, x: mx.array) -> mx.array:
        """Run the mixture of experts on hidden states [..., H]; returns [..., H]."""
        scores = self.gate(x)
        best = mx.argpartition(-scores, kth=self._chosen - 1, axis=-1)[..., : self._chosen]
        shares = mx.softmax(scores, axis=-1, precise=True) if self._of_all else scores
        weights = mx.take_along_axis(shares, best, axis=-1)
        if not self._of_all:
            weights = mx.softmax(weights, axis=-1, precise=True)
        y: mx.array = (self.switch_mlp(x, best) * weights[..., None]).sum(axis=-2)
        return y + self.shared_mlp(x) if "shared_mlp" in self else y


class _GroupedNorm(Module):
    """Gated RMS norm of Mamba-2 over each group of channels (arXiv 2405.21060, section 8.2).

    mlx-lm norms over all channels at once.
    """

    def __init__(self, weight: mx.array, eps: float, groups: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.weight, self._eps, self._groups = weight, eps, groups

    def __call__(self, x: mx.array, gate: mx.array) -> mx.array:
        """Return the RMS norm of x * silu(gate) over each group; all are [..., groups * G]."""
        rows = mx.unflatten(silu(gate) * x, -1, (self._groups, -1))
        return self.weight * mx.fast.rms_norm(rows, None, self._eps).flatten(-2)


def _with_grouped_norm(block: Module) -> None:
    block.norm = _GroupedNorm(block.norm.weight, block.norm.eps, block.n_groups)


def _norm_only_with_rope(attention: Module) -> None:
    """Let a Llama 4 attention norm queries and keys only if it has RoPE; mlx-lm always does."""
    attention.use_qk_norm = attention.use_qk_norm and attention.use_rope


LAYER_FIXES: dict[str, Maker] = {
    "mlx_lm.models.jamba.JambaSparseMoeBlock": lambda block: _SparseExperts(
        block.router, block, block.num_experts_per_tok, normalise_all=True
    ),
    "mlx_lm.models.hunyuan.MoeBlock": lambda block: _SparseExperts(
        block.gate, block, block.top_k, normalise_all=False
    ),
    "mlx_lm.models.llama4_text.Attention": _norm_only_with_rope,
    "mlx_lm.models.mamba2.Mamba2Block": _with_grouped_norm,
}
"""By the class of mlx-lm's that does otherwise."""


def _scale_minicpm3_logits(model: Module) -> None:
    """Apply MiniCPM3's logit divisor to models with tied embeddings, where mlx-lm leaves it out."""
    if model.args.tie_word_embeddings:
        model.model.norm.weight *= model.args.dim_model_base / model.args.hidden_size


MODEL_FIXES = {"minicpm3": _scale_minicpm3_logits}
"""By module: puts in numbers that mlx-lm leaves out."""


def add_unused_kv_weights(
    arrays: Mapping[str, mx.array], config: Mapping[str, object], origin: str
) -> dict[str, mx.array]:
    """Add zero key and value weights for those layers of Gemma 3n that read an earlier layer's.

    transformers 5 does not write them, but mlx-lm's class requires them.
    """
    fields = ConfigFields(config, origin)
    layers, size = fields.layers(), fields.count("head_dim")
    shared = fields.count("num_kv_shared_layers", minimum=0, maximum=layers)
    shape = fields.count("num_key_value_heads") * size, fields.count("hidden_size")
    parts = {"k_proj.weight": shape, "v_proj.weight": shape, "k_norm.weight": (size,)}
    zeros = {
        f"model.language_model.layers.{layer}.self_attn.{part}": mx.broadcast_to(
            mx.array(0.0), shape
        )
        for layer in range(layers - shared, layers)
        for part, shape in parts.items()
    }
    return {**zeros, **arrays}


def use_kernels(model: Module, kernels: Kernels) -> None:
    """Replace an mlx-lm model's linear layers by ones that use our Metal kernels for few rows."""

    def exchange_linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, Linear)
        weight: mx.array = leaf["weight"]
        dense = Matrix(weight, None, None, 0, 8 * weight.dtype.size, "dense")
        ours = layers.Linear.from_matrix(dense, kernels, leaf.get("bias"))
        return None if ours.few_rows is None else FewRowLinear(leaf, ours)

    def exchange_quantised_linear(leaf: Module) -> Module | None:
        assert isinstance(leaf, QuantizedLinear)
        parts = (leaf["weight"], leaf["scales"], leaf.get("biases"))
        packed = Matrix(*parts, leaf.group_size, leaf.bits, cast(Packing, leaf.mode))
        ours = layers.Linear.from_matrix(packed, kernels, leaf.get("bias"))
        return None if ours.few_rows is None else FewRowQuantizedLinear(leaf, ours)

    names = ("mlx.nn.layers.linear.Linear", "mlx.nn.layers.quantized.QuantizedLinear")
    replace_layers(
        model, dict(zip(names, (exchange_linear, exchange_quantised_linear), strict=True))
    )


class FewRowLinear(Linear):
    """An `mlx.nn.Linear` that multiplies few rows by the engine's own Metal kernel."""

    def __init__(self, mlx_layer: Linear, engine_layer: layers.Linear) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, mlx_layer)
        self._ours = engine_layer

    def __call__(self, x: mx.array) -> mx.array:
        """Apply the linear layer to x [..., K]; returns [..., N]."""
        return self._ours(x) if self._ours.has_kernel_for(x) else super().__call__(x)


class FewRowQuantizedLinear(QuantizedLinear):
    """An `mlx.nn.QuantizedLinear` that multiplies few rows by the engine's own Metal kernel."""

    def __init__(self, mlx_layer: QuantizedLinear, engine_layer: layers.Linear) -> None:
        Module.__init__(self)  # type: ignore[no-untyped-call]
        _take_parameters(self, mlx_layer)
        self.group_size, self.bits, self.mode = mlx_layer.group_size, mlx_layer.bits, mlx_layer.mode
        self._ours = engine_layer

    def __call__(self, x: mx.array) -> mx.array:
        """Apply the quantised linear layer to x [..., K]; returns [..., N]."""
        if self._ours.has_kernel_for(x):
            return self._ours(x)
        y: mx.array = super().__call__(x)  # type: ignore[no-untyped-call]
        return y


def _take_parameters(layer: Module, mlx_layer: Module) -> None:
    for name in mlx_layer:
        layer[name] = mlx_layer[name]
