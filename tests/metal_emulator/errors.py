"""What the emulator reports: one error, a kind, and where it happened."""

from dataclasses import dataclass

KINDS = (
    "none",
    "divergence",
    "bounds",
    "race",
    "uninitialised",
    "unwritten",
    "limit",
    "endless",
    "read-only",
    "alignment",
)
"""Kinds found while running, in the order of msl_kind; "compile" and "lint" come before a run."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fault was seen.

    line: of the kernel's source, 1 is its first; None where it is not known. file: the kernel's
    name, or "<name>.header". buffer: the device buffer or threadgroup array. offset: bytes.
    thread: position in the threadgroup. other_line: of a race's other
    access.
    """

    file: str | None = None
    line: int | None = None
    buffer: str | None = None
    offset: int | None = None
    thread: tuple[int, int, int] | None = None
    threadgroup: tuple[int, int, int] | None = None
    other_line: int | None = None


class EmulatorError(AssertionError):
    """A kernel that does not compile or breaks a rule of Metal's.

    kernel: its name. kind: one of KINDS[1:], "compile" or "lint". place: where, as far as known.
    """

    def __init__(self, kernel: str, kind: str, message: str, place: Place | None = None) -> None:
        super().__init__(f"{kernel}: {kind}: {message}")
        self.kernel = kernel
        self.kind = kind
        self.place = place or Place()
