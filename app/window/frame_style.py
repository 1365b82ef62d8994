"""Style of the window's frame: sidebar rows, the head, the strip at the foot, the undo bar."""

from dataclasses import asdict
from string import Template

from app.window.theme import Theme, TypeSizes

_SHEET = """
QFrame[role="sidebar"] { background: $side; border: none; border-right: 1px solid $line; }
QFrame[role="right-side"] { background: $side; border: none; border-left: 1px solid $line; }
QFrame[role="head"] { background: $page; }
QFrame[role="foot"] { background: $side; border: none; border-top: 1px solid $line; }
QFrame[role="undo-bar"] {
  background: $bubble; border: 1px solid $line; border-radius: 8px; margin: 0 8px;
}
QFrame[role="notice"] { background: $bubble; border: none; border-bottom: 1px solid $line; }
QListView[role="chat-list"] { background: transparent; border: none; outline: none; }
QFrame[role="sidebar"] QLineEdit { background: $page; border-radius: 8px; }
QPushButton[role="row"] {
  background: transparent; border: 1px solid transparent; border-radius: 6px; text-align: left;
  padding: 5px 9px;
}
QPushButton[role="row"]:hover { background: $hover; }
QPushButton[role="row"]:checked { background: $selected; }
QPushButton[role="row"]:focus { border-color: $accent; }
QPushButton[role="link"] {
  background: transparent; border: 1px solid transparent; color: $accent; font-weight: 600;
  padding: 2px 8px;
}
QPushButton[role="link"]:hover { background: $hover; }
QPushButton[role="link"]:focus { border-color: $accent; }
QPlainTextEdit[role="details"] {
  background: $code; border: 1px solid $line; border-radius: 8px; padding: 8px;
  font-size: ${small}px;
}
QMenu { background: $page; color: $text; border: 1px solid $line; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 12px; border-radius: 5px; }
QMenu::item:selected { background: $hover; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { background: $line; height: 1px; margin: 4px 8px; }
QMenuBar { background: $side; color: $text; }
QMenuBar::item { padding: 4px 10px; background: transparent; border-radius: 5px; }
QMenuBar::item:selected { background: $hover; }
"""


def frame_style(theme: Theme, sizes: TypeSizes) -> str:
    """To be added to style_sheet(theme, sizes)."""
    return Template(_SHEET).substitute({**asdict(theme), "small": sizes.small})
