"""Finds where drafted text stands after markdown has been rendered, also while it grows."""

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
"""A word this close ahead is taken at once; one further on only if the next word follows it."""
FAR = 1200
"""Longest jump in the source, over what rendering left out."""

WORD = re.compile(r"\w+|[^\w\s]")
MARKUP = re.compile(r"(?:[\s|:*_~`>#-]++|\[?\]\([^()\s]*+(?:\s[^()\n]*+)?\)|!?\[)*+")
"""Markers, link addresses and the rules of tables: the way from one word to the next."""


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
    """Rendered characters start to end were drafted at `depth`, by `source` where it is known."""

    start: int
    end: int
    depth: int
    source: DraftedBy | None = None


def drafted_words(tint: Tint) -> str:
    """Who drafted it, and how deep."""
    ahead = tr("{n} tokens ahead", "1 token ahead", tint.depth)
    return tr(DRAFTERS.get(tint.source, DRAFTED), ahead=ahead)


def aligned(source: str, rendered: str, at: int = 0, start: int = 0) -> Iterator[Run]:
    """Pair the words of a rendered text with the markdown they came from, both in order.

    A greedy walk with two pointers: markdown rendered is nearly a subsequence of its source.
    Characters that rendering made up are passed over, so one of them cannot lead the walk astray.
    It begins at `at` in the source and at the word's beginning `start` in the rendered text.
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
    """Find a word at or after `at`; -1 if it is nowhere that can be trusted."""
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
    """Align a word with markers inside it, as un**believ**able; [] if a letter is missing."""
    runs = []
    for index, letter in enumerate(word.group()):
        found = source.find(letter, at, at + NEAR)
        if found < 0:
            return []
        runs.append(Run(word.start() + index, found, 1))
        at = found + 1
    return runs


def tints(runs: Iterator[Run] | Sequence[Run], spans: Sequence[DraftedSpan]) -> list[Tint]:
    """What to tint, in order and without overlaps; neighbours of one depth and drafter are joined.

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
    """What was drafted of pieces of one channel, of which `at` characters stand before."""
    for piece in pieces:
        end = at + len(piece.text)
        if piece.depth > 0 and piece.text:
            yield DraftedSpan(at, end, piece.depth, piece.source)
        at = end


def within(
    spans: Sequence[DraftedSpan], start: int, end: int, before: int = 0
) -> list[DraftedSpan]:
    """The spans that touch start to end, counted from `before` characters ahead of `start`.

    Sorted spans in, sorted out.
    """
    first = bisect_right(spans, start, key=lambda span: span.end)
    last = bisect_left(spans, end, first, key=lambda span: span.start)
    shift = before - start
    return [
        DraftedSpan(max(span.start, start) + shift, span.end + shift, span.depth, span.source)
        for span in spans[first:last]
    ]


def units(text: str) -> int:
    """How long Qt counts a text, in UTF-16 units; half an emoji, which a paste may hold, is one."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def in_utf16(text: str, ranges: Sequence[Tint]) -> list[Tint]:
    """The same ranges counted in UTF-16 units, as Qt counts: an emoji is two."""
    if text.isascii() or max(text) < "\U00010000":
        return list(ranges)
    wide = [i for i, letter in enumerate(text) if letter >= "\U00010000"]

    def unit(offset: int) -> int:
        return offset + bisect_right(wide, offset - 1)

    return [tint._replace(start=unit(tint.start), end=unit(tint.end)) for tint in ranges]


MARGIN = 64
"""Characters at the end of a text that are walked again: they may have been read otherwise."""


class GrowingAlignment:
    """Runs of the newest text: `aligned` of it, but for words that only later text explains."""

    def __init__(self) -> None:
        self._source = self._rendered = ""
        self._runs: list[Run] = []

    def of(self, source: str, rendered: str) -> Sequence[Run]:
        """The runs of a text; fast when it begins as the one before did."""
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
