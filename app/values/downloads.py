"""A download as the window shows it, told line by line by the process that downloads."""

from dataclasses import dataclass
from typing import Literal

Phase = Literal["looking", "offered", "choice", "waiting", "running", "paused", "failed", "done"]


@dataclass(frozen=True, slots=True)
class FileChoice:
    """One of several models under one name; `words` are for a list: "Q4_K_M.gguf · 2.7 GB"."""

    file: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class DownloadFigures:
    """One download. words: what is wrong when it failed, what it will fetch when it is offered.

    choices: what can be chosen from in the phase "choice". path: what to load once it is "done".
    """

    key: str
    name: str
    phase: Phase
    done: int = 0
    total: int = 0
    bytes_per_second: float = 0.0
    words: str = ""
    choices: tuple[FileChoice, ...] = ()
    path: str = ""
