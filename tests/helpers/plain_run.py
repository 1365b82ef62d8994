"""Runs the decoding loop on tokens alone, with any draft source, for comparing texts."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.opening import Opening
from mlx_engine.decoding.stop_rules import StopRules
from mlx_engine.decoding.track import Track
from mlx_engine.drafting.contract import DraftSource, Offer
from mlx_engine.drafting.draft_length import Choice, DraftLength, FixedLength
from mlx_engine.models.contract import Adapter
from mlx_engine.values.events import TextPiece
from mlx_engine.values.options import SamplingOptions
from mlx_engine.values.stats import GenerationStats


class TokenText:
    """Takes tokens and shows nothing; a stop string here is a pair of neighbouring tokens."""

    def __init__(self, stop_pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._stop_pairs = set(stop_pairs)
        self._before = -1
        self.hit_stop = False
        self.text = ""
        self.thinking = ""

    def add(self, token: int, depth: int = 0) -> list[TextPiece]:
        self.hit_stop = self.hit_stop or (self._before, token) in self._stop_pairs
        self._before = token
        return []

    def finish(self) -> list[TextPiece]:
        return []


@dataclass
class Fixed:
    """A control that never changes its mind."""

    options: SamplingOptions
    choose: DraftLength
    is_stopped: Callable[[], bool] = field(default=lambda: False)

    def stopped(self) -> bool:
        return self.is_stopped()

    def sampling(self) -> SamplingOptions:
        return self.options

    def length(self, offers: Sequence[Offer]) -> DraftLength:
        del offers
        return self.choose


class CyclingLength:
    """Depths in a given order, over and over."""

    def __init__(self, depths: Sequence[int]) -> None:
        self._depths = itertools.cycle(depths)

    def next(self) -> Choice:
        return Choice(next(self._depths), None)

    def learn(self, drafted: int, accepted: int) -> None:
        pass

    def took(self, drafted: int, milliseconds: float) -> None:
        pass


@dataclass(frozen=True)
class Ran:
    tokens: list[int]
    stats: GenerationStats
    track: Track


def run(
    adapter: Adapter,
    prompt: Sequence[int],
    source: DraftSource,
    depth: int | DraftLength,
    *,
    options: SamplingOptions | None = None,
    max_tokens: int = 24,
    seed: int = 1,
    end_ids: Iterable[int] = (),
    stop_pairs: Iterable[tuple[int, int]] = (),
    context_length: int = 4096,
    chunk: int = 7,
    track: Track | None = None,
) -> Ran:
    """One answer at a pinned depth, or at those of a DraftLength; checks the track afterwards."""
    track = track or Track(adapter, source)
    length = FixedLength(depth) if isinstance(depth, int) else depth
    answer = Answer(
        track,
        Opening(tuple(prompt)),
        len(prompt) - 1,
        StopRules(frozenset(end_ids), max_tokens, context_length),
        TokenText(stop_pairs),
        Fixed(options or SamplingOptions(temperature=0), length),
        seed,
        chunk,
    )
    for _ in answer.events():
        pass
    track.check()
    return Ran(answer.tokens, answer.tally.stats(), track)
