"""Drafts with multi-token-prediction heads: the model's own, or one like them.

A head reads a round's accepted rows in the same pass that makes the next draft (`HeadMemory`), so
a draft of k tokens costs k head passes. Rows of a draft are forgotten after it.
Of a prompt it reads only the newest rows, so that a long one is read as fast as without it. So a
head's memory depends on how a text came to be read, and drafts with it, though words do not: behind
an edit it keeps rows from before that, or begins anew if it lacks those right before.

One head loops: it drafts the second token from its own state after the first, and so on. Several
take turns, each with a cache of its own: the head that drafts token s + 1 reads, behind the true
rows, the tokens drafted so far, each with the state it was drafted from. This is how llama.cpp
(#24340) drives Step-3.5 and MiMo-V2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

from mlx_engine.drafting.chain import draft_chain
from mlx_engine.drafting.contract import (
    FLUSH_ROWS,
    ROWS_OF_A_PROMPT,
    ROWS_OF_A_REST,
    Draft,
    Offer,
    Proposal,
    Rows,
    SourceSnapshot,
    empty_draft,
)
from mlx_engine.drafting.head_memory import HeadMemory, MemoryDraft
from mlx_engine.drafting.output_head import FullOutput, OutputHead, OutputShelf
from mlx_engine.drafting.steps import Step, Steps
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.options import MAX_DEPTH, CacheBits, DraftedBy, DraftOptions, DraftOutput


@dataclass(frozen=True, slots=True)
class _Through:
    """States [1, T, H] of a head -> logits [1, T, V]; equal where head and matrix are the same."""

    output: OutputHead
    head: MtpHead

    def __call__(self, states: mx.array) -> mx.array:
        """Row by row."""
        return self.output.logits(self.head, states)


class MtpDraft(MemoryDraft):
    """heads: one that loops, or several in turns, as deep as there are heads.

    outputs: output heads to choose from, None for the heads' own. by: whose drafts these are,
    "model" for a head that was published apart. read_heads: brings them into memory; free after
    the first call. bits: of the heads' keys and values. While it rests it leaves its heads
    alone until the next draft, for which the newest rows are kept.
    """

    reads_hidden = True
    can_pend = True

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
        super().__init__(options, [HeadMemory.of(head, bits) for head in heads])
        self._heads = heads
        self.target = target
        self.limit = MAX_DEPTH if len(heads) == 1 else len(heads)
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
        """Of the head that has most to read: all others' rows are among them."""
        return max(self._memories, key=lambda memory: memory.unread).waiting

    @property
    def output(self) -> DraftOutput | None:
        """That of the first of the model's own heads."""
        return self._outputs[0].in_effect if self._by == "mtp" else None

    def prepare(self) -> None:
        """Bring the heads into memory. Raises EngineError."""
        self._read_heads()

    def follow(self, options: DraftOptions) -> None:
        """Another rule, threshold or output head."""
        old, self.options = self.options, options
        if (old.output, old.vocabulary) != (options.output, options.vocabulary):
            self._take_outputs()

    def _take_outputs(self) -> None:
        if self._shelf is None:
            self._outputs: Sequence[OutputHead] = [FullOutput() for _ in self._memories]
        else:
            self._outputs = self._shelf.take(self.options)
        self._learning = {output for output in self._outputs if output.reads_words}

    def observe(self, tokens: mx.array, hidden: mx.array) -> None:
        """Committed tokens int [T] and their hidden states [1, T, H]."""
        count = tokens.shape[0]
        self.length += count
        if self._newest is None or self._before:
            # the very first token has no state before it; or the last draft has read its row
            rows = Rows(tokens[1:], hidden[:, :-1]) if count > 1 else None
        elif count == 1:
            rows = Rows(tokens, self._newest)
        else:
            rows = Rows(tokens, mx.concatenate([self._newest, hidden[:, :-1]], axis=1))
        self._newest = hidden if count == 1 else _last_row(hidden)
        self._wait(rows, drafted=bool(self._before))
        self._before = []

    def pass_over(self, tokens: mx.array, hidden: mx.array) -> None:
        """Their rows are left out, and those that waited before them."""
        super().observe(tokens, hidden)
        self._newest, self._before = None, []
        for memory in self._memories:
            memory.leave_out(0)

    def saw(self, tokens: Sequence[int]) -> None:
        """Output heads may gather them."""
        for output in self._learning:
            output.saw(tokens)

    def settle(self, rows: int) -> None:
        """They were so many."""
        assert self._unsettled is not None
        hidden = self._unsettled.rows.hidden
        super().settle(rows)
        if rows:
            self._newest = _last_row(hidden[:, :rows])
            self._wait(None, drafted=True)

    def _wait(self, rows: Rows | None, *, drafted: bool) -> None:
        """Rows wait, but none for ever: old ones are cut rarely, to make no work of each. drafted:
        they are of a round whose draft may not have come to the later heads.
        """
        room = ROWS_OF_A_REST if self.rests else ROWS_OF_A_PROMPT
        for memory in self._memories:
            if rows is not None:
                memory.wait(rows)
            if self.rests or not drafted:
                if memory.unread >= 2 * room:
                    memory.leave_out(room)
            elif memory.unread >= FLUSH_ROWS:
                memory.flush()

    def offers(self, newest: int) -> tuple[Offer, ...]:
        """A draft, at any place but the very first."""
        del newest
        return () if self._newest is None else (Offer(self._by, limit=self.limit),)

    def steps(self, wanted: Proposal, sampler: Sampler) -> Steps[Draft]:
        """`wanted.depth` tokens, no more than `limit`."""
        if wanted.depth == 0 or self._newest is None:
            return empty_draft()
        self._before = [memory.place() for memory in self._memories]
        if self._unsettled is None:
            for memory in self._memories:
                memory.wait(Rows(wanted.last, self._newest))
        self._drafted = []
        first = self._memories[0]
        states = yield from first.read()
        true_rows = first.caches.place()
        few = wanted._replace(depth=min(wanted.depth, self.limit))
        draft = yield from draft_chain(self, states[:, -1:], few, sampler)
        first.caches.restore(true_rows)
        return draft

    def draft_logits(self, state: mx.array) -> Steps[mx.array]:
        """The state [1, 1, H] of the head whose turn it is through its output head, [1, V]."""
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
            return (yield from memory.read())
        states = yield from self._memories[len(self._drafted)].read(self._drafted)
        return states[:, -1:]

    def flush(self) -> int:
        """Read the newest rows that wait, unless it rests; how many the head with most had."""
        return 0 if self.rests else max(memory.flush() for memory in self._memories)

    def snapshot(self) -> SourceSnapshot:
        """Rows that heads have read, and the newest of those that wait."""
        assert not self._before
        for memory in self._memories:
            memory.leave_out(ROWS_OF_A_PROMPT)
        waiting = tuple(tuple(memory.waiting) for memory in self._memories)
        return super().snapshot()._replace(waiting=waiting)

    def earlier(self, length: int) -> SourceSnapshot | None:
        """A place before its token has been read, whose hidden state then comes again. Heads begin
        anew there if they lack the rows before it.
        """
        if length < 1 or not all(memory.caches.keeps_all_rows for memory in self._memories):
            return None
        missing = [memory.missing(self.length - 1) for memory in self._memories]
        both = list(zip(self._memories, missing, strict=True))
        place = min([length - 1, *(memory.caches.length + its for memory, its in both)])
        kept = (memory.caches.at(memory.within(place, its)) for memory, its in both)
        return SourceSnapshot(place, tuple(kept))

    def restore(self, snapshot: SourceSnapshot) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        none = [()] * len(self._memories)
        for memory, waiting in zip(self._memories, snapshot.waiting or none, strict=True):
            memory.wait_only(waiting)
            memory.gap = memory.caches.length if memory.missing(self.length - 1) else 0
        self._before = []

    def arrays(self) -> list[mx.array]:
        """The heads' caches, rows that wait, and the newest hidden state."""
        return [*super().arrays(), *(rows.hidden for rows in self._most_waiting)]


def _last_row(hidden: mx.array) -> mx.array:
    """[1, T, H] -> [1, 1, H]; taken, since a slice would keep the whole block alive."""
    return hidden if hidden.shape[1] == 1 else mx.take(hidden, mx.array([-1]), axis=1)
