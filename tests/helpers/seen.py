"""What a user sees of widgets and does with them, by the words and names on them."""

from typing import TypeVar

from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget

W = TypeVar("W", bound=QWidget)


def words_on(widget: QWidget) -> list[str]:
    """Texts of labels, but those that are hidden themselves."""
    return [label.text() for label in widget.findChildren(QLabel) if not label.isHidden()]


def find(widget: QWidget, kind: type[W], name: str) -> W:
    """What is called so."""
    return next(one for one in widget.findChildren(kind) if one.accessibleName() == name)


def button(widget: QWidget, name: str) -> QAbstractButton:
    """The one that is called so, or shows these words."""
    buttons = [one for one in widget.findChildren(QAbstractButton) if not one.isHidden()]
    return next(one for one in buttons if name in (one.text(), one.accessibleName()))


def press(widget: QWidget, name: str) -> None:
    """Click on a button."""
    button(widget, name).click()
