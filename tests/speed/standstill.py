"""How long the window stands still at most: while it streams, changes chat, zooms, opens a page.

`PYTHONPATH=. python tests/speed/standstill.py [REPEATS]`; milliseconds of processor time of the
window's thread between two looks at what its user did, the longest of each action, of which the
fastest repeat counts: other programs make it slower only. The first time is told as well, as it
may be slower. Everything is laid out and painted, and CHATS are in the sidebar.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QMessageBox

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from transcript_shots import ANSWER, STATS
from whole_window import turn, until, whole_window

from app.app import App
from app.values.chat_settings import ChatSettings
from app.values.models import FoundModel
from mlx_engine.values.conversation import GenerationFinished

POCKET = Path(__file__).resolve().parents[2] / "assets" / "pocket_model"
MESSAGES, LONG = 80, 300
MODELS = 300
CHATS = 1000
SELECTED = 20
REST_S = 0.5
"""An action is over when nothing has been to do for so long."""
IDLE_MS = 0.5


def turns_of(action: Callable[[], object]) -> list[float]:
    """Milliseconds of each turn from an action until there is nothing left to do."""
    turns = [timed(action)]
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + REST_S:
        turns.append(timed(turn))
        if turns[-1] > IDLE_MS:
            quiet_since = time.monotonic()
        time.sleep(0.0005)
    return turns


def turns_until(is_so: Callable[[], bool]) -> list[float]:
    """Milliseconds of each turn until then."""
    turns = []
    while not is_so():
        turns.append(timed(turn))
        time.sleep(0.0005)
    return turns


def timed(action: Callable[[], object]) -> float:
    """Milliseconds this thread works for an action."""
    began = time.thread_time()
    action()
    return 1e3 * (time.thread_time() - began)


def rich_chat(app: App, title: str, messages: int = MESSAGES) -> int:
    """A stored chat; its id."""
    store, parent = app.store, None
    chat = store.chats.create(ChatSettings(), title)
    for number in range(messages // 2):
        question = f"Question {number}, and some words about it."
        parent = store.messages.add(chat, parent, "user", question).id
        parent = store.messages.begin_answer(chat, parent, "Tiny")
        store.messages.finish_answer(parent, GenerationFinished("end", STATS, ANSWER, ""))
    return chat


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    answers = [Answer(ANSWER * 4, pause_s=0.01)] * repeats
    source = ScriptedModels({"None": WorkerEngine(answers, described("small", 10**7))})
    with whole_window(source) as app:
        for number in range(CHATS):
            app.store.chats.create(ChatSettings(), f"Chat {number}")
        chats = rich_chat(app, "One"), rich_chat(app, "Other")
        app.settings.change(replace(app.settings.value, show_drafted=True))
        app.start()
        until(lambda: app.models.description is not None)
        measure(app, chats, repeats)


def measure(app: App, chats: tuple[int, int], repeats: int) -> None:
    """Print a line for each action."""
    window, listed, commands = app.widgets.window, app.listed, app.widgets.actions
    many = [chat.id for chat in app.store.chats.listed()][SELECTED : 2 * SELECTED]
    folder = app.store.folders.create("Folder").id
    long = rich_chat(app, "Long", LONG)
    doomed = [rich_chat(app, "Doomed") for _ in range(repeats)]
    listed.refresh()
    entries = [
        FoundModel(f"Model {n}", Path(f"/models/{n}"), "Here", n * 10**8, "") for n in range(MODELS)
    ]

    def stream() -> list[float]:
        app.begin_chat()
        app.chats.send("Go on.")
        return turns_until(lambda: app.chats.running is None)

    def library() -> None:
        app.widgets.library.show_entries(entries)
        window.show_page("library")

    actions: dict[str, Callable[[], list[float]]] = {"streaming": stream}
    for chat in chats:
        actions[f"chat {chat} of {MESSAGES}"] = lambda chat=chat: turns_of(
            lambda: listed.chosen.emit(chat, None)
        )
    actions["larger text"] = lambda: turns_of(lambda: app.look.zoom(1))
    actions["text as before"] = lambda: turns_of(lambda: app.look.zoom(0))
    actions["dark"] = lambda: turns_of(lambda: app.look.choose("dark"))
    actions["light"] = lambda: turns_of(lambda: app.look.choose("light"))
    actions[f"library of {MODELS}"] = lambda: turns_of(library)

    def of(name: str, action: Callable[[], object]) -> None:
        actions[name] = lambda: turns_of(action)

    def card() -> list[float]:
        return turns_of(lambda: app.cards.offer(str(POCKET)))

    of("back to the chat", lambda: window.show_page("chat"))
    for name in ("settings", "compare", "drafting", "session"):
        of(name, commands[name].trigger)
        if name in ("settings", "compare"):
            of(f"back from {name}", lambda: window.show_page("chat"))
    actions["a model's card"] = card
    of("the card goes", app.widgets.layer.hide)
    of("folder dragged", lambda: app.drops.hover([str(POCKET)]))
    of("folder left", app.drops.leave)
    of("search", lambda: listed.search("chat 9"))
    of("search ended", lambda: listed.search(""))
    of("renamed", lambda: app.widgets.sidebar.list.renamed.emit(many[0], "Another name"))
    of("pinned", lambda: listed.pin(True, many[0]))
    of("pinned no more", lambda: listed.pin(False, many[0]))
    of(f"{SELECTED} moved", lambda: app.widgets.sidebar.list.move_wanted.emit(many, folder))
    of("and back", lambda: app.widgets.sidebar.list.move_wanted.emit(many, None))
    of(f"chat of {LONG}", lambda: listed.chosen.emit(long, None))
    of("new chat", app.begin_chat)
    of("chat to be deleted", lambda: listed.chosen.emit(doomed[-1], None))
    of("chat deleted", lambda: listed.delete(doomed.pop()))
    of("a box", commands["about"].trigger)
    of("the box goes", lambda: window.findChild(QMessageBox).reject())
    found: dict[str, list[list[float]]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            found[name].append(action())
    print("ms                   longest  in all   first  longest of each other repeat")
    for name, turns in found.items():
        longest = [max(one) for one in turns]
        whole = statistics.median(map(sum, turns))
        others = " ".join(f"{ms:.1f}" for ms in sorted(longest[1:]))
        print(f"{name:20} {min(longest):7.1f} {whole:7.0f} {longest[0]:7.1f}  {others}")


if __name__ == "__main__":
    main()
