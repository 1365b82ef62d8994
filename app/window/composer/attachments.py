"""The attachments of a message as chips that wrap, and what was refused."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.values.attached_text import AttachedText, RefusedFile, tokens_about
from app.window.controls.icons import IconButton, Sign
from app.window.controls.labels import ShortLabel, label, paragraph, say, tabular
from app.window.controls.layouts import Wide, column, row
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
        parts = (picture, Wide(self._name), self._size, self._remove)
        row(*parts, of=self, margins=(8, 2, 2, 2), spacing=6)
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


GAP = 6


class ChipFlow(QWidget):
    """Its chips from left to right, line after line."""

    def __init__(self) -> None:
        super().__init__()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.chips: list[AttachmentChip] = []

    def place(self) -> None:
        """Put the chips where they belong, and be as high as they need."""
        x = y = height = 0
        for chip in self.chips:
            wanted = chip.sizeHint()
            width, height = min(wanted.width(), WIDEST, self.width()), wanted.height()
            if x and x + width > self.width():
                x, y = 0, y + height + GAP
            chip.setGeometry(x, y, width, height)
            x += width + GAP
        self.setFixedHeight(y + height)

    # Qt

    def event(self, event: QEvent) -> bool:
        """A chip, or this, has another size."""
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize):
            self.place()
        return bool(super().event(event))


MOST = 20


class AttachmentRow(QWidget):
    """Signal `changed`: other attachments than before."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._problem = paragraph("", "problem")
        self._flow = ChipFlow()
        self._chips = self._flow.chips
        column(self._flow, self._problem, of=self, spacing=4)
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
        chip.setParent(self._flow)
        chip.show()

    def _remove(self, chip: AttachmentChip) -> None:
        self._drop(chip)
        self._refresh("")

    def _drop(self, chip: AttachmentChip) -> None:
        self._chips.remove(chip)
        chip.hide()
        chip.deleteLater()

    def _refresh(self, problem: str) -> None:
        say(self._problem, problem)
        self.setVisible(bool(self._chips or problem))
        self._flow.place()
        self.changed.emit()
