"""The attachments of a message as chips that wrap, and what was refused."""

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLayout,
    QLayoutItem,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.values.attached_text import AttachedText, RefusedFile, tokens_about
from app.window.controls.icons import IconButton, Sign
from app.window.controls.labels import ShortLabel, label, paragraph, say, tabular
from mlx_engine.values.words import size_words


class FlowLayout(QLayout):
    """Left to right, then the next line; `gap` pixels between."""

    def __init__(self, gap: int) -> None:
        super().__init__()
        self._gap = gap
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)

    def _place(self, rect: QRect, moves: bool) -> int:
        """Lay the items out within a width, moving them or not; returns the height needed."""
        x, y, line = rect.left(), rect.top(), 0
        for item in self._items:
            size = item.sizeHint().boundedTo(item.maximumSize())
            width = min(size.width(), rect.width())
            if x > rect.left() and x + width > rect.left() + rect.width():
                x, y, line = rect.left(), y + line + self._gap, 0
            if moves:
                item.setGeometry(QRect(QPoint(x, y), QSize(width, size.height())))
            x += width + self._gap
            line = max(line, size.height())
        return y + line - rect.top()

    # Qt

    def addItem(self, item: QLayoutItem) -> None:  # noqa: N802
        """Keep it."""
        self._items.append(item)

    def count(self) -> int:
        """How many there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """One of them."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:  # noqa: N802
        """Give one back."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:  # noqa: N802
        """None."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Narrower is higher."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """How high."""
        return self._place(QRect(0, 0, width, 0), moves=False)

    def setGeometry(self, rect: QRect) -> None:  # noqa: N802
        """Lay out."""
        super().setGeometry(rect)
        self._place(rect, moves=True)

    def sizeHint(self) -> QSize:  # noqa: N802
        """The least there must be."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:  # noqa: N802
        """The largest item."""
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size


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


MOST = 20


class AttachmentRow(QWidget):
    """Signal `changed`: other attachments than before."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._chips: list[AttachmentChip] = []
        self._problem = paragraph("", "problem")
        self._flow = FlowLayout(6)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(self._flow)
        column.addWidget(self._problem)
        self._refresh("")

    def attachments(self) -> tuple[AttachedText, ...]:
        """What is attached."""
        return tuple(chip.attachment for chip in self._chips)

    def show_attachments(self, attachments: Sequence[AttachedText]) -> None:
        """Show these in place of what is there."""
        for chip in list(self._chips):
            self._drop(chip)
        for attachment in attachments:
            self._add(attachment)
        self._refresh("")

    def attach(self, outcomes: Sequence[AttachedText | RefusedFile]) -> None:
        """Add texts; what cannot be attached is named with its reason."""
        problems = []
        for outcome in outcomes:
            if len(self._chips) >= MOST:
                problems.append(f"{outcome.name}: a message takes {MOST} attachments at most.")
                break
            if isinstance(outcome, RefusedFile):
                problems.append(outcome.words)
            else:
                self._add(outcome)
        self._refresh("\n".join(problems[:3]))

    def show_tokens(self, counts: Sequence[int | None]) -> None:
        """Tokens of each attachment, in their order."""
        for chip, count in zip(self._chips, counts, strict=False):
            chip.show_tokens(count)

    def _add(self, attachment: AttachedText) -> None:
        chip = AttachmentChip(attachment)
        chip.remove_wanted.connect(lambda: self._remove(chip))
        self._chips.append(chip)
        self._flow.addWidget(chip)

    def _remove(self, chip: AttachmentChip) -> None:
        self._drop(chip)
        self._refresh("")

    def _drop(self, chip: AttachmentChip) -> None:
        self._chips.remove(chip)
        self._flow.removeWidget(chip)
        chip.hide()
        chip.deleteLater()

    def _refresh(self, problem: str) -> None:
        say(self._problem, problem)
        self.setVisible(bool(self._chips or problem))
        self._flow.invalidate()
        self.updateGeometry()
        self.changed.emit()
