"""Every widget of transcript and sidebar that takes the focus has a name, whatever is on show."""

from dataclasses import replace

import pytest
from chat_stores import Clock
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QWidget
from shown_transcript import STATS, begin, of, settle, show, stream
from sidebar_hands import Hands

from app.store.session_store import open_store
from app.values.chats import DraftedSpan
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView

RICH = "# Title\n\nWords with a [link](https://example.org).\n\n```py\nx = 1\n```\n\n> quote\n"
QUESTION = ShownMessage(2, "user", "why?", branch_index=1, branch_count=3)
ANSWER = ShownMessage(1, "assistant", RICH, "hm", 1.5, stats=STATS, branch_count=2)
KEYS = Qt.FocusPolicy.TabFocus
EITHER = Qt.FocusPolicy.TabFocus.value | Qt.FocusPolicy.ClickFocus.value


@pytest.fixture
def view(qtbot):
    made = TranscriptView()
    qtbot.addWidget(made)
    made.resize(700, 900)
    made.show()
    settle()
    return made


def focusable(root: QWidget, policy: int = EITHER) -> list[QWidget]:
    """What is on show and can have the focus."""
    return [
        widget
        for widget in root.findChildren(QWidget)
        if widget.focusPolicy().value & policy
        and widget.isVisibleTo(root)
        and widget.objectName() != "qt_scrollarea_viewport"
    ]


def name_of(widget: QWidget) -> str:
    """What a screen reader says of it."""
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface and interface.isValid() else ""


def names(root: QWidget, policy: int = EITHER) -> list[str]:
    """Of all that can have the focus; fails when one has none."""
    found = [(name_of(widget), widget) for widget in focusable(root, policy)]
    nameless = [widget for name, widget in found if not name.strip()]
    assert not nameless, nameless
    return [name for name, _ in found]


def test_an_empty_transcript(view):
    assert "Transcript" in names(view)


def test_an_answer_while_it_streams_with_and_without_tints(view):
    begin(view)
    stream(view, "so ", "thinking")
    stream(view, RICH)
    assert {"Thinking…", "Answer", "Code, py", "Copy code"} <= set(names(view))
    view.set_drafted_shown(True)
    settle()
    names(view)


def test_a_finished_answer_can_be_worked_with_by_keys(view):
    show(view, replace(ANSWER, spans=(DraftedSpan(2, 7, 1),), can_continue=True), QUESTION)
    view.set_drafted_shown(True)
    settle()
    reached = names(view, KEYS.value)
    assert {
        "Thought for 1.5 s",
        "Copy code",
        "Copy",
        "Answer Again",
        "Continue this answer",
        "Edit and send again",
        "Previous version",
        "Next version",
    } <= set(reached)
    assert any(name.startswith("Figures: 41.3") for name in reached)


def test_a_failed_answer_says_why(view):
    words = "The conversation is too long."
    show(view, replace(ANSWER, state="failed", stats=None, notice=words))
    assert "Why it ended" in names(view)


def test_a_long_question_and_its_editor(view):
    show(view, ShownMessage(2, "user", "word " * 2000))
    assert any(name.startswith("Show all") for name in names(view, KEYS.value))
    of(view, 2).edit()
    settle()
    assert {"Edit your message", "Cancel", "Send again"} <= set(names(view, KEYS.value))


def test_finding(view, qtbot):
    show(view, ANSWER)
    view.open_find()
    qtbot.keyClicks(view.find_bar.field, "w")
    reached = set(names(view, KEYS.value))
    assert {"Find in this chat", "Previous match", "Next match", "Close"} <= reached


def test_the_model_of_another_chat(view):
    view.offer.offer("This chat was answered by Other-8B.", "", "Load Other-8B")
    settle()
    assert "Load Other-8B" in names(view, KEYS.value)


def test_every_role_is_told(view):
    show(view, ANSWER)
    buttons = {QAccessible.Role.Button, QAccessible.Role.CheckBox, QAccessible.Role.Link}
    of(view, 1).answer.thinking.head.setChecked(True)
    head = QAccessible.queryAccessibleInterface(of(view, 1).answer.thinking.head)
    assert head.role() in buttons
    assert head.state().checked == 1
    footer = QAccessible.queryAccessibleInterface(of(view, 1).footer)
    assert footer.role() in buttons
    code = QAccessible.queryAccessibleInterface(of(view, 1).texts()[2])
    assert code.text(QAccessible.Text.Value) == "x = 1"


@pytest.mark.parametrize("is_trash", [False, True])
def test_the_sidebar(qtbot, tmp_path, is_trash):
    store = open_store(tmp_path / "chats.db")
    hands = Hands(qtbot, store, Clock())
    sidebar = hands.sidebar
    assert {"Search in chats", "New chat", "Models", "Trash", "Chats"} <= set(names(sidebar))
    kernels, gone = hands.chats("Kernels", "Gone")
    hands.listed.delete(gone if not is_trash else kernels)
    hands.listed.show_trash(is_trash)
    QApplication.processEvents()
    assert "Undo" in names(sidebar, KEYS.value)
    chats = QAccessible.queryAccessibleInterface(sidebar.list)
    said = [chats.child(n).text(QAccessible.Text.Name) for n in range(chats.childCount())]
    assert said == ["Trash" if is_trash else "Today", "Kernels"]
    assert chats.role() == QAccessible.Role.List
    store.close()
