"""The gated delta rule over a block of rows, and what is left to replay when the block is cut.

Two ways with one contract: stock MLX's operation, and our kernel, which writes no state of its own
rows but the state from before them, once the accepted rows of the last block are replayed. Either
takes the steps one after the other, so a row never depends on the rows beside it (arXiv 2412.06464,
eq. 10).
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels.gated_delta_block import Rows, Steps, gated_delta_block
from metal_kernels.kernel import Launcher
from metal_kernels.lanes import MOST_ROWS


class DeltaInputs(NamedTuple):
    """What a step of the delta rule needs besides the state.

    keys [1, T, key heads, Dk], values [1, T, value heads, Dv], decay and beta [1, T, value heads];
    all float32.
    """

    keys: mx.array
    values: mx.array
    decay: mx.array
    beta: mx.array

    def first(self, rows: int) -> "DeltaInputs":
        """The inputs of the first `rows` steps."""
        return DeltaInputs(*(array[:, :rows] for array in self))


class Replay(Protocol):
    """Steps that a state has still to take."""

    @property
    def nbytes(self) -> int:
        """Bytes of what the steps need."""

    def arrays(self) -> list[mx.array]:
        """What the steps need."""

    def first(self, rows: int) -> "Replay":
        """The first `rows` of them."""

    def settled(self, state: mx.array) -> mx.array:
        """The state after them."""


class DeltaBlock(NamedTuple):
    """A block that was run: outputs [1, T, value heads, Dv].

    before, after: the states [1, value heads, Dv, Dk] around it; after is None where it was not
    written. steps: of all its rows.
    """

    outputs: mx.array
    before: mx.array
    after: mx.array | None
    steps: Replay


class DeltaRule(Protocol):
    """A way to run blocks."""

    def run(
        self, queries: mx.array, inputs: DeltaInputs, state: mx.array, replay: Replay | None
    ) -> DeltaBlock:
        """Take `replay` and then the block; queries [1, T, key heads, Dk]."""


@dataclass(frozen=True, slots=True)
class StockSteps:
    """Steps to be taken again whole, by stock MLX."""

    inputs: DeltaInputs

    @property
    def nbytes(self) -> int:
        """Of the inputs."""
        return sum(array.nbytes for array in self.inputs)

    def arrays(self) -> list[mx.array]:
        """The inputs."""
        return list(self.inputs)

    def first(self, rows: int) -> "StockSteps":
        """The first `rows` of them."""
        return StockSteps(self.inputs.first(rows))

    def settled(self, state: mx.array) -> mx.array:
        """The state after them."""
        return _update(self.inputs.keys, self.inputs, state)[1]


class StockDelta:
    """`mx.fast.gated_delta_update`."""

    def run(
        self, queries: mx.array, inputs: DeltaInputs, state: mx.array, replay: Replay | None
    ) -> DeltaBlock:
        """Take `replay` and then the block."""
        before = state if replay is None else replay.settled(state)
        outputs, after = _update(queries, inputs, before)
        return DeltaBlock(outputs, before, after, StockSteps(inputs))


@dataclass(frozen=True, slots=True)
class KernelSteps:
    """Steps whose `delta` is known, so that the kernel takes them again without reductions.

    count: how many of them, the rest is not to be taken.
    """

    steps: Steps
    count: int
    launcher: Launcher

    @property
    def nbytes(self) -> int:
        """Of keys, delta and decay."""
        return sum(array.nbytes for array in self.steps)

    def arrays(self) -> list[mx.array]:
        """Keys, delta and decay."""
        return list(self.steps)

    def first(self, rows: int) -> "KernelSteps":
        """The first `rows` of them."""
        return KernelSteps(self.steps, rows, self.launcher)

    @property
    def kept(self) -> mx.array:
        """`count` as the kernel reads it."""
        return mx.array([self.count], dtype=mx.int32)

    def settled(self, state: mx.array) -> mx.array:
        """The state after them: the kernel's own, beside a row that nobody asks for."""
        keys, delta, decay = (mx.zeros((1, *part.shape[1:])) for part in self.steps)
        row = Rows(keys, keys, delta, decay, decay)
        done = gated_delta_block(state.squeeze(0), self.kept, self.steps, row, self.launcher)
        return done.settled[None]


@dataclass(frozen=True, slots=True)
class KernelDelta:
    """Our kernel for few rows, stock MLX for the long blocks of a prompt."""

    launcher: Launcher

    def run(
        self, queries: mx.array, inputs: DeltaInputs, state: mx.array, replay: Replay | None
    ) -> DeltaBlock:
        """Take `replay` and then the block."""
        if queries.shape[1] > MOST_ROWS:
            return StockDelta().run(queries, inputs, state, replay)
        # squeezed: an index would copy
        rows = Rows(*(array.squeeze(0) for array in (queries, *inputs)))
        if not isinstance(replay, KernelSteps):
            state = state if replay is None else replay.settled(state)
            replay = self._no_steps(rows)
        state = state.squeeze(0)
        done = gated_delta_block(state, replay.kept, replay.steps, rows, self.launcher)
        steps = Steps(rows.keys, done.delta, rows.decay)
        whole = KernelSteps(steps, queries.shape[1], self.launcher)
        return DeltaBlock(done.y[None], done.settled[None], None, whole)

    def _no_steps(self, rows: Rows) -> KernelSteps:
        blank = Steps(*(mx.zeros((1, *a.shape[1:])) for a in (rows.keys, rows.values, rows.decay)))
        return KernelSteps(blank, 0, self.launcher)


def delta_rule(launcher: Launcher | None) -> DeltaRule:
    """By the kernel where there is one to run it."""
    return StockDelta() if launcher is None else KernelDelta(launcher)


def _update(queries: mx.array, inputs: DeltaInputs, state: mx.array) -> tuple[mx.array, mx.array]:
    outputs, after = mx.fast.gated_delta_update(
        queries, inputs.keys, inputs.values, inputs.decay, inputs.beta, state
    )
    return outputs, after
