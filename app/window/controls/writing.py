"""What is typed: the side it stands at, and whether a word is still being composed."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit


def follow_writing(edit: QPlainTextEdit) -> None:
    """Have all of a text at the right as long as its first line is read from there."""
    edit.textChanged.connect(lambda: _align(edit))


def is_composing(edit: QPlainTextEdit) -> bool:
    """Whether an input method is in the middle of a word."""
    layout = edit.textCursor().block().layout()
    return bool(layout is not None and layout.preeditAreaText())


def _align(edit: QPlainTextEdit) -> None:
    document, sides = edit.document(), Qt.AlignmentFlag
    from_right = document.firstBlock().textDirection() == Qt.LayoutDirection.RightToLeft
    side = sides.AlignRight if from_right else sides.AlignLeft
    option = document.defaultTextOption()
    if option.alignment() != side:
        option.setAlignment(side)
        document.setDefaultTextOption(option)
