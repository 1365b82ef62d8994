"""Reads a prompt in chunks, with progress, until one token is left for the first round."""

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx

from mlx_engine.decoding.track import Track
from mlx_engine.values.events import PromptProgress


def prefill(
    track: Track, prompt: Sequence[int], stable: int, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all of `prompt` but its last token; ends early, between chunks, when `stopped`.

    What an earlier turn has read is reused. After `stable` tokens the track marks a place to come
    back to; without effect where the track is already past it.
    """
    reused = track.reuse(prompt)
    last = len(prompt) - 1
    yield PromptProgress(reused, len(prompt), reused)
    while not stopped():
        start = len(track.read)
        if start == stable:
            track.mark()
        if start == last:
            return
        stops = [place for place in (stable, last) if place > start]
        tokens = prompt[start : min(start + chunk, *stops)]
        hidden = track.adapter.forward(mx.array([tokens]), track.caches)
        track.commit(tokens, hidden)
        track.settle()
        yield PromptProgress(len(track.read), len(prompt), reused)
