"""Drafts with several MTP heads that take turns: the second drafts the second token, and so on.

Each head has a cache of its own and reads every true row (token and the target's hidden state
before it). The head that drafts token s + 1 reads, behind those, the tokens drafted so far, each
with the state it was drafted from; it forgets them after its one pass. This is how llama.cpp
(#24340) drives Step-3.5 and MiMo-V2. A draft of k tokens costs k passes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.layer_caches import CachesSnapshot
from mlx_engine.drafting.contract import Draft, Proposal, SourceSnapshot
from mlx_engine.drafting.draft_output import DraftOutputHead, FullOutput
from mlx_engine.drafting.mtp_draft import FLUSH_ROWS, MtpDraft, Rows
from mlx_engine.models.contract import Adapter, MtpHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import DraftRule


class HeadMemory:
    """A head's cache of true rows, and those that wait for its next pass."""

    def __init__(self, head: MtpHead) -> None:
        self.head = head
        self.caches = head.make_head_caches()
        self._waiting: list[Rows] = []

    @property
    def waiting(self) -> int:
        """How many rows wait."""
        return sum(rows.tokens.shape[0] for rows in self._waiting)

    def add(self, rows: Sequence[Rows]) -> None:
        """True rows, to be read when the head is next used."""
        self._waiting.extend(rows)

    def read(self, drafted: Sequence[Rows] = ()) -> mx.array:
        """One pass over waiting rows, which are kept, and drafted ones; states of all [1, T, H]."""
        rows, kept = [*self._waiting, *drafted], self.waiting
        tokens = mx.concatenate([part.tokens for part in rows])
        hidden = mx.concatenate([part.hidden for part in rows], axis=1)
        states = self.head.mtp_forward(tokens[None], hidden, self.caches)
        self.caches.keep(kept)
        self._waiting = []
        return states

    def flush(self) -> None:
        """Read what waits, without a draft."""
        if self._waiting:
            self.read()
            mx.async_eval(self.caches.arrays())  # type: ignore[no-untyped-call]

    def restore(self, caches: CachesSnapshot) -> None:
        """Back to a boundary at which nothing waited."""
        self.caches.restore(caches)
        self._waiting = []


class ChainedSnapshot(NamedTuple):
    """The first head's memory and those of the others at one boundary."""

    first: SourceSnapshot
    later: tuple[CachesSnapshot, ...]

    @property
    def length(self) -> int:
        """Tokens observed at the boundary."""
        return self.first.length

    @property
    def nbytes(self) -> int:
        """Bytes that live on only because of this snapshot."""
        return self.first.nbytes + sum(caches.nbytes for caches in self.later)


class ChainedMtpDraft(MtpDraft):
    """As deep as there are heads; the first is driven as a single one is.

    later_outputs: output heads of the others; like `output` they may change between rounds.
    """

    def __init__(
        self,
        adapter: Adapter,
        rule: DraftRule = "shared-noise",
        min_probability: float = 0.0,
        *,
        deferred: bool = False,
    ) -> None:
        super().__init__(adapter, rule, min_probability, deferred=deferred)
        self._later = [HeadMemory(head) for head in adapter.later_heads]
        self.later_outputs: Sequence[DraftOutputHead] = [
            FullOutput(memory.head) for memory in self._later
        ]
        self.limit = 1 + len(self._later)
        self._drafted: list[Rows] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all heads' caches."""
        return super().nbytes + sum(memory.caches.nbytes for memory in self._later)

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T] and their hidden states [1, T, H]."""
        super().observe(tokens, hidden)
        for output in {*self.later_outputs} - {self.output}:
            output.saw(tokens)
        for memory in self._later:
            if memory.waiting >= FLUSH_ROWS:
                memory.flush()

    def propose(self, wanted: Proposal, sampler: Sampler) -> Draft:
        """A chain of at most `wanted.depth` tokens, one a head."""
        self._drafted = []
        depth = min(wanted.depth, self.limit)
        return super().propose(wanted._replace(depth=depth), sampler)

    def draft_logits(self, state: mx.array) -> mx.array:
        """The state [1, 1, H] of the head whose turn it is through its output head, [1, V]."""
        turn = len(self._drafted)
        if turn == 0:
            return super().draft_logits(state)
        return self.later_outputs[turn - 1].logits(state, self._later[turn - 1].head).squeeze(0)

    def read_drafted(self, token: mx.array, state: mx.array) -> mx.array:
        """The next head's turn: true rows it has not read, and everything drafted."""
        self._drafted.append(Rows(token, state))
        return self._later[len(self._drafted) - 1].read(self._drafted)[:, -1:]

    def _read(self, rows: list[Rows]) -> mx.array:
        """True rows only: the first head never reads drafted ones."""
        for memory in self._later:
            memory.add(rows)
        return super()._read(rows)

    def _read_waiting(self) -> None:
        super()._read_waiting()
        for memory in self._later:
            memory.flush()

    def snapshot(self) -> SourceSnapshot:
        """Everything observed, read into the heads' caches; not between a draft and its round."""
        first = super().snapshot()
        return ChainedSnapshot(first, tuple(memory.caches.snapshot() for memory in self._later))

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a boundary."""
        assert isinstance(snapshot, ChainedSnapshot)
        super().restore(snapshot.first)
        for memory, caches in zip(self._later, snapshot.later, strict=True):
            memory.restore(caches)

    def arrays(self) -> list[mx.array]:
        """Those of the first head, and the others' caches."""
        later = [array for memory in self._later for array in memory.caches.arrays()]
        return [*super().arrays(), *later]
