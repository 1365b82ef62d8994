"""Odd characters, wherever a text may have them: an error in an override that Qt wants an object of
would end the whole program, so each is called as Qt calls it, where its error is seen.
"""

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QGuiApplication, QTextDocument
from shown_transcript import of, settle, show

from app.values.chats import DraftedSpan
from app.window.transcript.formulas import OBJECT
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.shown_message import ShownMessage

pytestmark = pytest.mark.qt_log_level_fail("WARNING")

ODD = {
    "object": "\ufffc",
    "object, by number": "&#65532;",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "combining": "\u0301",
    "combining, around": "\u20dd",
    "private": "\ue000",
    "private, wide": "\U000f0000",
    "joiner": "\u200d",
    "non-joiner": "\u200c",
    "no width": "\u200b",
    "null": "\0",
    "escape": "\x1b",
    "form feed": "\x0b\x0c",
    "next line": "\x85",
    "soft hyphen": "\xad",
    "override": "\u202e",
    "isolate": "\u2066",
    "end of isolate": "\u2069",
    "mark": "\u200f",
    "byte order": "\ufeff",
    "no character": "\ufdd0\ufffe\uffff",
    "tag": "\U000e0041",
    "family": "👩\u200d👩\u200d👧",
    "flag": "🏳\ufe0f\u200d🌈",
    "keycap": "1\ufe0f\u20e3",
    "first half": "\ud83d",
    "second half": "\ude00",
}
TEXT = """# 😀h?h

text ? **b?** `co?de` [li?nk](http://x/?) ?$x$ $y?$

- it?em $z$

| a? | b |
|---|---|
| ? $u$ | $x?$ |

> ? q

```py
x = '?' # ?
y = 1
```

?$$a + b$$ end? $w$
"""


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_character_is_shown_selected_found_and_copied(view, qtbot, odd):
    """Behind an emoji, as Qt counts other units than Python."""
    text = TEXT.replace("?", odd)
    spans = tuple(DraftedSpan(at, at + 2, 1) for at in range(0, len(text) - 2, 3))
    view.resize(700, 1600)
    view.set_drafted_shown(True)
    show(
        view,
        ShownMessage(1, "user", text),
        ShownMessage(2, "assistant", text, spans=spans),
    )
    qtbot.waitUntil(lambda: not view.reader.formulas.is_busy)
    settle()
    view.grab()
    for number in (1, 2):
        for shown in of(view, number).texts():
            select_and_copy(shown)
        of(view, number).copy()
        qtbot.waitUntil(lambda: not view.reader.turns.is_busy)
        words = QGuiApplication.clipboard().text()
        assert "end" in words and "x" in words
        of(view, number).copy_markdown()
    view.open_find()
    for query in (odd, "end"):
        view.find_bar.field.setText(query)
        qtbot.waitUntil(lambda: not view.reader.turns.is_busy)


@pytest.mark.parametrize(
    "words", ["\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "Hello"]
)
def test_a_question_is_seen_in_its_bubble_whichever_way_it_is_read(view, words):
    show(view, ShownMessage(1, "user", words))
    view.resize(690, 500)
    settle()
    prose = of(view, 1).findChild(ProseSegment)
    line = prose.document().firstBlock().layout().lineAt(0)
    assert line.naturalTextRect().right() <= prose.viewport().width()


def select_and_copy(shown):
    """From every place in it to a few behind, and to its end."""
    last = shown.document().characterCount() - 1
    for start in range(last):
        cursor = shown.textCursor()
        cursor.setPosition(start)
        cursor.setPosition(last if start % 5 else min(start + 4, last), cursor.MoveMode.KeepAnchor)
        shown.setTextCursor(cursor)
        words = shown.createMimeDataFromSelection().text()
        assert not isinstance(shown, ProseSegment) or OBJECT not in words
    if isinstance(shown, ProseSegment):
        cursor = shown.textCursor()
        cursor.select(cursor.SelectionType.Document)
        shown.setTextCursor(cursor)
        words = shown.createMimeDataFromSelection().text()
        for formula in shown._pictured:
            assert formula.source in words
        images = QTextDocument.ResourceType.ImageResource
        for name in ("formula:", "formula:ff,1,1,0,1.0,#000000", "http://x/\ud83d", QUrl()):
            shown.loadResource(images.value, name)
        shown.copy()
