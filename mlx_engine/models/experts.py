"""Mixture-of-experts feed-forward: each token goes through a few experts and a shared one."""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import Kernels
from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.models.feed_forward_specs import EXPERT_TABLE, ExpertsSpec, FeedForwardSpec
from mlx_engine.models.kernel_matrices import FewRowMatrix, ManyRowMatrix
from mlx_engine.models.layers import Gate, GatedFeedForward, Linear, Norm, make_gate
from mlx_engine.models.matrix import Matrix, dequantised_tiles
from mlx_engine.models.weights import Part

_NO_EXPERT = 2**32 - 1
"""In place of an expert's number, for kernels that then read no weights."""

SORTED_FROM_ROWS = 32
"""Rows from which on they are sorted by expert, so that a GPU reads every expert once."""


@dataclass(eq=False, slots=True)
class ExpertLinear:
    """Linear layer of experts: x [R, 1, K] or [R, n, K] -> [R, n, N], by each row's n experts.

    A row's result depends on that row and its experts only. few_rows, many_rows: kernels for few
    rows and for rows sorted by expert; MLX multiplies where neither applies. biases: [E, N].
    columns: dense transposed view [E, K, N].
    """

    matrices: Matrix
    few_rows: FewRowMatrix | None = None
    many_rows: ManyRowMatrix | None = None
    biases: mx.array | None = None
    stock: StockOperations = MLX
    columns: mx.array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.matrices.mode == "dense":
            self.columns = self.matrices.weight.swapaxes(-1, -2)

    @staticmethod
    def from_matrix(
        matrices: Matrix, kernels: Kernels, biases: mx.array | None = None
    ) -> "ExpertLinear":
        """Wrap a stack of expert matrices as a layer, with kernels where there are any for it."""
        few_rows = FewRowMatrix.from_matrix(matrices, kernels, "experts")
        many_rows = ManyRowMatrix.from_matrix(matrices, kernels, "prompt-experts")
        return ExpertLinear(matrices, few_rows, many_rows, biases, kernels.stock)

    @staticmethod
    def read(part: Part, *names: str) -> "list[ExpertLinear]":
        """Read expert matrices and biases as layers, fused into one where their formats agree."""
        joined = part.take_stacked_matrices(names)
        return [ExpertLinear.from_matrix(one.matrix, part.kernels, one.bias) for one in joined]

    def __call__(self, x: mx.array, expert_indices: mx.array, *, is_sorted: bool) -> mx.array:
        """Multiply rows by their experts, uint32 [R, n] -> [R, n, N]; is_sorted: ids ascend."""
        made = self._product(x, expert_indices, is_sorted=is_sorted)
        return made if self.biases is None else made + self.biases[expert_indices].astype(x.dtype)

    def can_skip(self, rows: int) -> bool:
        """Return whether products of this many rows skip _NO_EXPERT, whose outputs are zeros."""
        is_plain = self.biases is None  # which no expert has
        return is_plain and self.few_rows is not None and rows in self.few_rows.counts

    def _product(self, x: mx.array, expert_indices: mx.array, *, is_sorted: bool) -> mx.array:
        if self.few_rows is not None and len(x) in self.few_rows.counts:
            return self.few_rows.expert_product(x, expert_indices)
        if is_sorted and self.many_rows is not None and self.many_rows.is_enabled:
            return self.many_rows.expert_product(x, expert_indices)
        stack, rows = self.matrices, x[..., None, :]
        # which row goes with an expert; MLX sorts along only where it is left to MLX
        its_row = None if is_sorted else self.stock.consecutive_indices(x.shape[:-1])
        product = partial(self.stock.gather_product, is_sorted=is_sorted)
        if self.columns is not None:
            made = product(rows, self.columns, its_row, expert_indices)
        elif stack.scales is None:
            tiles = dequantised_tiles(stack, x.dtype, self.stock)
            parts = [
                product(rows, tile.swapaxes(-1, -2), its_row, expert_indices) for tile in tiles
            ]
            made = mx.concatenate(parts, axis=-1)
        else:
            made = mx.gather_qmm(
                rows,
                stack.weight,
                stack.scales,
                stack.biases,
                lhs_indices=its_row,
                rhs_indices=expert_indices,
                transpose=True,
                group_size=stack.group_size,
                bits=stack.bits,
                mode=stack.mode,
                sorted_indices=is_sorted,
            )
        return made.squeeze(-2).astype(x.dtype)


class RoutedExperts(NamedTuple):
    """Expert ids of each row, int [R, n], and their float32 weights [R, n].

    Weights of shared experts that are scored, too, stand behind those of the others.
    """

    experts: mx.array
    weights: mx.array


class Router:
    """Router that selects experts for each row and computes their weights."""

    def __init__(self, spec: ExpertsSpec, part: Part, eps: float) -> None:
        self._spec = spec
        self._norm = self._expert_scale = None
        if spec.router_norm:
            weight = part.vector("router_norm.weight")
            self._norm = Norm.from_weight(weight * weight.size**-0.5, part, eps)
            self._expert_scale = part.vector("expert_scale", mx.float32)
        self._scores = Linear.read(part, "gate", mx.float32 if spec.float32_router else None)
        bias = "gate.e_score_correction_bias"
        self._choice_bias = part.vector(bias, mx.float32) if spec.choice_bias else None
        score = _root_of_softplus_float32 if spec.score == "sqrtsoftplus" else _sigmoid_float32
        self._score = part.kernels.stock.compile_elementwise(score)
        self._table = part.integers(EXPERT_TABLE) if spec.table_rows else None

    def __call__(self, rows: mx.array, tokens: mx.array | None = None) -> RoutedExperts:
        """Route hidden states [R, H] -> ids and weights of the experts selected for each row.

        tokens: int [R], for routers with a table.
        """
        spec = self._spec
        if self._norm is not None:
            rows = self._norm(rows[None])[0]
        product = self._scores(rows.astype(mx.float32) if spec.float32_router else rows)
        if spec.is_softmax_over_selected:
            chosen = self._top_experts(product)
            picked = mx.take_along_axis(product, chosen, axis=-1)
            weights = mx.softmax(picked, axis=-1, precise=True)
        else:
            softmax = spec.score == "softmax"
            scores = (
                mx.softmax(product.astype(mx.float32), axis=-1) if softmax else self._score(product)
            )
            if self._table is not None and tokens is not None:
                chosen = self._table[tokens]
            else:
                chosen = self._top_experts(self._selection_scores(scores[:, : spec.routed]))
            weights = mx.take_along_axis(scores, chosen, axis=-1)
            if spec.scored_shared:
                weights = mx.concatenate([weights, scores[:, spec.routed :]], axis=-1)
            if spec.normalise:
                total = weights.sum(axis=-1, keepdims=True)
                weights = weights / (mx.maximum(total, spec.least_sum) if spec.least_sum else total)
        if self._expert_scale is not None:
            weights = weights * self._expert_scale[chosen]
        return RoutedExperts(chosen, weights if spec.scale == 1.0 else weights * spec.scale)

    def _top_experts(self, selection: mx.array) -> mx.array:
        """Selection scores [R, E] -> ids of the n best experts [R, n], in no order."""
        count = self._spec.per_token
        return mx.argpartition(selection, kth=-count, axis=-1)[:, -count:]

    def _selection_scores(self, scores: mx.array) -> mx.array:
        """Router scores [R, E] plus bias; -inf for experts in groups that were not selected."""
        spec = self._spec
        selection = scores if self._choice_bias is None else scores + self._choice_bias
        if spec.kept_groups == spec.groups:
            return selection
        grouped = selection.reshape(len(selection), spec.groups, -1)
        best = mx.topk(grouped, min(spec.best_of_group, grouped.shape[-1]), axis=-1).sum(axis=-1)
        left_out = spec.groups - spec.kept_groups
        worst = mx.argpartition(best, kth=left_out - 1, axis=-1)[:, :left_out, None]
        kept = mx.put_along_axis(grouped, worst, mx.array(-mx.inf), axis=1)
        return kept.reshape(selection.shape)


class ExpertStack(NamedTuple):
    """Feed-forwards of experts of one size.

    gate_up: one fused matrix stack, or the stacks of gate and up; without a gate that of up.
    """

    gate_up: list[ExpertLinear]
    down: ExpertLinear
    join: Gate
    is_gated: bool

    @staticmethod
    def read(part: Part, feed: FeedForwardSpec) -> "ExpertStack":
        """Read stacked matrices of experts."""
        names = ("gate_proj", "up_proj") if feed.gated else ("up_proj",)
        gate_up = ExpertLinear.read(part, *names)
        (down,) = ExpertLinear.read(part, "down_proj")
        return ExpertStack(gate_up, down, make_gate(feed, part.kernels.stock), feed.gated)

    def can_skip(self, rows: int) -> bool:
        """Return whether products of this many rows skip _NO_EXPERT (ExpertLinear.can_skip)."""
        return all(linear.can_skip(rows) for linear in (*self.gate_up, self.down))

    def __call__(self, rows: mx.array, expert_indices: mx.array) -> mx.array:
        """Rows [R, H] and expert ids [R, n] -> outputs of each expert [R, n, H]."""
        if len(rows) < SORTED_FROM_ROWS:
            return self._feed_forward(rows[:, None], expert_indices, is_sorted=False)
        flat = expert_indices.reshape(-1)
        order = mx.argsort(flat)
        each = rows[order // expert_indices.shape[-1]]
        outputs = self._feed_forward(each[:, None], flat[order][:, None], is_sorted=True)
        return outputs[mx.argsort(order)].reshape(*expert_indices.shape, -1)

    def _feed_forward(self, x: mx.array, expert_indices: mx.array, *, is_sorted: bool) -> mx.array:
        made = [linear(x, expert_indices, is_sorted=is_sorted) for linear in self.gate_up]
        parts = mx.split(made[0], 2, axis=-1) if self.is_gated and len(made) == 1 else made
        return self.down(self.join(*parts), expert_indices, is_sorted=is_sorted)


@dataclass(frozen=True, slots=True)
class ExpertFeedForward:
    """Mixture-of-experts feed-forward (DeepSeekMoE, arXiv 2401.06066) built from an ExpertsSpec.

    spec: of the experts. experts, scored: the routed ones, and shared ones that are scored, too.
    latent_down, latent_up: projections before and behind the experts, or None.
    """

    spec: ExpertsSpec
    router: Router
    experts: ExpertStack
    scored: ExpertStack | None
    shared: GatedFeedForward | None
    shared_gate: Linear | None
    latent_down: Linear | None
    latent_up: Linear | None
    stock: StockOperations

    @staticmethod
    def read(part: Part, spec: ExpertsSpec, eps: float = 1e-6) -> "ExpertFeedForward":
        """Read the mixture of experts of a block: router, expert matrices, shared expert.

        eps: of the router's norm.
        """
        shared = part.subpart("shared_expert")
        router = Router(spec, part, eps)
        experts = ExpertStack.read(part.subpart("switch_mlp"), spec.feed)
        dtype = experts.down.matrices.dtype  # GGUF files have the shared expert's gate in float32
        return ExpertFeedForward(
            spec=spec,
            router=router,
            experts=experts,
            scored=ExpertStack.read(shared, spec.feed) if spec.scored_shared else None,
            stock=part.kernels.stock,
            shared=GatedFeedForward.read(shared, spec.shared) if spec.shared else None,
            shared_gate=Linear.read(part, "shared_expert_gate", dtype)
            if spec.shared_gate
            else None,
            latent_down=Linear.read(part, "latent_down") if spec.latent else None,
            latent_up=Linear.read(part, "latent_up") if spec.latent else None,
        )

    def __call__(
        self,
        x: mx.array,
        router_input: mx.array | None = None,
        tokens: mx.array | None = None,
    ) -> mx.array:
        """Run the mixture of experts: hidden states [1, T, H] -> [1, T, H].

        router_input: read by the router, default x. tokens: int [1, T], for routers with a table.
        """
        rows = x.reshape(-1, x.shape[-1])
        read = rows if router_input is None else router_input.reshape(rows.shape)
        choice = self.router(read, None if tokens is None else tokens.reshape(-1))
        passed = None
        if self.spec.identities:  # in their places no expert runs, or one for a weight of 0
            (experts, weights), is_real = choice, choice.experts < self.spec.count
            instead = _NO_EXPERT if self.experts.can_skip(len(rows)) else 0
            choice = RoutedExperts(mx.where(is_real, experts, instead), weights * is_real)
            passed = (weights - choice.weights).sum(axis=-1, keepdims=True)
        read = rows if self.latent_down is None else self.latent_down(rows)
        outputs = self.experts(read, choice.experts)
        if self.scored is not None:
            count = self.spec.scored_shared
            numbers = mx.broadcast_to(
                self.stock.consecutive_indices((1, count)), (len(rows), count)
            )
            outputs = mx.concatenate([outputs, self.scored(read, numbers)], axis=-2)
        made = self.stock.compile_elementwise(_weigh_outputs)(outputs, choice.weights).sum(axis=-2)
        if self.latent_up is not None:
            made = self.latent_up(made)
        if passed is not None:
            made = self.stock.compile_elementwise(_add_product)(made, rows, passed)
        if self.shared is not None:
            shared = self.shared(rows)
            if self.shared_gate is None:
                made = made + shared
            else:
                gate = self.shared_gate(rows)
                made = self.stock.compile_elementwise(_add_gated_shared)(made, gate, shared)
        return made.reshape(x.shape)

    def add_to_residual(self, residual: mx.array, x: mx.array) -> mx.array:
        """Return the residual plus the output of the mixture of experts for x, [1, T, H]."""
        return residual + self(x)


def read_feed_forward(
    part: Part, spec: FeedForwardSpec | ExpertsSpec, eps: float
) -> ExpertFeedForward | GatedFeedForward:
    """Read the feed-forward of a decoder block, dense or a mixture of experts, as its spec says."""
    feed = part.subpart(spec.prefix)
    if isinstance(spec, ExpertsSpec):
        return ExpertFeedForward.read(feed, spec, eps)
    return GatedFeedForward.read(feed, spec)


def _sigmoid_float32(router_logits: mx.array) -> mx.array:
    return mx.sigmoid(router_logits.astype(mx.float32))


def _root_of_softplus_float32(router_logits: mx.array) -> mx.array:
    return mx.sqrt(mx.logaddexp(router_logits.astype(mx.float32), 0))


def _weigh_outputs(outputs: mx.array, weights: mx.array) -> mx.array:
    return outputs * weights[..., None].astype(outputs.dtype)


def _add_product(made: mx.array, rows: mx.array, weights: mx.array) -> mx.array:
    return made + rows * weights.astype(rows.dtype)


def _add_gated_shared(layer_output: mx.array, gate: mx.array, shared: mx.array) -> mx.array:
    return layer_output + mx.sigmoid(gate) * shared
