"""Notice bars with actions: problems and offers, and undo."""

from typing import NamedTuple

from PySide6.QtCore import Qt, QTimer, Signal, SignalInstance
from PySide6.QtWidgets import QFrame, QPushButton

from app.state.chat_list import Deeds
from app.window.controls.icons import IconButton
from app.window.controls.labels import announce, describe, paragraph, set_role, unmarked
from app.window.controls.layouts import Wide, row
from app.window.language import said, tr
from mlx_engine.values.words import Words

PASSING_MS = 12_000
"""Milliseconds until a notice disappears by itself."""


class _Notice(NamedTuple):
    words: str = ""
    details: str = ""
    is_problem: bool = False


class NoticeBar(QFrame):
    """Shows the newest notice below those that stay.

    `details_wanted`: the user wants the details. `taken`: the model of the newest offer is wanted.
    """

    details_wanted = Signal(str)
    taken = Signal(str)

    def __init__(self, name: str = Words("Notice"), *, can_close: bool = True) -> None:
        super().__init__()
        self.setProperty("role", "notice")
        self.setAccessibleName(said(name))
        self._words = paragraph("", "note")
        self._offered = ""
        self._staying, self._newest = list[_Notice](), _Notice()
        self.take, self._more = QPushButton(), QPushButton(tr("Details"))
        for button in (self.take, self._more):
            button.setProperty("role", "link")
            button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.take.clicked.connect(self._take_up)
        self._more.clicked.connect(lambda: self.details_wanted.emit(self._details()))
        close = IconButton("close", tr("Dismiss"))
        close.clicked.connect(self._dismiss)
        buttons = (self.take, self._more, *((close,) if can_close else ()))
        row(Wide(self._words), *buttons, of=self, margins=(20, 6, 12, 6), spacing=8)
        self._passing = QTimer(self, singleShot=True, interval=PASSING_MS)
        self._passing.timeout.connect(lambda: self.withdraw(self._newest.words))
        self.hide()

    def say(
        self,
        words: str,
        details: str = "",
        *,
        is_problem: bool = False,
        stays: bool = False,
        until: SignalInstance | None = None,
    ) -> None:
        """Show a notice in place of the last one.

        stays: it is listed above the others until withdrawn or dismissed. until: signal that
        withdraws it.
        """
        if until is not None:
            once = Qt.ConnectionType.SingleShotConnection
            until.connect(lambda *_: self.withdraw(words), once)
        self._passing.stop()
        notice = _Notice(said(words), details, is_problem)
        staying = [one for one in self._staying if one.words != notice.words]
        self._newest = _Notice() if stays else notice
        self._staying = [*staying, notice] if stays else staying
        self.take.hide()
        self._refresh()
        announce(self, self._words.text())
        self.show()

    def _refresh(self) -> None:
        on_show = self._on_show()
        words = "\n".join(one.words for one in on_show)
        self._words.setText(words)
        is_problem = any(one.is_problem for one in on_show)
        set_role(self._words, "problem" if is_problem else "note")
        self._more.setVisible(bool(self._details()))
        self.setAccessibleDescription(words)

    def _on_show(self) -> list[_Notice]:
        return [one for one in (*self._staying, self._newest) if one.words]

    def _details(self) -> str:
        return "\n\n".join(one.details for one in self._on_show() if one.details)

    def mention(self, words: str) -> None:
        """Show a notice that disappears by itself."""
        self.say(words)
        self._passing.start()

    def offer(self, words: str, model: str, button: str = Words("Load…")) -> None:
        """Offer to load a model; `taken` brings its path."""
        self.say(words)
        self._offered = model
        self.take.setText(unmarked(said(button)))
        self.take.setAccessibleName(said(button))
        self.take.show()

    def withdraw_offer(self, model: str | None) -> None:
        """Remove the offer of the model at a path."""
        if not self.take.isHidden() and model == self._offered:
            self.withdraw(self._newest.words)

    def withdraw(self, words: str) -> None:
        """Remove a notice; the others stay."""
        words = said(words)
        if words not in [one.words for one in self._on_show()]:
            return
        if words == self._newest.words:
            self._newest = _Notice()
            self.take.hide()
        self._staying = [one for one in self._staying if one.words != words]
        self._refresh()
        self.setVisible(bool(self._on_show()))

    def words(self) -> str:
        """The text on show, "" for none."""
        return "" if self.isHidden() else self._words.text()

    def _take_up(self) -> None:
        self.withdraw(self._newest.words)
        self.taken.emit(self._offered)

    def _dismiss(self) -> None:
        self._staying, self._newest = [], _Notice()
        self.hide()


SHOWN_MS = 10_000


class UndoBar(QFrame):
    """Shows the last change for a while, with an Undo button."""

    _deeds: Deeds

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "undo-bar")
        self.setAccessibleName(tr("Undo"))
        self._words = paragraph()
        self._button = button = QPushButton(tr("Undo"))
        describe(button, tr("Bring back what is gone"))
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        button.setProperty("role", "link")
        row(Wide(self._words), button, of=self, margins=(12, 6, 6, 6), spacing=8)
        self._timer = QTimer(self, singleShot=True, interval=SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def watch(self, deeds: Deeds) -> None:
        """Show the newest change of these."""
        self._deeds = deeds
        self._button.clicked.connect(deeds.undo)
        deeds.changed.connect(self._show)

    def _show(self) -> None:
        newest = self._deeds.newest
        self.setVisible(newest is not None)
        if newest is not None:
            self._words.setText(said(newest.words))
            self._timer.start()
