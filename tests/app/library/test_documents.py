"""PDF and Word files become text, or say why not, in bounded time and memory."""

import io
import json
import sys
import time
import zipfile
from base64 import b64encode
from pathlib import Path
from types import FrameType

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from app.library import document_reader, picture_file
from app.library.document_reader import read_pages
from app.library.dropped import DroppedText, what_is
from app.library.picture_file import read_attachment
from app.library.text_file import read_text_file
from app.values.attached_text import AttachedPdf, AttachedText, Refused
from app.values.typed_json import words_from_text


def pdf(path: Path, *pages: str, password: str = "", **encryption: str) -> Path:
    """Each page says its text in one line."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = writer._add_object(content)
    if password:
        writer.encrypt(password, algorithm="RC4-128", **encryption)
    writer.write(path)
    return path


def word(path: Path) -> Path:
    made = docx.Document()
    made.add_heading("Kernels", 1)
    made.add_paragraph("Größe & <b>Maß</b>")
    table = made.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "one", "two\nlines"
    made.add_paragraph("The end")
    made.save(str(path))
    return path


def in_process(path: Path, monkeypatch: pytest.MonkeyPatch, most: int = 10_000) -> str:
    """What the other process would say of a file, without starting one.

    Nor the thread that ends a process whose memory has grown: it would end that of the tests.
    """
    said = io.StringIO()
    monkeypatch.setattr(document_reader, "_end_at_most_memory", lambda: None)
    monkeypatch.setattr(document_reader.sys, "argv", ["", "", str(path), "text", str(most)])
    monkeypatch.setattr(document_reader.sys, "stdout", said)
    monkeypatch.setattr(document_reader.resource, "setrlimit", lambda *_: None)
    document_reader.main()
    told = json.loads(said.getvalue())
    return said.getvalue() if "text" in told else f"problem: {words_from_text(told['problem'])}"


def test_a_pdf_without_text_is_attached_as_pictures_of_its_pages(tmp_path, monkeypatch):
    """The upper half of its first page is blue; its second page is as large as a house."""
    pytest.importorskip("pypdfium2")
    blue = ") Tj ET 0 0 1 rg 0 150 300 150 re f BT ("
    path = pdf(tmp_path / "scan.pdf", blue, *[""] * 3)
    writer = PdfWriter(clone_from=path)
    writer.pages[1].mediabox.upper_right = (14_400, 7_200)
    writer.write(path)
    monkeypatch.setattr(document_reader, "MOST_PAGES", 3)
    attached = read_attachment(path, lambda _: b"", sees=True)
    assert isinstance(attached, AttachedPdf) and attached.page_count == 4
    assert attached.goes_as_pictures(sees=True) and attached.goes_as_pictures(sees=False)
    assert [(page.width, page.height) for page in attached.pages] == [
        (834, 834),
        (2000, 1000),
        (834, 834),
    ]
    first = attached.pages[0].decode()
    assert [first.getpixel((400, y)) for y in (100, 700)] == [(0, 0, 254), (255, 255, 255)]


def test_a_pdf_is_attached_as_text_until_its_pages_are_asked_for(tmp_path):
    path = pdf(tmp_path / "Report.PDF", "First page", "Second page")
    attached = read_attachment(path, lambda _: b"", sees=True)
    assert attached == AttachedPdf(path, AttachedText("Report.PDF", "First page\nSecond page"))
    assert what_is(str(path)) == DroppedText(path, path.stat().st_size)
    pytest.importorskip("pypdfium2")
    drawn = read_pages(attached)
    assert isinstance(drawn, AttachedPdf) and drawn.text == attached.text
    assert drawn.goes_as_pictures(sees=True) and not drawn.goes_as_pictures(sees=False)
    assert min(drawn.pages[0].decode().convert("L").tobytes()) < 50
    path.unlink()
    gone = read_pages(attached)
    assert isinstance(gone, Refused) and gone.words.startswith("Report.PDF cannot be opened")


def test_why_pages_are_not_drawn_is_told_for_a_model_that_sees(tmp_path, monkeypatch):
    """It would not help to use a model that sees; what is wrong with the file comes first."""
    monkeypatch.setattr(picture_file, "read_pages", lambda pdf, _: Refused(f"{pdf.name}: no."))
    scan, locked = pdf(tmp_path / "scan.pdf", ""), pdf(tmp_path / "a.pdf", "Hi", password="key")
    assert read_attachment(scan, lambda _: b"", sees=True) == Refused("scan.pdf: no.")
    told = read_attachment(locked, lambda _: b"", sees=True)
    assert isinstance(told, Refused) and "locked with a password" in told.words


def test_a_word_file_is_attached_as_text(tmp_path):
    path = word(tmp_path / "notes.docx")
    attached = read_text_file(path)
    assert isinstance(attached, AttachedText)
    assert attached.text == "# Kernels\nGröße & <b>Maß</b>\none\ttwo lines\nThe end"


def test_what_is_too_long_says_so_at_its_end(tmp_path, monkeypatch):
    path = pdf(tmp_path / "long.pdf", *(f"Page {number}" for number in range(1, 31)))
    said = in_process(path, monkeypatch, most=50)
    assert "Page 7" in said and "Page 8" not in said
    assert "[The rest is left out: more than 50 characters.]" in said
    monkeypatch.setattr(document_reader, "LONGEST_S", -1.0)
    assert "[The rest is left out: more than could be read" in in_process(path, monkeypatch)


def test_pages_without_text_are_named(tmp_path, monkeypatch):
    path = pdf(tmp_path / "half.pdf", "A title", "", "An end", "")
    assert "[No text, at most pictures of it: page 2, 4.]" in in_process(path, monkeypatch)


def test_a_word_file_of_many_pages_is_read_whole(tmp_path):
    """A look at each paragraph's style by itself took 0.7 ms."""
    made = docx.Document()
    for number in range(400):
        made.add_paragraph(f"Paragraph {number}", style="Heading 2" if number == 7 else None)
    made.save(str(tmp_path / "book.docx"))
    looked = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal looked
        looked += event == "call" and frame.f_code.co_name == "get_style"

    sys.setprofile(profile)
    lines = list(document_reader._word_lines(tmp_path / "book.docx"))
    sys.setprofile(None)
    assert lines[6:9] == ["Paragraph 6", "## Paragraph 7", "Paragraph 8"]
    assert looked == 0


def test_why_a_document_has_no_text(tmp_path, monkeypatch):
    scan, locked = pdf(tmp_path / "scan.pdf", "", ""), tmp_path / "locked.pdf"
    assert "at most pictures" in in_process(scan, monkeypatch)
    assert "password" in in_process(pdf(locked, "Secret", password="key"), monkeypatch)
    readable = pdf(tmp_path / "open.pdf", "Not secret", password="", owner_password="key")
    assert "Not secret" in in_process(readable, monkeypatch)
    whole = pdf(tmp_path / "whole.pdf", "text").read_bytes()
    cut = tmp_path / "cut.pdf"
    cut.write_bytes(whole[: len(whole) // 3])
    assert "problem" in in_process(cut, monkeypatch)
    packed = tmp_path / "sheet.docx"
    with zipfile.ZipFile(packed, "w") as parts:
        parts.writestr("xl/workbook.xml", "<a/>")
    assert "is no Word document" in in_process(packed, monkeypatch)
    cut = tmp_path / "cut.docx"
    cut.write_bytes(word(tmp_path / "whole.docx").read_bytes()[:2000])
    assert "is damaged" in in_process(cut, monkeypatch)


def test_a_file_that_unpacks_without_end_is_not_unpacked(tmp_path, monkeypatch):
    bomb = tmp_path / "bomb.docx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("word/document.xml", b" " * (document_reader.LARGEST_UNPACKED + 1))
    assert bomb.stat().st_size < 100_000
    assert "unpacks to 50 MB, which is too much" in in_process(bomb, monkeypatch)


@pytest.mark.parametrize("part", ["word/document.xml", "word/styles.xml"])
def test_a_small_file_of_more_elements_than_memory_has_room_for_is_not_read(
    tmp_path, monkeypatch, part
):
    """Each takes 4 bytes unpacked, next to none packed, and a thousand once it is read."""
    path, sound = tmp_path / "elements.docx", word(tmp_path / "sound.docx")
    with zipfile.ZipFile(sound) as parts, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name in parts.namelist():
            more = b"<a/>" * document_reader.MOST_TAGS if name == part else b""
            made.writestr(name, parts.read(name) + more)
    assert path.stat().st_size < 100_000
    assert "which is too much" in in_process(path, monkeypatch)


def test_a_document_that_names_itself_without_end(tmp_path, monkeypatch):
    """A "billion laughs": entities of entities."""
    names = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 20))
    path, laughs = tmp_path / "laughs.docx", word(tmp_path / "sound.docx")
    with zipfile.ZipFile(laughs) as sound, zipfile.ZipFile(path, "w") as parts:
        for name in sound.namelist():
            content = sound.read(name)
            if name == "word/document.xml":
                content = content.replace(b"The end", b"&a19;")
                head, end, rest = content.partition(b"?>")
                doctype = f'<!DOCTYPE x [<!ENTITY a0 "ha">{names}]>'.encode()
                content = head + end + doctype + rest
            parts.writestr(name, content)
    assert len(in_process(path, monkeypatch)) < 20_000


def test_without_the_readers_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(document_reader.sys.modules, "pypdf", None)
    said = in_process(pdf(tmp_path / "x.pdf", "text"), monkeypatch)
    assert "pip install 'headstart[documents]'" in said


def test_a_reader_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(document_reader, "START", "import time; time.sleep(60)")
    monkeypatch.setattr(document_reader, "LONGEST_S", 0.1)
    monkeypatch.setattr(document_reader, "PATIENCE_S", 0.1)
    refused = read_text_file(pdf(tmp_path / "x.pdf", "text"))
    assert isinstance(refused, Refused) and "could not be read in" in refused.words


def test_a_reader_that_is_not_wanted_any_more_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(document_reader, "START", "import time; time.sleep(60)")
    looks = iter([True, False])
    path = pdf(tmp_path / "x.pdf", "text")
    started = time.perf_counter()
    assert isinstance(read_text_file(path, lambda: next(looks)), Refused)
    assert time.perf_counter() - started < 20 and next(looks, None) is None


@pytest.mark.parametrize("end", ["os.abort()", "time.sleep(60)"])
def test_pages_that_were_drawn_before_the_reader_ended_are_kept(tmp_path, monkeypatch, end):
    """It dies, or is killed, within a line."""
    drawn, marker = io.BytesIO(), tmp_path / "drawn"
    Image.new("RGB", (4, 3)).save(drawn, "PNG")
    page = json.dumps({"pages": [b64encode(drawn.getvalue()).decode()], "page_count": 3})
    said = f"import os, time; print({page!r}); print('[1', end='', flush=True)"
    touch = f"open({str(marker)!r}, 'w').close()"
    monkeypatch.setattr(document_reader, "START", f"{said}; {touch}; {end}")
    pdf_of_three = AttachedPdf(pdf(tmp_path / "x.pdf", "text"), AttachedText("x.pdf", "text"))
    read = read_pages(pdf_of_three, lambda: not marker.exists())
    assert isinstance(read, AttachedPdf) and (len(read.pages), read.page_count) == (1, 3)


def test_a_reader_that_dies_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(document_reader, "START", "import os; os.abort()")
    refused = read_text_file(pdf(tmp_path / "x.pdf", "text"))
    assert isinstance(refused, Refused) and refused.words.startswith("x.pdf could not be read")


def test_a_document_larger_than_any_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(document_reader, "LARGEST_DOCUMENT", 100)
    refused = read_text_file(pdf(tmp_path / "x.pdf", "text"))
    assert isinstance(refused, Refused) and "too large to attach" in refused.words


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_any_bytes_are_answered(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.pdf"
    path.write_bytes(b"%PDF-1.7\n" + content)
    with pytest.MonkeyPatch.context() as patch:
        assert "problem" in in_process(path, patch)


def test_a_cell_counts_once_however_many_columns_it_claims(tmp_path):
    document = docx.Document()
    cells = document.add_table(2, 2)._cells
    for number, cell in enumerate(cells):
        cell.text = f"cell {number}"
    cells[3]._tc.vMerge = "continue"
    cells[0]._tc.grid_span = 10**9
    document.save(str(tmp_path / "wide.docx"))
    read = read_text_file(tmp_path / "wide.docx")
    assert isinstance(read, AttachedText), read
    assert "cell 0\tcell 1\ncell 2\tcell 3" in read.text


@pytest.mark.skipif(sys.platform != "linux", reason="a process is told its own memory elsewhere")
def test_a_reader_that_takes_too_much_memory_ends_itself(tmp_path, monkeypatch):
    start = (
        "import sys, time; sys.path.append(sys.argv[1]); from app.library import document_reader;"
    )
    start += (
        "document_reader.MOST_MEMORY = 2**20; document_reader._end_at_most_memory(); time.sleep(60)"
    )
    monkeypatch.setattr(document_reader, "START", start)
    refused = read_text_file(pdf(tmp_path / "x.pdf", "text"))
    assert isinstance(refused, Refused) and refused.words.startswith("x.pdf could not be read")
