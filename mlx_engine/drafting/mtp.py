"""Drafts with multi-token-prediction heads: the model's own, or one like them.

A head reads a round's committed rows in the same pass that makes the next draft, so a draft of k
tokens costs k head passes. Rows of a draft are forgotten after it.
Of a prompt a head reads only the newest rows, so that a long one is read as fast as without it, and
pictures among them as the target does, with their embeddings and RoPE positions. So a head's memory
depends on how a text came to be read, and drafts with it, though the words do not: after an edit it
keeps rows from before that, or begins anew if it lacks those right before.

One head loops: it drafts the second token from its own state after the first, and so on. Several
take turns, each with caches of its own: the head that drafts token s + 1 reads, behind the true
rows, the tokens drafted so far, each with the state it was drafted from. This is how llama.cpp
(#24340) drives Step-3.5 and MiMo-V2.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.attention import shift_positions
from mlx_engine.cache.contract import RowCount
from mlx_engine.cache.joint import combine_caches, split_by_conversation
from mlx_engine.drafting.contract import (
    ROWS_AFTER_PAUSE,
    ROWS_OF_A_PROMPT,
    Draft,
    DrafterSnapshot,
    DraftOffer,
    DraftRequest,
    TargetRows,
    UnreadRowArrays,
    empty_draft,
)
from mlx_engine.drafting.drafter import (
    FLUSH_ROWS,
    Drafter,
    HeadMemory,
    StateBeforeDraft,
    UncountedRows,
    UnreadRows,
    concatenate_rows,
)
from mlx_engine.drafting.output_head import OutputHead, SharedOutputHeads
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.sampling.sampler import DraftPicks, Sampler
from mlx_engine.values.options import MAX_DEPTH, CacheBits, DraftedBy, DraftOptions, DraftOutput


class HeadStep(NamedTuple):
    """Result of an MTP head's pass: its state [1, 1, H] after the newest row, logits [1, V]."""

    state: mx.array
    logits: mx.array


class HeadPass(NamedTuple):
    """One conversation's rows for a pass of its MTP head. output: in place of the head's own."""

    memory: HeadMemory
    unread: UnreadRows
    output: OutputHead | None = None


HeadPasses = Generator[HeadPass, HeadStep, Draft]
"""Yields the passes of a draft, is sent the result of each, and returns the draft."""


class HeadDrafter(Drafter):
    """Drafts with one MTP head that loops, or several that take turns.

    The heads' caches hold committed rows only. limit: the deepest draft.
    """

    def __init__(
        self,
        heads: Sequence[MtpHead],
        options: DraftOptions,
        limit: int,
        source: DraftedBy,
        bits: CacheBits = 16,
        *,
        can_share_passes: bool = True,
    ) -> None:
        """Make empty caches for the heads.

        source: the source in statistics. bits: of keys and values. can_share_passes: heads take
        rows of several conversations.
        """
        self._memories = [
            HeadMemory(head, bits, can_share_passes=can_share_passes) for head in heads
        ]
        super().__init__(options, *(memory.caches for memory in self._memories))
        self.limit = limit
        self.offer = DraftOffer(source, limit=limit)
        self._outputs: Sequence[OutputHead | None] = [None] * len(heads)
        self._open: UncountedRows | None = None
        self._verified: list[StateBeforeDraft] = []
        self._drafted_from: list[StateBeforeDraft] = []

    @override
    def draft(self, request: DraftRequest, sampler: Sampler) -> Draft:
        return _run_drafts([self.head_passes(request, sampler)])[0]

    def head_passes(self, request: DraftRequest, sampler: Sampler) -> HeadPasses:
        """Yield the head passes of a draft of `request.depth` tokens, at most `limit`."""
        self._resolve_length()
        self._undo_draft()
        depth = min(request.depth, self.limit)
        if depth == 0 or (self._newest is None and self._open is None):
            return empty_draft()
        picks = DraftPicks(sampler, request.position, depth, self.options)
        newest: UnreadRowArrays | None = None
        if self._open is None:
            assert self._newest is not None
            newest = UnreadRowArrays(request.last, self._newest)
        self._drafted_from = [memory.begin_draft(newest) for memory in self._memories]
        first, loops = self._memories[0], len(self._memories) == 1
        step = yield HeadPass(first, first.pop_unread_rows(), self._outputs[0])
        true_rows = first.caches.temporary_snapshot()
        drafted = [UnreadRowArrays(picks.pick(step.logits), step.state)]
        for turn in range(1, depth):
            if loops:
                step = yield HeadPass(first, UnreadRows(drafted[-1], 1), self._outputs[0])
            else:
                unread = self._memories[turn].pop_unread_rows(drafted)
                step = yield HeadPass(self._memories[turn], unread, self._outputs[turn])
            drafted.append(UnreadRowArrays(picks.pick(step.logits), step.state))
        first.caches.restore(true_rows)
        return Draft(picks.tokens(), depth)

    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        """Keep committed rows of the target's pass for the heads' next pass to read."""
        super().commit(rows, count)
        has_draft = bool(self._drafted_from)
        if not isinstance(count, int):
            assert rows.picked is not None
            self._open = UncountedRows(UnreadRowArrays(rows.picked, rows.hidden), count)
            self._verified, self._drafted_from = self._drafted_from, []
            for memory in self._memories:
                memory.open = self._open
            return
        tokens, hidden = rows.tokens, rows.hidden
        if count < tokens.shape[0]:
            tokens, hidden = tokens[:count], hidden[:, :count]
        waiting: UnreadRowArrays | None = None
        if self._newest is None or has_draft:
            # the very first token has no state before it; or the last draft has read its row
            waiting = UnreadRowArrays(tokens[1:], hidden[:, :-1]) if count > 1 else None
        elif count == 1:
            waiting = UnreadRowArrays(tokens, self._newest)
        else:
            waiting = UnreadRowArrays(
                tokens, mx.concatenate([self._newest, hidden[:, :-1]], axis=1)
            )
        self._newest = _last_row(hidden)
        if waiting is not None:
            for memory in self._memories:
                memory.add_unread_rows(waiting)
        self._drafted_from = []
        self._limit_unread_rows(has_draft=has_draft)

    @abstractmethod
    def _limit_unread_rows(self, *, has_draft: bool) -> None:
        """Read, or leave out, committed rows that the heads have not read for too long.

        has_draft: the newest rows are of a round whose draft the later heads may not have reached.
        """

    def _resolve_length(self) -> None:
        opened = self._open
        if opened is None or (count := opened.counted.known) is None:
            return
        super()._resolve_length()
        self._open, verified = None, self._verified
        self._verified = []
        if count == 0:
            for memory in self._memories:
                memory.open = None
            self._drafted_from = verified
            return
        self._newest = _last_row(opened.rows.hidden[:, :count])
        # a draft made since has read the row of the newest token, or has it wait
        waiting = opened.first_rows(count if self._drafted_from else count - 1)
        for memory in self._memories:
            if memory.open is not None and waiting.tokens.shape[0]:
                memory.add_unread_rows(waiting)
            memory.open = None
        self._limit_unread_rows(has_draft=True)

    def _undo_draft(self) -> None:
        """Undo what the heads read for a draft of which nothing was committed."""
        for memory, before in zip(self._memories, self._drafted_from, strict=False):
            memory.undo_draft(before)
        self._drafted_from = []

    @override
    def snapshot(self) -> DrafterSnapshot:
        self._resolve_length()
        self._undo_draft()
        return super().snapshot()

    @override
    def restore(self, snapshot: DrafterSnapshot) -> None:
        self._open, self._verified, self._drafted_from = None, [], []
        waiting = snapshot.waiting or [()] * len(self._memories)
        for memory, rows in zip(self._memories, waiting, strict=True):
            memory.open = None
            memory.set_unread_rows(rows)
        super().restore(snapshot)


class MtpDraft(HeadDrafter):
    """Drafts with MTP heads: one that loops, or several, as deep as there are heads.

    outputs: output heads to choose from, None for the heads' own. source: "model" for a head
    published apart. read_heads: reads the heads into memory; free after the first call. bits: of
    the heads' keys and values. While paused the heads read nothing until the next draft, for
    which the newest rows are kept.
    """

    reads_hidden = True
    can_follow = True

    def __init__(
        self,
        heads: Sequence[MtpHead],
        options: DraftOptions,
        outputs: SharedOutputHeads | None = None,
        *,
        source: DraftedBy = "mtp",
        target: Model | None = None,
        read_heads: Callable[[], None] = lambda: None,
        bits: CacheBits = 16,
    ) -> None:
        super().__init__(heads, options, MAX_DEPTH if len(heads) == 1 else len(heads), source, bits)
        self.target = target
        self._read_heads = read_heads
        self._by = source
        self._shelf = outputs
        self._choose_output_heads()

    @property
    @override
    def nbytes(self) -> int:
        return super().nbytes + sum(rows.hidden.nbytes for rows in self._most_unread_rows)

    @property
    def _most_unread_rows(self) -> Sequence[UnreadRowArrays]:
        """Unread rows of the head with the most of them, which include those of all other heads."""
        return max(self._memories, key=lambda memory: memory.unread).waiting

    @property
    def output_head(self) -> DraftOutput | None:
        """The output head of the first MTP head; None for a head that was published apart."""
        if self._by != "mtp":
            return None
        first = self._outputs[0]
        return "full" if first is None else first.in_effect

    @override
    def load_weights(self) -> None:
        self._read_heads()

    @override
    def adopt_options(self, options: DraftOptions) -> None:
        old, self.options = self.options, options
        if (old.output, old.vocabulary) != (options.output, options.vocabulary):
            self._choose_output_heads()

    def _choose_output_heads(self) -> None:
        if self._shelf is not None:
            self._outputs = self._shelf.output_heads(self.options)
        found = {output for output in self._outputs if output is not None}
        self.adapting = [output for output in found if output.adapts]

    @override
    def shift_positions(self, shift: int | None) -> None:
        """Place text behind pictures as the target does, also where heads have left out rows.

        A row has the RoPE position of the token before. Without pictures it is the row's number.
        """
        before = self.length - (self._newest is not None)
        for memory in self._memories:
            left_out = before - memory.caches.length - memory.unread
            shift_positions(memory.caches, 0 if shift is None else shift + left_out)

    @override
    def commit(self, rows: TargetRows, count: int | RowCount) -> None:
        if rows.pictures is None:
            super().commit(rows, count)
        elif self._by != "mtp" or self.is_paused:
            self.skip_prompt_rows(rows)
        else:
            self._read_picture_rows(rows, rows.pictures)

    def _read_picture_rows(self, rows: TargetRows, pictures: PictureRows) -> None:
        """Have the heads read prompt rows with pictures at once, as the target did."""
        self._resolve_length()
        self._undo_draft()
        before = rows.hidden[:, :-1]
        first = 1 if self._newest is None else 0
        if self._newest is not None:
            before = mx.concatenate([self._newest, before], axis=1)
        unread = UnreadRowArrays(rows.tokens[first:], before)
        for memory in self._memories if unread.tokens.size else ():
            memory.read_picture_rows(unread, pictures.for_heads(first))
        self._length += rows.tokens.shape[0]
        self._newest = _last_row(rows.hidden)

    def skip_prompt_rows(self, rows: TargetRows) -> None:
        """Skip these prompt rows and all rows that wait: the heads will read none of them."""
        self._resolve_length()
        self._undo_draft()
        self._length += rows.tokens.shape[0]
        self._newest = None
        for memory in self._memories:
            memory.drop_unread_rows(0)

    def _limit_unread_rows(self, *, has_draft: bool) -> None:
        """Leave out old unread rows, many at a time; read those a draft left to later heads."""
        room = ROWS_AFTER_PAUSE if self.is_paused else ROWS_OF_A_PROMPT
        for memory in self._memories:
            if self.is_paused or not has_draft:
                if memory.unread >= 2 * room:
                    memory.drop_unread_rows(room)
            elif memory.unread >= FLUSH_ROWS:
                memory.read_unread_rows()

    def read_unread_rows(self) -> int:
        """Have the heads read their newest unread rows, unless paused; return how many."""
        if self.is_paused:
            return 0
        self._resolve_length()
        self._undo_draft()
        return max(memory.read_unread_rows() for memory in self._memories)

    def snapshot(self) -> DrafterSnapshot:
        """Snapshot the rows that the heads have read, and the newest ones that they have not."""
        found = super().snapshot()
        for memory in self._memories:
            memory.drop_unread_rows(ROWS_OF_A_PROMPT)
        waiting = tuple(tuple(memory.waiting) for memory in self._memories)
        return found._replace(waiting=waiting)

    def restorable_length(self, length: int) -> DrafterSnapshot | None:
        """Return the length one token back, whose hidden state comes when that token is read again.

        Heads that lack the rows before it begin anew there.
        """
        if length < 1 or not all(memory.caches.keeps_all_rows for memory in self._memories):
            return None
        self._resolve_length()
        self._undo_draft()
        missing = [memory.count_missing_rows(self.length - 1) for memory in self._memories]
        both = list(zip(self._memories, missing, strict=True))
        place = min([length - 1, *(memory.caches.length + left_out for memory, left_out in both)])
        kept = (
            memory.caches.snapshot_at_length(memory.length_without_missing(place, left_out))
            for memory, left_out in both
        )
        return DrafterSnapshot(place, tuple(kept))

    @override
    def restore(self, snapshot: DrafterSnapshot) -> None:
        super().restore(snapshot)
        for memory in self._memories:
            memory.gap = memory.caches.length if memory.count_missing_rows(self._length - 1) else 0

    @override
    def arrays(self) -> list[mx.array]:
        return [*super().arrays(), *(rows.hidden for rows in self._most_unread_rows)]


class DraftJob(NamedTuple):
    """A draft to make: the conversation's drafter, what is asked of it, and the sampler."""

    drafter: Drafter
    request: DraftRequest
    sampler: Sampler


def draft_all(jobs: Sequence[DraftJob]) -> list[Draft]:
    """Draft for several conversations at once; those with equal heads share each head pass."""
    drafts: dict[int, Draft] = {}
    begun: dict[int, HeadPasses] = {}
    for number, (drafter, request, sampler) in enumerate(jobs):
        if request.by == "prompt-lookup":
            drafts[number] = drafter.draft_by_lookup(request)
        elif request.by == "grammar":
            forced = list(sampler.forced_tokens()[: request.depth])
            drafts[number] = Draft(mx.array(forced, dtype=mx.int32))
        elif isinstance(drafter, HeadDrafter):
            begun[number] = drafter.head_passes(request, sampler)
        else:
            drafts[number] = drafter.draft(request, sampler)
    drafts.update(zip(begun, _run_drafts(list(begun.values())), strict=True))
    return [
        drafts[number]._replace(tokens=job.sampler.truncate_draft(drafts[number].tokens))
        for number, job in enumerate(jobs)
    ]


def _run_drafts(begun_passes: Sequence[HeadPasses]) -> list[Draft]:
    """Run the head passes of several drafts to their ends, all first ones together, and so on."""
    drafts: dict[int, Draft] = {}
    steps: dict[int, HeadStep | None] = dict.fromkeys(range(len(begun_passes)))
    while steps:
        asked: dict[int, HeadPass] = {}
        for number, step in steps.items():
            passes = begun_passes[number]
            try:
                asked[number] = next(passes) if step is None else passes.send(step)
            except StopIteration as end:
                drafts[number] = end.value
        found = _run_passes(list(asked.values())) if asked else ()
        steps = dict(zip(asked, found, strict=True))
    return [drafts[number] for number in range(len(begun_passes))]


def _run_passes(passes: Sequence[HeadPass]) -> list[HeadStep]:
    """Run MTP head passes of several conversations, those of equal heads as one.

    The weights are read once, each conversation's rows see their own caches (cache/joint.py), and
    no row's numbers depend on the rows beside it.
    """
    groups: dict[object, list[int]] = {}
    for number, (memory, unread, _) in enumerate(passes):
        hidden = unread.rows.hidden
        key = (memory.head, hidden.dtype, hidden.shape[-1]) if memory.can_join else number
        groups.setdefault(key, []).append(number)
    steps: dict[int, HeadStep] = {}
    for numbers in groups.values():
        steps.update(zip(numbers, _run_joint([passes[n] for n in numbers]), strict=True))
    return [steps[number] for number in range(len(passes))]


def _run_joint(passes: Sequence[HeadPass]) -> list[HeadStep]:
    """Run passes of one MTP head as one; an output matrix is read once where all use the same."""
    head = passes[0].memory.head
    if len(passes) == 1:
        rows = passes[0].unread.rows
        every = [head.mtp_forward(rows.tokens[None], rows.hidden, passes[0].memory.caches)]
    else:
        counts = [pass_.unread.rows.tokens.shape[0] for pass_ in passes]
        caches = combine_caches([pass_.memory.caches for pass_ in passes], counts)
        rows = concatenate_rows([pass_.unread.rows for pass_ in passes])
        every = split_by_conversation(
            head.mtp_forward(rows.tokens[None], rows.hidden, caches), counts, axis=1
        )
    states = []
    by_output: dict[OutputHead | None, list[int]] = {}
    for number, (pass_, own) in enumerate(zip(passes, every, strict=True)):
        pass_.memory.caches.commit(pass_.unread.true_rows)
        newest = pass_.unread.newest
        states.append(own[:, -1:] if newest is None else mx.take(own, newest, axis=1))
        by_output.setdefault(pass_.output, []).append(number)
    logits: dict[int, mx.array] = {}
    for output, numbers in by_output.items():
        state = mx.concatenate([states[number] for number in numbers], axis=1)
        made = head.mtp_logits(state) if output is None else output.logits(head, state)
        logits.update(
            zip(
                numbers,
                split_by_conversation(made.squeeze(0), [1] * len(numbers), axis=0),
                strict=True,
            )
        )
    return [HeadStep(state, logits[number]) for number, state in enumerate(states)]


def _last_row(hidden: mx.array) -> mx.array:
    """Copy the last row: [1, T, H] -> [1, 1, H]; a slice would keep the whole block alive."""
    return hidden if hidden.shape[1] == 1 else mx.take(hidden, mx.array([-1]), axis=1)
