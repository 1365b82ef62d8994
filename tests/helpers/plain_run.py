"""Runs the decoding loop on tokens alone, with any draft source, for comparing texts."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from in_step import assert_in_step

from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.config import DecodeConfig
from mlx_engine.decoding.prompt import Prompt
from mlx_engine.decoding.round import AnswerLimits
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.contract import BatchLimits, DraftChoice, DraftOffer
from mlx_engine.drafting.drafter import Drafter
from mlx_engine.drafting.record import ConcurrentChats
from mlx_engine.models.contract import Model
from mlx_engine.text.streaming_text import AddedText
from mlx_engine.values.conversation import Settings, TextPiece
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import (
    UNQUANTISED,
    CacheOptions,
    DraftedBy,
    SamplingOptions,
)
from mlx_engine.values.stats import GenerationStats


class TokenText:
    """Takes tokens and shows nothing; a stop string here is a pair of neighbouring tokens."""

    def __init__(self, stop_pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._stop_pairs = set(stop_pairs)
        self._before = -1
        self.ended_by_stop = False
        self.stop_string = ""
        self.text = ""
        self.thinking = ""
        self.thought_markers = None

    def add(
        self, tokens: Sequence[int], accepted: int = 0, source: DraftedBy | None = None
    ) -> AddedText:
        taken = 0
        while taken < len(tokens) and not (taken and self.ended_by_stop):
            self.ended_by_stop = (
                self.ended_by_stop or (self._before, tokens[taken]) in self._stop_pairs
            )
            self._before = tokens[taken]
            taken += 1
        return AddedText([], taken)

    def finish(self) -> list[TextPiece]:
        return []


@dataclass(frozen=True)
class Fixed:
    """Drafting whose source and depths are given."""

    depths: "CyclingDepth"

    @property
    def policy(self) -> "Fixed":
        return self

    def adopt_options(self, state: SequenceState, options: object) -> None:
        pass

    def set_batch(self, limits: BatchLimits) -> None:
        pass

    def choose_while_paused(self) -> None:
        return None

    def would_copy_passage(self, offers: Sequence[DraftOffer], depth: object) -> bool:
        del depth
        return any(offer.by == "prompt-lookup" for offer in offers)

    def plan_round(
        self, offers: Sequence[DraftOffer], depth: object, nothing: Reason | None
    ) -> DraftChoice:
        del offers, depth, nothing
        return self.depths.next()

    def learn_round(
        self,
        choice: DraftChoice,
        drafted: int,
        accepted: int,
        milliseconds: float,
        others: ConcurrentChats,
    ) -> None:
        pass


class CyclingDepth:
    """Depths in a given order, over and over."""

    def __init__(self, depths: Sequence[int]) -> None:
        self._depths = itertools.cycle(depths)

    def next(self) -> DraftChoice:
        return DraftChoice(next(self._depths), None)


@dataclass(frozen=True)
class Ran:
    tokens: list[int]
    stats: GenerationStats
    sequence: SequenceState


def opened(
    model: Model,
    prompt: Sequence[int],
    source: Drafter | None,
    depth: int | CyclingDepth,
    *,
    options: SamplingOptions | None = None,
    max_tokens: int = 24,
    seed: int = 1,
    end_ids: Iterable[int] = (),
    stop_pairs: Iterable[tuple[int, int]] = (),
    context_length: int = 4096,
    chunk: int = 7,
    sequence: SequenceState | None = None,
    cache: CacheOptions = UNQUANTISED,
    stopped: Callable[[], bool] = lambda: False,
    batch: BatchScheduler | None = None,
    looks_ahead: bool = False,
    follows_drafts: bool = True,
    **more: Any,
) -> Answer:
    """One answer at a pinned depth, or at those given, to be read.

    source: for a new sequence; one that is given has its own. more: of how answers are made.
    """
    batch = batch or BatchScheduler(reader=outcome_reader())
    batch.looks_ahead, batch.follows_drafts = looks_ahead, follows_drafts
    return Answer(
        DecodeConfig(chunk=chunk, batch=batch, **more),
        sequence or SequenceState(model, source, cache),
        Fixed(CyclingDepth([depth]) if isinstance(depth, int) else depth),
        Prompt(tuple(prompt), len(prompt) - 1),
        AnswerLimits(frozenset(end_ids), max_tokens, context_length),
        TokenText(stop_pairs),
        Settings(replace(options or SamplingOptions(temperature=0), seed=seed)),
        stopped,
    )


def run(*given: Any, said: list[int] | None = None, **more: Any) -> Ran:
    """The answer that `opened` opens, to its end; checks the sequence afterwards.

    said: where tokens go, for answers that come to no end.
    """
    answer = opened(*given, **more)
    answer.tokens = answer.tokens if said is None else said
    for _ in answer.events():
        pass
    assert_in_step(answer.sequence)
    return Ran(answer.tokens, answer.tally.stats(), answer.sequence)
