"""Code is coloured by Pygments, while it arrives and in pieces that no lexer reads for long."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from app.window.look import look
from app.window.transcript import code_colours
from app.window.transcript.code_colours import CodeColours, coloured_lines
from app.window.transcript.code_segment import CodeText
from app.window.transcript.reader import Reader


def colours_on_show(editor: QPlainTextEdit) -> list[tuple[str, str]]:
    theme, found, block = look().theme, [], editor.document().begin()
    names = {
        getattr(theme, f"code_{name}"): name
        for name in ("keyword", "string", "number", "comment", "name")
    }
    while block.isValid():
        for one in block.layout().formats():
            wide = block.text().encode("utf-16-le")[2 * one.start : 2 * (one.start + one.length)]
            colour = one.format.foreground().color().name()
            found.append(
                (wide.decode("utf-16-le"), {k.lower(): v for k, v in names.items()}[colour])
            )
        block = block.next()
    return found


def growing(language: str, code: str) -> tuple[QPlainTextEdit, CodeColours]:
    editor = QPlainTextEdit()
    colours = CodeColours(editor.document(), language)
    for letter in code:
        editor.moveCursor(QTextCursor.MoveOperation.End)
        editor.insertPlainText(letter)
        colours.read()
    return editor, colours


def coloured(language: str, *lines: str) -> list[tuple[str, str]]:
    editor, _colours = growing(language, "\n".join(lines))
    return colours_on_show(editor)


def test_a_line_of_python(qapp):
    assert coloured("python", "def f(x): return 'é😀' + 1.5  # why") == [
        ("def", "keyword"), ("f", "name"), ("return", "keyword"), ("'é😀'", "string"),
        ("1.5", "number"), ("# why", "comment"),
    ]  # fmt: skip


@pytest.mark.parametrize("language", ["c", "java", "javascript", "go", "kotlin", "css", "rust"])
def test_comments_over_lines_while_they_arrive(qapp, language):
    lines = ("/* if a", "if b", "c */ 12")
    assert coloured(language, *lines[:2]) == [(line, "comment") for line in lines[:2]]
    assert coloured(language, *lines)[2] == ("c */", "comment")


def test_strings_over_lines_while_they_arrive(qapp):
    assert coloured("py", 'x = """if', "if", 'two""" + y') == [
        ('"""if', "string"), ("if", "string"), ('two"""', "string"),
    ]  # fmt: skip
    assert coloured("go", "a := `if", "if`") == [("`if", "string"), ("if`", "string")]
    assert coloured("html", "<!-- if", "<p>", "-->")[1] == ("<p>", "comment")


def test_a_marker_in_a_string_opens_nothing(qapp):
    assert coloured("c", 'x = "/*"', "int")[-1] == ("int", "keyword")
    assert coloured("bash", "echo ${#a} # x")[-1] == ("# x", "comment")


def test_unknown_languages_have_no_keywords(qapp):
    assert coloured("klingon", "return 'a' 12") == [("'a'", "string"), ("12", "number")]
    assert coloured("", "don't return what it's") == []


def test_php_without_its_tag(qapp):
    assert coloured("php", 'echo "a"; // b')[-1] == ("// b", "comment")


@settings(max_examples=80)
@given(
    st.sampled_from(["", "python", "c", "html", "php", "bash", "json", "yaml", "metal", "css"]),
    st.text(alphabet="ab(\"'`/*#-<!>1 \n", max_size=60),
)
def test_words_are_in_order_and_inside_the_line(language, code):
    lines = code.split("\n")
    for line, words in zip(lines, coloured_lines(code, language), strict=False):
        ends = [0, *(w.start + w.length for w in words)]
        assert all(w.length > 0 and w.start >= end for w, end in zip(words, ends, strict=False))
        assert ends[-1] <= len(line)


def test_strings_over_lines_are_read_as_a_whole(qapp):
    code = "\nx = \"\"\"a\nb\"\"\" + '''c\nd'''\n5  # e"
    editor, _colours = growing("python", code)
    assert colours_on_show(editor) == [
        ('"""a', "string"), ('b"""', "string"), ("'''c", "string"), ("d'''", "string"),
        ("5", "number"), ("# e", "comment"),
    ]  # fmt: skip


def test_long_code_never_holds_the_window_up(qapp):
    code = "def f(x):\n    return 'a' + 1  # b\n" * 2500
    editor, colours = growing("python", "")
    began = time.thread_time()
    editor.setPlainText(code)
    colours.grow(is_whole=True)
    assert time.thread_time() - began < 0.5
    slowest = 0.0
    while editor.document().lastBlock().previous().layout().formats() == []:
        began = time.thread_time()
        QApplication.processEvents()
        slowest = max(slowest, time.thread_time() - began)
    assert slowest < 0.2


def test_growing_code_is_read_a_little_later_not_for_each_piece(qtbot, monkeypatch):
    read = []
    coloured_lines = code_colours.coloured_lines

    def counted(code, language):
        read.append(code)
        return coloured_lines(code, language)

    monkeypatch.setattr(code_colours, "coloured_lines", counted)
    text = CodeText(Reader(), "python")
    qtbot.addWidget(text)
    code = "\n".join(f"value_{n} = 'word'" for n in range(30))
    for end in range(0, len(code), 3):
        text.show_code(code[:end])
    assert not read
    text.show_code(code)
    qtbot.waitUntil(lambda: colours_on_show(text) == [("'word'", "string")] * 30)
    text.show_code(code + "\nx = 1", is_whole=True)
    qtbot.waitUntil(lambda: colours_on_show(text)[-1] == ("1", "number"))
    assert len(read) == 2


def test_code_that_a_lexer_would_read_for_minutes_is_read_in_pieces(qapp, monkeypatch):
    read, coloured_lines = [], code_colours.coloured_lines
    monkeypatch.setattr(
        code_colours,
        "coloured_lines",
        lambda code, language: read.append(code) or coloured_lines(code, language),
    )
    editor = QPlainTextEdit("a\n" * 4000 + "a b " * 300 + "\n" + "int x = 1;  // why\n" * 1500)
    colours = CodeColours(editor.document(), "java")
    for _ in range(9):
        colours.read()
    assert max(map(len, read)) < 21_000 and max(code.count("\n") for code in read) <= 1001
    assert colours_on_show(editor)[-3:] == [
        ("int", "keyword"), ("1", "number"), ("// why", "comment"),
    ]  # fmt: skip
