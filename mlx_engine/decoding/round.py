"""One round: draft, verify, commit. Plain decoding is the same round with an empty draft.

The target's token at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
of them one pass yields. A drafted token is accepted when it equals the target's, and what is
emitted is always the target's.

Every shape follows from k, the number of drafted tokens, which the host knows without waiting. It
waits once a round, for drafted and picked tokens in one array. The next round can do without that
outcome: `commit_ahead` appends as many rows as the device finds accepted, so that the next round is
written down, and queued, while this one still runs (ahead.py).

A pass may verify rounds of several conversations: their rows lie one after the other, weights and
output head are read once for all, each row sees the caches of its own conversation (cache/joint.py)
and none of its numbers depend on the rows beside it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.cache.joint import apart, joint_caches
from mlx_engine.drafting.drafter import Draft, Drafter, Proposal, ReadRows, run_steps
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import DraftedBy


@dataclass(slots=True)
class SequenceState:
    """Everything that a round changes.

    model: as the drafter wants it run. last: the newest token, which no model has read, int32 [1];
    lazy.
    """

    model: Model
    caches: LayerCaches
    drafter: Drafter
    sampler: Sampler
    last: mx.array

    @property
    def position(self) -> int:
        """Index in the conversation of the next token to pick; without the tokens of a count that
        the host does not know yet.
        """
        return self.caches.length + 1

    @property
    def can_follow(self) -> bool:
        """Whether `commit` takes a RowCount: layers and drafter are ours, as those that read
        several conversations in one pass.
        """
        return self.model.joint is not None and self.drafter.can_follow

    def commit(self, rows: ReadRows, count: int | RowCount) -> None:
        """Append the first `count` rows of the last pass; not committing rolls it back.

        A RowCount where `can_follow`; it has to be known before the next commit.
        """
        assert rows.picked is not None
        self.caches.commit(count)
        self.drafter.commit(rows, count)
        self.sampler.commit(rows.picked, count)
        if isinstance(count, int):
            self.last = rows.picked[count - 1 : count]
        else:
            self.last = mx.take(rows.picked, count.after(-1))


class Round:
    """A round that goes on from a state; a Pass makes its draft and has its rows.

    most_rows: the number of rows it may have.
    """

    def __init__(
        self, state: SequenceState, depth: int, by: DraftedBy | None, after: RowCount | None = None
    ) -> None:
        """depth, by: of the draft. after: rows of the round before, where only the device has
        counted them.
        """
        self.state = state
        self.wanted = Proposal(depth, state.last, state.position, by)
        self.most_rows = 1 + depth
        self.verified_by: Pass | None = None
        self._after = after
        self._count: int | RowCount = 0

    @property
    def position(self) -> int:
        """Index in the conversation of the first token; as long as the rows of the round before are
        not known, as if none of them counted.
        """
        return self.wanted.position + (0 if self._after is None else self._after.known or 0)

    def take(self, draft: Draft, rows: ReadRows) -> None:
        """The draft, and the rows of a pass that verify it; caches hold them uncommitted."""
        assert rows.picked is not None
        self.draft, self.rows = draft, rows
        picked = rows.picked
        self.outcome = mx.concatenate([draft.tokens, picked]) if draft.depth else picked

    def read(self) -> tuple[int, ...]:
        """Wait for the outcome: the accepted drafts and the target's next token.

        Raises NumericsError when the model produced NaN or infinity in a row that counts: what
        follows a token that is not accepted is not the model's to answer for.
        """
        numbers: list[int] = self.outcome.tolist()  # type: ignore[assignment]
        depth = self.draft.depth
        drafted, picked = numbers[:depth], numbers[depth:]
        tokens = tuple(picked[: count_accepted(drafted, picked) + 1])
        for number, token in enumerate(tokens):
            if not 0 <= token < self.state.model.vocabulary:
                raise NumericsError(
                    "The model produced NaN or infinity at position {position}. Its weights may be "
                    "damaged, or too large for 16-bit numbers: load the file again or use another "
                    "one.",
                    position=self.position + number,
                )
        return tokens

    @property
    def can_be_followed(self) -> bool:
        """Whether its outcome need not be known for what comes after it to be written down."""
        return not self.draft.depth or self.state.can_follow

    def commit_ahead(self) -> RowCount | None:
        """Append what counts to the state, before the host knows how many rows that are; None where
        it is one.
        """
        if not self.draft.depth:
            self._count = 1
        else:
            assert self.rows.picked is not None
            equal = self.draft.tokens == self.rows.picked[:-1]
            accepted = mx.sum(mx.cumprod(equal.astype(mx.int32)), keepdims=True)
            self._count = RowCount(accepted + 1, self.draft.depth + 1)
        self.state.commit(self.rows, self._count)
        return self._count if isinstance(self._count, RowCount) else None

    def commit(self, count: int) -> None:
        """Append the first rows to the state, or tell how many have been appended ahead."""
        if isinstance(self._count, RowCount):
            self._count.known = count
            self.state.caches.resolve()
        elif not self._count:
            self.state.commit(self.rows, count)

    def drop(self) -> None:
        """Roll the state back, but for the sampler; a round that follows was dropped before."""
        if isinstance(self._count, RowCount):
            self._count.known = 0
        elif self.verified_by is not None and not self._count:
            self.state.caches.commit(0)


class Pass:
    """One pass of the target over the rows of one round or several, of one conversation each.

    rows: of all `rounds`. written_at, began_at, queued_at, read_at: when the host began to write
    it down, when the device could begin, when it had everything, and when the outcome was there, by
    the clock; 0 before that. took: the seconds from when the device could begin until the outcome,
    drafts included, once it was read. idle: with a reader, the seconds of them in which the device
    waited for the host. draft_ms: what drafts took, where that is told apart.
    """

    def __init__(self, rounds: Sequence[Round], reader: Executor | None = None) -> None:
        """Writes it down, drafts first, of all in the same passes of what drafts.

        reader: a thread that waits for outcomes and nothing else, so that `read_at` is when an
        outcome was there even where `queue` of the next pass blocks; None on a CPU, which begins
        layer by layer while the rest is written down, and whose outcomes this thread waits for.

        It does not hold the rounds, which hold it: what is dropped has to be gone at once, for keys
        and values to be written in place.
        """
        self.rounds = len(rounds)
        self.rows = 0
        self.reader = reader
        self._ended: Future[float] | None = None
        self._failed: Exception | None = None
        self._outcomes: list[mx.array] = []
        self.written_at = perf_counter()
        self.began_at = self.queued_at = self.read_at = 0.0
        self.took = self.idle = self.draft_ms = 0.0
        for round_ in rounds:
            round_.verified_by = self
        with self._failing_all():
            self._write_down(rounds)

    def _write_down(self, rounds: Sequence[Round]) -> None:
        steps = [r.state.drafter.draft(r.wanted, r.state.sampler) for r in rounds]
        if self.reader is None:
            self.began_at = self.written_at
        drafts = run_steps(steps)
        drafted = [draft.tokens for draft in drafts if draft.depth]
        self._begin(*drafted)
        if (
            self.reader is None and drafted
        ):  # MLX returns when the CPU has begun with most of what it was given
            self.draft_ms = 1000 * (perf_counter() - self.began_at)
        parts = [_Part(r.state, draft.tokens) for r, draft in zip(rounds, drafts, strict=True)]
        self.rows = sum(part.rows for part in parts)
        verified = verify(parts)
        for round_, draft, rows in zip(rounds, drafts, verified, strict=True):
            round_.take(draft, rows)
        self._outcomes = [round_.outcome for round_ in rounds]

    def queue(self) -> None:
        """Have the device begin, as soon as it is free. It is not told to keep keys and values,
        which come along: what it was asked for it holds, and the next round would have to copy
        them.
        """
        if not self.queued_at:
            self.queued_at = perf_counter()
            with self._failing_all():
                self._begin(*self._outcomes)
            if self.reader is not None:
                self._ended = self.reader.submit(_end_of, self._outcomes)

    def wait(self) -> None:
        """Until the outcome is there. Raises what another conversation in it has met with."""
        if self._failed is not None:
            raise self._failed
        self.queue()
        with self._failing_all():
            if self._ended is None:
                mx.eval(self._outcomes)
                self.read_at = perf_counter()
            else:
                self.read_at = self._ended.result()

    def _begin(self, *arrays: mx.array) -> None:
        if arrays:
            self.began_at = self.began_at or perf_counter()
            mx.async_eval(arrays)  # type: ignore[no-untyped-call]

    @contextmanager
    def _failing_all(self) -> Iterator[None]:
        """What fails here fails for each of the rounds: nobody knows what their caches hold."""
        try:
            yield
        except Exception as error:
            self._failed = error
            raise


def _end_of(outcomes: Sequence[mx.array]) -> float:
    """Wait for arrays that were passed to `async_eval`; when the last was there, by the clock.

    Any thread may: it asks for nothing that is derived of them, which would be work of its own.
    """
    for outcome in outcomes:
        outcome.tolist()
    return perf_counter()


def count_accepted(drafted: Sequence[int], picked: Sequence[int]) -> int:
    """How many of k drafted tokens equal the target's k + 1, up to the first that does not."""
    assert len(picked) == len(drafted) + 1
    count = 0
    while count < len(drafted) and drafted[count] == picked[count]:
        count += 1
    return count


class _Part(NamedTuple):
    """What one conversation asks of a pass; drafted: int32 [k]."""

    state: SequenceState
    drafted: mx.array

    @property
    def rows(self) -> int:
        """k + 1."""
        return 1 + int(self.drafted.shape[0])

    @property
    def tokens(self) -> mx.array:
        """The newest token and the drafted ones, int32 [k + 1]."""
        drafted = self.drafted
        return mx.concatenate([self.state.last, drafted]) if drafted.size else self.state.last


def verify(parts: Sequence[_Part]) -> list[ReadRows]:
    """Run the rows of all parts as one pass; nothing is committed.

    Several parts have one model, which has joint passes.
    """
    model, counts = parts[0].state.model, [part.rows for part in parts]
    tokens = [part.tokens for part in parts]
    if len(parts) == 1:
        hidden = [model.forward(tokens[0][None], parts[0].state.caches)]
    else:
        assert model.joint is not None
        caches = joint_caches([part.state.caches for part in parts], counts)
        states = model.joint(mx.concatenate(tokens)[None], caches)
        hidden = apart(states, counts, axis=1)
    picked: dict[int, mx.array] = {}
    keys = [_pick_key(part, states) for part, states in zip(parts, hidden, strict=True)]
    for key in dict.fromkeys(keys):
        numbers = [number for number, other in enumerate(keys) if other == key]
        pick = _pick_from_logits if key is None else _pick_by_kernel
        found = pick(model, [parts[n] for n in numbers], [hidden[n] for n in numbers])
        picked.update(zip(numbers, found, strict=True))
    return [ReadRows(tokens[n], hidden[n], picked[n]) for n in range(len(parts))]


class _PickKey(NamedTuple):
    """How a kernel picks tokens without logits; parts of equal keys are picked together."""

    is_drawn: bool
    temperature: float


def _pick_key(part: _Part, hidden: mx.array) -> _PickKey | None:
    """None where options, model or kernel want logits; that depends on nobody else's rows."""
    model = part.state.model
    if model.output_rows is None or not model.output_rows.takes(hidden[..., : model.hidden_size]):
        return None
    how = part.state.sampler.choosing(part.state.position, part.rows)
    return None if how is None else _PickKey(how.keys is not None, how.temperature)


def _pick_from_logits(
    model: Model, parts: Sequence[_Part], hidden: Sequence[mx.array]
) -> list[mx.array]:
    every = apart(model.logits(_joined(hidden, axis=1)).squeeze(0), [p.rows for p in parts], 0)
    found = []
    for part, logits in zip(parts, every, strict=True):
        sampler = part.state.sampler
        picked = sampler.pick(logits, part.state.position, part.drafted)
        found.append(sampler.marked(logits, picked))
    return found


def _pick_by_kernel(
    model: Model, parts: Sequence[_Part], hidden: Sequence[mx.array]
) -> list[mx.array]:
    """The kernel picks -1 where a logit is not finite."""
    assert model.output_rows is not None
    hows = [part.state.sampler.choosing(part.state.position, part.rows) for part in parts]
    first, keys = hows[0], [how.keys for how in hows if how is not None and how.keys is not None]
    assert first is not None
    how = first._replace(keys=_joined(keys, axis=0)) if keys else first
    states = _joined(hidden, axis=1)[..., : model.hidden_size]
    return apart(model.output_rows.pick(states, how), [part.rows for part in parts], axis=0)


def _joined(parts: Sequence[mx.array], axis: int) -> mx.array:
    return parts[0] if len(parts) == 1 else mx.concatenate(list(parts), axis=axis)
