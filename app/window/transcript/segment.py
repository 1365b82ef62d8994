"""A stretch of an answer's markdown that is shown by one widget."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["prose", "code"]

OPENING_FENCE = re.compile(r"(`{3,})([^`\n]*)$|(~{3,})([^\n]*)$")
CLOSING_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*$")
UNFINISHED_FENCE = re.compile(r"(?:^|\n)(`{1,2}|~{1,2}|`{3,}[^`\n]*|~{3,}[^\n]*)$")


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


@dataclass(frozen=True, slots=True)
class Segment:
    """`source` is the markdown from offset `start` of the answer on, fence lines included.

    closed: nothing will be added to it any more.
    """

    kind: Kind
    start: int
    source: str
    closed: bool

    @property
    def end(self) -> int:
        """Offset in the answer where the next segment begins."""
        return self.start + len(self.source)

    @property
    def language(self) -> str:
        """First word after the opening fence, "" when there is none (and for prose)."""
        fence = opening_fence(self.source.partition("\n")[0]) if self.kind == "code" else None
        return fence.info.split()[0].lower() if fence and fence.info else ""

    @property
    def body_start(self) -> int:
        """Offset within `source` of the code's first character."""
        return self.source.find("\n") + 1 or len(self.source)

    @property
    def code(self) -> str:
        """The lines between the fences, without the last line's end."""
        body = self.source[self.body_start :]
        fence = opening_fence(self.source.partition("\n")[0])
        kept, _, last = body.removesuffix("\n").removesuffix("\r").rpartition("\n")
        if fence and (fence.closed_by(last) or (not self.closed and _may_close(last, fence))):
            return kept.removesuffix("\r")
        return body.removesuffix("\n").removesuffix("\r")


def _may_close(line: str, fence: Fence) -> bool:
    """Whether an unfinished line is the beginning of a closing fence."""
    return bool(line) and fence.marker.startswith(line)


def settled(source: str) -> str:
    """The part of a growing prose segment that can be shown without taking it back.

    A line that may become a fence is held back, and emphasis or code that is open in the last
    line is closed for now, so that its markers do not flash by.
    """
    shown = UNFINISHED_FENCE.sub("", source)
    line = shown[shown.rfind("\n") + 1 :]
    if not line.strip() or "\\" in line:
        return shown
    if line.count("`") % 2:
        return shown + "`"
    return shown + "**" if _open_bold(line) else shown


def _open_bold(line: str) -> bool:
    """Whether a line ends inside ** with at least one character of text after it."""
    _, marker, rest = line.rpartition("**")
    return marker != "" and line.count("**") % 2 == 1 and rest.strip(" *_") == rest != ""
