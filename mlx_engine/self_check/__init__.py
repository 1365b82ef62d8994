"""What this machine does well: kernels tried, exact rows, heads that fit; and the doctor."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """warn: it works, but something is off; fail: the engine cannot do its work here."""

    name: str
    state: State
    words: str
