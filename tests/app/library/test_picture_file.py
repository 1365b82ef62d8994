"""Pictures among attached files: known by their contents, those of a Mac read by the system."""

import io

import pytest
from PIL import ExifTags, Image

from app.library.dropped import DroppedText, what_is
from app.library.picture_file import read_attachment
from app.values.attached_text import AttachedText, Refused
from app.window.pictures import png_by_system
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
    assert isinstance(refused, Refused)
    assert "photo.heic is a picture of a kind that this system does not read" in refused.words


def test_a_picture_that_only_qt_reads_is_converted(tmp_path, qapp):
    """As a Mac's HEIC: turned as it says; one of several pages would lose all but the first."""
    page = Image.new("RGB", (3, 5), (9, 99, 199))
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 6
    page.save(tmp_path / "scan.tif", exif=turned)
    read = read_attachment(tmp_path / "scan.tif", png_by_system)
    assert isinstance(read, Picture) and (read.width, read.height) == (5, 3)
    assert read.decode().getpixel((4, 2)) == (9, 99, 199)
    page.save(tmp_path / "fax.tif", save_all=True, append_images=[page])
    refused = read_attachment(tmp_path / "fax.tif", png_by_system)
    assert isinstance(refused, Refused) and "of several pages" in refused.words
    assert what_is(str(tmp_path / "scan.tif")) == DroppedText(
        tmp_path / "scan.tif", (tmp_path / "scan.tif").stat().st_size
    )


def test_what_is_no_picture_is_read_as_text(tmp_path):
    path = tmp_path / "x.png"
    path.write_text("BM is not always a bitmap")
    assert read_attachment(path, lambda data: b"") == AttachedText("x.png", path.read_text())
    assert isinstance(read_attachment(tmp_path / "gone.png", lambda data: b""), Refused)
