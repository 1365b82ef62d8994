"""Why something is off, as a code for programs and words for people."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One declined or changed path.

    `code` is stable, lower-case with hyphens ("no-heads", "parked-cost"); `words` is a sentence
    for the window.
    """

    code: str
    words: str
