"""Read PDF and Word documents in a child process: their text, and a PDF's pages as pictures."""

import json
import math
import os
import resource
import subprocess
import sys
import time
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Literal, TypedDict

from app.values.attached_text import AttachedPdf, AttachedText, Refused
from app.values.typed_json import words_from_text, words_to_text
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import read_picture
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
MOST_PAGES = 20
"""Most pages of a PDF that become pictures: for a model, each is as long as a long page of text."""
PAGE_PIXELS, SHARPEST = 2_000_000, 200 / 72
"""Most pixels of a page, and of a point of it: A4 in 140 dots an inch, small pages in 200."""
JPEG_QUALITY = 90
LONGEST_S, MOST_MEMORY = 30.0, 2 * 2**30
PATIENCE_S = 10.0
"""Seconds after which a process that should have ended is killed."""
LOOK_S = 0.2
"""Seconds between calls of is_wanted()."""

PACKAGES = Path(__file__).parents[2]
START = (
    "import sys; sys.path.append(sys.argv[1]); from app.library.document_reader import main; main()"
)


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
    reply = _ask_child(path, ["text", str(most)], is_wanted)
    return reply if isinstance(reply, Refused) else AttachedText(path.name, reply["text"])


def read_pages(
    pdf: AttachedPdf, is_wanted: Callable[[], bool] = lambda: True
) -> AttachedPdf | Refused:
    """Read the first MOST_PAGES pages of a PDF as pictures, which then stand for it; limits as of
    `read_document`, at which the pages before are kept.
    """
    reply = _ask_child(pdf.path, ["pages", str(MOST_PAGES)], is_wanted)
    if isinstance(reply, Refused):
        return reply
    try:
        pages = tuple(read_picture(b64decode(page), pdf.path.name) for page in reply["pages"])
    except BadPicture as error:
        return Refused(str(error))
    return replace(pdf, pages=pages, page_count=reply["page_count"], as_pictures=True)


class _Reply(TypedDict, total=False):
    """A line of JSON that `main` writes: a text, or a page as JPEG in base64, or a problem.

    problem: Words as text, which follow the file's name.
    """

    text: str
    pages: list[str]
    page_count: int
    problem: str


def _ask_child(path: Path, asked: Sequence[str], is_wanted: Callable[[], bool]) -> _Reply | Refused:
    """Run `main` on a document in a child process, and join the lines of the reply."""
    try:
        name, nbytes = path.name, path.stat().st_size
    except OSError as error:
        return Refused(
            Words("{name} cannot be opened ({reason}).", name=path.name, reason=error.strerror)
        )
    if nbytes > LARGEST_DOCUMENT:
        return Refused(
            Words(
                "{name} is too large to attach ({size}; {most} at most): take out what matters.",
                name=name,
                size=size_words(nbytes),
                most=size_words(LARGEST_DOCUMENT),
            )
        )
    command = [sys.executable, "-P", "-c", START, str(PACKAGES), str(path), *asked]
    pages, reply = list[str](), _Reply()
    try:
        *lines, _ = _output(command, is_wanted).split(b"\n")  # one that was cut off is not whole
        with suppress(ValueError):  # a library wrote something of its own
            for line in map(json.loads, lines):
                pages += line.pop("pages", ())
                reply |= line
    except subprocess.TimeoutExpired:
        return Refused(
            Words(
                "{name} could not be read in {seconds:.0f} s: paste its text.",
                name=name,
                seconds=LONGEST_S,
            )
        )
    if pages or "text" in reply:
        return {**reply, "pages": pages}
    if "problem" in reply:
        problem = words_from_text(reply["problem"])
        return Refused(Words("{name} {problem}", name=name, problem=problem))
    return Refused(  # it was killed, or had no memory left
        Words("{name} could not be read: paste the part that matters instead.", name=name)
    )


def _output(command: Sequence[str], is_wanted: Callable[[], bool]) -> bytes:
    """Return the output of a child process, killed when it takes too long or is not wanted.

    Raises TimeoutExpired where it was killed before its first line.
    """
    end = time.monotonic() + LONGEST_S + PATIENCE_S
    nowhere, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, stdin=nowhere, stdout=pipe, stderr=nowhere) as process:
        while True:
            try:
                return process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                if not is_wanted() or time.monotonic() > end:
                    process.kill()
                    output = process.communicate()[0]
                    if b"\n" in output:
                        return output
                    raise


LEVELS = "123456789"
"""Digits at the end of Word's heading styles."""
NO_READERS = Words(
    "needs the readers of documents, which are not installed: pip install "
    "'headstart[documents]', or paste its text."
)
NO_TEXT = Words(
    "holds no text, at most pictures: use a model that sees pictures, have its text recognised "
    "first, or paste it."
)
NO_MEMORY = Words("needs too much memory to be read: paste the part that matters.")


def main() -> None:
    """Read the file that the arguments name, and write a `_Reply` a line to standard output."""
    path, wants_pages, most = Path(sys.argv[2]), sys.argv[3] == "pages", int(sys.argv[4])
    Thread(target=_end_at_most_memory, daemon=True).start()
    with suppress(ValueError, OSError):  # a Mac does not keep to it
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with path.open("rb") as file:
        is_pdf = document_kind(path, file.read(4)) == "PDF"

    def say(reply: _Reply) -> None:
        sys.stdout.write(f"{json.dumps(reply)}\n")
        sys.stdout.flush()

    try:
        if wants_pages:
            for page in _draw_pages(path, most):
                say(page)
        else:
            say({"text": _joined(_pdf_texts(path) if is_pdf else _word_lines(path), most)})
    except Exception as error:  # damage shows in all kinds of them
        say({"problem": words_to_text(_problem(error))})


def _end_at_most_memory() -> None:
    """End the process at MOST_MEMORY, on a Mac, which does not enforce the limit."""
    unit = 1 if sys.platform == "darwin" else 1024
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit < MOST_MEMORY:
        time.sleep(LOOK_S)
    os._exit(1)


def _problem(error: Exception) -> Words:
    """Say why a document cannot be read; the words follow the file's name."""
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
        raise NotReadable(NO_TEXT)
    return f"{text}\n\n[The rest is left out: {why}.]" if why else text


def _pdf_texts(path: Path) -> Iterator[str]:
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


def _draw_pages(path: Path, most: int) -> Iterator[_Reply]:
    """Draw the first pages of a PDF, with filled-in form fields, as long as time allows."""
    from pypdfium2 import PdfDocument

    end, document = time.monotonic() + LONGEST_S, PdfDocument(path)
    document.init_forms()
    for page in (document[number] for number in range(min(len(document), most))):
        width, height = page.get_size()
        scale = min(SHARPEST, math.sqrt(PAGE_PIXELS / max(1.0, width * height)))
        file = BytesIO()
        page.render(scale=scale).to_pil().save(file, "JPEG", quality=JPEG_QUALITY, subsampling=0)
        page.close()
        drawn = b64encode(file.getvalue()).decode("ascii")
        yield {"pages": [drawn], "page_count": len(document)}
        if time.monotonic() > end:
            break


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
