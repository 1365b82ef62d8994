"""What the window shows of a model on disk and of a drop; bytes and time in words."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """A model on disk. place: the heading it stands under. problem: "" or why it cannot load.

    unfinished: the id of a download that can go on, "" for none. is_recent: listed because it was
    used. has_file: it can be shown in its folder.
    """

    path: str
    name: str
    place: str
    detail: str = ""
    problem: str = ""
    unfinished: str = ""
    is_recent: bool = False
    has_file: bool = True


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder of the user's in which models are looked for. problem: "" or why there are none."""

    path: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class DropPlan:
    """What letting go would do, as a title ("Load Qwen3.5-4B") and a line below it."""

    kind: Literal["load", "heads", "folder", "download", "attach", "looking", "refused"]
    title: str
    detail: str = ""


def bytes_of(done: int, total: int) -> str:
    """ "4.10 of 18.2 GB", in the unit of the whole."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if total >= 0.9995 * size:
            digits = 2 if total < 9.995 * size else 1
            return f"{done / size:.{digits}f} of {total / size:.{digits}f} {unit}"
    return f"{done} of {total} B"


def duration_in_words(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
