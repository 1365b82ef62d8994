"""One round: draft, verify, commit. Plain decoding is the same round with an empty draft.

The target's token at a position is a function of its logits, the seed and the position alone. So
the emitted tokens are those of plain decoding, whatever was drafted; a draft only decides how many
tokens one pass yields. A drafted token is accepted if it equals the target's token, and the emitted
token is always the target's.

Every shape follows from k, the number of drafted tokens, which the host knows without waiting. The
host waits once a round, for drafted and picked tokens in one array. The next round does not need
that outcome: `commit_lazily` appends as many rows as the device finds accepted, so that the next
round can be queued while this one still runs (scheduler.py).

A pass may verify rounds of several conversations: their rows lie one after the other, weights and
output head are read once, and each row sees only the caches of its own conversation
(cache/joint.py). No row's numbers depend on the rows beside it.
"""

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.contract import RowCount
from mlx_engine.cache.joint import combine_caches, split_by_conversation
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.contract import Draft, DraftChoice, DraftRequest, TargetRows
from mlx_engine.drafting.mtp import DraftJob, draft_all
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import TokenScores
from mlx_engine.values.conversation import FinishReason
from mlx_engine.values.errors import NumericsError


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """Conditions that end an answer, besides stop strings, which StreamingText finds.

    end_ids: tokens that end the answer, empty to ignore them. max_tokens: tokens of the answer at
    most, None for no limit. context_length: tokens of the conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def answer_end(
        self, tokens: Sequence[int], generated: int, position: int
    ) -> "AnswerEnd | None":
        """Return where new tokens end an answer; None if it may go on after them.

        generated: tokens of the answer before them. position: of the first in the conversation.
        """
        for number, token in enumerate(tokens):
            if token in self.end_ids:
                return AnswerEnd(number + 1, "end")
            full = self.reached_limit(generated + number + 1, position + number)
            if full is not None:
                return AnswerEnd(number + 1, full)
        return None

    def reached_limit(self, generated: int, position: int) -> FinishReason | None:
        """Return which length limit an answer of `generated` tokens has reached, None for none."""
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest_draft(self, generated: int, read: int) -> int:
        """Return the largest useful draft depth.

        read: tokens of the chat that the model has read. generated: tokens of the answer.
        """
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))


class AnswerEnd(NamedTuple):
    """Why an answer ends, and how many of the round's tokens it takes, the end token included."""

    rows: int
    reason: FinishReason


class Round:
    """One decoding round of a conversation; a Pass makes its draft and verifies it.

    draft, depth: the draft, and how many tokens it has. rows: the rows that verify it, which the
    caches hold uncommitted. outcome: the drafted tokens, then the depth + 1 picked tokens, int32.
    scores: of the picked tokens, where the answer's log-probabilities are asked for.
    """

    draft: Draft
    depth: int
    rows: TargetRows
    outcome: mx.array
    scores: TokenScores | None

    def __init__(
        self, state: SequenceState, choice: DraftChoice, deepest: int, after: RowCount | None = None
    ) -> None:
        """Begin a round after the newest token of a conversation.

        deepest: tokens of the draft at most. after: number of accepted rows of the round before, if
        only the device knows it.
        """
        self.state = state
        self.choice = choice
        depth = min(choice.depth, deepest)
        self.request = DraftRequest(depth, state.last, state.caches.length + 1, choice.by)
        self.most_rows = 1 + depth
        self.verified_by: Pass | None = None
        self.scores = None
        self._after = after
        self._count: int | RowCount = 0
        state.drafter.is_paused = depth == 0

    @property
    def position(self) -> int:
        """Index in the conversation of the first token that the round picks.

        While the number of accepted rows of the round before is unknown, those rows are left out.
        """
        return self.request.position + (0 if self._after is None else self._after.known or 0)

    @property
    def can_be_followed(self) -> bool:
        """Whether the next round can be begun before this one's outcome is known."""
        copies = self.choice.by == "prompt-lookup"
        if self.state.sampler.depends_on_tokens:
            return False
        return not self.depth or (self.state.can_commit_lazily and not copies)

    def await_outcome(self) -> tuple[int, ...]:
        """Wait for the round's outcome: the accepted drafts and the target's next token.

        Raises NumericsError if the model produced NaN or infinity in an accepted row; rejected rows
        follow tokens that the model would not have picked.
        """
        numbers: list[int] = self.outcome.tolist()  # type: ignore[assignment]
        depth, accepted = self.depth, 0
        while accepted < depth and numbers[accepted] == numbers[depth + accepted]:
            accepted += 1
        tokens = tuple(numbers[depth : depth + accepted + 1])
        for number, token in enumerate(tokens):
            if not 0 <= token < self.state.model.vocabulary:
                raise NumericsError(
                    "The model produced NaN or infinity at position {position}. Its weights may be "
                    "damaged, or too large for 16-bit numbers: load the file again or use another "
                    "one.",
                    position=self.position + number,
                )
        return tokens

    def commit_lazily(self) -> RowCount | None:
        """Append the accepted rows to the state before the host knows how many they are.

        Returns their number on the device; None for a plain round, which has one row.
        """
        if not self.depth:
            self._count = 1
        else:
            assert self.rows.picked is not None
            equal = self.draft.tokens == self.rows.picked[:-1]
            accepted = mx.sum(mx.cumprod(equal.astype(mx.int32)), keepdims=True)
            self._count = RowCount(accepted + 1, self.depth + 1)
        self.state.commit(self.rows, self._count)
        return self._count if isinstance(self._count, RowCount) else None

    def commit(self, count: int) -> None:
        """Append the round's first `count` rows to the conversation's state.

        After `commit_lazily`, set their number.
        """
        if isinstance(self._count, RowCount):
            self._count.known = count
            self.state.caches.resolve_pending()
        elif not self._count:
            self.state.commit(self.rows, count)

    def roll_back(self) -> None:
        """Roll the conversation's state, but not the sampler, back to before this round.

        The next round has to be dropped before.
        """
        if isinstance(self._count, RowCount):
            self._count.known = 0
        elif self.verified_by is not None and not self._count:
            self.state.caches.commit(0)


class Pass:
    """One pass of the target over the rows of one round, or of one round each of several chats.

    rounds, rows: number of each. written_at, began_at, queued_at, read_at: when the host began to
    build the graph, when the device could begin, when all was queued, and when the outcome was
    there, in seconds of `perf_counter`; 0 before that. took: seconds from when the device could
    begin until the outcome, drafts included. idle: with a reader, the part of them in which the
    device waited for the host. draft_ms: milliseconds of the drafts, if they can be told apart.
    """

    def __init__(self, rounds: Sequence[Round], reader: Executor | None = None) -> None:
        """Build the pass's graph, drafts first; drafts of several rounds share head passes.

        reader: a thread that only waits for outcomes, so that `read_at` is right even if `queue` of
        the next pass blocks; None on a CPU, where the calling thread waits.

        The pass holds no reference to the rounds: a dropped round has to be freed at once, so that
        keys and values are written in place.
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
        try:
            self._build_graph(rounds)
        except Exception as error:
            self._failed = error  # of each round: nobody knows what their caches hold
            raise

    def _build_graph(self, rounds: Sequence[Round]) -> None:
        jobs = []
        for round_ in rounds:
            state = round_.state
            jobs.append(DraftJob(state.drafter, round_.request, state.sampler))
        if self.reader is None:
            self.began_at = self.written_at
        drafted = []
        for round_, draft in zip(rounds, draft_all(jobs), strict=True):
            round_.draft, round_.depth = draft, draft.tokens.shape[0]
            self.rows += 1 + round_.depth
            if round_.depth:
                drafted.append(draft.tokens)
        if drafted:
            self._evaluate_async(drafted)
            if self.reader is None:  # MLX returns when the CPU has begun with most of it
                self.draft_ms = 1000 * (perf_counter() - self.began_at)
        _verify_rounds(rounds)
        self._outcomes = [round_.outcome for round_ in rounds]

    def queue_on_device(self) -> None:
        """Queue this pass on the device, to begin as soon as that is free.

        Only the outcomes are asked for: arrays passed to `async_eval` are held, and the next round
        would have to copy keys and values that are.
        """
        if self.queued_at:
            return
        self.queued_at = perf_counter()
        try:
            self._evaluate_async(self._outcomes)
        except Exception as error:
            self._failed = error
            raise
        if self.reader is not None:
            self._ended = self.reader.submit(_wait_for_arrays, self._outcomes)

    def await_outcome(self) -> None:
        """Wait for the outcome of this pass. Raises the error of any conversation in the pass."""
        if self._failed is not None:
            raise self._failed
        self.queue_on_device()
        try:
            if self._ended is None:
                mx.eval(self._outcomes)
                self.read_at = perf_counter()
            else:
                self.read_at = self._ended.result()
        except Exception as error:
            self._failed = error
            raise

    def _evaluate_async(self, arrays: Sequence[mx.array]) -> None:
        self.began_at = self.began_at or perf_counter()
        mx.async_eval(arrays)  # type: ignore[no-untyped-call]


def _wait_for_arrays(outcome_arrays: Sequence[mx.array]) -> float:
    """Wait for arrays that were passed to `async_eval`; return the time, of `perf_counter`.

    Any thread may wait for such arrays, but for nothing that is computed from them.
    """
    for outcome in outcome_arrays:
        outcome.tolist()
    return perf_counter()


def _verify_rounds(rounds: Sequence[Round]) -> None:
    """Build the graph of the target's pass over the rows of all rounds; commit nothing.

    Several rounds have one model, which has joint passes.
    """
    model, counts, tokens = rounds[0].state.model, [], []
    for round_ in rounds:
        last = round_.request.last
        counts.append(1 + round_.depth)
        tokens.append(mx.concatenate([last, round_.draft.tokens]) if round_.depth else last)
    if len(rounds) == 1:
        hidden = [model.forward(tokens[0][None], rounds[0].state.caches)]
    else:
        assert model.joint_forward is not None
        caches = combine_caches([round_.state.caches for round_ in rounds], counts)
        hidden = split_by_conversation(
            model.joint_forward(mx.concatenate(tokens)[None], caches), counts, axis=1
        )
    groups: dict[_PickKernelOptions | None, list[_UnpickedRows]] = {}
    for round_, token, states in zip(rounds, tokens, hidden, strict=True):
        groups.setdefault(_pick_key(round_, states), []).append(
            _UnpickedRows(round_, token, states)
        )
    for key, parts in groups.items():
        pick = _pick_from_logits if key is None else _pick_by_kernel
        found = pick(model, parts)
        for (round_, token, states), picked in zip(parts, found, strict=True):
            round_.rows = TargetRows(token, states, picked)
            drafted = round_.draft.tokens
            round_.outcome = mx.concatenate([drafted, picked]) if round_.depth else picked


class _UnpickedRows(NamedTuple):
    """A round whose tokens are to be picked: tokens read int32 [R], hidden states [1, R, H]."""

    round: Round
    tokens: mx.array
    hidden: mx.array


class _PickKernelOptions(NamedTuple):
    """Options of the kernel that picks tokens without logits; equal keys share a launch."""

    is_drawn: bool
    temperature: float


def _pick_key(round_: Round, hidden: mx.array) -> _PickKernelOptions | None:
    """Key of the kernel that picks tokens of a round; None where logits are needed.

    The choice depends on the round alone, never on the rounds beside it in the pass.
    """
    model = round_.state.model
    if model.output_matrix is None or not model.output_matrix.supports_rows(
        hidden[..., : model.hidden_size]
    ):
        return None
    how = round_.state.sampler.token_choice_arguments(round_.request.position, hidden.shape[1])
    return None if how is None else _PickKernelOptions(how.keys is not None, how.temperature)


def _pick_from_logits(model: Model, parts: Sequence[_UnpickedRows]) -> list[mx.array]:
    """Pick tokens of all rounds from their logits, -1 where a row has a logit not finite."""
    logits = model.logits(_concatenate([part.hidden for part in parts], axis=1)).squeeze(0)
    found = []
    for part, rows in zip(parts, _split_by_round(logits, parts), strict=True):
        sampler, draft = part.round.state.sampler, part.round.draft
        bound = sampler.with_grammar_bias(rows)
        picked = sampler.pick(bound, part.round.request.position, draft.tokens)
        found.append(sampler.mark_not_finite(rows, picked))
        part.round.scores = sampler.token_logprobs_of(rows, picked)
    return found


def _pick_by_kernel(model: Model, parts: Sequence[_UnpickedRows]) -> list[mx.array]:
    """Pick tokens of all rounds by a kernel from hidden states, -1 where a logit is not finite."""
    assert model.output_matrix is not None
    hows = [
        part.round.state.sampler.token_choice_arguments(
            part.round.request.position, part.tokens.shape[0]
        )
        for part in parts
    ]
    first, keys = hows[0], [how.keys for how in hows if how is not None and how.keys is not None]
    assert first is not None
    how = first._replace(keys=_concatenate(keys, axis=0)) if keys else first
    states = _concatenate([part.hidden for part in parts], axis=1)[..., : model.hidden_size]
    return _split_by_round(model.output_matrix.pick_argmax(states, how), parts)


def _split_by_round(rows: mx.array, parts: Sequence[_UnpickedRows]) -> list[mx.array]:
    """Cut an array [R, ...] of all rounds' rows into one array for each round."""
    return split_by_conversation(rows, [part.tokens.shape[0] for part in parts], axis=0)


def _concatenate(arrays: Sequence[mx.array], axis: int) -> mx.array:
    return arrays[0] if len(arrays) == 1 else mx.concatenate(list(arrays), axis=axis)
