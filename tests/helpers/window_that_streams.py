"""A window in a process of its own that streams an answer and writes down what it shows.

`python window_that_streams.py FOLDER LOG` keeps everything in FOLDER, asks the built-in model one
question, and appends a line of JSON to LOG for every change of the answer on show: the time, and
the text that was added. Nothing is buffered, so the lines are there when the process is killed. It
never ends by itself.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from PySide6.QtCore import QTimer  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

from app.app import App  # noqa: E402
from app.start.folders import Folders  # noqa: E402
from app.values.chat_settings import SamplingChoice  # noqa: E402
from mlx_engine.values.options import GenerationOptions  # noqa: E402

QUESTION = "Tell me everything."
LOOK_MS = 5
TOKENS = 4000


class Witness:
    """Appends what the transcript shows of the answer that runs."""

    def __init__(self, app: App, log: Path) -> None:
        self._parts = app
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._length = 0

    def look(self) -> None:
        """Write down what is new."""
        running = self._parts.chat.running
        view = running and self._parts.widgets.transcript.column.view(running.message_id)
        if not view or view.answer is None:
            return
        text = view.answer.text()
        if len(text) > self._length:
            line = json.dumps([time.time(), text[self._length :]])
            os.write(self._log, line.encode() + b"\n")
            self._length = len(text)


def main(folder: Path, log: Path) -> None:
    """Until it is killed."""
    qt = QApplication(["headstart", "-platform", "offscreen"])
    app = App(qt, Folders(folder, folder, folder / "cache", folder / "logs", folder / "hub"))
    witness = Witness(app, log)
    chats = app.chat

    def ask() -> None:
        app.chats.begin()
        settings = replace(
            chats.settings,
            sampling=SamplingChoice(seed=time.time_ns() % 2**32),
            generation=GenerationOptions(max_tokens=TOKENS, ignore_eos=True),
        )
        chats.change_settings(settings)
        chats.send(QUESTION)

    app.models.switched.connect(ask)
    timer = QTimer(interval=LOOK_MS)
    timer.timeout.connect(witness.look)
    timer.start()
    app.start()
    qt.exec()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
