"""The buttons of a message: copy, regenerate, edit, continue, and the arrows between branches."""

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.window.controls.icons import IconButton
from app.window.controls.labels import label, tabular
from app.window.transcript.shown_message import ShownMessage

DONE_MS = 1500
"""For so long a copy button says that it has copied."""


class MessageActions(QWidget):
    """Shows the buttons that make sense for a message and says which was pressed."""

    copy_wanted = Signal()
    copy_markdown_wanted = Signal()
    regenerate_wanted = Signal()
    edit_wanted = Signal()
    continue_wanted = Signal()
    branch_wanted = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(2)
        self.previous = self._button("chevron_left", "Previous version")
        self.number = label("", "muted")
        tabular(self.number)
        self._row.addWidget(self.number)
        self.next = self._button("chevron_right", "Next version")
        self.copy = self._button("copy", "Copy")
        self.copy_markdown = self._button("file", "Copy as markdown")
        self.edit = self._button("edit", "Edit and send again")
        self.regenerate = self._button("regenerate", "Regenerate")
        self.go_on = self._button("continue", "Continue this answer")
        self.previous.clicked.connect(lambda: self.branch_wanted.emit(-1))
        self.next.clicked.connect(lambda: self.branch_wanted.emit(1))
        self.copy.clicked.connect(self.copy_wanted)
        self.copy_markdown.clicked.connect(self.copy_markdown_wanted)
        self.edit.clicked.connect(self.edit_wanted)
        self.regenerate.clicked.connect(self.regenerate_wanted)
        self.go_on.clicked.connect(self.continue_wanted)

    def show_message(self, message: ShownMessage) -> None:
        """Offer what can be done with this message."""
        is_answer, has_branches = message.role == "assistant", message.branch_count > 1
        self.copy_markdown.setVisible(is_answer)
        self.regenerate.setVisible(is_answer)
        self.go_on.setVisible(is_answer and message.can_continue)
        self.edit.setVisible(not is_answer)
        for widget in (self.previous, self.number, self.next):
            widget.setVisible(has_branches)
        self.number.setText(f"{message.branch_index + 1}/{message.branch_count}")
        self.number.setAccessibleName(
            f"Version {message.branch_index + 1} of {message.branch_count}"
        )
        self.previous.setEnabled(message.branch_index > 0)
        self.next.setEnabled(message.branch_index < message.branch_count - 1)

    def say_copied(self, button: IconButton) -> None:
        """Let a copy button show that it worked."""
        name, words = button.icon_name(), button.accessibleName()
        if name != "check":
            button.show_icon("check", "Copied")
            QTimer.singleShot(DONE_MS, button, lambda: button.show_icon(name, words))

    def _button(self, name: str, words: str) -> IconButton:
        button = IconButton(name, words, colour="muted")
        self._row.addWidget(button)
        return button
