"""Text is selected over prose, code and messages, and copied as Markdown, words or tables."""

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from shown_transcript import PARAGRAPH, of, settle, show

from app.window.transcript.shown_message import ShownMessage

ANSWER = "Install **it**:\n\n```py\nx = 1\n```\n\nThen *run* it.\n"


@pytest.fixture
def shown(view):
    show(view, ShownMessage(1, "user", "How?"), ShownMessage(2, "assistant", ANSWER))
    return view


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def drag(start, at: int, end, to: int) -> None:
    """With the mouse, from a position in one text to one in another."""
    places = []
    for text, position in ((start, at), (end, to)):
        cursor = text.textCursor()
        cursor.setPosition(position)
        places.append(text.viewport().mapToGlobal(text.cursorRect(cursor).center()))
    port, left = start.viewport(), Qt.MouseButton.LeftButton
    QTest.mousePress(port, left, pos=port.mapFromGlobal(places[0]))
    for step in (1, 2, 3):
        place = places[0] + (places[1] - places[0]) * (step / 3)
        QTest.mouseMove(port, port.mapFromGlobal(place))
    move(port, places[1])
    QTest.mouseRelease(port, left, pos=port.mapFromGlobal(places[1]))
    settle()


def move(port, place: QPoint) -> None:
    """A move with the button held, which QTest does not send."""
    event = QMouseEvent(
        QEvent.Type.MouseMove, QPointF(port.mapFromGlobal(place)), QPointF(place),
        Qt.MouseButton.NoButton, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(port, event)


def test_a_drag_goes_on_through_code(shown):
    before, code, after = of(shown, 2).texts()
    drag(before, 8, after, 4)
    assert [text.textCursor().selectedText() for text in (before, code, after)] == [
        "it:", "x = 1", "Then"
    ]  # fmt: skip
    before.copy()
    assert clipboard() == "it:\n\n```py\nx = 1\n```\n\nThen"
    assert "<pre>x = 1</pre>" in QGuiApplication.clipboard().mimeData().html()


def test_a_drag_upwards_goes_into_the_message_above(shown):
    (question,), (_, code, after) = of(shown, 1).texts(), of(shown, 2).texts()
    drag(code, 1, question, 1)
    assert question.textCursor().selectedText() == "ow?"
    assert code.textCursor().selectedText() == "x" and not after.textCursor().hasSelection()
    code.copy()
    assert clipboard() == "ow?\n\nInstall **it**:\n\nx"


def test_another_press_ends_it(shown):
    before, code, after = of(shown, 2).texts()
    drag(before, 8, after, 4)
    QTest.mouseClick(code.viewport(), Qt.MouseButton.LeftButton)
    assert not any(text.textCursor().hasSelection() for text in (before, code, after))


def test_a_drag_that_begins_on_selected_words_begins_a_selection(shown):
    before, code, after = of(shown, 2).texts()
    before.selectAll()
    drag(before, 8, after, 4)
    before.copy()
    assert clipboard() == "it:\n\n```py\nx = 1\n```\n\nThen"
    assert code.textCursor().selectedText() == "x = 1"


def test_code_is_not_scrolled_sideways_by_a_selection(view):
    show(view, ShownMessage(1, "assistant", f"Run:\n\n```\n{'x' * 400}\n```\n\nNow."))
    _, code, _ = of(view, 1).texts()
    assert code.horizontalScrollBar().maximum() > 0
    code.selectAll()
    assert code.textCursor().hasSelection() and code.horizontalScrollBar().value() == 0


def test_all_is_the_message_and_then_the_chat(shown):
    _, code, _ = of(shown, 2).texts()
    code.setFocus()
    QTest.keyClick(code, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    code.copy()
    assert clipboard() == ANSWER.strip()
    assert not of(shown, 1).texts()[0].textCursor().hasSelection()
    code.selectAll()
    code.copy()
    assert clipboard() == "How?\n\n" + ANSWER.strip()


def test_all_of_a_chat_is_also_what_is_not_made_yet(view):
    show(view, *(ShownMessage(n, "user", f"{n} {PARAGRAPH.strip()}") for n in range(40)))
    assert not of(view, 0).is_built
    view.column.selectAll()
    view.column.copy()
    assert clipboard().startswith("0 Some") and clipboard().count("\n\n") == 39


def test_a_table_is_copied_with_tabs_and_as_a_table(view):
    source = "Here:\n\n| a | b |\n|---|---|\n| 1 | **2** |\n| $x$ | <4 |\n\nEnd."
    show(view, ShownMessage(1, "assistant", source))
    (text,) = of(view, 1).texts()
    cursor = text.textCursor()
    cursor.select(cursor.SelectionType.Document)
    text.setTextCursor(cursor)
    text.copy()
    assert clipboard() == "Here:\na\tb\n1\t2\n$x$\t<4\n\nEnd."
    html = QGuiApplication.clipboard().mimeData().html()
    assert "<table><tr><td>a</td><td>b</td></tr>" in html and "<td>&lt;4</td></tr></table>" in html


@pytest.mark.parametrize(
    ("first", "last", "copied"),
    [
        (("a", 0), ("2", 0), "a\tb\n$y$\t2"),
        (("b", 0), ("$x^2$", 1), "b\n2\n$x^2$"),
        (("$y$", 0), ("", 0), "$y$\n"),
    ],
)
def test_cells_that_are_marked_are_copied(view, qtbot, first, last, copied):
    show(view, ShownMessage(1, "assistant", "$z$ is\n\n|a|b|\n|-|-|\n|$y$|2|\n||$x^2$|\n\nEnd."))
    qtbot.waitUntil(lambda: not view.reader.formulas.is_busy)
    (text,) = of(view, 1).texts()
    cells = ("a", "b", "$y$", "2", "", "$x^2$")
    (table,) = text.document().rootFrame().childFrames()
    places = {
        words: table.cellAt(number // 2, number % 2).firstPosition()
        for number, words in enumerate(cells)
    }
    cursor = text.textCursor()
    cursor.setPosition(places[first[0]] + first[1])
    cursor.setPosition(places[last[0]] + last[1], cursor.MoveMode.KeepAnchor)
    text.setTextCursor(cursor)
    text.copy()
    assert clipboard() == copied


def test_what_is_selected_can_be_quoted(shown, monkeypatch):
    monkeypatch.setattr(QMenu, "popup", lambda *_: None)
    before, _, after = of(shown, 2).texts()
    drag(before, 8, after, 4)
    asked = []
    shown.reader.selection.quote_wanted.connect(asked.append)
    port, place = before.viewport(), QPoint(2, 2)
    QTest.mousePress(port, Qt.MouseButton.RightButton, pos=place)
    event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, port.mapToGlobal(place))
    QApplication.sendEvent(port, event)
    (menu,) = before.findChildren(QMenu)
    next(action for action in menu.actions() if action.text() == "Quote").trigger()
    menu.close()
    assert asked == ["it:\n\n```py\nx = 1\n```\n\nThen"]
