"""Pictures among attached files: known by their contents, those of a Mac read by the system."""

import io

import pytest
from PIL import Image

from app.library.picture_file import read_attachment
from app.values.attached_text import AttachedText, Refused
from mlx_engine.values.picture import Picture


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (3, 5), "blue").save(file, kind)
    return file.getvalue()


HEIC = b"\0\0\0\x18ftypheic" + bytes(40)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_a_picture_is_known_by_its_contents(tmp_path, kind):
    path = tmp_path / ("x.bmp" if kind == "BMP" else "misnamed.txt")
    path.write_bytes(encoded(kind))
    read = read_attachment(path, lambda data: b"")
    assert isinstance(read, Picture) and (read.width, read.height) == (3, 5)


def test_a_picture_of_a_mac_is_read_where_the_system_can(tmp_path):
    path = tmp_path / "photo.heic"
    path.write_bytes(HEIC)
    asked = list[bytes]()
    read = read_attachment(path, lambda data: asked.append(data) or encoded("PNG"))
    assert isinstance(read, Picture) and asked == [HEIC]
    refused = read_attachment(path, lambda data: b"")
    assert isinstance(refused, Refused) and "photo.heic is a HEIC or AVIF" in refused.words


def test_what_is_no_picture_is_read_as_text(tmp_path):
    path = tmp_path / "x.png"
    path.write_text("BM is not always a bitmap")
    assert read_attachment(path, lambda data: b"") == AttachedText("x.png", path.read_text())
    assert isinstance(read_attachment(tmp_path / "gone.png", lambda data: b""), Refused)
