"""One round: propose, verify, accept. Plain decoding is the same round with an empty draft.

The target's token at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
of them one pass yields. A drafted token is accepted when it equals the target's, and what is
emitted is always the target's.

Every shape follows from k, the tokens drafted, which the host knows without waiting. It waits once
a round, in `read`, for drafted tokens and picks in one array. What comes after a
round can do without: `follow` has its state go on after as many rows as the device finds accepted,
so that the next round is written down, and queued, while this one still runs (ahead.py).

A pass may verify rounds of several conversations: their rows lie one after the other, the weights
are read once for all (verify.py).
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Literal

import mlx.core as mx

from mlx_engine.cache.contract import RowCount
from mlx_engine.decoding.verify import Asked, State, Verified, verify
from mlx_engine.drafting.contract import Draft, Proposal
from mlx_engine.drafting.steps import take
from mlx_engine.models.contract import lazily
from mlx_engine.values.errors import NumericsError


class Round:
    """A round that goes on from a state; a Pass makes its draft and has its rows.

    most_rows: it may have. position: of its first token; as long as the outcome of the round before
    is not known, as if none of its rows counted.
    """

    def __init__(self, state: State, wanted: Proposal) -> None:
        self.state = state
        self.wanted = wanted
        self.position = wanted.position
        self.most_rows = 1 + wanted.depth
        self.its_pass: Pass | None = None
        self._count: RowCount | None = None

    def take(self, draft: Draft, found: Verified) -> None:
        """Its draft, and its rows of a pass, which its caches hold from now on."""
        self.draft = draft
        self._verified = found
        told = [draft.tokens, found.picked]
        self.outcome = mx.concatenate(told) if draft.depth else found.picked

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

    def commit(self, rows: int) -> None:
        """Append its first rows to the state, or say how many they were if it is followed."""
        if self._count is None:
            self.state.commit(rows, self._verified)
        else:
            self.state.resolve(self._count, rows)

    @property
    def can_be_followed(self) -> bool:
        """Whether its outcome need not be known for what comes after it to be written down."""
        return not self.draft.depth or self.state.can_pend

    def follow(self) -> None:
        """Have the state stand after it, whatever its outcome is."""
        if not self.draft.depth:
            self.commit(1)
            return
        equal = self.draft.tokens == self._verified.picked[:-1]
        accepted = mx.sum(mx.cumprod(equal.astype(mx.int32)), keepdims=True)
        self._count = self.state.follow(self._verified, accepted)

    def drop(self) -> None:
        """The state as if there had been no such round, but for the sampler of one that is followed
        by a round, which is dropped by now.
        """
        if self._count is not None:
            self.state.resolve(self._count, 0)
            return
        if self.its_pass is not None:
            self.state.caches.commit(0)
        self.state.source.withdraw()


Begins = Literal["nothing", "drafts", "everything"]
"""What of a pass is begun as soon as it is written down."""


class Pass:
    """One pass of the target over the rows of one round or several, of one conversation each.

    rows: of all `rounds`. written_at, began_at, queued_at, read_at: when the host began to write
    it down, when the device could begin, when it had everything, and when the outcome was there, by
    the clock; 0 before that. took: the seconds from when the device could begin until the outcome,
    drafts included, once it was read. idle: with a reader, the seconds of them in which the device
    waited for the host. draft_ms: what drafts took, where that is told apart.
    """

    def __init__(
        self,
        rounds: Sequence[Round],
        begins: Begins = "nothing",
        reader: Executor | None = None,
    ) -> None:
        """Writes it down, drafts first, of all in the same passes of what drafts. begins: what the
        device computes while the rest is written down. reader: a thread that waits for outcomes and
        nothing else, so that `read_at` is when an outcome was there even where `queue` of the next
        pass blocks; None where this thread waits.

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
        for one in rounds:
            one.its_pass = self
        with self._told_to_all():
            steps = [one.state.source.steps(one.wanted, one.state.sampler) for one in rounds]
            drafts = take(steps, self._begin if begins == "everything" else lazily)
            if begins == "drafts":
                self._begin(*(draft.tokens for draft in drafts if draft.depth))
            every = list(zip(rounds, drafts, strict=True))
            asked = [Asked(one.state, draft.tokens, one.wanted.position) for one, draft in every]
            self.rows = sum(its.rows for its in asked)
            rows_begin = partial(self._begin_rows, self.began_at)
            begin = rows_begin if begins == "everything" else lazily
            for (one, draft), found in zip(every, verify(asked, begin), strict=True):
                one.take(draft, found)
        self._outcomes = [one.outcome for one in rounds]

    def queue(self) -> None:
        """Have the device begin, as soon as it is free. It is not told to keep keys and values,
        which come along: what it was asked for it holds, and the next round would have to copy
        them.
        """
        if not self.queued_at:
            self.queued_at = perf_counter()
            with self._told_to_all():
                self._begin(*self._outcomes)
            if self.reader is not None:
                self._ended = self.reader.submit(_end_of, self._outcomes)

    def wait(self) -> None:
        """Until the outcome is there. Raises what a conversation before this one has met with."""
        if self._failed is not None:
            raise self._failed
        self.queue()
        with self._told_to_all():
            if self._ended is None:
                mx.eval(self._outcomes)
                self.read_at = perf_counter()
            else:
                self.read_at = self._ended.result()

    def _begin(self, *arrays: mx.array) -> None:
        if arrays:
            self.began_at = self.began_at or perf_counter()
            mx.async_eval(arrays)  # type: ignore[no-untyped-call]

    def _begin_rows(self, drafting_at: float, states: mx.array) -> None:
        """MLX returns when the CPU has begun with most of them: by the first, drafts have ended."""
        self._begin(states)
        if drafting_at and not self.draft_ms:
            self.draft_ms = 1000 * (perf_counter() - drafting_at)

    @contextmanager
    def _told_to_all(self) -> Iterator[None]:
        """What fails here fails for each of the rounds: nobody knows what its caches hold."""
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
