"""Why no window can be shown here: no display, no Qt, or no library of the system that it needs."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from app.start.folders import has_display

PACKAGES = (
    "libgl1 libegl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0"
)
"""Of Debian, with what PySide6's wheel leaves to the system."""


def why_no_qt() -> str:
    """Return why Qt cannot be imported, in sentences for the user; "" where it can."""
    try:
        import_module("PySide6.QtWidgets")
    except ImportError as error:
        advice = f" On Debian: apt install {PACKAGES}" if sys.platform == "linux" else ""
        return f"Qt, which the window is made of, cannot be loaded: {error}.{advice}"
    return ""


def why_no_window() -> str:
    """Return why no window can be shown, as far as that is known before Qt looks for a display."""
    no_display = "There is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set."
    return why_no_qt() or ("" if has_display() else no_display)


def say_terminal(why_not: str) -> None:
    """Tell that the chat in the terminal stands in for the window."""
    print(f"headstart: {why_not}\nSo here is the chat in the terminal.", file=sys.stderr)


def terminal_where_qt_gives_up(paths: Sequence[str]) -> None:
    """Have the chat in the terminal take the place of this process where Qt finds no display that
    answers or no library that it needs, at which it would abort; until Qt's messages are handled
    by another.
    """
    from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

    told = list[str]()

    def take(kind: QtMsgType, context: QMessageLogContext, words: str) -> None:
        del context
        told.append(words)
        if kind == QtMsgType.QtFatalMsg:
            say_terminal(" ".join(told))
            sys.stderr.flush()
            command = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
            os.execv(sys.executable, [*command, "chat", *paths[:1]])

    qInstallMessageHandler(take)
