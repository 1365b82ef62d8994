"""Token ids in, pieces of text out that never cut a character or show part of a stop string."""

import codecs
from collections.abc import Iterable

from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Channel, TextPiece

THINKING_MARKERS = (
    ("<think>", "", "</think>"),
    ("<longcat_think>", "", "</longcat_think>"),
    ("<|think:start|>", "", "<|think:end|>"),
    ("<|channel>", "thought", "<channel|>"),
)
"""Token and text that open thinking, and the token that closes it; the first, unless a vocabulary
has the tokens of another.

mlx-lm has such a list too, inside a function of a module that imports transformers.
"""

CHANNELS = ("<|start|>", "<|channel|>", "<|message|>")
"""Tokens of gpt-oss's messages, `<|start|>role<|channel|>name<|message|>text<|end|>`: an answer is
the text of channel "final", that of every other is thinking
(https://github.com/openai/harmony, docs/format.md).
"""
BETWEEN = "\n\n"
"""Between two messages of one channel."""


class StreamingText:
    """One answer being written.

    stop: strings that end the text, in the answer and in the thinking alike; the one that is
    complete first wins (of two that end together, the longer), and neither it nor anything after it
    is emitted. thinking_open: the prompt ended inside a think block. split_thinking: a marker of
    thinking at the beginning of an answer and the one that closes it switch the channel and are not
    shown, nor is white space right after them; it does not matter whether they come as tokens of
    their own or are spelled out. Anywhere else they are text. Special tokens are never shown. In a
    vocabulary with CHANNELS these tokens do the same instead, as often as they come.

    What is emitted does not depend on how tokens are grouped in time. Without markers and stop
    strings the pieces joined are `tokenizer.decode(all)`, except that SentencePiece byte tokens are
    replaced by U+FFFD only where they are not UTF-8, not as a whole run.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: tuple[str, ...] = (),
        thinking_open: bool = False,
        split_thinking: bool = True,
    ) -> None:
        self._tokenizer = tokenizer
        self._stop = stop
        self._has_channels = split_thinking and all(map(tokenizer.has_token, CHANNELS))
        self._header: str | None = None
        self._markers = (
            _markers_of(tokenizer) if split_thinking and not self._has_channels else None
        )
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: int | None = None
        self._held = ""
        self._channel: Channel = "thinking" if thinking_open and split_thinking else "answer"
        self._after_marker = thinking_open and split_thinking
        self._shown: dict[Channel, list[str]] = {"answer": [], "thinking": []}
        self._answer_blank = True
        self.hit_stop = False

    @property
    def text(self) -> str:
        """The answer emitted so far."""
        return "".join(self._shown["answer"])

    @property
    def thinking(self) -> str:
        """The thinking emitted so far."""
        return "".join(self._shown["thinking"])

    def add(self, token: int, depth: int = 0) -> list[TextPiece]:
        """What `token` makes final, labelled with its draft depth; nothing once a stop was hit."""
        if self.hit_stop:
            return []
        if token in self._tokenizer.special_ids:
            text = self._tokenizer.token_text(token)
            if self._has_channels and text in CHANNELS:
                return self._go_through_header(text)
            if not self._may_switch(text):
                return []
        data = self._tokenizer.token_bytes.of_token(token, self._before)
        self._before = token
        characters = self._utf8.decode(data)
        if self._header is not None:
            self._header += characters
            return []
        return self._read(characters, depth, last=False)

    def finish(self) -> list[TextPiece]:
        """What was held back; an incomplete character becomes U+FFFD."""
        if self.hit_stop:
            return []
        return self._read(self._utf8.decode(b"", final=True), 0, last=True)

    def _go_through_header(self, token: str) -> list[TextPiece]:
        """From the end of one message to the text of the next."""
        if token != CHANNELS[-1]:
            self._header = ""
            return self._read(self._utf8.decode(b"", final=True), 0, last=True)
        is_answer = self._header in (None, "", "final", "assistant")
        self._header, self._after_marker = None, True
        self._channel = "answer" if is_answer else "thinking"
        if not self._shown[self._channel]:
            return []
        self._shown[self._channel].append(BETWEEN)
        return [TextPiece(BETWEEN, self._channel)]

    def _read(self, characters: str, depth: int, last: bool) -> list[TextPiece]:
        pieces: list[TextPiece] = []
        for character in characters:
            self._held += character
            stops = [len(stop) for stop in self._stop if self._held.endswith(stop)]
            if stops:
                pieces += self._release(max(stops), depth)
                self.hit_stop = True
                return _joined(pieces)
            marker = self._wanted_marker()
            if marker and self._held.endswith(marker):
                pieces += self._release(len(marker), depth)
                self._switch()
            else:
                keep = max(
                    _open_length(self._held, p) for p in ("", *self._stop, *(self._markers or ()))
                )
                pieces += self._release(keep, depth)
        if last:
            pieces += self._release(0, depth)
        return _joined(pieces)

    def _release(self, keep: int, depth: int) -> list[TextPiece]:
        """Emits all that is held but the last `keep` characters."""
        end = len(self._held) - keep
        text, self._held = self._held[:end], self._held[end:]
        if self._after_marker:
            text = text.lstrip()
            self._after_marker = not text
        if not text:
            return []
        self._shown[self._channel].append(text)
        if self._channel == "answer" and not text.isspace():
            self._answer_blank = False
        return [TextPiece(text, self._channel, depth)]

    def _may_switch(self, token: str) -> bool:
        """Whether a special token is the next marker, or what it begins with."""
        marker = self._wanted_marker()
        return bool(marker) and marker.startswith(token)

    def _wanted_marker(self) -> str:
        """What would switch the channel now, if anything: thinking opens before all answer."""
        if self._markers is None:
            return ""
        opening, closing = self._markers
        if self._channel == "thinking":
            return closing
        is_first = self._answer_blank and not self._held.removesuffix(opening).strip()
        return opening if is_first else ""

    def _switch(self) -> None:
        self._held = ""
        self._channel = "answer" if self._channel == "thinking" else "thinking"
        self._after_marker = True


def _markers_of(tokenizer: Tokenizer) -> tuple[str, str]:
    known = (row for row in THINKING_MARKERS if all(map(tokenizer.has_token, (row[0], row[2]))))
    token, text, closing = next(known, THINKING_MARKERS[0])
    return token + text, closing


def _open_length(text: str, pattern: str) -> int:
    """How many of the last characters of `text` may be the beginning of `pattern`."""
    lengths = range(min(len(pattern) - 1, len(text)), 0, -1)
    return next((length for length in lengths if text.endswith(pattern[:length])), 0)


def _joined(pieces: Iterable[TextPiece]) -> list[TextPiece]:
    """Neighbours of one channel as one piece."""
    joined: list[TextPiece] = []
    for piece in pieces:
        same = bool(joined) and joined[-1].channel == piece.channel
        before = joined.pop().text if same else ""
        joined.append(TextPiece(before + piece.text, piece.channel, piece.depth))
    return joined
