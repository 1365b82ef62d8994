"""Map drafted spans from Markdown source to rendered text, also while it grows."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from app.values.chats import DraftedSpan
from app.window.language import tr
from mlx_engine.values.conversation import TextPiece
from mlx_engine.values.options import DraftedBy
from mlx_engine.values.words import Words

NEAR = 24
"""Characters ahead in which a word is accepted at once; further on the next word must follow it."""
FAR = 1200
"""Most characters of source that rendering may leave out at once."""

WORD = re.compile(r"\w+|[^\w\s]")
MARKUP = re.compile(r"(?:[\s|:*_~`>#-]++|\[?\]\([^()\s]*+(?:\s[^()\n]*+)?\)|!?\[)*+")
"""Markup between two words: markers, link addresses, table rules."""


DRAFTED = Words("Guessed {ahead}")
DRAFTERS: dict[DraftedBy | None, str] = {
    "mtp": Words("Guessed by the drafting heads, {ahead}"),
    "prompt-lookup": Words("Guessed from a repeat in the chat, {ahead}"),
    "model": Words("Guessed by the draft model, {ahead}"),
    "grammar": Words("Prescribed by the answer's schema, {ahead}"),
}


class Run(NamedTuple):
    """rendered[rendered : rendered + length] is source[source : source + length]."""

    rendered: int
    source: int
    length: int


class Tint(NamedTuple):
    """Rendered characters start to end were drafted at `depth`, by `source` if known."""

    start: int
    end: int
    depth: int
    source: DraftedBy | None = None


def drafted_words(tint: Tint) -> str:
    """Say what drafted a tinted text, and at which depth."""
    ahead = tr("{n} tokens ahead", "1 token ahead", tint.depth)
    return tr(DRAFTERS.get(tint.source, DRAFTED), ahead=ahead)


def aligned(source: str, rendered: str, at: int = 0, start: int = 0) -> Iterator[Run]:
    """Align the words of a rendered text with its Markdown source, both in order.

    A greedy walk with two pointers, since rendered Markdown is nearly a subsequence of its source.
    Characters added by rendering are skipped, so none of them can mislead the walk. It begins at
    `at` in the source and at the word boundary `start` in the rendered text.
    """
    words = list(WORD.finditer(rendered, start))
    for index, word in enumerate(words):
        following = words[index + 1].group() if index + 1 < len(words) else ""
        found = _find(source, word.group(), at, following)
        if found >= 0:
            yield Run(word.start(), found, len(word.group()))
            at = found + len(word.group())
        elif len(word.group()) > 1:
            for run in _letter_by_letter(source, word, at):
                yield run
                at = run.source + 1


def _find(source: str, word: str, at: int, following: str) -> int:
    """Find a word at or after `at`; -1 if there is no reliable match."""
    near = source.find(word, at, at + NEAR + len(word))
    if near < 0:
        past = MARKUP.match(source, at, at + FAR)
        start = past.end() if past else at
        near = source.find(word, start, start + NEAR + len(word))
    if near >= 0 or not following:
        return near
    found = source.find(word, at, at + FAR)
    while found >= 0:
        after = found + len(word)
        if source.find(following, after, after + NEAR + len(following)) >= 0:
            return found
        found = source.find(word, after, at + FAR)
    return -1


def _letter_by_letter(source: str, word: re.Match[str], at: int) -> list[Run]:
    """Align a word that has Markdown inside, as un**believ**able; [] if a letter is missing."""
    runs = []
    for index, letter in enumerate(word.group()):
        found = source.find(letter, at, at + NEAR)
        if found < 0:
            return []
        runs.append(Run(word.start() + index, found, 1))
        at = found + 1
    return runs


def tints(runs: Iterator[Run] | Sequence[Run], spans: Sequence[DraftedSpan]) -> list[Tint]:
    """Return what to tint, in order; adjacent spans of one depth and drafter are joined.

    `spans` are sorted and do not overlap.
    """
    ends = [span.end for span in spans]
    found: list[Tint] = []
    for run in runs:
        index = bisect_right(ends, run.source)
        while index < len(spans) and spans[index].start < run.source + run.length:
            span, shift = spans[index], run.rendered - run.source
            start = max(span.start, run.source) + shift
            end = min(span.end, run.source + run.length) + shift
            if found and found[-1][1:] == (start, span.depth, span.source):
                start = found.pop().start
            found.append(Tint(start, end, span.depth, span.source))
            index += 1
    return found


def spans_of(pieces: Iterable[TextPiece], at: int) -> Iterator[DraftedSpan]:
    """Return the drafted spans of pieces of one channel, which begin at offset `at`."""
    for piece in pieces:
        end = at + len(piece.text)
        if piece.depth > 0 and piece.text:
            yield DraftedSpan(at, end, piece.depth, piece.source)
        at = end


def within(
    spans: Sequence[DraftedSpan], start: int, end: int, before: int = 0
) -> list[DraftedSpan]:
    """Return the spans that intersect start to end, as offsets from `before` ahead of `start`.

    Order is kept.
    """
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_left(spans, end, first, key=lambda span: span.start)
    shift = before - start
    return [
        DraftedSpan(max(span.start, start) + shift, span.end + shift, span.depth, span.source)
        for span in spans[first:last]
    ]


def units(text: str) -> int:
    """Length of a text in UTF-16 units, as Qt counts, also with lone surrogates."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def in_utf16(text: str, ranges: Sequence[Tint]) -> list[Tint]:
    """Convert ranges of a text to UTF-16 units, as Qt counts: an emoji is two."""
    if text.isascii() or max(text) < "\U00010000":
        return list(ranges)
    wide = [i for i, letter in enumerate(text) if letter >= "\U00010000"]

    def unit(offset: int) -> int:
        return offset + bisect_right(wide, offset - 1)

    return [tint._replace(start=unit(tint.start), end=unit(tint.end)) for tint in ranges]


MARGIN = 64
"""Characters at the end of a text that are aligned again, since later text may change them."""


class GrowingAlignment:
    """`aligned` for a growing text; only words that later text may change are walked again."""

    def __init__(self) -> None:
        self._source = self._rendered = ""
        self._runs: list[Run] = []

    def of(self, source: str, rendered: str) -> Sequence[Run]:
        """Return the runs of a text; fast if it begins as the last one."""
        self._keep(source, rendered)
        last = self._runs[-1] if self._runs else Run(0, 0, 0)
        at, start = last.source + last.length, last.rendered + last.length
        self._runs += aligned(source, rendered, at, start)
        self._source, self._rendered = source, rendered
        return self._runs

    def _keep(self, source: str, rendered: str) -> None:
        """Drop the runs after the unchanged beginning, and those near its end."""
        old_source = self._source[:-MARGIN]
        old_rendered = self._rendered[:-MARGIN]
        same = source.startswith(old_source) and rendered.startswith(old_rendered)
        end = old_rendered.rfind(" ") + 1 if same else 0
        runs = self._runs
        while runs and (
            runs[-1].rendered + runs[-1].length > end
            or runs[-1].source + runs[-1].length > len(old_source)
        ):
            runs.pop()
