"""Resident memory of the whole app in use: answers, other chats, text sizes, every page.

`PYTHONPATH=. python tests/speed/window_memory.py [ROUNDS]`; each round asks the built-in model by
keys, shows an older chat, zooms, opens the pages and comes back. What there is at the end is told
part by part: given back to the system by malloc_trim, of MLX, of Python, of files that are mapped.
"""

import ctypes
import gc
import sys
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from whole_window import rest, until, whole_window

from app.app import App

QUESTIONS = (
    "How does drafting work?",
    "How do I read a file line by line?",
    "Which files can I load?",
    "Tell me everything you know.",
)
EVERY = 5


def resident(part: str = "VmRSS") -> float:
    """MB of this process. part: "RssAnon" for what it has written, "RssFile" for mapped files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(part)) / 1e3


class Watch:
    """Says what there is, and how much more it is than at the last look."""

    def __init__(self) -> None:
        self._last = 0.0

    def tell(self, what: str) -> None:
        now = resident()
        widgets = len(QApplication.allWidgets()) if QApplication.instance() else 0
        print(
            f"{what:28} {now:6.0f} MB ({now - self._last:+5.0f}): {resident('RssAnon'):4.0f} own, "
            f"{resident('RssFile'):4.0f} of files; {widgets:5} widgets",
            flush=True,
        )
        self._last = now


def one_round(app: App, number: int) -> None:
    window, commands = app.widgets.window, app.actions
    if number % 3 == 0:
        commands["new-chat"].trigger()
    field = QApplication.focusWidget()
    assert isinstance(field, QWidget)
    QTest.keyClicks(field, f"{QUESTIONS[number % len(QUESTIONS)]} {number}")
    QTest.keyClick(field, Qt.Key.Key_Return)
    until(lambda: app.chat.running is not None)
    until(lambda: app.chat.running is None)
    commands["larger" if number % 2 else "actual-size"].trigger()
    rest()
    for name in ("settings", "library", "compare", "drafting", "session"):
        commands[name].trigger()
        rest(0.1)
        window.show_page("chat")
    chats = app.store.chats.listed()
    app.chat.open(chats[-1].id, None)
    rest()
    app.chat.open(chats[0].id, None)
    rest()
    commands["dark" if number % 2 else "light"].trigger()
    rest()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    watch = Watch()
    watch.tell("Python, Qt and the app's code")
    with whole_window() as app:
        watch.tell("the window is made")
        app.start()
        until(lambda: app.models.description is not None)
        watch.tell("shown, the model loaded")
        rest(3)
        watch.tell("three seconds later")
        for number in range(rounds):
            one_round(app, number)
            if number % EVERY == EVERY - 1:
                watch.tell(f"{number + 1} rounds")
        account(watch)


def account(watch: Watch) -> None:
    """What holds it."""
    import mlx.core as mx

    print(
        f"MLX: {mx.get_active_memory() / 1e6:.0f} MB in use, "
        f"{mx.get_cache_memory() / 1e6:.0f} kept to be used again"
    )
    gc.unfreeze()
    print(f"garbage: {gc.collect()} objects, Python has {len(gc.get_objects())} in all")
    watch.tell("garbage collected")
    ctypes.CDLL(None).malloc_trim(0)
    watch.tell("malloc_trim")
    mx.clear_cache()
    ctypes.CDLL(None).malloc_trim(0)
    watch.tell("MLX's cache cleared")


if __name__ == "__main__":
    main()
