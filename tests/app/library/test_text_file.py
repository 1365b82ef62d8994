"""Files become text or a reason, whatever is in them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.library.text_file import LARGEST, read_text_file
from app.values.attached_text import AttachedText, Refused


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_text_is_read(tmp_path, encoding):
    path = written(tmp_path, "größe.py", "print('größe')\r\nx = 1\n".encode(encoding))
    attached = read_text_file(path)
    assert attached == AttachedText("größe.py", "print('größe')\nx = 1\n")
    assert attached.language == "py"


def test_utf_16_of_the_other_order(tmp_path):
    path = written(tmp_path, "a.txt", b"\xfe\xff" + "hello".encode("utf-16-be"))
    assert read_text_file(path).text == "hello"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.pdf", b"%PDF-1.7 ...", "is damaged and cannot be read"),
        ("x.docx", b"PK\x03\x04....", "is damaged and cannot be read"),
        ("x.doc", b"\xd0\xcf\x11\xe0....", "save it as .docx without a password"),
        ("x.rtf", rb"{\rtf1\ansi Hello}", "rich text: save it as .docx or as plain text"),
        ("x.zip", b"PK\x03\x04....", "an archive or an office document"),
        ("x.txt", b"caf\xe9 \x81", "in no known encoding"),
        ("x.bin", b"abc\0def", "it holds binary data"),
        ("x.txt", b"\xff\xfeab\xff", "in no known encoding"),
        ("x.txt", b" \n\t", "is empty"),
        ("x.txt", b"", "is empty"),
        ("x.log", b"a" * (LARGEST + 1), "too large to attach (2 MB; 2 MB at most)"),
    ],
)
def test_what_is_refused_and_why(tmp_path, name, content, words):
    refused = read_text_file(written(tmp_path, name, content))
    assert isinstance(refused, Refused)
    assert words in refused.words
    assert refused.words.startswith(name)


def test_older_western_texts_are_read(tmp_path):
    text = read_text_file(written(tmp_path, "x.txt", "café – “20 €”".encode("cp1252")))
    assert text.text == "café – “20 €”"


def test_folders_missing_files_and_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is a folder" in read_text_file(tmp_path).words
    assert "cannot be opened" in read_text_file(tmp_path / "gone.txt").words
    assert "not a file" in read_text_file(tmp_path / "pipe").words
    assert isinstance(read_text_file(tmp_path / "a\0b"), Refused)


@given(st.binary(max_size=200))
def test_any_bytes_are_answered(tmp_path_factory, content):
    path = written(tmp_path_factory.getbasetemp(), "any", content)
    assert isinstance(read_text_file(path), AttachedText | Refused)
