"""Shared by all parts of a transcript: settings, measures, style, and small buttons."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from PySide6.QtCore import QObject, QPoint, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget
from shiboken6 import isValid
from typing_extensions import override

from app.start.threads import IdleQueue
from app.state.chat import ChatState
from app.state.chat_list import ChatListState
from app.state.drafts import Drafts
from app.values.app_settings import TextWidth
from app.window.controls.icons import Colour, IconButton, paint_icon
from app.window.language import tr
from app.window.look import Look, look, mixed
from app.window.transcript.formulas import Formulas
from app.window.transcript.selection import Selection

TEXT_WIDTHS: Mapping[TextWidth, int] = MappingProxyType(
    {"narrow": 600, "usual": 760, "wide": 1040, "full": 2**20}
)
"""Widest column of text, in pixels."""
MARGIN = 24
"""Margin of the transcript in pixels."""
GAP = 16
"""Pixels between messages, and between code and prose."""
PARAGRAPH_GAP = 10
QUOTE_STEP = 16
"""Indent of a quote in pixels."""
LIST_STEP = 26
"""Indent of a list in pixels."""
LINE_HEIGHT = 130
"""Percent of the font's line spacing, which is about 1.2 times its size: 1.55 in all."""

SCROLLING = frozenset(
    (
        Qt.Key.Key_PageUp,
        Qt.Key.Key_PageDown,
        Qt.Key.Key_Home,
        Qt.Key.Key_End,
        Qt.Key.Key_Up,
        Qt.Key.Key_Down,
        Qt.Key.Key_Space,
        Qt.Key.Key_Escape,
    )
)


class Reader(QObject):
    """Context shared by all parts of one transcript.

    chat, chats, drafts: states whose methods the buttons call, once the transcript watches a chat.
    edits: edited wordings by message id. model: name of the model in use. shows_drafted: whether
    drafted words are tinted. text_width: widest line in pixels. turns: queue of layout tasks out of
    view.

    Signals:
        edit_begun: a message is being edited.
        link_clicked(address).
    """

    chat: ChatState
    chats: ChatListState
    drafts: Drafts
    edit_begun = Signal()
    link_clicked = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.edits: dict[int, str] = {}
        self.model = ""
        self.shows_drafted = False
        self.text_width = TEXT_WIDTHS["usual"]
        self.turns = IdleQueue(self)
        self.formulas = Formulas(self)
        self.selection = Selection(self)
        self._unfitted: dict[QWidget, Callable[[int], None]] = {}

    def fit(self, text: QWidget, fit: Callable[[int], None]) -> None:
        """Lay out a text at its width: at once if it is in view, else in a later turn."""
        if meets_window(text):
            fit(text.width())
        else:
            self._unfitted[text] = fit
            self.turns.do(self._fit_next)

    def _fit_next(self) -> None:
        """Lay out one text, first one that has come into view."""
        self._unfitted = {text: fit for text, fit in self._unfitted.items() if isValid(text)}
        if self._unfitted:
            text = next(filter(meets_window, self._unfitted), next(reversed(self._unfitted)))
            self._unfitted.pop(text)(text.width())
            self.turns.do(self._fit_next)


def meets_window(part: QWidget) -> bool:
    """Whether a widget intersects its window's rectangle, even if covered or hidden."""
    window = part.window()
    return part.rect().translated(part.mapTo(window, QPoint())).intersects(window.rect())


def css(look: Look, muted: bool) -> str:
    """Return the style sheet of a prose document."""
    theme, sizes = look.theme, look.sizes
    colour = theme.muted if muted else theme.text
    family = look.code_font().family()
    line = f"line-height:{LINE_HEIGHT}%"
    return f"""
        p, li, pre {{ {line}; }}
        p {{ color:{colour}; margin:0 0 {PARAGRAPH_GAP}px 0; }}
        ul, ol {{ color:{colour}; margin:0 0 {PARAGRAPH_GAP}px 0; }}
        li {{ margin:0 0 4px 0; }}
        li p {{ margin:0 0 4px 0; }}
        .h1, .h2, .h3 {{ color:{colour}; font-weight:600; }}
        .h1 {{ font-size:{sizes.title}px; margin:16px 0 8px 0; }}
        .h2 {{ font-size:{sizes.transcript}px; margin:16px 0 6px 0; }}
        .h3 {{ font-size:{sizes.transcript}px; margin:10px 0 4px 0; }}
        code, pre {{ font-family:'{family}'; font-size:{sizes.interface}px; }}
        pre {{ background-color:{theme.code}; margin:4px 0 8px 0; white-space:pre-wrap; }}
        blockquote {{ color:{theme.muted}; margin:0 0 {PARAGRAPH_GAP}px {QUOTE_STEP}px; }}
        blockquote p {{ color:{theme.muted}; }}
        table {{ border-color:{mixed(theme.line, theme.muted, 0.1)};
                 border-collapse:collapse; border-style:solid; margin:4px 0 12px 0; }}
        th {{ font-weight:600; background-color:{theme.side}; color:{colour}; }}
        td {{ color:{colour}; }}
        a {{ color:{theme.accent}; text-decoration:none; }}
        hr {{ background-color:{theme.line}; }}
        .footnote {{ color:{theme.muted}; font-size:{sizes.small}px; margin:0 0 4px 0; }}
        .problem {{ color:{theme.error}; }}
        .display {{ line-height:100%; margin:4px 0 {PARAGRAPH_GAP}px 0; }}
    """


COPIED_MS = 1500
"""Milliseconds for which a button shows that it has copied."""


class ActionButton(IconButton):
    """A muted button; painted only while focused unless `is_shown`."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(name, words, colour="muted")
        self.is_shown = True

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        if self.is_shown or self.hasFocus():
            super().paintEvent(event)


class CopyButton(ActionButton):
    """A button that shows a check mark for a while after copying."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(name, words)
        self._back = QTimer(self, interval=COPIED_MS, singleShot=True)
        self._back.timeout.connect(lambda: self.show_icon(name, words))
        self.clicked.connect(self._say_copied)

    def _say_copied(self) -> None:
        self.show_icon("check", tr("Copied"))
        self._back.start()


class QuietButton(QAbstractButton):
    """A text button: muted, darker under the pointer, with a focus frame. is_urgent: always
    dark.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.is_urgent = False

    def colour(self) -> Colour:
        """Colour of the text."""
        return "text" if self.is_urgent or self.underMouse() else "muted"

    def paint_words(self, painter: QPainter, words: str, left: int, inset: int = 0) -> None:
        """Draw the text from x on; inset: of the focus frame."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(look().colour(self.colour()))
        area = QRect(left, 0, self.width() - left, self.height())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, words)
        if self.hasFocus():
            line = self.rect().toRectF().adjusted(0.5, inset + 0.5, -0.5, -inset - 0.5)
            painter.setPen(QPen(look().colour("accent"), 1))
            painter.drawRoundedRect(line, 4, 4)


FOLD_HEIGHT, FOLD_GAP = 28, 6


class FoldHead(QuietButton):
    """A heading with a chevron; checked while the content below it is on show."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    # Qt

    @override
    def sizeHint(self) -> QSize:
        words = QFontMetrics(self.font()).horizontalAdvance(self.text())
        return QSize(look().icon_size + FOLD_GAP + words + 8, FOLD_HEIGHT)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        size = look().icon_size
        with QPainter(self) as painter:
            name = "chevron_down" if self.isChecked() else "chevron_right"
            top = (self.height() - size) // 2
            paint_icon(painter, QRect(0, top, size, size), name, self.colour())
            self.paint_words(painter, self.text(), size + FOLD_GAP, inset=2)


def scrolls(event: QKeyEvent) -> bool:
    """Whether a key scrolls the transcript, so that a text in it must ignore it."""
    bare = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
    return event.key() in SCROLLING and bare == Qt.KeyboardModifier.NoModifier


def keeps_height(widget: QWidget) -> None:
    """Make a widget as wide as its column, and as high as its size hint."""
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
