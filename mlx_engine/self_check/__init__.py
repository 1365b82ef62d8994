"""Self-check: which kernel here, what a pass costs, exact rows, heads that fit; and the doctor."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. warn: something is off; fail: the engine cannot work here."""

    name: str
    state: State
    words: str
