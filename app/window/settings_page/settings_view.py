"""The settings page: its sections one below the other, more can be added."""

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.window.controls.labels import label
from app.window.look import look
from app.window.settings_page.appearance_section import AppearanceSection
from app.window.settings_page.new_chat_section import NewChatSection

WIDEST = 620
"""Pixels of a line of settings at a zoom of 1."""


class SettingsView(QWidget):
    """Arranges `appearance` and `new_chat`; the owner shows values in them and hears them."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Settings")
        self.appearance = AppearanceSection()
        self.new_chat = NewChatSection()
        self._lines = QWidget()
        self._sections = QVBoxLayout(self._lines)
        self._sections.setContentsMargins(24, 0, 24, 24)
        self._sections.setSpacing(12)
        self._sections.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self._scrolled(), 1)
        self.add_section("Appearance", self.appearance)
        self.add_section("New chats", self.new_chat)
        self.setFocusProxy(self.appearance)
        self._fit()

    def _fit(self) -> None:
        self._lines.setMaximumWidth(round(WIDEST * look().zoom))

    def _scrolled(self) -> QScrollArea:
        """The lines, no wider than reads well."""
        body = QWidget()
        row = QHBoxLayout(body)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._lines, 100)
        row.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        return scroll

    def add_section(self, title: str, section: QWidget) -> None:
        """One more at the end, such as the models' folders."""
        section.setAccessibleName(title)
        at = self._sections.count() - 1
        self._sections.insertSpacing(at, 8)
        self._sections.insertWidget(at + 1, label(title, "heading"))
        self._sections.insertWidget(at + 2, section)

    # Qt

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Lines are as wide as the text wants them."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()
