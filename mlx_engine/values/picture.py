"""Pictures of messages: the bytes of an image file, checked once, and decoded where they are used.

Pillow reads PNG, JPEG, WebP, GIF and BMP files by their contents, whatever their names say. It is
imported on first use.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mlx_engine.values.errors import BadPicture, why_not_read
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""Names in Pillow of the formats that are read. A JPEG with a second picture behind the first, as
cameras write them, is one, and has the format MPO once it is open.
"""

MOST_PIXELS = 80_000_000
"""Pixels of a picture at most; decoded, it then takes 320 MB. Pillow warns from 89 million on."""

MOST_BYTES = 100 * 1024**2

PictureSource: TypeAlias = "str | Path | bytes | Image | Picture"
"""A path, the bytes of an image file, a Pillow image, or a picture that was read before."""


@dataclass(frozen=True)
class Picture:
    """A picture of a message, upright: SHA-256 of its file's bytes, width and height in pixels.

    read_data: returns the bytes, in any thread. Made by `read_picture`, which checks that the bytes
    can be decoded, or of bytes that were checked before.
    """

    digest: bytes
    width: int
    height: int
    read_data: Callable[[], bytes] = field(repr=False, compare=False)

    @staticmethod
    def from_bytes(data: bytes, width: int, height: int) -> Picture:
        """Make a picture of the bytes of an image file that was checked."""
        return Picture(hashlib.sha256(data).digest(), width, height, lambda: data)

    @property
    def data(self) -> bytes:
        """The bytes of the image file. Raises BadPicture if they cannot be read any more."""
        return self.read_data()

    def decode(self) -> Image:
        """Decode the picture to upright RGB in 8 bits; what is transparent becomes white."""
        return _upright_rgb(_opened(io.BytesIO(self.data)))


def read_picture(source: PictureSource, name: str = "") -> Picture:
    """Read a picture from a path, the bytes of a file, or a Pillow image, and check all of it.

    name: what messages call it, by default its path or "The picture". Raises BadPicture.
    """
    if isinstance(source, Picture):
        return source
    named = name or (str(source) if isinstance(source, str | Path) else Words("The picture"))
    if isinstance(source, str | Path):
        data = _file_bytes(Path(source).expanduser())
    elif isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
    else:
        data = _png_bytes(source, named)
    if len(data) > MOST_BYTES:
        raise _too_large(named)
    with _as_bad_picture(named):
        image = _opened(io.BytesIO(data))
        if image.width * image.height > MOST_PIXELS:
            raise _too_large(named)
        if image.format != "MPO" and _has_second_frame(data):
            raise BadPicture(
                "{name}: moves, and models read still pictures only. Save one frame of it as PNG.",
                name=named,
            )
        upright = _upright_rgb(image)
    return Picture.from_bytes(data, upright.width, upright.height)


def _file_bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise BadPicture("{path}: no such file. Check its name and folder.", path=path) from error
    except (OSError, ValueError) as error:
        os_error = error if isinstance(error, OSError) else OSError(str(error))
        raise BadPicture(why_not_read(path, os_error)) from error


def _png_bytes(image: object, name: str) -> bytes:
    from PIL.Image import Image

    if not isinstance(image, Image):
        raise BadPicture(
            "{name}: a picture is a path, the bytes of an image file, or a Pillow image.", name=name
        )
    file = io.BytesIO()
    with _as_bad_picture(name):
        _upright_rgb(image).save(file, "PNG", compress_level=1)
    return file.getvalue()


def _opened(file: io.BytesIO) -> Image:
    """Open an image file by its header; decodes no pixels."""
    from PIL import Image

    return Image.open(file, formats=FORMATS)


def _has_second_frame(data: bytes) -> bool:
    try:
        _opened(io.BytesIO(data)).seek(1)
    except EOFError:
        return False
    return True


def _upright_rgb(image: Image) -> Image:
    """Decode an image to RGB in 8 bits, turned as its EXIF data say, on white."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):  # grey in 16 bits, which Pillow would clip at 255
        image = image.convert("F").point(lambda value: value * (1 / 257) + 0).convert("L")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, "white")
        image.alpha_composite(layer)
    return image.convert("RGB")


@contextmanager
def _as_bad_picture(name: str) -> Iterator[None]:
    """Context in which whatever Pillow raises for a file that it cannot read is a BadPicture."""
    from PIL import Image, UnidentifiedImageError

    try:
        yield
    except BadPicture:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large(name) from error
    except UnidentifiedImageError as error:
        raise BadPicture(
            "{name}: not a picture in PNG, JPEG, WebP, GIF or BMP. Save it as one of these.",
            name=name,
        ) from error
    except Exception as error:  # of the decoders, which raise what they like for damaged data
        if isinstance(error, MemoryError):
            raise
        raise BadPicture(
            "{name}: the picture is damaged or not complete ({error}). Save or copy it again.",
            name=name,
            error=str(error)[:200],
        ) from error


def _too_large(name: str) -> BadPicture:
    return BadPicture(
        "{name}: larger than {most} million pixels or 100 MB. Make it smaller; models see pictures "
        "in far fewer pixels.",
        name=name,
        most=MOST_PIXELS // 1_000_000,
    )
