"""Text files as attachments: read, checked, and rendered as fenced context; knows no Qt."""

import codecs
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LARGEST = 2_000_000
"""Bytes of a file; more would fill any context many times over."""

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
KNOWN_BINARY = (
    (b"%PDF", "a PDF: copy its text and paste it instead"),
    (b"\x89PNG", "a picture, which this version cannot read"),
    (b"\xff\xd8\xff", "a picture, which this version cannot read"),
    (b"GIF8", "a picture, which this version cannot read"),
    (b"PK\x03\x04", "an archive or an office document: unpack it, or paste its text"),
    (b"\x1f\x8b", "compressed: unpack it first"),
)
CONTROLS_ALLOWED = "\t\n\r\f\x1b"
PASTED = "Pasted text"


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


def pasted_text(text: str) -> AttachedText:
    """A long paste as an attachment."""
    return AttachedText(PASTED, text, len(text.encode("utf-8", "replace")))


def read_attachment(path: Path) -> AttachedText | RefusedFile:
    """Read one file; never raises, never reads more than the size limit."""
    name = path.name
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            return RefusedFile(name, f"{name} is a folder: attach the files in it.")
        if not stat.S_ISREG(facts.st_mode):
            return RefusedFile(name, f"{name} is not a file that can be read.")
        with path.open("rb") as opened:
            content = opened.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return RefusedFile(name, f"{name} cannot be opened ({reason or error}).")
    if len(content) > LARGEST:
        most = f"{LARGEST / 1e6:.0f} MB"
        return RefusedFile(
            name, f"{name} is larger than {most}: paste the part that matters instead."
        )
    return _decoded(name, content)


def _decoded(name: str, content: bytes) -> AttachedText | RefusedFile:
    """UTF-8, or UTF-16 with its mark; anything else is not text."""
    for start, words in KNOWN_BINARY:
        if content.startswith(start):
            return RefusedFile(name, f"{name} is {words}.")
    encoding = next((code for mark, code in BOMS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return RefusedFile(name, f"{name} is not text in UTF-8 or UTF-16: save it as UTF-8.")
    if not text.strip():
        return RefusedFile(name, f"{name} is empty.")
    if any(c < " " and c not in CONTROLS_ALLOWED for c in text):
        return RefusedFile(name, f"{name} is not text: it holds binary data.")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return AttachedText(name, lines, len(content))


def with_attachments(text: str, attachments: Sequence[AttachedText]) -> str:
    """The attachments as named, fenced blocks, then the message: what the model reads."""
    return "\n\n".join([*(fenced(attachment) for attachment in attachments), text]).strip("\n")


def fenced(attachment: AttachedText) -> str:
    """One block; its fence is longer than any run of backticks inside."""
    longest = max(map(len, re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    name = " ".join(attachment.name.replace("`", "'").split())
    body = attachment.text.rstrip("\n")
    return f"{name}:\n\n{fence}{attachment.language}\n{body}\n{fence}"
