"""Reads a prompt in chunks, with progress, until one token is left for the first round."""

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx

from mlx_engine.decoding.track import Track
from mlx_engine.values.events import PromptProgress


def prefill(
    track: Track, prompt: Sequence[int], chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all of `prompt` but its last token; ends early, between chunks, when `stopped`.

    What an earlier turn has read is reused.
    """
    reused = track.reuse(prompt)
    total = len(prompt)
    yield PromptProgress(reused, total, reused)
    while len(track.read) < total - 1 and not stopped():
        start = len(track.read)
        tokens = prompt[start : min(start + chunk, total - 1)]
        hidden = track.adapter.forward(mx.array([tokens]), track.caches)
        track.commit(tokens, hidden)
        track.settle()
        yield PromptProgress(len(track.read), total, reused)
    if not stopped():
        track.mark()
