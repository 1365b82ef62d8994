"""How long the window stands still at most: while it streams, changes chat, zooms, opens a library.

`PYTHONPATH=. python tests/speed/standstill.py [REPEATS]`; milliseconds of processor time of the
window's thread between two looks at what its user did, the longest of each action, of which the
fastest repeat counts: other programs make it slower only. Everything is laid out and painted.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QApplication

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from transcript_shots import ANSWER, STATS

from app.app import App
from app.start.folders import Folders
from app.values.chat_settings import ChatSettings
from app.values.models import FoundModel
from mlx_engine.values.conversation import GenerationFinished

MESSAGES = 80
MODELS = 300
REST_S = 0.5
"""An action is over when nothing has been to do for so long."""
IDLE_MS = 0.5


class Standstill:
    """Longest turns of the event loop."""

    def __init__(self, application: QApplication) -> None:
        self._application = application

    def of(self, action: Callable[[], object], rest_s: float = REST_S) -> list[float]:
        """Milliseconds of each turn from an action until there is nothing left to do."""
        turns = [timed(action)]
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + rest_s:
            turns.append(timed(self._application.processEvents))
            if turns[-1] > IDLE_MS:
                quiet_since = time.monotonic()
            time.sleep(0.0005)
        return turns

    def until(self, is_so: Callable[[], bool]) -> list[float]:
        """Milliseconds of each turn until then."""
        turns = []
        while not is_so():
            turns.append(timed(self._application.processEvents))
            time.sleep(0.0005)
        return turns


def timed(action: Callable[[], object]) -> float:
    """Milliseconds this thread works for an action."""
    began = time.thread_time()
    action()
    return 1e3 * (time.thread_time() - began)


def rich_chat(app: App, title: str) -> int:
    """A stored chat of MESSAGES; its id."""
    store, parent = app.store, None
    chat = store.chats.create(ChatSettings(), title)
    for number in range(MESSAGES // 2):
        question = f"Question {number}, and some words about it."
        parent = store.messages.add(chat, parent, "user", question).id
        parent = store.messages.begin_answer(chat, parent, "Tiny")
        store.messages.finish_answer(parent, GenerationFinished("end", STATS, ANSWER, ""))
    return chat


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication(sys.argv[:1])
    answers = [Answer(ANSWER * 4, pause_s=0.01)] * repeats
    source = ScriptedModels({"None": WorkerEngine(answers, described("small", 10**7))})
    look = Standstill(application)
    with tempfile.TemporaryDirectory() as data:
        place = Path(data)
        folders = Folders(place, place, place / "cache", place / "logs", place / "hub")
        app = App(application, folders, source)
        chats = rich_chat(app, "One"), rich_chat(app, "Other")
        app.settings.change(replace(app.settings.value, show_drafted=True))
        app.start()
        look.until(lambda: app.models.description is not None)
        measure(app, look, chats, repeats)
        app.close()
        app.worker.wait(10_000)


def measure(app: App, look: Standstill, chats: tuple[int, int], repeats: int) -> None:
    """Print a line for each action."""
    window, listed = app.widgets.window, app.listed
    entries = [
        FoundModel(f"Model {n}", Path(f"/models/{n}"), "Here", n * 10**8, "") for n in range(MODELS)
    ]

    def stream() -> list[float]:
        app.begin_chat()
        app.chats.send("Go on.")
        return look.until(lambda: app.chats.running is None)

    def library() -> None:
        app.widgets.library.show_entries(entries)
        window.show_page("library")

    actions: dict[str, Callable[[], list[float]]] = {"streaming": stream}
    for chat in chats:
        actions[f"chat {chat} of {MESSAGES}"] = lambda chat=chat: look.of(
            lambda: listed.chosen.emit(chat, None)
        )
    actions["larger text"] = lambda: look.of(lambda: app.look.zoom(1))
    actions["text as before"] = lambda: look.of(lambda: app.look.zoom(0))
    actions["dark"] = lambda: look.of(lambda: app.look.choose("dark"))
    actions["light"] = lambda: look.of(lambda: app.look.choose("light"))
    actions[f"library of {MODELS}"] = lambda: look.of(library)
    actions["back to the chat"] = lambda: look.of(lambda: window.show_page("chat"))
    found: dict[str, list[list[float]]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            found[name].append(action())
    print("ms                   longest  in all  longest of each repeat")
    for name, turns in found.items():
        longest = sorted(max(one) for one in turns)
        whole = statistics.median(map(sum, turns))
        each = " ".join(f"{ms:.1f}" for ms in longest)
        print(f"{name:20} {longest[0]:7.1f} {whole:7.0f}  {each}")


if __name__ == "__main__":
    main()
