"""Limits and error handling around the `tokenizers` library, which runs untrusted definitions."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar

import tokenizers
from tokenizers import models

from mlx_engine.text.pre_tokenizers import PATTERNS
from mlx_engine.values.environment import use_one_tokenizer_thread
from mlx_engine.values.errors import BadTokenizer, EngineError

SECONDS, CHARACTERS_A_SECOND = 5.0, 100_000
"""Time limit of a call: SECONDS, plus the text at CHARACTERS_A_SECOND (a tenth of usual speed)."""
_SHORT = 2000
"""Texts of fewer characters are encoded without a thread where all split patterns are known."""
MOST_GROWTH = 100
"""Largest factor by which replacements may lengthen a text."""
LONGEST_TEXT = 2_000
"""Most characters of an added token, or of a piece of a trie."""
ADDED_CHARACTERS, PIECE_CHARACTERS = 1_000_000, 4_000_000
"""Most characters of all added tokens, and of all pieces of a trie; twice the largest known."""
SPACE = "\u2581"
"""Space in the pieces of SentencePiece."""
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
T = TypeVar("T")


@contextmanager
def translate_library_errors(origin: str) -> Iterator[None]:
    """Turn exceptions of the `tokenizers` library, Rust panics too, into BadTokenizer.

    origin: the file that the message names.
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
    """Whether a tokenizer is BPE and splits text only by patterns of pre_tokenizers.py."""
    parts = (core.normalizer, core.pre_tokenizer, core.decoder)
    steps = [step for part in parts for step in pipeline_steps(part)]
    patterns = {step.get("pattern", {}).get("Regex") for step in steps} - {None}
    return isinstance(core.model, models.BPE) and len(steps) < 20 and patterns <= PATTERNS


class TimedCalls:
    """Run calls of a tokenizer with a time limit; raises BadTokenizer at a failure or timeout.

    A pattern that backtracks may take hours and cannot be interrupted, so it runs in a thread that
    is abandoned at a timeout. While an abandoned thread runs, further calls fail at once.
    """

    def __init__(self, origin: str, core: tokenizers.Tokenizer | None = None) -> None:
        use_one_tokenizer_thread()
        self._origin = origin
        self._is_known = core is not None and _has_known_patterns(core)
        self._abandoned_thread: Thread | None = None

    def run(self, work: Callable[[], T], characters: int) -> T:
        """Return work(), a call of the tokenizer; BadTokenizer if it takes too long.

        characters: length of the text it reads, which sets the time limit.
        """
        if self._is_known and characters < _SHORT:
            with translate_library_errors(self._origin):
                return work()
        future = Future[T]()
        seconds = SECONDS + characters / CHARACTERS_A_SECOND
        if self._abandoned_thread is None or not self._abandoned_thread.is_alive():
            thread = Thread(
                target=_run_into_future, args=(work, future), name="tokenizer", daemon=True
            )
            thread.start()
            wait([future], seconds)
            self._abandoned_thread = None if future.done() else thread
        if not future.done():
            raise BadTokenizer(
                "{origin}: the tokenizer needs more than {seconds:.0f} s for a text of {characters}"
                " characters. Shorten the text, or get the tokenizer from where the model comes"
                " from.",
                origin=self._origin,
                seconds=seconds,
                characters=characters,
            )
        with translate_library_errors(self._origin):
            return future.result()


def _run_into_future(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


def pipeline_steps(part: Any) -> list[dict[str, Any]]:
    """Describe the steps of a normalizer, pre-tokenizer or decoder as dicts, in order."""
    return [] if part is None else list(_flatten_step(json.loads(part.__getstate__())))


def _flatten_step(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield step
    for key in ("normalizers", "pretokenizers", "decoders"):
        for part in step.get(key, ()):
            yield from _flatten_step(part)


def check_texts(texts: Iterable[str], most_characters: int, origin: str) -> None:
    """Raise BadTokenizer when a tokenizer's added tokens or vocabulary pieces are too long.

    most_characters: limit for the total number of characters. A token of 500,000 characters
    overflows the library's stack.
    """
    lengths = [len(text) for text in texts]
    if max(lengths, default=0) > LONGEST_TEXT or sum(lengths) > most_characters:
        raise BadTokenizer(
            "{origin}: its tokens are far longer than any words. Get it again from where the model"
            " comes from.",
            origin=origin,
        )


def check_growth(core: tokenizers.Tokenizer, origin: str) -> None:
    """Raise BadTokenizer when a tokenizer could make a text MOST_GROWTH times as long."""
    for part in (core.normalizer, core.decoder):
        growth = 1.0
        for step in pipeline_steps(part):
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


def _byte_level_characters() -> dict[str, int]:
    """GPT-2's map of characters to bytes: printable bytes are themselves, others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(256 + place): byte for place, byte in enumerate(others)}


BYTE_LEVEL = _byte_level_characters()


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Decode single tokens to bytes.

    byte_level, pieces: whether the decoder is GPT-2's or SentencePiece's; with any other decoder a
    token is decoded together with the previous one. drops_first_space: whether the decoder strips
    the first space of a text.
    """

    core: tokenizers.Tokenizer
    origin: str
    byte_level: bool
    pieces: bool
    drops_first_space: bool

    @classmethod
    def from_core(cls, core: tokenizers.Tokenizer, origin: str) -> "TokenBytes":
        """Make the token-to-bytes decoder that fits the tokenizer `core`."""
        steps = pipeline_steps(core.decoder)
        kinds = {step["type"] for step in steps}
        drops = any(
            (step["type"] == "Strip" and step.get("content") == " " and step.get("start") == 1)
            or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        is_of_pieces = bool(kinds & {"ByteFallback", "Metaspace"})
        return cls(core, origin, "ByteLevel" in kinds, is_of_pieces, drops)

    def bytes_of(self, tokens: Iterable[int], before: int | None) -> list[bytes]:
        """Bytes of text that each token adds after those before it, b"" for an unknown one.

        before: the token before the first, None at the start of a text. Raises BadTokenizer.
        """
        found = []
        for token in tokens:
            found.append(self._bytes_of_token(token, before))
            before = token
        return found

    def _bytes_of_token(self, token: int, before: int | None) -> bytes:
        text = self.core.id_to_token(token)
        if text is None:
            return b""
        if self.byte_level:
            try:
                return bytes(map(BYTE_LEVEL.__getitem__, text))
            except KeyError:  # an added token, as it is written
                return text.encode()
        if self.pieces:
            return self._piece_bytes(text, first=before is None)
        with translate_library_errors(self.origin):
            if before is None:
                return self.core.decode([token], skip_special_tokens=False).encode()
            both = self.core.decode([before, token], skip_special_tokens=False)
            alone = self.core.decode([before], skip_special_tokens=False)
            return both[len(alone) :].encode()

    def _piece_bytes(self, text: str, first: bool) -> bytes:
        byte = _BYTE_PIECE.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        spaced = text.replace(SPACE, " ")
        return (spaced.removeprefix(" ") if first and self.drops_first_space else spaced).encode()
