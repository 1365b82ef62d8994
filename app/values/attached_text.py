"""A text beside a message, or why a file cannot be one."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text beside a message. nbytes: of the file, or of the text in UTF-8."""

    name: str
    text: str
    nbytes: int

    @property
    def language(self) -> str:
        """The name's ending, for the fence: "py"; "" when it has none of letters and digits."""
        ending = Path(self.name).suffix[1:].lower()
        return ending if ending.isascii() and ending.isalnum() and len(ending) <= 12 else ""


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that cannot be attached; `words` name it and say why."""

    name: str
    words: str
