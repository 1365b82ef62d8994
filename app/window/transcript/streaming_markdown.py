"""Splits markdown into segments while it arrives, never looking at a finished segment again."""

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
"""What stands after a fence around LaTeX that is to be read, not copied."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What opened a code block: the marker that has to be matched, and the words after it."""

    marker: str
    info: str = ""

    def closed_by(self, line: str) -> bool:
        """Whether this line is the fence's end (CommonMark: same character, at least as long)."""
        found = CLOSING_FENCE.match(line.rstrip("\r\n"))
        return found is not None and found[1].startswith(self.marker)


def opening_fence(line: str) -> Fence | None:
    """The fence that a line opens in column 0."""
    found = OPENING_FENCE.match(line.rstrip("\r\n"))
    if found is None:
        return None
    return Fence(found[1] or found[3], (found[2] or found[4] or "").strip())


BLANKS = " \t\r\n"
"""To markdown a line of these alone is empty; a line that has other spaces is not."""
LINE = re.compile(r"[^\n]*\n|[^\n]+")
INDENT = re.compile(" {4}| {0,3}\t")


class CodePart(NamedTuple):
    """Code that stands in a segment's source from offset `start` on."""

    start: int
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """`source` is the markdown from offset `start` of the answer on, fence lines included.

    closed: nothing will be added to it any more. head: of the table or fence that it goes on with,
    or "". level: how many lists it stands in that began in segments before it. indent: columns
    that its lines are set in by these. is_json: it is code without a fence or an indent.
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
        """What is rendered of prose."""
        return self.head + dedented(self.source, self.indent)

    @property
    def language(self) -> str:
        """First word after the opening fence, "" when there is none (and for prose)."""
        if self.is_json:
            return "json"
        fence = self._opening() if self.kind == "code" else None
        return fence.info.split()[0].lower() if fence and fence.info else ""

    @property
    def code(self) -> str:
        """The lines between the fences, or without their indent; without the last line's end."""
        return "".join(part.text for part in self.code_parts)

    @property
    def code_parts(self) -> tuple[CodePart, ...]:
        """What of the source is code, in its order: all between the fences, or each line."""
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
    """A text without so many columns before its lines, as far as there are blanks."""
    return re.sub(rf"^[ \t]{{1,{indent}}}", "", source, flags=re.MULTILINE) if indent else source


def _may_close(line: str, fence: Fence) -> bool:
    """Whether an unfinished line is the beginning of a closing fence."""
    return bool(line) and fence.marker.startswith(line)


BEGINS_JSON = re.compile(r'\s*+(?:\{\s*+"|\[\s*+[{"]|\{\s*+\}\s*+$|\[\s*+\]\s*+$)')
JSON_END = 8
"""Characters before the end of a text in which a word of JSON may be cut."""


def is_json(text: str) -> bool:
    """Whether a whole text is a JSON object or list, or the beginning of one that was cut."""
    begins = text.lstrip()[:1]
    try:
        return begins in ("{", "[") and isinstance(json.loads(text), dict | list)
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated") or error.pos > len(text) - JSON_END
        return BEGINS_JSON.match(text) is not None and is_cut and error.msg != "Extra data"
    except RecursionError:
        return False


def settled(source: str) -> str:
    """The part of a growing prose segment that can be shown without taking it back.

    A line that may become a fence is held back, and emphasis or code that is open in the last
    line is closed for now, so that its markers do not flash by.
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
"""Characters after which a prose segment ends at the next blank line outside fences and lists, and
in a table, which goes on in the next one under its head again.
"""
LIST_LIMIT = 2 * LIMIT
"""From here on a segment also ends before an item of a top-level list."""
LINE_LIMIT = 4 * LIMIT
"""From here on it ends anywhere: a paragraph that long is broken output."""

MOST_CODE = 1000
"""Segments of code in one answer; further code in fences is shown as part of the prose."""
WIDEST = 100
"""Columns of a table; more are shown as text."""

WIDE_TABLE = 5
"""Columns from which on a table has a segment of its own: it may be wider than the page, and what
stands around it must not scroll with it.
"""
TABLE_RULE = re.compile(r"\|?[ \t]*+:?-++:?[ \t]*+(\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*$")
ITEM_START = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?: {1,4}(?=\S)|(?=[ \t\r\n]|$))")
LIST_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t\r\n]|$)")
FOOTNOTE = re.compile(r"\[\^[^\]\s]+\]:")
ENDS_ITSELF = re.compile(r"#{1,6}(?:[ \t\r\n]|$)|(?:-{3,}|\*{3,}|_{3,})[ \t]*\r?$")
"""A heading or a rule, which no line after it goes on with."""
INNER_FENCE = re.compile(r"((?:[ \t>]|(?:[-*+]|[0-9]{1,9}[.)])(?=[ \t]))++)(`{3,}|~{3,})([^`\n]*)$")


class StreamingMarkdown:
    """The segments of a growing text; their sources joined are always the text so far.

    Where a segment ends depends on the text alone, not on the pieces in which it came. A fence in
    column 0 or in a list begins a code segment, and so does an indented line after a blank one or a
    heading;
    code inside a quote or a footnote stays in its prose, and so does a fence around maths.
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
        """All of it so far."""
        return "".join(segment.source for segment in self.segments)

    def append(self, text: str) -> int:
        """Add text; the index of the first segment that changed or is new."""
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
        """Close the last segment; the index of the first that changed."""
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
        """Whether all text is JSON as far as it goes, `text` added."""
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
        """End the segment before the line that is judged; prose of the list that it is in goes on,
        if it is in one.
        """
        self._cut(
            self._judged,
            indent=self._items[-1] if self._items else 0,
            level=len(self._items),
        )

    def _leave_items(self, line: str) -> None:
        """End the items of lists that a line does not belong to."""
        while self._items and self._items[-1] > _column(line):
            self._items.pop()

    def _cut_within(self, at: int) -> None:
        """End the segment even in an inner fence, which is opened again in the next one."""
        inner, prefix, in_list = self._inner, self._inner_prefix, self._in_list
        quote = "> " if ">" in prefix else ""
        head = f"{quote}{inner.marker}{inner.info}\n" if inner else ""
        self._cut(at, head=head, indent=self._indent, level=self._level)
        if inner:
            self._inner, self._inner_prefix, self._in_list = inner, prefix, in_list
            self._table = ""

    def _turns(self, line: str) -> bool:
        """Begin or end indented code at a line; whether that was done."""
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
        """Whether a line is not in the list that its segment stands in."""
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
        """Begin code at a fence that is set in; whether that was done."""
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
        """Remember what a prose line says about the lines after it."""
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
        """Whether the newest line is of a wide table that stands in no list."""
        columns = self._table.rstrip().rpartition("\n")[2].strip("| \t").count("|") + 1
        return bool(self._table) and columns >= WIDE_TABLE and not (self._in_list or self._level)


def _column(line: str) -> int:
    """Return the column of the first character of a line."""
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip(" "))


def _is_top(line: str) -> bool:
    """Whether a line is neither set in nor blank."""
    return line[0] not in " \t\r\n"
