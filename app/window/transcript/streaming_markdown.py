"""Split streaming Markdown into segments, never parsing a finished one again."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

Kind = Literal["prose", "code"]

OPENING_FENCE = re.compile(r"(`{3,})([^`\n]*)$|(~{3,})([^\n]*)$")
CLOSING_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
UNFINISHED_FENCE = re.compile(r"(?:^|\n)[ \t]*(`{1,2}|~{1,2}|`{3,}[^`\n]*|~{3,}[^\n]*)$")

MATHS = "math"
"""Info strings of fences around LaTeX that is rendered as a formula."""


@dataclass(frozen=True, slots=True)
class Fence:
    """The opening fence of a code block: its marker and info string."""

    marker: str
    info: str = ""

    def closed_by(self, line: str) -> bool:
        """Whether a line closes the fence (CommonMark: same character, at least as long)."""
        found = CLOSING_FENCE.match(line.rstrip("\r\n"))
        return found is not None and found[1].startswith(self.marker)


def opening_fence(line: str) -> Fence | None:
    """Return the fence that a line opens in column 0, None for none."""
    found = OPENING_FENCE.match(line.rstrip("\r\n"))
    if found is None:
        return None
    return Fence(found[1] or found[3], (found[2] or found[4] or "").strip())


BLANKS = " \t\r\n"
"""Whitespace of a blank line in Markdown; other spaces do not count."""
LINE = re.compile(r"[^\n]*\n|[^\n]+")
INDENT = re.compile(" {4}| {0,3}\t")


class CodePart(NamedTuple):
    """Code at offset `start` of a segment's source."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of Markdown.

    source: Markdown from offset `start` of the answer on, fence lines included. closed: nothing
    will be appended. head: table head or fence continued from the last segment, or "". level:
    number of lists around it that began in earlier segments. indent: columns that these lists
    indent it by. is_json: code without fence or indent.
    """

    kind: Kind
    start: int
    source: str
    closed: bool
    head: str = ""
    indent: int = 0
    level: int = 0
    is_json: bool = False

    @property
    def end(self) -> int:
        """Offset in the answer where the next segment begins."""
        return self.start + len(self.source)

    @property
    def markdown(self) -> str:
        """Markdown to render, for prose."""
        return self.head + dedented(self.source, self.indent)

    @property
    def language(self) -> str:
        """First word of the info string, "" for none and for prose."""
        if self.is_json:
            return "json"
        fence = self._opening() if self.kind == "code" else None
        return fence.info.split()[0].lower() if fence and fence.info else ""

    @property
    def code(self) -> str:
        """Lines of code, without fences, indent and the last line end."""
        return "".join(part.text for part in self.code_parts)

    @property
    def code_parts(self) -> tuple[CodePart, ...]:
        """The parts of the source that are code, in order."""
        if self.is_json:
            code = self.source.strip()
            return (CodePart(self.source.find(code), code),)
        fence = self._opening()
        return tuple(self._indented() if fence is None else self._fenced(fence))

    def _opening(self) -> Fence | None:
        """Return the fence in the first line, None for none."""
        return opening_fence(dedented(self.source.partition("\n")[0], self.indent))

    def _fenced(self, fence: Fence) -> Iterator[CodePart]:
        start = self.source.find("\n") + 1 or len(self.source)
        body = self.source[start:].removesuffix("\n").removesuffix("\r")
        kept, _, last = body.rpartition("\n")
        closing = last.lstrip(" \t") if self.indent else last
        if fence.closed_by(closing) or (not self.closed and _may_close(closing, fence)):
            body = kept.removesuffix("\r")
        if not self.indent:
            yield CodePart(start, body)
            return
        for line in LINE.findall(body):
            skipped = len(line) - len(dedented(line, self.indent))
            yield CodePart(start + skipped, line[skipped:])
            start += len(line)

    def _indented(self) -> Iterator[CodePart]:
        start = 0
        last = len(self.source.rstrip(BLANKS))
        end = self.source.find("\n", last)
        code = self.source[:end].removesuffix("\r") if end >= 0 else self.source
        for line in LINE.findall(code):
            indent = INDENT.match(line)
            skipped = indent.end() if indent else len(line) - len(line.lstrip(" "))
            yield CodePart(start + skipped, line[skipped:])
            start += len(line)


def dedented(source: str, indent: int) -> str:
    """Remove so many columns of leading spaces from each line."""
    return re.sub(rf"^[ \t]{{1,{indent}}}", "", source, flags=re.MULTILINE) if indent else source


def _may_close(line: str, fence: Fence) -> bool:
    """Whether an incomplete line may become a closing fence."""
    return bool(line) and fence.marker.startswith(line)


BEGINS_JSON = re.compile(r'\s*+(?:\{\s*+"|\[\s*+[{"]|\{\s*+\}\s*+$|\[\s*+\]\s*+$)')
JSON_END = 8
"""Characters at the end of a text in which a JSON word may be incomplete."""


def is_json(text: str) -> bool:
    """Whether a text is a JSON object or list, or the beginning of one."""
    begins = text.lstrip()[:1]
    try:
        return begins in ("{", "[") and isinstance(json.loads(text), dict | list)
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated") or error.pos > len(text) - JSON_END
        return BEGINS_JSON.match(text) is not None and is_cut and error.msg != "Extra data"
    except RecursionError:
        return False


def settled(source: str) -> str:
    """Return the part of a growing prose segment that can be rendered already.

    A line that may become a fence is held back, and open emphasis or code in the last line is
    closed, so that markers do not flash by.
    """
    shown = UNFINISHED_FENCE.sub("", source)
    line = shown[shown.rfind("\n") + 1 :]
    if not line.strip(BLANKS) or "\\" in line:
        return shown
    if line.count("`") % 2:
        return shown + "`"
    return shown + "**" if _open_bold(line) else shown


def _open_bold(line: str) -> bool:
    """Whether a line ends inside ** with at least one character of text after it."""
    _, marker, rest = line.rpartition("**")
    return marker != "" and line.count("**") % 2 == 1 and rest.strip(" *_") == rest != ""


LIMIT = 2048
"""Characters after which a prose segment ends at the next blank line outside fences and lists.

A table is continued in the next segment, under its head.
"""
LIST_LIMIT = 2 * LIMIT
"""Characters after which a segment also ends before an item of a top-level list."""
LINE_LIMIT = 4 * LIMIT
"""Characters after which it ends anywhere: a paragraph this long is broken output."""

MOST_CODE = 1000
"""Most code segments of an answer; further fences are shown as prose."""
WIDEST = 100
"""Most columns of a table; a wider one is shown as text."""

WIDE_TABLE = 5
"""Columns from which a table has a segment of its own, so that only it scrolls sideways."""
TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*$")
ITEM_START = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?: {1,4}(?=\S)|(?=[ \t\r\n]|$))")
LIST_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t\r\n]|$)")
FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:")
ENDS_ITSELF = re.compile(r"#{1,6}(?:[ \t\r\n]|$)|(?:-{3,}|\*{3,}|_{3,})[ \t]*\r?$")
"""Matches a heading or a rule, which no later line continues."""
INNER_FENCE = re.compile(r"((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t]))++)(`{3,}|~{3,})([^`\n]*)$")


class StreamingMarkdown:
    """Segments of a growing text; their sources joined are always the whole text.

    Segments depend on the text alone, not on the pieces in which it came. A fence in column 0 or in
    a list begins a code segment, and so does an indented line after a blank one or a heading; code
    in a quote or a footnote, and a fence around maths, stay in the prose.
    """

    def __init__(self, *, may_be_json: bool = False) -> None:
        """may_be_json: a text that begins as JSON is one code segment, unless it ends as none."""
        self.segments: list[Segment] = []
        self._may_be_json, self._is_json = may_be_json, False
        self._code_segments = 0
        self._text = ""
        self._begun = 0
        self._items: list[int] = []
        self._begin("prose", 0)

    def _begin(
        self,
        kind: Kind,
        start: int,
        fence: Fence | None = None,
        head: str = "",
        indent: int = 0,
        level: int = 0,
    ) -> None:
        self._kind: Kind = kind
        self._start = start
        self._fence = fence
        self._inner: Fence | None = None
        self._inner_prefix = ""
        self._indent, self._level = indent, level
        self._in_list = indent > 0
        self._after_blank = True
        self._last_line = ""
        self._head = self._table = head
        self._judged = self._begun

    @property
    def text(self) -> str:
        """The whole text so far."""
        return "".join(segment.source for segment in self.segments)

    def append(self, text: str) -> int:
        """Append text; return the index of the first segment that changed or is new."""
        if self._may_be_json and self._begins_json(text):
            self._text += text
            self.segments = [Segment("code", 0, self._text, closed=False, is_json=True)]
            return 0
        first = len(self.segments) - (bool(self.segments) and not self.segments[-1].closed)
        del self.segments[first:]
        self._text += text
        self._split_lines()
        self._text = self._text[self._begun :]  # once: a cut copies nothing of what follows
        self._judged -= self._begun
        self._begun = 0
        if self._text:
            self.segments.append(self._segment(self._text, closed=False))
        return first

    def finish(self) -> int:
        """Close the last segment; return the index of the first that changed."""
        if self._may_be_json and (self._is_json or is_json(self.text)):
            return self._finish_json(self.text)
        if not self.segments or self.segments[-1].closed:
            return len(self.segments)
        last = replace(self.segments.pop(), closed=True)
        self.segments.append(last)
        self._text = ""
        self._begin("prose", last.end)
        return len(self.segments) - 1

    def _begins_json(self, text: str) -> bool:
        """Whether the text so far, with `text` appended, is the beginning of JSON."""
        if not self._is_json and len(self.segments) < 2:
            self._is_json = BEGINS_JSON.match(self.text + text) is not None
        return self._is_json

    def _finish_json(self, text: str) -> int:
        if is_json(text):
            self.segments = [Segment("code", 0, text, closed=True, is_json=True)]
        else:
            markdown = StreamingMarkdown()
            markdown.append(text)
            markdown.finish()
            self.segments = markdown.segments
        return 0

    def _split_lines(self) -> None:
        while True:
            start = self._judged
            most = start + LINE_LIMIT + 1 if self._kind == "prose" else len(self._text)
            end = self._text.find("\n", start, most) + 1
            line = self._text[start : end or most]
            if self._fence is None and self._turns(line):
                continue
            if self._kind == "prose" and len(line) > LINE_LIMIT:
                self._cut_within(start + LINE_LIMIT)
            elif end == 0:
                return
            elif self._kind == "code":
                self._judge_code(line)
            else:
                self._judge_prose(line)

    def _segment(self, source: str, closed: bool) -> Segment:
        return Segment(
            self._kind, self._start, source, closed, self._head, self._indent, self._level
        )

    def _cut(
        self,
        at: int,
        kind: Kind = "prose",
        fence: Fence | None = None,
        head: str = "",
        indent: int = 0,
        level: int = 0,
    ) -> None:
        """End the segment before offset `at` of the text; the rest begins the next one."""
        start, source = self._start + at - self._begun, self._text[self._begun : at]
        if source:
            self.segments.append(self._segment(source, closed=True))
        self._code_segments += kind == "code"
        self._begun = at
        self._begin(kind, start, fence, head, indent, level)

    def _cut_in_list(self) -> None:
        """End the segment before the current line; the next one continues its list."""
        self._cut(
            self._judged,
            indent=self._items[-1] if self._items else 0,
            level=len(self._items),
        )

    def _leave_items(self, line: str) -> None:
        """End the list items that a line does not belong to."""
        while self._items and self._items[-1] > _column(line):
            self._items.pop()

    def _cut_within(self, at: int) -> None:
        """End the segment even in an inner fence, which the next one opens again."""
        inner, prefix, in_list = self._inner, self._inner_prefix, self._in_list
        quote = "> " if ">" in prefix else ""
        head = f"{quote}{inner.marker}{inner.info}\n" if inner else ""
        self._cut(at, head=head, indent=self._indent, level=self._level)
        if inner:
            self._inner, self._inner_prefix, self._in_list = inner, prefix, in_list
            self._table = ""

    def _turns(self, line: str) -> bool:
        """Begin or end indented code at a line; return whether it did."""
        is_indented = INDENT.match(line) is not None
        is_new = self._after_blank or ENDS_ITSELF.match(self._last_line) is not None
        may_begin = is_new and not self._in_list and self._inner is None
        if not line.strip(BLANKS) or is_indented == (self._kind == "code"):
            return False
        if self._kind == "prose" and not (may_begin and self._code_segments < MOST_CODE):
            return False
        self._cut(self._judged, "code" if is_indented else "prose")
        return True

    def _judge_code(self, line: str) -> None:
        closing = line.lstrip(" \t") if self._indent else line
        is_closed = self._fence is not None and self._fence.closed_by(closing)
        if self._indent and not is_closed and self._leaves_list(line):
            self._leave_items(line)
            self._cut_in_list()
            return
        self._judged += len(line)
        if is_closed:
            self._cut_in_list()

    def _leaves_list(self, line: str) -> bool:
        """Whether a line is outside the list of its segment."""
        indent = self._items[-1] if self._items else 0
        return bool(line.strip(BLANKS)) and _column(line) < indent

    def _judge_prose(self, line: str) -> None:
        if self._inner and not self._leaves_inner(line):
            if self._judged - self._begun + len(line) > LINE_LIMIT:
                self._cut_within(self._judged)
            self._judged += len(line)
            around = " \t>" if ">" in self._inner_prefix else " \t"
            if self._inner.closed_by(line.lstrip(around)):
                self._inner = None
                if self._in_list and line[0] in "`~":
                    self._cut(self._judged)
            return
        if self._indent and self._leaves_list(line):
            self._leave_items(line)
            self._cut_in_list()
            return
        if self._begins_inner_code(line):
            return
        fence = opening_fence(line)
        if fence and (fence.info == MATHS or self._code_segments == MOST_CODE):
            self._inner, self._inner_prefix, self._in_list = fence, "", False
            self._judged += len(line)
            return
        if fence:
            self._items.clear()
            self._cut(self._judged, "code", fence)
            self._judged += len(line)
            return
        if self._ends_before(line):
            self._cut(self._judged, head=self._table, indent=self._indent, level=self._level)
        self._notice(line)

    def _begins_inner_code(self, line: str) -> bool:
        """Begin code at an indented fence; return whether it did."""
        found, column = INNER_FENCE.match(line.rstrip("\r\n")), _column(line)
        if found is None or found[1].strip() or self._code_segments == MOST_CODE:
            return False
        items = [item for item in self._items if item <= column]
        fence, base = Fence(found[2], found[3].strip()), items[-1] if items else 0
        if fence.info == MATHS or column >= base + 4:
            return False
        self._items = items
        self._cut(self._judged, "code", fence, indent=column, level=len(items))
        self._judged += len(line)
        return True

    def _leaves_inner(self, line: str) -> bool:
        """Whether a line ends the list or quote around the open inner fence."""
        assert self._inner
        if ">" in self._inner_prefix:
            left = not line.lstrip(" \t").startswith(">")
        else:
            outside = line[0] not in " \t\r\n" and not self._inner.closed_by(line)
            left = self._in_list and outside
        if left:
            self._inner = None
        return left

    def _ends_before(self, line: str) -> bool:
        size = self._judged - self._begun
        if size + len(line) > LINE_LIMIT:
            return True
        if size < LIMIT or not line.strip(BLANKS):
            return False
        top = _is_top(line)
        item = LIST_ITEM.match(line) is not None
        return top and (
            (self._after_blank and not item)
            or bool(self._table)
            or (size >= LIST_LIMIT and (item or self._after_blank))
        )

    def _notice(self, line: str) -> None:
        """Remember what a prose line means for the lines after it."""
        self._judged += len(line)
        self._after_blank = not line.strip(BLANKS)
        if not self._after_blank:
            self._leave_items(line)
            item = ITEM_START.match(line.lstrip(" \t"))
            if item:
                self._items.append(_column(line) + max(2, len(item[0])))
        if "|" not in line:
            if self._after_blank and self._has_wide_table():
                self._cut(self._judged)
                return
            self._table = ""
        elif not self._table and TABLE_RULE.match(line) and "|" in self._last_line:
            self._table = self._last_line + line if _is_top(self._last_line) else ""
            head = self._judged - len(self._table)
            if head > self._begun and self._has_wide_table():
                self._cut(head)
                return
        self._last_line = line
        if LIST_ITEM.match(line) or FOOTNOTE.match(line):
            self._in_list = True
        elif not self._after_blank and line[0] not in " \t":
            self._in_list = False
        found = INNER_FENCE.match(line.rstrip("\r\n"))
        if found and (self._in_list or ">" in found[1] or len(found[1].expandtabs(4)) < 4):
            self._inner = Fence(found[2], found[3].strip())
            self._inner_prefix = found[1]

    def _has_wide_table(self) -> bool:
        """Whether the newest line belongs to a wide table outside lists."""
        columns = self._table.rstrip().rpartition("\n")[2].strip("| \t").count("|") + 1
        return bool(self._table) and columns >= WIDE_TABLE and not (self._in_list or self._level)


def _column(line: str) -> int:
    """Return the column of the first character of a line."""
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip(" "))


def _is_top(line: str) -> bool:
    """Whether a line is neither set in nor blank."""
    return line[0] not in " \t\r\n"
