"""State of one Gated DeltaNet layer; a commit marks which steps to replay.

A recurrent state cannot be shortened. So a block leaves the state from before it, and its own
small steps: when only n of its rows are committed, the next pass starts from the old state and
replays those n steps. No state is stored per step; a row of steps is about a hundredth of a state.

The gated delta rule over a block (arXiv 2412.06464, eq. 10) has two ways with one contract: stock
MLX's operation, and our kernel, which writes no state of its own rows but the state from before
them, once the accepted rows of the last block are replayed. Either takes the steps one after the
other, so a row never depends on the rows beside it.
"""

from collections.abc import Container
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol, Self

import mlx.core as mx

from metal_kernels.choice import ALL_ROWS, KernelRowCounts
from metal_kernels.gated_delta_block import (
    DeltaRows,
    ReplaySteps,
    gated_delta_block,
    replayed_state,
)
from metal_kernels.kernel import Launcher
from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from mlx_engine.cache.contract import LayerSnapshot, LengthSnapshot, RowCount

_FEW = 16
"""Up to so many rows a block is kept whole as the next convolution window, which saves a launch; of
longer blocks the window is copied.
"""


class ReplayedSteps(Protocol):
    """Protocol of steps of the gated delta rule that a recurrent state does not contain yet."""

    def arrays(self) -> list[mx.array]:
        """List of the arrays that these steps of the delta rule consist of."""

    def first_steps(self, rows: int | mx.array) -> "ReplayedSteps":
        """The first `rows` of these steps of the delta rule.

        rows: int32 [1] where only the device knows the number.
        """

    def advance_state(self, state: mx.array) -> mx.array:
        """Apply these steps of the delta rule to a recurrent state; returns the new state."""


class DeltaBlock(NamedTuple):
    """Result of the gated delta rule over a block of rows: outputs [1, T, value heads, Dv].

    before, after: recurrent states [1, value heads, Dv, Dk] around the block; after is None where
    it was not written. steps: those of all rows of the block.
    """

    outputs: mx.array
    before: mx.array
    after: mx.array | None
    steps: ReplayedSteps


class DeltaRuleMethod(Protocol):
    """Protocol of an implementation of the gated delta rule over a block of rows."""

    def run(self, rows: DeltaRows, state: mx.array, replay: ReplayedSteps | None) -> DeltaBlock:
        """Apply the steps in `replay` to the recurrent state, then the block's rows [1, T, ...]."""


class StockSteps(NamedTuple):
    """Delta-rule steps to replay with stock MLX: DeltaRows without queries.

    Queries do not change the state.
    """

    keys: mx.array
    values: mx.array
    decay: mx.array
    beta: mx.array
    stock: StockOperations = MLX

    def arrays(self) -> list[mx.array]:
        """List of keys, values, decay and beta of these steps of the delta rule."""
        return list(self[:4])

    def first_steps(self, rows: int | mx.array) -> "StockSteps":
        """The first `rows` of these steps of the delta rule.

        If only the device knows the number, the other steps stay, with decay 1 and beta 0.
        """
        if isinstance(rows, int):
            keys, values, decay, beta = (part[:, :rows] for part in self[:4])
            return StockSteps(keys, values, decay, beta, self.stock)
        taken = mx.arange(self.keys.shape[1])[None, :, None] < rows
        kept = taken[..., None] if self.decay.ndim > taken.ndim else taken
        decay, beta = mx.where(kept, self.decay, 1.0), mx.where(taken, self.beta, 0.0)
        return self._replace(decay=decay, beta=beta)

    def advance_state(self, state: mx.array) -> mx.array:
        """Apply these delta-rule steps to a state, by stock MLX; returns the new state."""
        return self.stock.delta_rule(DeltaRows(self.keys, *self[:4]), state)[1]


@dataclass(frozen=True, slots=True)
class StockDelta:
    """The gated delta rule over a block of rows, by MLX's own operation."""

    stock: StockOperations = MLX

    def run(self, rows: DeltaRows, state: mx.array, replay: ReplayedSteps | None) -> DeltaBlock:
        """Apply the steps in `replay` to the state, then the block's rows, by stock MLX."""
        before = state if replay is None else replay.advance_state(state)
        outputs, after = self.stock.delta_rule(rows, before)
        return DeltaBlock(outputs, before, after, StockSteps(*rows[1:], self.stock))


@cache
def _as_int32(count: int) -> mx.array:
    """A number of rows as int32 [1]; cached, as every layer of a pass needs the same few."""
    return mx.array([count], dtype=mx.int32)


def _zero_step(steps: ReplaySteps) -> ReplaySteps:
    """A delta-rule step of zeros with heads like those of `steps`."""
    return ReplaySteps(*(mx.zeros((1, 1, *part.shape[2:])) for part in steps))


class KernelSteps(NamedTuple):
    """Steps of the delta rule with a known `delta`, which our kernel replays without reductions.

    taken: how many of the steps count. counts: row counts that the kernel is used for; where it was
    switched off since, plain operations replay.
    """

    steps: ReplaySteps
    taken: int | mx.array
    launcher: Launcher
    counts: Container[int] = ALL_ROWS

    def arrays(self) -> list[mx.array]:
        """List of keys, delta and decay of these steps of the delta rule."""
        return list(self.steps)

    def first_steps(self, rows: int | mx.array) -> "KernelSteps":
        """The first `rows` of these steps of the delta rule."""
        return KernelSteps(self.steps, rows, self.launcher, self.counts)

    @property
    def kept_count(self) -> mx.array:
        """Number of delta-rule steps that count (`taken`), as int32 [1]."""
        return _as_int32(self.taken) if isinstance(self.taken, int) else self.taken

    def advance_state(self, state: mx.array) -> mx.array:
        """Apply these steps of the delta rule to a recurrent state; returns the new state.

        The delta-rule kernel replays the steps, given a new row of zeros that changes nothing.
        """
        if 1 not in self.counts:
            steps = ReplaySteps(*(part.squeeze(0) for part in self.steps))
            return replayed_state(state.squeeze(0), self.taken, steps)[None]
        keys, delta, decay = _zero_step(self.steps)
        row = DeltaRows(keys, keys, delta, decay, delta[..., 0])
        return gated_delta_block(state, self.kept_count, self.steps, row, self.launcher).settled


@dataclass(frozen=True, slots=True)
class KernelDelta:
    """The gated delta rule by our kernel, for blocks with a number of rows in `counts`.

    Other blocks, as long ones of a prompt, go to the implementation `long`.
    """

    launcher: Launcher
    long: DeltaRuleMethod = StockDelta()
    counts: Container[int] = ALL_ROWS

    def run(self, rows: DeltaRows, state: mx.array, replay: ReplayedSteps | None) -> DeltaBlock:
        """Apply the steps in `replay` to the recurrent state, then the rows of the block."""
        count = rows.keys.shape[1]
        if count not in self.counts:
            return self.long.run(rows, state, replay)
        if not isinstance(replay, KernelSteps):
            state = state if replay is None else replay.advance_state(state)
            none = _zero_step(ReplaySteps(rows.keys, rows.values, rows.decay))
            replay = KernelSteps(none, 0, self.launcher, self.counts)
        done = gated_delta_block(state, replay.kept_count, replay.steps, rows, self.launcher)
        steps = ReplaySteps(rows.keys, done.delta, rows.decay)
        whole = KernelSteps(steps, count, self.launcher, self.counts)
        return DeltaBlock(done.y, done.settled, None, whole)


@dataclass(frozen=True, slots=True)
class LongKernelDelta:
    """The gated delta rule by our kernel for blocks of any length, whose last state it writes too.

    For decays by channel, for which MLX has no operation. Where the kernel was switched off since,
    plain operations take the steps one by one.
    """

    launcher: Launcher
    counts: Container[int]
    stock: StockOperations = MLX

    def run(self, rows: DeltaRows, state: mx.array, replay: ReplayedSteps | None) -> DeltaBlock:
        """Apply the steps in `replay` to the recurrent state, then the rows of a long block."""
        if 1 not in self.counts:
            return StockDelta(self.stock).run(rows, state, replay)
        kernel = KernelDelta(self.launcher, counts=range(1, rows.keys.shape[1] + 1))
        done = kernel.run(rows, state, replay)
        return done._replace(after=done.steps.advance_state(done.before))


class EmptyReplay(NamedTuple):
    """Replay of no steps, for a layer that has a convolution but no recurrent state."""

    def arrays(self) -> list[mx.array]:
        """An empty list of arrays."""
        return []

    def first_steps(self, rows: int | mx.array) -> "EmptyReplay":
        """Itself, as there are no steps to cut."""
        del rows
        return self

    def advance_state(self, state: mx.array) -> mx.array:
        """The given recurrent state, unchanged, as there are no steps to apply."""
        return state


def choose_delta_rule(
    served_row_counts: KernelRowCounts | None, long_block_rule: DeltaRuleMethod
) -> DeltaRuleMethod:
    """Choose our gated delta rule kernel; `long_block_rule` for long blocks or without a kernel."""
    return (
        long_block_rule
        if served_row_counts is None
        else KernelDelta(served_row_counts.launcher, long_block_rule, served_row_counts)
    )


class RecurrentSnapshot(NamedTuple):
    """Snapshot of a recurrent layer: convolution window, state, and steps to apply to it.

    The window [1, K-1, C] may lie among other rows, `skipped` of them before it. pending: number of
    rows after `length` that count too, not known to the host; `window` and `replay` then have all
    rows of the block.
    """

    length: int
    window: mx.array
    state: mx.array
    replay: ReplayedSteps | None
    skipped: int = 0
    pending: RowCount | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of this snapshot of a recurrent layer."""
        return sum(array.nbytes for array in self.arrays())

    def arrays(self) -> list[mx.array]:
        """List of the convolution window, the recurrent state and the steps still to be applied."""
        return [self.window, self.state, *(self.replay.arrays() if self.replay else ())]

    def with_pending_resolved(self) -> "RecurrentSnapshot":
        """This snapshot with its pending row count added, if the host knows that by now."""
        count = None if self.pending is None else self.pending.known
        if count is None:
            return self
        assert self.replay is not None
        replay = self.replay.first_steps(count) if count else None
        return RecurrentSnapshot(self.length + count, self.window, self.state, replay, count)


class _WrittenBlock(NamedTuple):
    rows: int
    convolved: mx.array
    delta: DeltaBlock


class ConvolutionWindow(NamedTuple):
    """The last K-1 input rows of a layer's convolution, behind `skipped` other rows.

    skipped: int32 [1] where only the device knows it. More rows may follow the K-1.
    """

    rows: mx.array
    skipped: int | mx.array

    def slice_window(self, count: int) -> mx.array:
        """Cut out the `count` = K-1 rows of the convolution window, [1, K-1, C]."""
        if isinstance(self.skipped, int):
            return self.rows[:, self.skipped : self.skipped + count]
        return mx.take(self.rows, mx.arange(count) + self.skipped, axis=1)

    @property
    def kept_count(self) -> mx.array:
        """Number of rows before the convolution window (`skipped`), as int32 [1]."""
        return _as_int32(self.skipped) if isinstance(self.skipped, int) else self.skipped


class RecurrentCache:
    """Cache of one Gated DeltaNet layer: its convolution window and recurrent state."""

    keeps_any_prefix = True
    keeps_all_rows = False

    def __init__(
        self,
        window: mx.array,
        state: mx.array,
        rule_method: DeltaRuleMethod | None = None,
        stock: StockOperations = MLX,
    ) -> None:
        """Start a recurrent layer's cache from zeros: window [1, K-1, C] and a float32 state.

        state: [1, value heads, Dv, Dk], an empty array for a layer without one.
        rule_method: implementation of the gated delta rule, None for stock MLX.
        """
        self._rule = rule_method or StockDelta()
        self._stock = stock
        self._taps = window.shape[1]
        self._committed = RecurrentSnapshot(0, window, state, None)
        self._block: _WrittenBlock | None = None

    @property
    def _committed_snapshot(self) -> RecurrentSnapshot:
        """The committed snapshot, with its pending row count added if the host knows it."""
        if self._committed.pending is not None:
            now = self._committed.with_pending_resolved()
            if self._block is not None and now.pending is None:  # its pass has replayed them
                now = now._replace(state=self._block.delta.before, replay=None)
            self._committed = now
        return self._committed

    @property
    def length(self) -> int:
        """Number of tokens committed to this recurrent layer's cache."""
        return self._committed_snapshot.length

    @property
    def nbytes(self) -> int:
        """Bytes of the committed convolution window, recurrent state and steps to replay."""
        return self._committed_snapshot.nbytes

    @property
    def window(self) -> ConvolutionWindow:
        """The last committed input rows of the layer's convolution."""
        now = self._committed_snapshot
        skipped = now.skipped if now.pending is None else now.pending.rows
        return ConvolutionWindow(now.window, skipped)

    def start(self) -> int | mx.array:
        """Position of the next row: an int, or int32 [1] while only the device knows it."""
        now = self._committed_snapshot
        return now.length if now.pending is None else now.pending.length_with_count(now.length)

    def run(self, rows: DeltaRows, convolution_rows: mx.array) -> mx.array:
        """Run the delta rule over a block from the committed state -> [1, T, value heads, Dv].

        rows: [1, T, ...]; convolved [1, K-1+T, C] is the window followed by the block's rows. The
        committed rows of the block before are replayed as part of this pass.
        """
        now = self._committed_snapshot
        replay = now.replay
        if replay is not None and now.pending is not None:
            replay = replay.first_steps(now.pending.rows)
        done = self._rule.run(rows, now.state, replay)
        if now.pending is None:  # nobody goes back to before the replay: the old state is let go
            self._committed = now._replace(state=done.before, replay=None)
        self._block = _WrittenBlock(rows.keys.shape[1], convolution_rows, done)
        return done.outputs

    def write_convolution(self, convolution_rows: mx.array) -> None:
        """Write a block of a layer that has a convolution but no recurrent state.

        convolution_rows: [1, K-1+T, C], the convolution window followed by the block's rows.
        """
        state = self._committed_snapshot.state
        block = DeltaBlock(convolution_rows, state, state, EmptyReplay())
        self._block = _WrittenBlock(convolution_rows.shape[1] - self._taps, convolution_rows, block)

    def write_behind_window(self, rows: mx.array) -> mx.array:
        """Write a block as `write_convolution` does: rows [1, T, C] -> [1, K-1+T, C]."""
        before = self.window.slice_window(self._taps).astype(rows.dtype)
        convolution_rows = mx.concatenate([before, rows], axis=1)
        self.write_convolution(convolution_rows)
        return convolution_rows

    def commit(self, count: int | RowCount) -> None:
        """Keep the first `count` rows of the block just run; 0 goes back to before it."""
        block, self._block = self._block, None
        assert block is not None
        if count == 0:
            return
        length, before, steps = self.length, block.delta.before, block.delta.steps
        if isinstance(count, RowCount):
            self._committed = RecurrentSnapshot(
                length, block.convolved, before, steps, pending=count
            )
            return
        assert 0 < count <= block.rows
        window = ConvolutionWindow(block.convolved, count)
        if block.rows > _FEW:
            window = ConvolutionWindow(
                self._stock.make_contiguous(window.slice_window(self._taps)), 0
            )
        after = block.delta.after if count == block.rows else None
        state = before if after is None else after
        replay = steps.first_steps(count) if after is None else None
        assert isinstance(window.skipped, int)
        self._committed = RecurrentSnapshot(
            length + count, window.rows, state, replay, window.skipped
        )

    def fork(self) -> Self:
        """Copy this recurrent layer's cache; arrays are shared, as none is written in place."""
        return copy(self)

    def temporary_snapshot(self) -> RecurrentSnapshot | LengthSnapshot:
        """Snapshot that shares the committed arrays; at length 0 a Place, which holds none."""
        now = self._committed_snapshot
        return now if now.length or now.pending is not None else LengthSnapshot(0)

    def snapshot(self) -> RecurrentSnapshot | LengthSnapshot:
        """Snapshot of the committed convolution window and recurrent state.

        The window is copied: a view of it would keep the whole block it is from alive.
        """
        if self._committed_snapshot.skipped != 0:
            window = self._stock.make_contiguous(self.window.slice_window(self._taps))
            self._committed = self._committed._replace(window=window, skipped=0)
        return self.temporary_snapshot()

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a snapshot of the convolution window and recurrent state."""
        if isinstance(snapshot, RecurrentSnapshot):
            self._committed = snapshot
        else:
            assert snapshot.length == 0
            window = mx.zeros_like(self._committed_snapshot.window[:, : self._taps])
            self._committed = RecurrentSnapshot(
                0, window, mx.zeros_like(self._committed_snapshot.state), None
            )
        self._block = None

    def arrays(self) -> list[mx.array]:
        """List of the convolution window, the recurrent state and the steps still to be applied."""
        return self._committed_snapshot.arrays()
