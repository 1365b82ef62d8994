"""The attachments of a message as chips that wrap, and what was refused."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.values.attached_text import AttachedText, RefusedFile
from app.window.composer.attachment_chip import AttachmentChip
from app.window.composer.flow_layout import FlowLayout
from app.window.controls.labels import paragraph, say

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
