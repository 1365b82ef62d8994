"""Feed-forwards that send each token through a few of many experts and one shared by all."""

from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.choice import Kernels
from mlx_engine.models.expert_sizes import ExpertSizes
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.layers import GatedFeedForward, Linear, silu
from mlx_engine.models.matrix import Matrix
from mlx_engine.models.weight_table import WeightTable

SORTED_FROM_ROWS = 32
"""Rows from which on they are sorted by expert, so that a GPU reads every expert once."""


@dataclass(frozen=True, slots=True)
class ExpertLinear:
    """x [R, 1, K] and an expert for each row, uint32 [R, n] -> [R, n, N], or [R, n, K] likewise.

    A result depends on its own row and expert only (measured bit for bit on MLX's CPU backend).
    few_rows: the kernel for few rows, None for stock MLX throughout.
    """

    matrices: Matrix
    few_rows: FewRows | None = None

    @staticmethod
    def of(matrices: Matrix, kernels: Kernels) -> "ExpertLinear":
        """By the kernel where there is one for this stack."""
        return ExpertLinear(matrices, FewRows.of(matrices, kernels, "experts"))

    @staticmethod
    def take(
        table: WeightTable, name: str, count: int, outputs: int, inputs: int
    ) -> "ExpertLinear":
        """Take the stack `name` from the table."""
        return ExpertLinear.of(table.take_matrices(name, count, outputs, inputs), table.kernels)

    def __call__(self, x: mx.array, chosen: mx.array, *, in_order: bool) -> mx.array:
        """Multiply; in_order: `chosen` never decreases."""
        if self.few_rows is not None and len(x) in self.few_rows.counts:
            return self.few_rows.of_experts(x, chosen)
        stack, rows = self.matrices, x[..., None, :]
        if stack.scales is None:
            made = mx.gather_mm(
                rows, stack.weight.swapaxes(-1, -2), rhs_indices=chosen, sorted_indices=in_order
            )
        else:
            made = mx.gather_qmm(
                rows,
                stack.weight,
                stack.scales,
                stack.biases,
                rhs_indices=chosen,
                transpose=True,
                group_size=stack.group_size,
                bits=stack.bits,
                mode=stack.mode,
                sorted_indices=in_order,
            )
        return made.squeeze(-2)


@dataclass(frozen=True, slots=True)
class ExpertFeedForward:
    """sum of p_e expert_e(x) over the likeliest experts + sigmoid(gate(x)) shared(x).

    p is the router's softmax over all experts, in float32; where `normalised`, those of the chosen
    ones are scaled to add up to one (Qwen3 technical report, arXiv 2505.09388; Qwen1.5-MoE for the
    shared expert).
    """

    per_token: int
    normalised: bool
    router: Linear
    gate: ExpertLinear
    up: ExpertLinear
    down: ExpertLinear
    shared: GatedFeedForward
    shared_gate: Linear

    @staticmethod
    def take(table: WeightTable, name: str, hidden: int, sizes: ExpertSizes) -> "ExpertFeedForward":
        """Take `name`.{gate,switch_mlp,shared_expert,shared_expert_gate} from the table."""
        count, inner, stack = sizes.count, sizes.size, f"{name}.switch_mlp"
        return ExpertFeedForward(
            per_token=sizes.per_token,
            normalised=sizes.normalised,
            router=Linear.take(table, f"{name}.gate", count, hidden),
            gate=ExpertLinear.take(table, f"{stack}.gate_proj", count, inner, hidden),
            up=ExpertLinear.take(table, f"{stack}.up_proj", count, inner, hidden),
            down=ExpertLinear.take(table, f"{stack}.down_proj", count, hidden, inner),
            shared=GatedFeedForward.take(table, f"{name}.shared_expert", hidden, sizes.shared_size),
            shared_gate=Linear.take(table, f"{name}.shared_expert_gate", 1, hidden),
        )

    def __call__(self, x: mx.array) -> mx.array:
        """[1, T, H] -> [1, T, H]."""
        rows = x.reshape(-1, x.shape[-1])
        chances = mx.softmax(self.router(rows).astype(mx.float32), axis=-1)
        chosen = mx.argpartition(chances, kth=-self.per_token, axis=-1)[:, -self.per_token :]
        weights = mx.take_along_axis(chances, chosen, axis=-1)
        if self.normalised:
            weights = weights / weights.sum(axis=-1, keepdims=True)
        asked = self._ask_sorted if len(rows) >= SORTED_FROM_ROWS else self._ask
        answers = asked(rows, chosen) * weights[..., None].astype(x.dtype)
        shared = mx.sigmoid(self.shared_gate(rows)) * self.shared(rows)
        return (answers.sum(axis=-2) + shared).reshape(x.shape)

    def onto(self, residual: mx.array, x: mx.array) -> mx.array:
        """residual + what comes of x."""
        return residual + self(x)

    def _ask(self, rows: mx.array, chosen: mx.array) -> mx.array:
        """[R, H] and experts [R, n] -> their answers [R, n, H]."""
        return self._through(rows[:, None], chosen, in_order=False)

    def _ask_sorted(self, rows: mx.array, chosen: mx.array) -> mx.array:
        """The same, expert by expert."""
        flat = chosen.reshape(-1)
        order = mx.argsort(flat)
        each = rows[order // self.per_token]
        answers = self._through(each[:, None], flat[order][:, None], in_order=True)
        return answers[mx.argsort(order)].reshape(*chosen.shape, -1)

    def _through(self, x: mx.array, chosen: mx.array, *, in_order: bool) -> mx.array:
        gate = self.gate(x, chosen, in_order=in_order)
        inner = silu(gate) * self.up(x, chosen, in_order=in_order)
        return self.down(inner, chosen, in_order=in_order)
