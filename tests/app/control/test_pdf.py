"""A chat's PDF holds its words, and nothing else of this computer."""

from unicodedata import normalize

import pypdf
import pytest

from app.control.pdf import write_pdf

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
