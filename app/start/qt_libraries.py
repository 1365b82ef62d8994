"""Explain why no window can be shown: no display, no Qt, or a missing system library."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from app.start.folders import has_display

PACKAGES = (
    "libgl1 libegl1 libglib2.0-0 libdbus-1-3 libfontconfig1 libxkbcommon-x11-0 libxcb-cursor0 "
    "libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0"
)
"""Debian packages with the libraries that PySide6's wheel needs from the system."""


def why_no_qt() -> str:
    """Return why Qt cannot be imported, in sentences for the user; "" if it can."""
    try:
        import_module("PySide6.QtWidgets")
    except ImportError as error:
        advice = f" On Debian: apt install {PACKAGES}" if sys.platform == "linux" else ""
        return f"Qt, which the window is made of, cannot be loaded: {error}.{advice}"
    return ""


def why_no_window() -> str:
    """Return why no window can be shown, before Qt has looked for a display; "" if one may be."""
    no_display = "There is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set."
    return why_no_qt() or ("" if has_display() else no_display)


def say_terminal(why_not: str) -> None:
    """Print why the chat runs in the terminal."""
    print(f"headstart: {why_not}\nSo here is the chat in the terminal.", file=sys.stderr)


def terminal_where_qt_gives_up(paths: Sequence[str]) -> None:
    """Replace this process by the chat in the terminal if Qt is about to abort, which it does
    without a display that answers or a library it needs. Lasts until another message handler is
    installed.
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
