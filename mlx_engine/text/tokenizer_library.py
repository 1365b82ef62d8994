"""The border to the `tokenizers` library, which runs what a file says that others wrote."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from threading import Thread
from typing import Any, TypeVar

import tokenizers
from tokenizers import models

from mlx_engine.text.gguf_pre_tokenizers import PATTERNS
from mlx_engine.values.environment import use_one_tokenizer_thread
from mlx_engine.values.errors import BadTokenizer, EngineError

SECONDS, CHARACTERS_A_SECOND = 5.0, 100_000
"""How long a text may take; ordinary tokenizers read ten times as many characters in a second."""
_SHORT = 2000
"""Characters that need no thread where all patterns are known."""
MOST_GROWTH = 100
"""Times as long as before that a text may be after all replacements of a file."""
LONGEST_TEXT = 2_000
"""Characters of a token that a text is searched for."""
ADDED_CHARACTERS, PIECE_CHARACTERS = 1_000_000, 4_000_000
"""Of all added tokens, and of all pieces of a trie; the largest vocabularies have half of that."""
T = TypeVar("T")


@contextmanager
def library_errors(origin: str) -> Iterator[None]:
    """Raise BadTokenizer, naming `origin`, for whatever the library raises in the body.

    A panic of Rust among it, which is no Exception.
    """
    try:
        yield
    except (EngineError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise BadTokenizer(
            "{origin}: the tokenizer fails ({error}). Get it again from where the model comes"
            " from.",
            origin=origin,
            error=(str(error) or type(error).__name__)[:300],
        ) from error


def _has_known_patterns(core: tokenizers.Tokenizer) -> bool:
    """Whether `core` merges byte pairs, and cuts texts by published patterns alone."""
    parts = (core.normalizer, core.pre_tokenizer, core.decoder)
    steps = [step for part in parts for step in steps_of(part)]
    patterns = {step.get("pattern", {}).get("Regex") for step in steps} - {None}
    return isinstance(core.model, models.BPE) and len(steps) < 20 and patterns <= PATTERNS


class TimedCalls:
    """Work of one core on texts; BadTokenizer, naming `origin`, when it fails or takes too long.

    A file's patterns may take hours for a line of text (backtracking), and nothing can stop them:
    the work runs on a thread that is left behind then, and nothing more is asked of the core.
    """

    def __init__(self, origin: str, core: tokenizers.Tokenizer | None = None) -> None:
        use_one_tokenizer_thread()
        self._origin = origin
        self._is_known = core is not None and _has_known_patterns(core)
        self._left_behind: Thread | None = None

    def run(self, work: Callable[[], T], characters: int) -> T:
        """The result of `work` on a text of so many characters."""
        if self._is_known and characters < _SHORT:
            with library_errors(self._origin):
                return work()
        future = Future[T]()
        seconds = SECONDS + characters / CHARACTERS_A_SECOND
        if self._left_behind is None or not self._left_behind.is_alive():
            thread = Thread(target=_finish, args=(work, future), name="tokenizer", daemon=True)
            thread.start()
            wait([future], seconds)
            self._left_behind = None if future.done() else thread
        if not future.done():
            raise BadTokenizer(
                "{origin}: the tokenizer needs more than {seconds:.0f} s for a text of {characters}"
                " characters. Shorten the text, or get the tokenizer from where the model comes"
                " from.",
                origin=self._origin,
                seconds=seconds,
                characters=characters,
            )
        with library_errors(self._origin):
            return future.result()


def _finish(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def steps_of(part: Any) -> list[dict[str, Any]]:
    """Descriptions of a normalizer, pre-tokenizer or decoder; those of a sequence in its order."""
    return [] if part is None else list(_flat(json.loads(part.__getstate__())))


def _flat(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for key in ("normalizers", "pretokenizers", "decoders"):
        for part in step.get(key, ()):
            yield from _flat(part)


def check_texts(texts: Iterable[str], most: int, origin: str) -> None:
    """Raise BadTokenizer for added tokens, or pieces of a trie, that the library cannot hold.

    One of half a million characters overflows its stack, and all together are searched for.
    """
    lengths = [len(text) for text in texts]
    if max(lengths, default=0) > LONGEST_TEXT or sum(lengths) > most:
        raise BadTokenizer(
            "{origin}: its tokens are far longer than any words. Get it again from where the model"
            " comes from.",
            origin=origin,
        )


def check_growth(core: tokenizers.Tokenizer, origin: str) -> None:
    """Raise BadTokenizer where replacements in turn could make gigabytes of a short text."""
    for part in (core.normalizer, core.decoder):
        growth = 1.0
        for step in steps_of(part):
            if step["type"] in ("Replace", "Prepend"):
                replaced = len(step.get("pattern", {}).get("String", "")) or 1
                growth *= max(1, len(step.get("content", step.get("prepend", ""))) / replaced)
        if growth > MOST_GROWTH:
            raise BadTokenizer(
                "{origin}: its replacements could make a text {growth:.0f} times as long, more than"
                " {most} times. Get it again from where the model comes from.",
                origin=origin,
                growth=growth,
                most=MOST_GROWTH,
            )
