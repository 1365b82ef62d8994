"""What the window shows of a model on disk and of a drop: plain values."""

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
