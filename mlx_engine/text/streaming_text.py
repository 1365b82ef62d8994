"""Turn streamed token ids into text: whole characters, channels separated, stop strings hidden."""

import codecs
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from mlx_engine.text.channels import (
    CONTENT_TYPE,
    HEADER_TOKENS,
    THINKING,
    MessageHeader,
    ThinkingMarkers,
    cached_matcher,
)
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Channel, TextPiece
from mlx_engine.values.options import DraftedBy

BLOCK_SEPARATOR = "\n\n"
"""Separator between two blocks of one channel."""
_QUOTES = "`'\""
_QUOTING = "`'\"“‘«([{<=/,;:|"
_SENTENCE_ENDS = ".!?…。！？"


class _MarkdownState(NamedTuple):
    """What is known of a Markdown text up to a position, to recognize code and quotations.

    start: first three visible characters of the line. ticks: backticks in the line. before: last
    visible character of the line. last: last character of the text.
    """

    in_fence: bool = False
    start: str = ""
    ticks: int = 0
    before: str = ""
    last: str = "\n"

    def after_text(self, text: str) -> "_MarkdownState":
        """Return the state of this Markdown text with `text` appended."""
        in_fence, start, ticks, before, last = self
        for character in text:
            if character == "\n":
                in_fence ^= start == "~~~" or (start == "```" and ticks < 6)
                start, ticks, before = "", 0, ""
            elif not character.isspace():
                start = start if len(start) == 3 else start + character
                ticks += character == "`"
                before = character
            last = character
        return _MarkdownState(in_fence, start, ticks, before, last)

    @property
    def is_in_code(self) -> bool:
        """Whether the end of the Markdown text is in a code fence or after an open backtick."""
        return self.in_fence or self.ticks % 2 == 1 or self.start == "~~~"

    @property
    def can_open_block(self) -> bool:
        """Whether a thinking marker after this text opens thinking, rather than being quoted."""
        if self.is_in_code or self.before in _QUOTING:
            return not self.before and not self.in_fence
        return self.last == self.before or self.before in _SENTENCE_ENDS


class AddedText(NamedTuple):
    """What newly generated tokens add to the text of a streamed answer.

    pieces: text that became certain, in order. taken: number of tokens read, fewer than given where
    one completes a stop string. channels: of each token read; a marker belongs to the thinking.
    """

    pieces: list[TextPiece]
    taken: int
    channels: tuple[Channel, ...] = ()


class StreamingText:
    """Text of one answer while it is generated, split into answer and thinking.

    stop: strings that end the text in either channel and are not shown; the one completed first
    wins, of two at one place the longer. thinking_open: True where the prompt ends inside a
    thinking block, False just after one. split_thinking: switch channels at the markers of
    channels.py, which are hidden like the white space after them. template: source of the chat
    template. continued_from: last token of a prompt that ends inside the answer. Special tokens are
    never shown, except shown_tokens, which count as plain text.

    Markers count as tokens or spelled out:

    - opening: of any family at the beginning of an answer, and again at that of the thinking;
      later only this model's, at the beginning of a line, after a sentence, or after a word
      without a space, but not in code;
    - closing: of the family that opened, unless between two backticks. Without an opening marker,
      this model's closing marker turns all text before it into thinking, unless that text
      quotes markers, ends in code or a quotation mark, or follows thinking;
    - answer markers after thinking.

    Special tokens count anywhere. With HEADER_TOKENS in the vocabulary, message headers switch
    channels instead.

    The text does not depend on how characters are grouped into tokens. Without markers and stop
    strings it equals `tokenizer.decode(all)`, except that SentencePiece byte tokens become U+FFFD
    only where they are not UTF-8, not as a whole run.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop: tuple[str, ...] = (),
        thinking_open: bool | None = None,
        split_thinking: bool = True,
        template: str = "",
        continued_from: int | None = None,
        shown_tokens: Collection[str] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._shown_tokens = shown_tokens
        self._stop = stop
        self._has_headers = split_thinking and all(map(tokenizer.has_token, HEADER_TOKENS))
        self._header: str | None = None
        self._recipient = ""
        rows = THINKING if split_thinking and not self._has_headers else ()
        known = tuple(row for row in rows if row.is_used_by(tokenizer, template))
        is_told = any(row.opening in template for row in known)
        self._knows_thoughts = is_told or (bool(rows) and thinking_open is True)
        self._own = (*known, *rows[:1])
        self._any = tuple(row for row in rows if row in known or not row.is_plain_text)
        self._opened = self._own if known else self._any
        self._closed: tuple[ThinkingMarkers, ...] = ()
        texts = [text for row in self._any for text in (row.opening, row.closing, *row.answer)]
        self._matcher = cached_matcher((*stop, *texts))
        self._state = 0
        self._held: list[str] = []
        self._undecided: _FoundMarker | None = None
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._before = continued_from
        self._channel: Channel = "thinking" if thinking_open and split_thinking else "answer"
        self._after_marker = self._channel == "thinking" and continued_from is None
        self._is_blank = continued_from is None
        self._shown: dict[Channel, list[str]] = {"answer": [], "thinking": []}
        self._markdown = _MarkdownState()
        self._not_in_markdown: list[str] = []
        self._may_be_thought = thinking_open is None and continued_from is None
        self._is_answer_marked = False
        self._source: DraftedBy | None = None
        self.stop_string = ""

    @property
    def ended_by_stop(self) -> bool:
        """Whether a stop string has ended the text; `stop_string` is that string."""
        return bool(self.stop_string)

    @property
    def thought_markers(self) -> ThinkingMarkers | None:
        """Markers of this model's thoughts; None where its template tells of none."""
        return self._own[0] if self._knows_thoughts else None

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds inside a text; of a special token those of its name.

        A token that cannot be decoded has none.
        """
        if token in self._tokenizer.special_ids:
            return self._tokenizer.token_text(token).encode()
        (data,) = self._tokenizer.token_bytes.bytes_of([token], 0)
        return data

    @property
    def text(self) -> str:
        """The streamed answer's text so far, thinking excluded."""
        return "".join(self._shown["answer"])

    @property
    def thinking(self) -> str:
        """The streamed answer's thinking so far."""
        return "".join(self._shown["thinking"])

    def add(
        self, tokens: Sequence[int], accepted: int = 0, source: DraftedBy | None = None
    ) -> AddedText:
        """Add generated tokens, up to one that completes a stop string; return newly certain text.

        The first `accepted` tokens were drafted by `source`: text that becomes certain with the
        n-th of them has depth n and that source, all other text has depth 0.
        """
        self._source = source
        pieces, channels = list[TextPiece](), list[Channel]()
        count, special = 0, self._tokenizer.special_ids
        plain = [token for token in tokens if token not in special]
        texts = iter(self._tokenizer.token_bytes.bytes_of(plain, self._before))
        self._before = plain[-1] if plain else self._before
        for count, token in enumerate(tokens, 1):
            depth, channel = count if count <= accepted else 0, self._channel
            if token not in special:
                pieces += self._add_bytes(next(texts), depth)
            elif not self.ended_by_stop:
                text = self._tokenizer.token_text(token)
                is_shown = text in self._shown_tokens
                read = self._read_characters if is_shown else self._read_special_token
                pieces += _join_pieces(read(text, depth))
            channels.append("thinking" if "thinking" in (channel, self._channel) else "answer")
            if self.ended_by_stop:
                break
        return AddedText(pieces, count, tuple(channels))

    def finish(self) -> list[TextPiece]:
        """End the answer; return the text held back so far, incomplete characters as U+FFFD."""
        if self.ended_by_stop:
            return []
        return _join_pieces(
            [*self._end_message(), *self._end_message_header(), *self._show_held(0, 0)]
        )

    def _add_bytes(self, data: bytes, depth: int) -> list[TextPiece]:
        if self.ended_by_stop:
            return []
        characters = self._utf8.decode(data)
        is_plain = not self._state and self._matcher.starts.isdisjoint(characters)
        if is_plain and self._header is None:
            return self._show_text(characters, depth)
        return _join_pieces(self._read_characters(characters, depth))

    def _read_special_token(self, text: str, depth: int) -> list[TextPiece]:
        """Take in a generated special token, whose own text is never shown."""
        if not self._has_headers or (text not in HEADER_TOKENS and self._header is None):
            return (
                self._read_pieces(text, depth, is_token=True)
                if self._may_begin_marker(text)
                else []
            )
        if text not in self._stop:
            return self._read_header_token(text)
        pieces, self.stop_string = self._end_message(), text
        return pieces

    # messages of gpt-oss

    def _read_characters(self, characters: str, depth: int) -> list[TextPiece]:
        """Take in generated characters: of the message or, where one is open, of its header."""
        for place, character in enumerate(characters):
            if self._header is None:
                return self._read_pieces(characters[place:], depth)
            self._header += character
            if MessageHeader.parse(self._header).contains_message_text:
                return self._end_message_header(depth) + self._read_characters(
                    characters[place + 1 :], depth
                )
        return []

    def _read_header_token(self, token: str) -> list[TextPiece]:
        """Take in a gpt-oss special token between two messages' texts."""
        start, channel, message = HEADER_TOKENS
        if token == CONTENT_TYPE:
            self._header = f"{self._header or ''}{token}"
            return []
        pieces = self._end_message()
        if token == message:
            pieces += self._begin_message(MessageHeader.parse(self._header or ""))
        elif token == channel and self._header is not None:  # it was a role
            self._recipient = MessageHeader.parse(self._header).recipient
            self._header = ""
        else:
            pieces += self._end_message_header()
            self._header = "" if token in (start, channel) else None
        return pieces

    def _end_message(self) -> list[TextPiece]:
        pieces = self._read_characters(self._utf8.decode(b"", final=True), 0)
        if self._undecided:
            pieces += self._apply_marker(self._undecided, 0)
        return pieces + self._show_held(0, 0) if not self.ended_by_stop else pieces

    def _end_message_header(self, depth: int = 0) -> list[TextPiece]:
        """Begin the message of a gpt-oss header that lacks its `<|message|>`."""
        if self._header is None:
            return []
        header = MessageHeader.parse(self._header)
        return self._begin_message(header) + self._read_pieces(header.text, depth)

    def _begin_message(self, header: MessageHeader) -> list[TextPiece]:
        """Switch to the channel of a gpt-oss message; a call begins with its marker as text."""
        recipient = header.recipient or self._recipient
        self._header, self._recipient = None, ""
        if self._shown_tokens and recipient.startswith("functions."):
            self._switch_channel("answer")
            return self._show_text(f"{HEADER_TOKENS[0]}{recipient}{HEADER_TOKENS[2]}", 0)
        self._switch_channel(header.channel)
        return []

    # markers and stop strings

    def _read_pieces(
        self, characters: str, depth: int, *, is_token: bool = False
    ) -> list[TextPiece]:
        pieces: list[TextPiece] = []
        for character in characters:
            if self._undecided and character != self._markdown_state().last:
                pieces += self._apply_marker(self._undecided, depth)
            self._undecided = None
            self._state = self._matcher.next_state(self._state, character)
            self._held.append("" if is_token else character)
            found = self._matcher.matches(self._state)
            self.stop_string = next((text for text in found if text in self._stop), "")
            if self.stop_string:
                return pieces + self._show_held(len(self.stop_string), depth)
            marker = self._recognise_marker(found[0]) if found else None
            if marker is None:
                pieces += self._show_held(self._matcher.held_length(self._state), depth)
            elif marker.is_undecided:
                pieces += self._show_held(len(marker.text), depth)
                self._undecided = marker
            else:
                pieces += self._apply_marker(marker, depth)
        return pieces

    def _may_begin_marker(self, special_token: str) -> bool:
        """Whether a special token is, or could continue, a thinking marker or stop string."""
        state = self._state
        for character in special_token:
            state = self._matcher.next_state(state, character)
        return self._matcher.held_length(state) >= len(special_token)

    def _recognise_marker(self, text: str) -> "_FoundMarker | None":
        """Decide whether text that looks like a thinking marker is one; None for plain text."""
        before = "".join(self._held[: -len(text)])
        is_first = self._is_blank and not before.strip()
        is_token = "" in self._held[-len(text) :]
        place = self._markdown_state().after_text(before)
        if self._channel == "answer":
            return self._marker_in_answer(text, place, is_first, is_token)
        if closes := [row for row in self._opened if row.closing == text]:
            is_quoted = place.last == "`" and place.is_in_code and not is_token
            return _FoundMarker(text, "closes", tuple(closes), is_undecided=is_quoted)
        is_doubled = is_first and any(row.opening == text for row in self._opened)
        return _FoundMarker(text, "hides") if is_doubled else None

    def _marker_in_answer(
        self, text: str, place: _MarkdownState, is_first: bool, is_token: bool
    ) -> "_FoundMarker | None":
        if opens := tuple(row for row in self._any if row.opening == text):
            is_own = bool(set(opens) & {*self._own, *self._closed})
            if is_first or (is_own and (is_token or place.can_open_block)):
                return _FoundMarker(text, "opens", opens)
            self._may_be_thought = False
            return None
        if closes := tuple(row for row in self._any if row.closing == text):
            if is_first:
                return _FoundMarker(text, "hides")
            is_own = bool(set(closes) & set(self._own)) and self._may_be_thought
            is_quoted = not is_token and (place.is_in_code or place.last in _QUOTES)
            return _FoundMarker(text, "closes", closes) if is_own and not is_quoted else None
        is_own = any(text in row.answer for row in self._closed)
        is_here = is_first or (self._is_answer_marked and not place.is_in_code)
        self._is_answer_marked |= is_token or (is_own and is_here)
        return _FoundMarker(text, "hides") if is_token or (is_own and is_here) else None

    def _apply_marker(self, marker: "_FoundMarker", depth: int) -> list[TextPiece]:
        pieces = self._show_held(len(marker.text), depth)
        self._held.clear()
        self._state = 0
        self._undecided = None
        match marker.does:
            case "opens":
                self._opened = marker.rows
                self._switch_channel("thinking")
            case "closes":
                if self._channel == "answer":
                    self._shown = {"answer": [], "thinking": self._shown["answer"]}
                self._closed = marker.rows
                self._switch_channel("answer")
            case "hides":
                self._after_marker = True
        return pieces

    def _switch_channel(self, channel: Channel) -> None:
        if not self.text.strip():
            self._shown["answer"].clear()
        self._may_be_thought = False
        self._channel, self._markdown = channel, _MarkdownState()
        self._not_in_markdown.clear()
        self._after_marker = self._is_blank = True

    def _show_held(self, characters_kept: int, depth: int) -> list[TextPiece]:
        """Release the answer text held back, except its last `characters_kept` characters."""
        end = len(self._held) - characters_kept
        if end <= 0:
            return []
        text = "".join(self._held[:end])
        del self._held[:end]
        return self._show_text(text, depth)

    def _show_text(self, text: str, depth: int) -> list[TextPiece]:
        """Return the text as a piece of the current channel, less white space after a marker."""
        if self._after_marker:
            text = text.lstrip()
            self._after_marker = not text
            if text and self._shown[self._channel]:
                text = self._missing_line_ends() + text
        if not text:
            return []
        self._shown[self._channel].append(text)
        self._is_blank = self._is_blank and text.isspace()
        self._not_in_markdown.append(text)
        return [TextPiece(text, self._channel, depth, self._source if depth else None)]

    def _markdown_state(self) -> _MarkdownState:
        """Return the Markdown state after the last shown character of the answer or thinking."""
        self._markdown = self._markdown.after_text("".join(self._not_in_markdown))
        self._not_in_markdown.clear()
        return self._markdown

    def _missing_line_ends(self) -> str:
        """The line ends that a blank line after the text shown so far still needs."""
        tail = "".join(self._shown[self._channel][-2:])
        return BLOCK_SEPARATOR[len(tail[-2:]) - len(tail[-2:].rstrip("\n")) :]


class _FoundMarker(NamedTuple):
    """A thinking or answer marker found in streamed text, and what it does to the channel.

    is_undecided: it is plain text if a backtick follows.
    """

    text: str
    does: Literal["opens", "closes", "hides"]
    rows: tuple[ThinkingMarkers, ...] = ()
    is_undecided: bool = False


def _join_pieces(pieces: Iterable[TextPiece]) -> list[TextPiece]:
    """Join neighbouring text pieces of one channel; depth and source are the last piece's."""
    joined: list[TextPiece] = []
    for piece in pieces:
        same = bool(joined) and joined[-1].channel == piece.channel
        before = joined.pop().text if same else ""
        joined.append(replace(piece, text=before + piece.text))
    return joined
