"""State of one Gated DeltaNet layer; keeping a prefix marks which steps to replay.

A recurrent state cannot be shortened. So a block leaves the state from before it, and its own
small steps: when only n of its rows stand, the next pass starts from the old state and replays
those n steps. No state is stored per step; a row of steps is about a hundredth of a state.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerSnapshot
from mlx_engine.cache.delta_rule import DeltaBlock, DeltaInputs, DeltaRule, Replay, StockDelta


@dataclass(frozen=True, slots=True)
class RecurrentSnapshot:
    """Convolution window [1, K-1, C], state, and the steps the state still has to take."""

    length: int
    window: mx.array
    state: mx.array
    replay: Replay | None

    @property
    def nbytes(self) -> int:
        """Bytes of everything the snapshot holds on to."""
        replay = self.replay.nbytes if self.replay else 0
        return self.window.nbytes + self.state.nbytes + replay


class _Block(NamedTuple):
    rows: int
    convolved: mx.array
    delta: DeltaBlock


class RecurrentCache:
    """Convolution window and state, standing after `length` tokens."""

    def __init__(self, window: mx.array, state: mx.array, rule: DeltaRule | None = None) -> None:
        """Start from zeros: window [1, K-1, C], state [1, value heads, Dv, Dk] float32.

        rule: how blocks are run, None for stock MLX.
        """
        self._rule = rule or StockDelta()
        self._blank = RecurrentSnapshot(0, window, state, None)
        self._now = self._blank
        self._block: _Block | None = None

    @property
    def length(self) -> int:
        """Committed tokens."""
        return self._now.length

    @property
    def nbytes(self) -> int:
        """Bytes of the committed memory."""
        return self._now.nbytes

    @property
    def window(self) -> mx.array:
        """The last K-1 rows that went into the convolution."""
        return self._now.window

    def run(self, queries: mx.array, inputs: DeltaInputs, convolved: mx.array) -> mx.array:
        """Take the steps of a block from the committed state; outputs [1, T, value heads, Dv].

        queries [1, T, key heads, Dk]; convolved [1, K-1+T, C] is the window followed by the
        block's rows. What stands of the block before is replayed as part of this pass.
        """
        now = self._now
        done = self._rule.run(queries, inputs, now.state, now.replay)
        self._now = RecurrentSnapshot(now.length, now.window, done.before, None)
        self._block = _Block(queries.shape[1], convolved, done)
        return done.outputs

    def keep(self, rows: int) -> None:
        """Commit the first `rows` rows of the last block."""
        block, now = self._block, self._now
        assert block is not None
        assert 0 <= rows <= block.rows
        self._block = None
        if rows == 0:
            return
        # contiguous: a plain slice would keep the whole block alive
        window = mx.contiguous(block.convolved[:, rows : rows + now.window.shape[1]])
        after = block.delta.after if rows == block.rows else None
        self._now = RecurrentSnapshot(
            length=now.length + rows,
            window=window,
            state=now.state if after is None else after,
            replay=block.delta.steps.first(rows) if after is None else None,
        )

    def snapshot(self) -> RecurrentSnapshot:
        """The committed memory itself."""
        return self._now

    def restore(self, snapshot: LayerSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, RecurrentSnapshot)
        self._now = snapshot
        self._block = None

    def arrays(self) -> list[mx.array]:
        """Window, state and what is needed to replay."""
        replay = self._now.replay.arrays() if self._now.replay else []
        return [self._now.window, self._now.state, *replay]
