"""One attachment of a message: name, size, tokens, and a button to remove it."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy

from app.values.attached_text import AttachedText
from app.window.composer.attached_text import tokens_about
from app.window.controls.icons import IconButton, Sign
from app.window.controls.labels import ShortLabel, label, tabular
from mlx_engine.values.words import size_words

WIDEST = 360


class AttachmentChip(QFrame):
    """Signal `remove_wanted`."""

    remove_wanted = Signal()

    def __init__(self, attachment: AttachedText) -> None:
        super().__init__()
        self.attachment = attachment
        self.setProperty("role", "chip")
        self.setMaximumWidth(WIDEST)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        picture = Sign("file")
        self._name = ShortLabel()
        self._name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._size = label("", "muted")
        tabular(self._size)
        self._remove = IconButton("close", f"Remove {attachment.name}")
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 2, 2)
        row.setSpacing(6)
        row.addWidget(picture)
        row.addWidget(self._name, 1)
        row.addWidget(self._size)
        row.addWidget(self._remove)
        self._remove.clicked.connect(self.remove_wanted)
        self._name.show_text(attachment.name)
        self.show_tokens(None)

    def show_tokens(self, tokens: int | None) -> None:
        """How many tokens it takes; None says "about" how many."""
        size = size_words(self.attachment.nbytes)
        about = f"about {tokens_about(self.attachment):,}"
        words = f"{size} · {about if tokens is None else f'{tokens:,}'} tokens"
        self._size.setText(words)
        self.setAccessibleName(f"Attachment {self.attachment.name}, {words}")
