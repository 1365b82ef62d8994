"""Image files as pictures: every kind that people have, and every kind that is none."""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import read_picture

RED = Image.new("RGB", (6, 4), (250, 10, 10))


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A PNG that claims this size in its header."""
    whole, header = encoded(RED), struct.pack(">II", width, height)
    chunk = b"IHDR" + header + whole[24:29]
    return whole[:12] + chunk + struct.pack(">I", zlib.crc32(chunk)) + whole[33:]


def test_every_kind_of_pixels_becomes_red() -> None:
    sideways = Image.Exif()
    sideways[0x0112] = 6
    turned = RED.rotate(90, expand=True)
    turned_red = np.asarray(RED)
    kinds = {
        "png": encoded(RED),
        "webp": encoded(RED, "WEBP", lossless=True),
        "gif": encoded(RED, "GIF"),
        "bmp": encoded(RED, "BMP"),
        "jpeg": encoded(RED, "JPEG", quality=95),
        "palette": encoded(RED.convert("P", palette=Image.Palette.ADAPTIVE)),
        "cmyk": encoded(RED.convert("CMYK"), "JPEG", quality=95),
        "exif": encoded(turned, "JPEG", quality=95, exif=sideways),
        "pillow": RED,
    }
    for name, source in kinds.items():
        found = read_picture(source)
        assert (found.width, found.height) == (6, 4), name
        off = np.asarray(found.decode()).astype(int) - turned_red
        assert np.abs(off).max() <= 12, name


def test_grey_in_16_bits_and_transparency(tmp_path: Path) -> None:
    deep = Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16))
    assert np.asarray(read_picture(encoded(deep)).decode())[0, :, 0].tolist() == [0, 100, 255]
    clear = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    clear.putpixel((0, 0), (0, 0, 255, 128))
    (tmp_path / "clear.jpg").write_bytes(encoded(clear))  # a PNG, whatever its name
    shown = np.asarray(read_picture(tmp_path / "clear.jpg").decode())[0].tolist()
    assert shown == [[127, 127, 255], [255, 255, 255]]


def test_bad_pictures_say_what_is_wrong(tmp_path: Path) -> None:
    frames = [RED, Image.new("RGB", (6, 4))]
    moving = {
        kind: encoded(RED, kind, save_all=True, append_images=frames[1:])
        for kind in ("GIF", "WEBP", "PNG")
    }
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    cases: list[tuple[Any, str]] = [
        (b"", "not a picture"),
        (b"<svg></svg>", "not a picture"),
        (encoded(RED, "TIFF"), "not a picture"),
        *((data, "still pictures") for data in moving.values()),
        *((encoded(noise, kind)[:-900], "not complete") for kind in ("PNG", "JPEG", "WEBP")),
        (png_of_size(0, 4), "not a picture"),
        (png_of_size(60_000, 60_000), "million pixels"),
        (png_of_size(9_400, 9_400), "million pixels"),
        (png_of_size(10_000, 10_000), "million pixels"),
        (Image.new("RGB", (0, 3)), "damaged"),
        (tmp_path / "none.png", r"none\.png: no such file"),
        (tmp_path, "folder"),
        ("a\0b", "cannot be read"),
        (7, "a path"),
    ]
    for source, words in cases:
        with pytest.raises(BadPicture, match=words):
            read_picture(source)
