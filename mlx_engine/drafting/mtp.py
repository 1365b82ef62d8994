"""Drafts with multi-token-prediction heads: the model's own, or one like them.

A head reads a round's committed rows in the same pass that makes the next draft, so a draft of k
tokens costs k head passes. Rows of a draft are forgotten after it.
Of a prompt a head reads only the newest rows, so that a long one is read as fast as without it. So
a head's memory depends on how a text came to be read, and drafts with it, though the words do not:
after an edit it keeps rows from before that, or begins anew if it lacks those right before.

One head loops: it drafts the second token from its own state after the first, and so on. Several
take turns, each with caches of its own: the head that drafts token s + 1 reads, behind the true
rows, the tokens drafted so far, each with the state it was drafted from. This is how llama.cpp
(#24340) drives Step-3.5 and MiMo-V2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.drafting.drafter import (
    ROWS_OF_A_PROMPT,
    ROWS_OF_A_REST,
    Draft,
    Offer,
    Proposal,
    ReadRows,
    Rows,
    SourceSnapshot,
    Step,
    Steps,
)
from mlx_engine.drafting.model_drafter import FLUSH_ROWS, HeadMemory, MemoryDrafter
from mlx_engine.drafting.output_head import FullOutput, OutputHead, OutputShelf
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, CacheBits, DraftedBy, DraftOptions, DraftOutput


@dataclass(frozen=True, slots=True)
class _Through:
    """States [1, T, H] of a head -> logits [1, T, V]; equal for equal heads and matrices."""

    output: OutputHead
    head: MtpHead

    def __call__(self, states: mx.array) -> mx.array:
        return self.output.logits(self.head, states)


class MtpDraft(MemoryDrafter):
    """heads: one that loops, or several in turns, as deep as there are heads.

    outputs: output heads to choose from, None for the heads' own. by: whose drafts these are,
    "model" for a head that was published apart. read_heads: brings them into memory; free after
    the first call. bits: of the heads' keys and values. While it rests it leaves its heads alone
    until the next draft, for which the newest rows are kept.
    """

    reads_hidden = True
    can_follow = True

    def __init__(
        self,
        heads: Sequence[MtpHead],
        options: DraftOptions,
        outputs: OutputShelf | None = None,
        *,
        by: DraftedBy = "mtp",
        target: Model | None = None,
        read_heads: Callable[[], None] = lambda: None,
        bits: CacheBits = 16,
    ) -> None:
        limit = MAX_DEPTH if len(heads) == 1 else len(heads)
        super().__init__(options, [HeadMemory.of(head, bits) for head in heads], limit)
        self._heads = heads
        self.target = target
        self._read_heads = read_heads
        self._by: DraftedBy = by
        self._shelf = outputs
        self._take_outputs()
        self._drafted: list[Rows] = []

    @property
    def nbytes(self) -> int:
        """Of caches, the newest hidden state, and rows that wait."""
        return super().nbytes + sum(rows.hidden.nbytes for rows in self._most_waiting)

    @property
    def _most_waiting(self) -> Sequence[Rows]:
        """Those of the head that has most to read; the rows of all others are among them."""
        return max(self._memories, key=lambda memory: memory.unread).waiting

    @property
    def output(self) -> DraftOutput | None:
        """That of the first of the model's own heads."""
        return self._outputs[0].in_effect if self._by == "mtp" else None

    def prepare(self) -> None:
        """Bring the heads into memory. Raises EngineError."""
        self._read_heads()

    def follow(self, options: DraftOptions) -> None:
        """Take over another rule, threshold or output head."""
        old, self.options = self.options, options
        if (old.output, old.vocabulary) != (options.output, options.vocabulary):
            self._take_outputs()

    def _take_outputs(self) -> None:
        if self._shelf is None:
            self._outputs: Sequence[OutputHead] = [FullOutput() for _ in self._memories]
        else:
            self._outputs = self._shelf.take(self.options)
        self._learning = {output for output in self._outputs if output.reads_words}

    def skip(self, rows: ReadRows) -> None:
        """Leave these rows out, and those that waited before them."""
        self._resolve()
        self._undo_draft()
        self._length += rows.tokens.shape[0]
        self._newest = None
        for memory in self._memories:
            memory.leave_out(0)

    def append(self, tokens: Sequence[int]) -> None:
        """Output heads may gather these tokens."""
        for output in self._learning:
            output.saw(tokens)

    def _limit_waiting(self, *, has_draft: bool) -> None:
        """Old rows are cut rarely, to make no work of each."""
        room = ROWS_OF_A_REST if self.rests else ROWS_OF_A_PROMPT
        for memory in self._memories:
            if self.rests or not has_draft:
                if memory.unread >= 2 * room:
                    memory.leave_out(room)
            elif memory.unread >= FLUSH_ROWS:
                memory.flush()

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, at any place but the very first."""
        del newest
        is_first = self._newest is None and self._open is None
        return () if is_first else (Offer(self._by, limit=self.limit),)

    def draft(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens, no more than `limit`."""
        self._drafted = []
        return super().draft(wanted, sampler)

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """Through the output head of the head whose turn it is, [1, V]."""
        turn = len(self._drafted) % len(self._memories)
        through = _Through(self._outputs[turn], self._heads[turn])
        logits = yield Step((state,), through, through)
        return logits.squeeze(0)

    def read_drafted(self, token: mx.array, state: mx.array) -> Steps[mx.array]:
        """The next state: of the one head on its own last, or of the head whose turn comes."""
        self._drafted.append(Rows(token, state))
        if len(self._memories) == 1:
            memory = self._memories[0]
            memory.wait_only(self._drafted[-1:])
            return (yield from memory.read_waiting())
        states = yield from self._memories[len(self._drafted)].read(self._drafted)
        return states[:, -1:]

    def flush(self) -> int:
        """Read the newest rows that wait, unless it rests; how many the head with most had."""
        if self.rests:
            return 0
        self._resolve()
        self._undo_draft()
        return max(memory.flush() for memory in self._memories)

    def snapshot(self) -> SourceSnapshot:
        """Rows that heads have read, and the newest of those that wait."""
        found = super().snapshot()
        for memory in self._memories:
            memory.leave_out(ROWS_OF_A_PROMPT)
        waiting = tuple(tuple(memory.waiting) for memory in self._memories)
        return found._replace(waiting=waiting)

    def earlier(self, length: int) -> SourceSnapshot | None:
        """A place before its token has been read, whose hidden state then comes again. Heads begin
        anew there if they lack the rows before it.
        """
        if length < 1 or not all(memory.caches.keeps_all_rows for memory in self._memories):
            return None
        self._resolve()
        self._undo_draft()
        missing = [memory.missing(self.length - 1) for memory in self._memories]
        both = list(zip(self._memories, missing, strict=True))
        place = min([length - 1, *(memory.caches.length + left_out for memory, left_out in both)])
        kept = (memory.caches.at(memory.within(place, left_out)) for memory, left_out in both)
        return SourceSnapshot(place, tuple(kept))

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        none = [()] * len(self._memories)
        for memory, waiting in zip(self._memories, snapshot.waiting or none, strict=True):
            memory.wait_only(waiting)
            memory.gap = memory.caches.length if memory.missing(self._length - 1) else 0

    def arrays(self) -> list[mx.array]:
        """The heads' caches, rows that wait, and the newest hidden state."""
        return [*super().arrays(), *(rows.hidden for rows in self._most_waiting)]
