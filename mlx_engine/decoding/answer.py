"""One answer: reads the prompt, runs rounds until something ends it, and reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.device_memory import told_when_full
from mlx_engine.decoding.opening import (
    ModelParts,
    Opening,
    Settings,
    nothing_survives,
    prefill,
)
from mlx_engine.decoding.round import Round, run_round
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.drafting.contract import Proposal
from mlx_engine.drafting.depth.choice import Choice, Learned
from mlx_engine.drafting.sources import Drafting
from mlx_engine.sampling.position_noise import NoiseOfKeys, plain_noise
from mlx_engine.sampling.sampler import Sampler, fresh_seed
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.values.conversation import (
    Event,
    FinishReason,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.stats import GenerationStats, RoundStats, count_by_depth, sum_by_source


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends an answer; stop strings are the business of the text (text/streaming_text.py).

    end_ids: tokens that end it, empty to ignore them. max_tokens: None for no budget.
    context_length: tokens of conversation at most.
    """

    end_ids: frozenset[int]
    max_tokens: int | None
    context_length: int

    def finish(self, token: int, generated: int, position: int) -> FinishReason | None:
        """Whether `token`, the `generated`-th of the answer, at index `position`, is the last."""
        if token in self.end_ids:
            return "end"
        if self.max_tokens is not None and generated >= self.max_tokens:
            return "max-tokens"
        if position + 1 >= self.context_length:
            return "context-full"
        return None

    def deepest(self, generated: int, read: int) -> int:
        """The longest draft that could still be used, `read` tokens having been read."""
        room = self.context_length - read - 2
        budget = room if self.max_tokens is None else self.max_tokens - generated - 1
        return max(0, min(room, budget))


@dataclass(slots=True)
class Tally:
    """Adds rounds up; seconds are time spent in the engine, not in whoever reads events.

    waited_seconds: before the prompt was begun.
    """

    seed: int
    prompt_tokens: int = 0
    reused_tokens: int = 0
    waited_seconds: float = 0.0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0
    first_token_seconds: float = 0.0
    peak_memory_bytes: int = 0
    rounds: list[RoundStats] = field(default_factory=list)

    def add(self, stats: RoundStats, seconds: float) -> None:
        """One round more, and what it took."""
        self.decode_seconds += seconds
        if not self.rounds:
            self.first_token_seconds = self.waited_seconds + self.prompt_seconds + seconds
        self.rounds.append(stats)

    def stats(self) -> GenerationStats:
        """Sums as of now."""
        rounds = self.rounds
        generated = sum(r.emitted for r in rounds)
        fresh = self.prompt_tokens - self.reused_tokens
        return GenerationStats(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused_tokens,
            generated_tokens=generated,
            drafted=sum(r.drafted for r in rounds),
            accepted=sum(r.accepted for r in rounds),
            drafted_by_depth=count_by_depth(r.drafted for r in rounds),
            accepted_by_depth=count_by_depth(r.accepted for r in rounds),
            passes=len(rounds),
            tokens_per_pass=generated / len(rounds) if rounds else 0.0,
            tokens_per_second=_rate(generated, self.decode_seconds),
            prompt_tokens_per_second=_rate(fresh, self.prompt_seconds),
            time_to_first_token_s=self.first_token_seconds,
            draft_ms=sum(r.draft_ms for r in rounds),
            verify_ms=sum(r.verify_ms for r in rounds),
            host_ms=sum(r.host_ms for r in rounds),
            peak_memory_bytes=self.peak_memory_bytes,
            seed=self.seed,
            accept_ms=sum(r.accept_ms for r in rounds),
            by_source=sum_by_source(rounds),
        )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


class _Kept(NamedTuple):
    """What was kept of a round: how many rows, their text, and whether they end the answer."""

    rows: int
    pieces: list[TextPiece]
    finish: FinishReason | None


class Answer:
    """Runs once; `tokens` holds the answer so far without its end token.

    settings: the owner may change sampling and draft while the answer runs; the seed stays. text:
    what tokens become (of a StreamingText it needs add, finish, hit_stop, text and thinking).
    stopped: asked before every round. survives: whether the engine works otherwise after an error,
    so that it is worth going on; all is then read again, because rows that were written last may
    have come from what failed. Whatever interrupts an answer (the owner, a reader that walks away),
    the sequence stands after tokens that were really emitted; after an error it is of no use.
    """

    def __init__(
        self,
        sequence: TokenSequence,
        drafting: Drafting,
        opening: Opening,
        limits: Limits,
        text: StreamingText,
        settings: Settings,
        chunk: int,
        noise: NoiseOfKeys = plain_noise,
        stopped: Callable[[], bool] = lambda: False,
        survives: Callable[[Exception], bool] = nothing_survives,
    ) -> None:
        everything, seed = opening.tokens, settings.sampling.seed
        self.tokens = list(opening.answered)
        self.tally = Tally(fresh_seed() if seed is None else seed, len(everything))
        self.sequence = sequence
        self._drafting = drafting
        self._opening = opening
        self._limits = limits
        self._text = text
        self._settings = settings
        self._chunk = chunk
        self._noise = noise
        self._stopped = stopped
        self._survives = survives
        self._was_stopped = False
        self._unsaid: list[TextPiece | RoundFinished] = []
        self._last = everything[-1]
        self._generated = 0
        self._finish: FinishReason | None = None
        self._options = settings.sampling
        self._sampler = self._new_sampler(opening.answered)
        for token in opening.answered:
            text.add(token)

    def events(self) -> Iterator[Event]:
        """Progress, text and rounds. Raises NumericsError, OutOfMemory."""
        mx.reset_peak_memory()
        with told_when_full():
            is_settled = False
            while not is_settled:
                try:
                    yield from self._read_and_answer()
                    is_settled = True
                except Exception as error:
                    if not self._survives(error):
                        raise
                    self._start_over()
                yield from self._said()
            yield from self._text.finish()
        self.tally.peak_memory_bytes = mx.get_peak_memory()

    def finished(self) -> GenerationFinished:
        """The last event, once `events` has come to its end."""
        assert self._finish is not None
        return GenerationFinished(
            self._finish, self.tally.stats(), self._text.text, self._text.thinking
        )

    def _read_and_answer(self) -> Iterator[Event]:
        """Everything that the device is asked for."""
        if self._finish is None:
            yield from self._read_prompt()
        while self._finish is None:
            if self._must_stop():
                self._finish = "stopped"
            else:
                self._round()
                yield from self._said()
        self.sequence.settle()

    def _start_over(self) -> None:
        """Where the answer stands, with nothing read: as when it is continued."""
        read_anew(self.sequence, self._drafting, self._settings)
        self._opening = self._opening._replace(answered=tuple(self.tokens))
        self._last = self._opening.tokens[-1]
        self._sampler = self._new_sampler(self.tokens)

    def _said(self) -> Iterator[TextPiece | RoundFinished]:
        """What rounds have had to say since the last time."""
        said, self._unsaid = self._unsaid, []
        yield from said

    def _read_prompt(self) -> Iterator[PromptProgress]:
        steps = prefill(self.sequence, self._opening, self._chunk, self._must_stop)
        while True:
            started = perf_counter()
            progress = next(steps, None)
            self.tally.prompt_seconds += perf_counter() - started
            if progress is None:
                return
            self.tally.reused_tokens = progress.reused
            yield progress

    def _must_stop(self) -> bool:
        """Whether it was stopped, once and for all."""
        self._was_stopped = self._was_stopped or self._stopped()
        return self._was_stopped

    def _round(self) -> None:
        started = perf_counter()
        self._follow_sampling()
        plan = self._drafting.plan(self.sequence, self._settings.draft, self._last)
        choice = plan.next()
        read = len(self.sequence.tokens)
        depth = min(choice.depth, self._limits.deepest(self._generated, read))
        wanted = Proposal(depth, self._last, read + 1, choice.by)
        self.sequence.source.rest(rests=depth == 0)
        found = run_round(self.sequence, wanted, self._sampler)
        checked = perf_counter()
        last = self._last
        kept = self._keep(found, choice)
        try:
            self.sequence.commit([last, *found.tokens[: kept.rows - 1]], found.hidden)
        finally:  # its tokens stand, whatever becomes of their rows
            ended = perf_counter()
            on_device = found.draft_ms + found.verify_ms
            stats = RoundStats(
                position=wanted.position,
                depth=choice.depth,
                drafted=found.drafted,
                accepted=min(found.accepted, kept.rows),
                emitted=kept.rows,
                draft_ms=found.draft_ms,
                verify_ms=found.verify_ms,
                host_ms=max(0.0, 1000 * (checked - started) - on_device),
                why=choice.why,
                auto_depth=choice.auto,
                accept_ms=1000 * (ended - checked),
                source=choice.by if found.drafted else None,
                draft_passes=found.draft_passes,
            )
            self.tally.add(stats, ended - started)
            self._unsaid += [*kept.pieces, RoundFinished(stats)]
            self._finish = kept.finish
        # what was asked for counts where a model worked for it: it may have ended its draft early
        tried = depth if found.draft_passes else found.drafted
        plan.learn(tried, found.accepted, 1000 * (ended - started))

    def _keep(self, found: Round, choice: Choice) -> _Kept:
        """Read the round's tokens as text until one ends the answer."""
        source = choice.by if found.drafted else None
        pieces: list[TextPiece] = []
        finish: FinishReason | None = None
        count = 0
        position = len(self.sequence.tokens) + 1
        for token in found.tokens:
            self._generated += 1
            finish = self._limits.finish(token, self._generated, position + count)
            count += 1
            if finish != "end":
                self.tokens.append(token)
                depth = count if count <= found.accepted else 0
                fresh = self._text.add(token, depth)
                pieces.extend(replace(piece, source=source) if depth else piece for piece in fresh)
                finish = "stop-string" if self._text.hit_stop else finish
            if finish is not None:
                break
        self._sampler.commit(found.tokens[:count])
        self._last = found.tokens[count - 1]
        return _Kept(count, pieces, finish)

    def _follow_sampling(self) -> None:
        """Take over options changed since the last round."""
        options = self._settings.sampling
        if options != self._options:
            self._options = options
            self._sampler = self._new_sampler(self.tokens)

    def _new_sampler(self, answered: Sequence[int]) -> Sampler:
        """A sampler that knows the prompt and the answer so far."""
        vocabulary = self.sequence.model.vocabulary
        sampler = Sampler(self._options, vocabulary, self.tally.seed, self._noise)
        sampler.begin(self._opening.prompt)
        sampler.commit(answered)
        return sampler


def open_answer(
    parts: ModelParts,
    settings: Settings,
    sequence: TokenSequence,
    drafting: Drafting,
    opening: Opening,
    text: StreamingText,
    stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """An answer that has not begun, to an opening that fits the context. Raises OutOfMemory."""
    parts.limits.hold()
    began = perf_counter()
    with told_when_full():
        try:
            drafting.begin(sequence, settings.draft)  # may read heads, and try them
        except Exception as error:
            if not parts.survives(error):
                raise
            read_anew(sequence, drafting, settings)
    waited = perf_counter() - began
    generation = settings.generation
    limits = Limits(
        end_ids=frozenset() if generation.ignore_eos else parts.tokenizer.end_ids,
        max_tokens=generation.max_tokens,
        context_length=parts.context_length,
    )
    answer = Answer(
        sequence,
        drafting,
        opening,
        limits,
        text,
        settings,
        parts.chunk,
        parts.noise,
        stopped,
        parts.survives,
    )
    answer.tally.waited_seconds = waited
    return answer


def read_anew(sequence: TokenSequence, drafting: Drafting, settings: Settings) -> None:
    """Forget all that was read, after an error, and begin with a draft source of its own."""
    sequence.forget()
    drafting.forget()
    drafting.begin(sequence, settings.draft)


def raw_answer(
    parts: ModelParts,
    settings: Settings,
    prompt: Sequence[int],
    learned: Learned,
    stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """The same in a conversation of its own, to a raw prompt that is not empty."""
    return open_answer(
        parts,
        settings,
        TokenSequence(parts.model),
        Drafting(parts.drafting, learned),
        Opening(tuple(prompt), len(prompt) - 1),
        StreamingText(parts.tokenizer, settings.generation.stop, split_thinking=False),
        stopped,
    )
