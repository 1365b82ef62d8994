"""Check kernels, pass times, exact rows and MTP heads on this machine; and the doctor."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check of the installation. warn: something is off; fail: nothing can run."""

    name: str
    state: State
    words: str
