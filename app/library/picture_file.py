"""Files to attach as pictures, PDFs or texts: known by their first bytes, checked at once."""

from collections.abc import Callable
from pathlib import Path

from app.library.document_reader import NO_TEXT, document_kind, read_pages
from app.library.text_file import read_text_file
from app.values.attached_text import AttachedPdf, AttachedText, Refused
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import MOST_BYTES, Picture, read_picture
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words

BEGINNINGS = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")
FOREIGN_KINDS = (b"heic", b"heix", b"heim", b"hevc", b"mif1", b"msf1", b"avif")
"""Kinds of pictures in the container of ISO media files, which some systems read."""
FOREIGN_BEGINNINGS = (b"II*\0", b"MM\0*", b"icns", b"\0\0\0\x0cjP  ")
"""First bytes of TIFF, ICNS and JPEG 2000 files, which Qt or the system may read."""
READ = 12
"""Bytes from which a picture is known."""


def is_picture(path: Path, beginning: bytes) -> bool:
    """Return whether a file that begins with these bytes is attached as a picture."""
    is_webp = beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP"
    is_bitmap = beginning[:2] == b"BM" and path.suffix.lower() == ".bmp"
    return beginning.startswith(BEGINNINGS) or is_webp or is_bitmap or _is_foreign(beginning)


def _is_foreign(beginning: bytes) -> bool:
    is_boxed = beginning[4:8] == b"ftyp" and beginning[8:12] in FOREIGN_KINDS
    return is_boxed or beginning.startswith(FOREIGN_BEGINNINGS)


def checked_picture(data: bytes, name: str) -> Picture | Refused:
    """Check the bytes of an image file. name: of the picture, in the words of a refusal."""
    try:
        return read_picture(data, name)
    except BadPicture as error:
        return Refused(str(error))


def read_attachment(
    path: Path,
    as_png: Callable[[bytes], bytes],
    is_wanted: Callable[[], bool] = lambda: True,
    sees: bool = False,
) -> AttachedText | AttachedPdf | Picture | Refused:
    """Read a file as a picture or PDF if it is one, else as text; never raises.

    A PDF without text is read as pictures of its pages, if the model sees.

    as_png: converts a picture that the system alone may be able to read, to b"" if it cannot.
    is_wanted: as in `read_text_file`. sees: whether the model sees pictures.
    """
    try:
        with open_regular(path) as file:
            beginning = file.read(READ)
            if not is_picture(path, beginning):
                return _read_text_or_pdf(path, document_kind(path, beginning), is_wanted, sees)
            data = beginning + file.read(MOST_BYTES + 1 - len(beginning))
    except (OSError, ValueError):
        return read_text_file(path, is_wanted)  # which says why it cannot be read
    if not _is_foreign(beginning):
        return checked_picture(data, path.name)
    if png := as_png(data):
        return checked_picture(png, path.name)
    return Refused(
        Words(
            "{name} is a picture of a kind that this system does not read, or of several pages: "
            "save it as JPEG or PNG, pages as PDF.",
            name=path.name,
        )
    )


def _read_text_or_pdf(
    path: Path, kind: str | None, is_wanted: Callable[[], bool], sees: bool
) -> AttachedText | AttachedPdf | Refused:
    read = read_text_file(path, is_wanted)
    if kind != "PDF":
        return read
    if isinstance(read, AttachedText):
        return AttachedPdf(path, read)
    pages = read_pages(AttachedPdf(path, AttachedText(path.name, "")), is_wanted) if sees else read
    return pages if isinstance(pages, AttachedPdf) or read.words.endswith(NO_TEXT) else read
