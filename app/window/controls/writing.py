"""What is typed stands at the side where it is read from."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit


def follow_writing(edit: QPlainTextEdit) -> None:
    """Have all of a text at the right as long as its first line is read from there."""
    edit.textChanged.connect(lambda: _align(edit))


def _align(edit: QPlainTextEdit) -> None:
    document, sides = edit.document(), Qt.AlignmentFlag
    from_right = document.firstBlock().textDirection() == Qt.LayoutDirection.RightToLeft
    side = sides.AlignRight if from_right else sides.AlignLeft
    option = document.defaultTextOption()
    if option.alignment() != side:
        option.setAlignment(side)
        document.setDefaultTextOption(option)
