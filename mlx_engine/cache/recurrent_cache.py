"""State of one Gated DeltaNet layer; keeping a prefix marks which steps to replay.

A recurrent state cannot be shortened. So a block leaves the state from before it, and its own
small inputs: when only n of its rows stand, the next pass starts from the old state and replays
those n steps. No state is stored per step; a row of inputs is about a hundredth of a state.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerSnapshot


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


class DeltaResult(NamedTuple):
    """Outputs [1, T, value heads, Dv] and the state after them [1, value heads, Dv, Dk]."""

    outputs: mx.array
    state: mx.array


@dataclass(frozen=True, slots=True)
class RecurrentSnapshot:
    """Convolution window [1, K-1, C], state, and the steps the state still has to take."""

    length: int
    window: mx.array
    state: mx.array
    replay: DeltaInputs | None

    @property
    def nbytes(self) -> int:
        """Bytes of everything the snapshot holds on to."""
        replay = sum(array.nbytes for array in self.replay) if self.replay else 0
        return self.window.nbytes + self.state.nbytes + replay


class _Block(NamedTuple):
    rows: int
    convolved: mx.array
    inputs: DeltaInputs
    state_after: mx.array


class RecurrentCache:
    """Convolution window and state, standing after `length` tokens."""

    def __init__(self, window: mx.array, state: mx.array) -> None:
        """Start from zeros: window [1, K-1, C], state [1, value heads, Dv, Dk] float32."""
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
        block's rows. The steps run one after the other, so a row never depends on the rows beside
        it (arXiv 2412.06464, eq. 10).
        """
        self._settle()
        result = _delta_rule(queries, inputs, self._now.state)
        self._block = _Block(queries.shape[1], convolved, inputs, result.state)
        return result.outputs

    def _settle(self) -> None:
        """Replay what stands of the block before, as part of the coming pass."""
        now = self._now
        if now.replay is not None:
            state = _delta_rule(now.replay.keys, now.replay, now.state).state
            self._now = RecurrentSnapshot(now.length, now.window, state, None)

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
        whole = rows == block.rows
        self._now = RecurrentSnapshot(
            length=now.length + rows,
            window=window,
            state=block.state_after if whole else now.state,
            replay=None if whole else block.inputs.first(rows),
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
        """Window, state and the inputs to replay."""
        return [self._now.window, self._now.state, *(self._now.replay or ())]


def _delta_rule(queries: mx.array, inputs: DeltaInputs, state: mx.array) -> DeltaResult:
    outputs, after = mx.fast.gated_delta_update(
        queries, inputs.keys, inputs.values, inputs.decay, inputs.beta, state
    )
    return DeltaResult(outputs, after)
