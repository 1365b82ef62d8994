"""Read the text of an attached file."""

import codecs
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from app.library.document_reader import document_kind, read_document
from app.values.attached_text import AttachedText, Refused
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words, size_words

LARGEST = 2_000_000
"""Largest text file, in bytes; more would not fit into any context."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KNOWN_BINARY = (
    (
        b"PK\x03\x04",
        Words("an archive or an office document: unpack it, save it as .docx, or paste its text"),
    ),
    (
        b"\xd0\xcf\x11\xe0",
        Words("an old or a locked office document: save it as .docx without a password"),
    ),
    (b"\x1f\x8b", Words("compressed: unpack it first")),
    (b"{\\rtf", Words("rich text: save it as .docx or as plain text, or paste its text")),
)
_CONTROLS_ALLOWED = "\t\n\r\f\x1b"


def is_document(path: Path) -> bool:
    """Whether a file is a PDF or Word file, whose text takes long to read; raises OSError."""
    with open_regular(path) as opened:
        return document_kind(path, opened.read(4)) is not None


def read_text_file(
    path: Path, is_wanted: Callable[[], bool] = lambda: True
) -> AttachedText | Refused:
    """Read a file of limited size; never raises.

    is_wanted: asked now and then while a document is read, which takes long.
    """
    name = path.name
    try:
        facts = path.stat()
        if stat.S_ISDIR(facts.st_mode):
            return Refused(Words("{name} is a folder: attach the files in it.", name=name))
        if not stat.S_ISREG(facts.st_mode):
            return Refused(Words("{name} is not a file that can be read.", name=name))
        if is_document(path):
            return read_document(path, LARGEST, is_wanted)
        with open_regular(path) as opened:
            content = opened.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return Refused(
            Words("{name} cannot be opened ({reason}).", name=name, reason=reason or error)
        )
    if len(content) > LARGEST:
        return Refused(
            Words(
                "{name} is too large to attach ({size}; {most} at most): paste the part that "
                "matters instead.",
                name=name,
                size=size_words(facts.st_size),
                most=size_words(LARGEST),
            )
        )
    return _decoded(name, content)


def _text(content: bytes, encodings: Sequence[str]) -> str | None:
    """Decode with the first encoding that fits."""
    for encoding in encodings:
        with suppress(UnicodeDecodeError):
            return content.decode(encoding)
    return None


def _decoded(name: str, content: bytes) -> AttachedText | Refused:
    """Decode UTF-8, Windows-1252 (older Western texts), or UTF-16 with a byte order mark."""
    for start, words in _KNOWN_BINARY:
        if content.startswith(start):
            return Refused(Words("{name} is {words}.", name=name, words=words))
    marked = [code for mark, code in _MARKS if content.startswith(mark)]
    text = _text(content, marked or ["utf-8", "cp1252"])
    if text is None:
        return Refused(Words("{name} is in no known encoding: save it as UTF-8.", name=name))
    if not text.strip():
        return Refused(Words("{name} is empty.", name=name))
    if any(c < " " and c not in _CONTROLS_ALLOWED for c in text):
        return Refused(Words("{name} is not text: it holds binary data.", name=name))
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return AttachedText(name, lines)
