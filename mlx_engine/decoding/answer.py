"""One answer: reads the prompt, plays rounds until something ends it, and reports."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.decoding.opening import Opening
from mlx_engine.decoding.prefill import prefill
from mlx_engine.decoding.rounds import Round, play
from mlx_engine.decoding.stop_rules import StopRules
from mlx_engine.decoding.tally import Tally
from mlx_engine.decoding.track import Track
from mlx_engine.drafting.contract import Offer
from mlx_engine.drafting.draft_length import DraftLength
from mlx_engine.sampling.position_noise import NoiseOfKeys, plain_noise
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.values.events import (
    Event,
    FinishReason,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
)
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.stats import RoundStats


class Control(Protocol):
    """What the owner of an answer may change while it runs; asked before every round."""

    def stopped(self) -> bool:
        """Whether to end now."""

    def sampling(self) -> SamplingOptions:
        """How tokens are picked from now on; the seed stays that of the answer."""

    def length(self, offers: Sequence[Offer]) -> DraftLength:
        """Who chooses among what could be drafted, and the depth."""


class AnswerText(Protocol):
    """Turns tokens into text (text/streaming_text.py)."""

    @property
    def hit_stop(self) -> bool:
        """Whether a stop string is complete."""

    @property
    def text(self) -> str:
        """The answer so far."""

    @property
    def thinking(self) -> str:
        """The thinking so far."""

    def add(self, token: int, depth: int = 0) -> list[TextPiece]:
        """What `token` makes final."""

    def finish(self) -> list[TextPiece]:
        """What was held back."""


class _Taken(NamedTuple):
    """What was kept of a round: how many rows, their text, and whether they end the answer."""

    rows: int
    pieces: list[TextPiece]
    finish: FinishReason | None


class _Played(NamedTuple):
    """A round and the part of its figures known before it is kept."""

    round: Round
    stats: RoundStats


class Answer:
    """Runs once; `tokens` holds the answer so far without its end token.

    stable: prompt tokens that the next turn's prompt is sure to begin with. Whatever interrupts an
    answer (the owner, a reader that walks away), the track stands after tokens that were really
    emitted; after an error the track is of no use.
    """

    def __init__(
        self,
        track: Track,
        opening: Opening,
        stable: int,
        rules: StopRules,
        text: AnswerText,
        control: Control,
        seed: int,
        chunk: int,
        noise: NoiseOfKeys = plain_noise,
    ) -> None:
        everything = opening.tokens
        self.tokens = list(opening.answered)
        self.tally = Tally(seed=seed, prompt_tokens=len(everything))
        self._track = track
        self._opening = opening
        self._stable = stable
        self._rules = rules
        self._text = text
        self._control = control
        self._chunk = chunk
        self._noise = noise
        self._last = everything[-1]
        self._generated = 0
        self._tried = 0
        self._finish: FinishReason | None = None
        self._length = control.length(())
        self._options = control.sampling()
        self._sampler = self._new_sampler(opening.answered)
        for token in opening.answered:
            text.add(token)

    def events(self) -> Iterator[Event]:
        """Progress, text and rounds. Raises NumericsError."""
        mx.reset_peak_memory()
        yield from self._read_prompt()
        while self._finish is None:
            if self._control.stopped():
                self._finish = "stopped"
                break
            started = perf_counter()
            played = self._play()
            checked = perf_counter()
            taken = self._take(played)
            ended = perf_counter()
            stats = replace(played.stats, accept_ms=1000 * (ended - checked))
            booked = self._book(stats, taken.rows, ended - started)
            yield from taken.pieces
            yield RoundFinished(booked)
            self._finish = taken.finish
        yield from self._text.finish()
        self._track.settle()
        self.tally.peak_memory_bytes = mx.get_peak_memory()

    def finished(self) -> GenerationFinished:
        """The last event, once `events` has come to its end."""
        assert self._finish is not None
        return GenerationFinished(
            self._finish, self.tally.stats(), self._text.text, self._text.thinking
        )

    def _read_prompt(self) -> Iterator[PromptProgress]:
        steps = prefill(
            self._track, self._opening.tokens, self._stable, self._chunk, self._control.stopped
        )
        while True:
            started = perf_counter()
            progress = next(steps, None)
            self.tally.prompt_seconds += perf_counter() - started
            if progress is None:
                return
            self.tally.reused_tokens = progress.reused
            yield progress

    def _play(self) -> _Played:
        self._follow_sampling()
        self._length = self._control.length(self._track.source.offers(self._last))
        choice = self._length.next()
        read = len(self._track.read)
        depth = min(choice.depth, self._rules.deepest(self._generated, read))
        played = play(self._track, self._last, depth, self._sampler, choice.by)
        # what was asked for counts where a model worked for it: it may have ended its draft early
        self._tried = depth if played.draft_passes else played.drafted
        if self._tried:
            self._length.learn(self._tried, played.won.stood)
        stats = RoundStats(
            position=read + 1,
            depth=choice.depth,
            drafted=played.drafted,
            accepted=played.won.stood,
            emitted=0,
            draft_ms=played.draft_ms,
            verify_ms=played.verify_ms,
            host_ms=0.0,
            why=choice.why,
            auto_depth=choice.auto,
            source=choice.by if played.drafted else None,
            draft_passes=played.draft_passes,
        )
        return _Played(played, stats)

    def _take(self, result: _Played) -> _Taken:
        """Read the won tokens as text until one ends the answer, and keep them everywhere."""
        played, source = result.round, result.stats.source
        pieces: list[TextPiece] = []
        finish: FinishReason | None = None
        count = 0
        position = len(self._track.read) + 1
        for token in played.won.tokens:
            self._generated += 1
            finish = self._rules.finish(token, self._generated, position + count)
            count += 1
            if finish != "end":
                self.tokens.append(token)
                depth = count if count <= played.won.stood else 0
                fresh = self._text.add(token, depth)
                pieces.extend(replace(piece, source=source) if depth else piece for piece in fresh)
                finish = "stop-string" if self._text.hit_stop else finish
            if finish is not None:
                break
        self._track.commit(played.rows(self._last, count), played.hidden)
        self._sampler.commit(played.won.tokens[:count])
        self._last = played.won.tokens[count - 1]
        return _Taken(count, pieces, finish)

    def _book(self, stats: RoundStats, emitted: int, seconds: float) -> RoundStats:
        known = stats.total_ms
        booked = replace(
            stats,
            emitted=emitted,
            accepted=min(stats.accepted, emitted),
            host_ms=max(0.0, 1000 * seconds - known),
        )
        self._length.took(self._tried, 1000 * seconds)
        tally = self.tally
        tally.decode_seconds += seconds
        if not tally.rounds:
            tally.first_token_seconds = tally.prompt_seconds + seconds
        tally.rounds.append(booked)
        return booked

    def _follow_sampling(self) -> None:
        """Take over options changed since the last round."""
        options = self._control.sampling()
        if options != self._options:
            self._options = options
            self._sampler = self._new_sampler(self.tokens)

    def _new_sampler(self, answered: Sequence[int]) -> Sampler:
        """A sampler that knows the prompt and the answer so far."""
        vocabulary = self._track.adapter.vocabulary
        sampler = Sampler(self._options, vocabulary, self.tally.seed, self._noise)
        sampler.begin(self._opening.prompt)
        sampler.commit(answered)
        return sampler
