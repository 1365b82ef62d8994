"""Read the text of an attached file; PDF and Word documents are read in a child process."""

import codecs
import json
import os
import resource
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Literal

from app.values.attached_text import AttachedText, Refused
from app.values.typed_json import words_from_text, words_to_text
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words, size_words

Kind = Literal["PDF", "Word"]

LARGEST_DOCUMENT = 200_000_000
"""Largest PDF or Word file, in bytes."""
LARGEST_UNPACKED = 50_000_000
"""Largest unpacked text of a Word file, in bytes; LARGEST_DOCUMENT limits the rest."""
MOST_TAGS = 2_000_000
"""Most tags of a Word file: a long book has some 100,000; an empty one takes a kilobyte of
memory.
"""
LONGEST_S, MOST_MEMORY = 30.0, 2 * 2**30
PATIENCE_S = 10.0
"""Seconds after which a process that should have ended is killed."""
LOOK_S = 0.2
"""Interval in which is_wanted() is asked."""

PACKAGES = Path(__file__).parents[2]
START = "import sys; sys.path.append(sys.argv[1]); from app.library.text_file import main; main()"


def document_kind(path: Path, beginning: bytes) -> Kind | None:
    """Tell a PDF or Word file by its first bytes, and by its name if they are those of any ZIP
    file.
    """
    if beginning.startswith(b"%PDF"):
        return "PDF"
    is_packed = beginning.startswith(b"PK\x03\x04")
    return "Word" if is_packed and path.suffix.lower() == ".docx" else None


def read_document(
    path: Path, most: int, is_wanted: Callable[[], bool] = lambda: True
) -> AttachedText | Refused:
    """Read a document's text, at most `most` characters, in at most LONGEST_S + PATIENCE_S seconds;
    ends soon once is_wanted() is false.
    """
    name, nbytes = path.name, path.stat().st_size
    if nbytes > LARGEST_DOCUMENT:
        return Refused(
            Words(
                "{name} is too large to attach ({size}; {most} at most): take out what matters.",
                name=name,
                size=size_words(nbytes),
                most=size_words(LARGEST_DOCUMENT),
            )
        )
    command = [sys.executable, "-P", "-c", START, str(PACKAGES), str(path), str(most)]
    try:
        said = json.loads(_output(command, is_wanted))
    except subprocess.TimeoutExpired:
        return Refused(
            Words(
                "{name} could not be read in {seconds:.0f} s: paste its text.",
                name=name,
                seconds=LONGEST_S,
            )
        )
    except ValueError:  # it was killed, or had no memory left
        return Refused(
            Words("{name} could not be read: paste the part that matters instead.", name=name)
        )
    if "text" not in said:
        problem = words_from_text(said["problem"])
        return Refused(Words("{name} {problem}", name=name, problem=problem))
    return AttachedText(name, said["text"])


def _output(command: Sequence[str], is_wanted: Callable[[], bool]) -> bytes:
    """Return the output of a child process, killed when it takes too long or is not wanted."""
    end = time.monotonic() + LONGEST_S + PATIENCE_S
    nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, stdin=nowhere, stdout=pipe, stderr=nowhere) as process:
        while True:
            try:
                return process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                if not is_wanted() or time.monotonic() > end:
                    process.kill()
                    raise


LEVELS = "123456789"
"""Digits at the end of Word's heading styles."""
NO_READERS = Words(
    "needs the readers of documents, which are not installed: pip install "
    "'headstart[documents]', or paste its text."
)
NO_MEMORY = Words("needs too much memory to be read: paste the part that matters.")


def main() -> None:
    """Write {"text": ...} or {"problem": ...}, Words as text, of the file in the arguments."""
    path, most = Path(sys.argv[2]), int(sys.argv[3])
    Thread(target=_end_at_most_memory, daemon=True).start()
    with suppress(ValueError, OSError):  # a Mac does not keep to it
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with path.open("rb") as file:
        is_pdf = document_kind(path, file.read(4)) == "PDF"
    try:
        said = {"text": _joined(_pdf_pages(path) if is_pdf else _word_lines(path), most)}
    except Exception as error:  # damage shows in all kinds of them
        said = {"problem": words_to_text(_what_is_wrong(error))}
    sys.stdout.write(json.dumps(said))


def _end_at_most_memory() -> None:
    """End the process at MOST_MEMORY, on a Mac, which does not enforce the limit."""
    unit = 1 if sys.platform == "darwin" else 1024
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit < MOST_MEMORY:
        time.sleep(LOOK_S)
    os._exit(1)


def _what_is_wrong(error: Exception) -> Words:
    match error:
        case NotReadable():
            return error.words
        case ImportError():
            return NO_READERS
        case MemoryError():
            return NO_MEMORY
    return Words("is damaged and cannot be read ({error}).", error=str(error))


class NotReadable(Exception):
    """The document has no text; `words` follow the file's name."""

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.words = words


def _joined(parts: Iterator[str], most: int) -> str:
    """Join parts within the limits of length and time; a last line tells what is left out."""
    end, found, length = time.monotonic() + LONGEST_S, list[str](), 0
    why = ""
    for part in parts:
        if length + len(part) > most:
            why = f"more than {most:,} characters"
        elif time.monotonic() > end:
            why = f"more than could be read in {LONGEST_S:.0f} s"
        if why:
            break
        found.append(part)
        length += len(part) + 1
    text = "\n".join(found).replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c >= " " or c in "\n\t")
    if not text.strip() and not why:
        raise NotReadable(
            Words("holds no text, at most pictures: have its text recognised first, or paste it.")
        )
    return f"{text}\n\n[The rest is left out: {why}.]" if why else text


def _pdf_pages(path: Path) -> Iterator[str]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    locked = NotReadable(
        Words("is locked with a password: save a copy without one, then attach that.")
    )
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise locked
        without = []
        for number, page in enumerate(reader.pages, 1):
            text = page.extract_text()
            without += [str(number)] * (not text.strip())
            yield text
        if without and len(without) < number:
            yield f"\n[No text, at most pictures of it: page {', '.join(without)}.]"
    except DependencyError as error:  # encrypted in a way that pypdf alone cannot open
        raise locked from error


def _word_lines(path: Path) -> Iterator[str]:
    """Yield paragraphs and tables in their order, headings as in Markdown."""
    import docx
    from docx.table import Table, _Cell

    with zipfile.ZipFile(path) as parts:
        sizes = {part.filename: part.file_size for part in parts.infolist()}
        if "word/document.xml" not in sizes:
            raise NotReadable(Words("is no Word document, though its name says so."))
        texts = {name: size for name, size in sizes.items() if name.endswith((".xml", ".rels"))}
        if (
            sum(texts.values()) > LARGEST_UNPACKED
            or sum(sizes.values()) > LARGEST_DOCUMENT
            or sum(parts.read(name).count(b"<") for name in texts) > MOST_TAGS
        ):
            raise NotReadable(
                Words(
                    "unpacks to {size}, which is too much: paste the part that matters.",
                    size=size_words(sum(sizes.values())),
                )
            )
    document = docx.Document(str(path))
    styles = {style.style_id: style.name or "" for style in document.styles}
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            for row in block.rows:  # row.cells has a merged cell as often as its file says
                cells = (_Cell(cell, block) for cell in row._tr.tc_lst)
                yield "\t".join(" ".join(cell.text.split()) for cell in cells)
            continue
        style = styles.get(block._p.style or "", "")  # block.style takes a thousand times as long
        level = style.removeprefix("Heading ")
        is_heading = style.startswith("Heading ") and level in LEVELS and block.text.strip()
        yield f"{'#' * min(int(level), 6)} {block.text}" if is_heading else block.text


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
