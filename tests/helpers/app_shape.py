"""The app's shape in figures: lines, signals, connections, and the way of a question.

Run with PYTHONPATH=.:tests:tests/helpers from the root of the repository.
"""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2] / "app"
SIGNAL = re.compile(r"^    (\w+) = Signal\(", re.MULTILINE)
RELAY = re.compile(r"\.connect\(\s*(?:self\.)?(?:\w+\.)*(\w+)\s*\)")


def static_figures(root: Path) -> dict[str, int]:
    """Files, lines, signals, connections, and connections from one signal to another."""
    texts = [path.read_text() for path in sorted(root.rglob("*.py"))]
    names = {name for text in texts for name in SIGNAL.findall(text)}
    return {
        "files": len(texts),
        "lines": sum(text.count("\n") for text in texts),
        "signals": sum(text.count("Signal(") for text in texts),
        "connects": sum(text.count(".connect(") for text in texts),
        "relays": sum(target in names for text in texts for target in RELAY.findall(text)),
        "show_ methods": sum(len(re.findall(r"def show_\w+\(", text)) for text in texts),
    }


class Trace:
    """Counts the functions of ours that are entered, and changes of file, until `stop`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[tuple[str, str]] = set()
        self.changes = 0
        self._last = ""

    def enter(self, frame: FrameType, event: str, _: object) -> None:
        """For `sys.setprofile`."""
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)):
            self.files.add(name)
            self.functions.add((name, frame.f_code.co_qualname))
            self.changes += name != self._last
            self._last = name

    def stop(self) -> None:
        """No effect the second time."""
        sys.setprofile(None)

    def __str__(self) -> str:
        counts = (len(self.files), "files", len(self.functions), "functions", self.changes)
        return " ".join(map(str, (*counts, "changes of file")))


def traced(action: Callable[[], object], trace: Trace) -> Trace:
    """What the action passes through."""
    sys.setprofile(trace.enter)
    try:
        action()
    finally:
        trace.stop()
    return trace


def main() -> None:
    """Print all figures."""
    for name, count in static_figures(ROOT).items():
        print(f"{count:6,} {name}")
    from PySide6.QtWidgets import QAbstractButton, QApplication
    from pytestqt.qt_compat import qt_api
    from pytestqt.qtbot import QtBot
    from scripted_engine import Answer
    from windows import running, scripted

    from app.worker.engine_worker import WindowDesk
    from app.worker.requests import Ask, ChangeSettings

    qt_api.set_qt_api("pyside6")
    application = QApplication([])

    class Request:
        """Stands in for a test of pytest-qt."""

        node = None

    with tempfile.TemporaryDirectory() as place:
        bot = QtBot(Request())
        answers = [Answer("Some words") for _ in range(3)]
        with running(application, bot, Path(place), scripted(*answers)) as driven:
            driven.ask("First")
            trace, put = Trace(), WindowDesk.request

            def watched(desk: WindowDesk, request: Request) -> None:
                if isinstance(request, Ask | ChangeSettings):
                    trace.stop()
                put(desk, request)

            WindowDesk.request = watched
            traced(lambda: driven.send("Second"), trace)
            print(f"Return until the request is queued: {trace}")
            driven.until_answered()
            if "-v" in sys.argv:
                print(*sorted(name.removeprefix(str(ROOT)) for name in trace.files), sep="\n")
            trace = Trace()
            choices = driven.widgets.session.draft.findChildren(QAbstractButton)
            (off,) = [one for one in choices if one.accessibleName() == "Guess ahead: Off"]
            traced(off.click, trace)
            print(f"A changed depth until the request is queued: {trace}")
            if "-v" in sys.argv:
                print(*sorted(name.removeprefix(str(ROOT)) for name in trace.files), sep="\n")
            WindowDesk.request = put


if __name__ == "__main__":
    main()
