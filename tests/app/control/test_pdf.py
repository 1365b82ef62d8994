"""A chat's PDF holds its words, and nothing else of this computer."""

from pathlib import Path
from unicodedata import normalize
from unittest.mock import Mock

import pypdf
import pytest
from PIL import Image
from PySide6.QtGui import QTextDocument

from app.control.files import PICTURE_NAME, write_pdf
from mlx_engine.values.picture import read_picture

CHAT = """# On zebras

## You

Why **stripes**?

## Pocket

Against flies:

| a | b |
|---|---|
| 1 | 2 |

```python
print("x")
```

![secret](secret.png)
"""


def test_its_words_and_its_title_are_in_it(tmp_path, qapp):
    path = tmp_path / "chat.pdf"
    (tmp_path / "secret.png").write_bytes(b"no picture")
    write_pdf(CHAT, "On zebras", path)
    read = pypdf.PdfReader(path)
    pages = " ".join(page.extract_text() for page in read.pages)
    text = " ".join(normalize("NFKC", pages).split())
    for words in ("zebras", "stripes", "Against flies", 'print("x")', "1 2"):
        assert words in text
    assert read.metadata.title == "On zebras"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["chat.pdf", "secret.png"]


def test_a_chats_own_pictures_are_in_it(tmp_path, qapp):
    """In the proportions and the sharpness that a page has room for."""
    large, small = Image.new("RGB", (1800, 900), "red"), Image.new("RGB", (30, 60), "blue")
    pictures, path = [read_picture(image) for image in (large, small)], tmp_path / "chat.pdf"
    named = (
        f"![picture]({PICTURE_NAME}0)\n\n![picture]({PICTURE_NAME}1)\n\n![picture]({PICTURE_NAME}2)"
    )
    write_pdf(f"{CHAT}\n{named}", "Zebras", path, pictures)
    found = [file.image for page in pypdf.PdfReader(path).pages for file in page.images]
    sign = (16, 16)  # of those that are not there
    assert [image.size for image in found] == [sign, (1200, 600), (30, 60), sign]
    assert [image.getpixel((5, 5)) for image in found[1:3]] == [(254, 0, 0), (0, 0, 254)]


def test_lines_of_a_poem_stay_lines(tmp_path, qapp):
    write_pdf("- Roses are red,\n  violets\n\n`a`\nlast", "Poem", tmp_path / "poem.pdf")
    (page,) = pypdf.PdfReader(tmp_path / "poem.pdf").pages
    lines = [normalize("NFKC", line).strip() for line in page.extract_text().splitlines()]
    assert [line for line in lines if line][-4:] == ["violets", "a", "last", "1"]


def test_a_long_chat_has_several_pages(tmp_path, qapp):
    write_pdf(CHAT * 20, "Long", tmp_path / "chat.pdf")
    assert len(pypdf.PdfReader(tmp_path / "chat.pdf").pages) > 3


def test_a_place_that_cannot_be_written_says_so_and_leaves_nothing(tmp_path, qapp):
    with pytest.raises(OSError, match="No such file"):
        write_pdf(CHAT, "On zebras", tmp_path / "nowhere" / "chat.pdf")
    (tmp_path / "chat.pdf").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_pdf(CHAT, "On zebras", tmp_path / "chat.pdf")
    assert [file.name for file in tmp_path.iterdir()] == ["chat.pdf"]


def test_a_pdf_cut_short_by_a_full_disk_replaces_nothing(tmp_path, qapp, monkeypatch):
    """Qt does not tell whether it could write."""
    path = tmp_path / "chat.pdf"
    path.write_bytes(b"the one before")

    def cut_short(document, writer):
        Path(path.with_name("chat.pdf.part")).write_bytes(b"%PDF-1.4 half")

    monkeypatch.setattr(QTextDocument, "print_", cut_short)
    monkeypatch.setattr("app.control.files.QPdfWriter", lambda name: Mock())
    with pytest.raises(OSError, match="No space left"):
        write_pdf(CHAT, "On zebras", path)
    assert path.read_bytes() == b"the one before"
    assert [file.name for file in tmp_path.iterdir()] == ["chat.pdf"]
