"""Names and texts of others are plain text wherever the window shows them: no HTML is read."""

from dataclasses import replace
from pathlib import Path

import pytest
from filled_window import filled_window
from model_states import FACTS, StatedModels
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocumentFragment
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QLabel, QWidget

from app.values.attached_text import AttachedText, with_attachments
from app.values.chats import ChatGroup, ChatSummary, ListedChat
from app.values.models import FoundModel
from app.window.controls.labels import plain
from app.window.transcript.shown_message import ShownMessage

EVIL = 'R&D <img src="/dev/zero"><link rel="stylesheet" href="/dev/zero"><b>bold</b>'


@pytest.fixture
def window(qtbot):
    made = filled_window(qtbot)
    made.sidebar.list.model().show_groups(
        [ChatGroup("Today", (ListedChat(ChatSummary(1, EVIL, False, 0.0, 0.0)),))]
    )
    question = with_attachments("Why?", [AttachedText(f"{EVIL}.txt", "text")])
    made.transcript.show_messages(
        (
            ShownMessage(1, "user", question),
            ShownMessage(3, "assistant", EVIL, state="failed", notice=EVIL),
        )
    )
    made.composer.row.attach([AttachedText(EVIL, "text")])
    made.notice.offer(EVIL, EVIL, EVIL)
    facts = replace(FACTS, name=EVIL, architecture=EVIL, quantisation=EVIL)
    made.session.show_model(facts, None)
    model = FoundModel(EVIL, Path(EVIL), EVIL, 2 * 10**9, EVIL)
    stated = StatedModels()
    made.library.watch(*stated.watched, stated.settings)
    made.start.watch(*stated.watched, lambda _: None)
    stated.find(model)
    made.card.watch(stated.offered, stated.settings)
    stated.show_card(facts)
    made.head._known = stated.known
    made.head.show_loading(EVIL, 1, 2)
    return made.window


def words_of(html_or_plain: str) -> str:
    """What is read of a tooltip."""
    return QTextDocumentFragment.fromHtml(html_or_plain).toPlainText()


def test_no_name_is_read_as_html(window):
    shown, tips = "", []
    for widget in window.findChildren(QWidget):
        tips.append(widget.toolTip())
        if isinstance(widget, QLabel):
            shown += widget.text()
            assert widget.textFormat() == Qt.TextFormat.PlainText or not widget.text(), widget
        if isinstance(widget, QAbstractButton) and "R&" in widget.text():
            shown += widget.text()
            assert "R&&D" in widget.text(), widget
        if isinstance(widget, QAbstractItemView) and widget.model():
            rows = widget.model()
            indexes = [rows.index(row, 0) for row in range(rows.rowCount())]
            tips += [index.data(Qt.ItemDataRole.ToolTipRole) or "" for index in indexes]
            shown += "".join(str(index.data()) for index in indexes)
    assert shown.count("<img") >= 5
    evil = [tip for tip in tips if "img" in tip]
    assert len(evil) >= 5
    for tip in evil:
        assert "<img" not in tip and "<link" not in tip
        assert "<img" in words_of(tip)


def test_a_tooltip_is_what_was_said():
    assert plain("a & b\nc") == "a & b\nc"
    assert max(map(len, plain("word " * 100).split("\n"))) <= 72, "Qt wraps no plain text"
    assert words_of(plain("<b>x</b> &amp; y\nz")) == "<b>x</b> &amp; y\nz"
    assert len(plain("x" * 10**6)) < 2000
