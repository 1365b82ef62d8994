"""How long the window stands still at most: while it streams, changes chat, zooms, opens a page.

`PYTHONPATH=. python tests/speed/standstill.py [REPEATS] [SUBJECT...]`, of all SUBJECTS without any
named; milliseconds of the longest turn between two looks at what its user did. Of each action's
repeats the fastest, as other programs make one slower only, and the median; then by the clock. The
first time is told as well. Everything is laid out and painted, and CHATS are in the sidebar.
"""

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PySide6.QtWidgets import QMessageBox

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from rich_answer import ANSWER, STATS
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
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


class Turn(NamedTuple):
    """Milliseconds that this thread worked, and that passed."""

    worked: float
    passed: float


Actions = dict[str, Callable[[], list[Turn]]]


def turns_of(action: Callable[[], object]) -> list[Turn]:
    """From an action until there is nothing left to do."""
    turns = [timed(action)]
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + REST_S:
        turns.append(timed(turn))
        if turns[-1].worked > IDLE_MS:
            quiet_since = time.monotonic()
        time.sleep(0.0005)
    return turns


def turns_until(is_so: Callable[[], bool]) -> list[Turn]:
    """All until then."""
    turns = []
    while not is_so():
        turns.append(timed(turn))
        time.sleep(0.0005)
    return turns


def timed(action: Callable[[], object]) -> Turn:
    """What an action takes."""
    began, started = time.thread_time(), time.perf_counter()
    action()
    return Turn(1e3 * (time.thread_time() - began), 1e3 * (time.perf_counter() - started))


def rich_chat(app: App, title: str, messages: int = MESSAGES, answer: str = ANSWER) -> int:
    """A stored chat; its id."""
    store, parent = app.store, None
    chat = store.chats.create(ChatSettings(), title)
    for number in range(messages // 2):
        question = f"Question {number}, and some words about it."
        parent = store.messages.add(chat, parent, "user", question).id
        parent = store.messages.begin_answer(chat, parent, "Tiny")
        store.messages.finish_answer(parent, GenerationFinished("end", STATS, answer, ""))
    return chat


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    answers = [Answer(ANSWER * 4, pause_s=0.01)] * repeats
    source = ScriptedModels({"None": WorkerEngine(answers, described("small", 10**7))})
    with whole_window(source) as app:
        for number in range(CHATS):
            app.store.chats.create(ChatSettings(), f"Chat {number}")
        app.settings.change(replace(app.settings.value, show_drafted=True))
        app.start()
        until(lambda: app.models.description is not None)
        print(f"{'ms':20} fastest  median   clock  in all   first")
        for subject in sys.argv[2:] or SUBJECTS:
            measure(SUBJECTS[subject](app, repeats), repeats)


def measure(actions: Actions, repeats: int) -> None:
    """Do them all in their order, again and again, and print a line for each."""
    found: dict[str, list[list[Turn]]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            found[name].append(action())
    for name, times in found.items():
        longest = [max(turn.worked for turn in turns) for turns in times]
        clock = statistics.median(max(turn.passed for turn in turns) for turns in times)
        whole = statistics.median(sum(turn.worked for turn in turns) for turns in times)
        figures = (min(longest), statistics.median(longest), clock, whole, longest[0])
        print(f"{name:20}", " ".join(f"{figure:7.1f}" for figure in figures), flush=True)


def each(**actions: Callable[[], object]) -> Actions:
    """Each until nothing is left to do of it."""
    return {
        name.replace("_", " "): lambda action=action: turns_of(action)
        for name, action in actions.items()
    }


def streaming(app: App, _: int) -> Actions:
    def stream() -> list[Turn]:
        turns_of(app.begin_chat)
        begin = timed(lambda: app.chats.send("Go on."))
        return [begin, *turns_until(lambda: app.chats.running is None), *turns_of(turn)]

    return {"streaming": stream}


def chats(app: App, _: int) -> Actions:
    one, other, long = rich_chat(app, "One"), rich_chat(app, "Other"), rich_chat(app, "Long", LONG)
    app.listed.refresh()
    go_to = app.listed.chosen.emit
    return each(
        chat_of_80=lambda: go_to(one, None),
        other_chat_of_80=lambda: go_to(other, None),
        chat_of_300=lambda: go_to(long, None),
        new_chat=app.begin_chat,
    )


def looks(app: App, _: int) -> Actions:
    """Of the window with a chat."""
    turns_of(lambda: app.listed.chosen.emit(rich_chat(app, "Looked at"), None))
    return each(
        larger_text=lambda: app.look.zoom(1),
        text_as_before=lambda: app.look.zoom(0),
        dark=lambda: app.look.choose("dark"),
        light=lambda: app.look.choose("light"),
    )


def resizing(app: App, _: int) -> Actions:
    """Of the window with an answer of 9,200 pixels, at its end."""
    window = app.widgets.window
    turns_of(lambda: app.listed.chosen.emit(rich_chat(app, "High", 2, ANSWER * 10), None))
    return each(narrower=lambda: window.resize(900, 700), wider=lambda: window.resize(1180, 760))


def pages(app: App, _: int) -> Actions:
    window, commands = app.widgets.window, app.widgets.actions
    entries = [
        FoundModel(f"Model {n}", Path(f"/models/{n}"), "Here", n * 10**8, "") for n in range(MODELS)
    ]

    def library() -> None:
        app.widgets.library.show_entries(entries)
        window.show_page("library")

    def chat() -> None:
        window.show_page("chat")

    return each(
        library_of_300=library,
        back_to_the_chat=chat,
        settings=commands["settings"].trigger,
        back_from_settings=chat,
        compare=commands["compare"].trigger,
        back_from_compare=chat,
        drafting=commands["drafting"].trigger,
        session=commands["session"].trigger,
    )


def layers(app: App, _: int) -> Actions:
    """What lies over the window."""
    return each(
        a_models_card=lambda: app.cards.offer(str(POCKET)),
        the_card_goes=app.widgets.layer.hide,
        folder_dragged=lambda: app.drops.hover([str(POCKET)]),
        folder_left=app.drops.leave,
        a_box=app.widgets.actions["about"].trigger,
        the_box_goes=lambda: app.widgets.window.findChild(QMessageBox).reject(),
    )


def sidebar(app: App, repeats: int) -> Actions:
    listed, rows = app.listed, app.widgets.sidebar.list
    many = [chat.id for chat in app.store.chats.listed()][SELECTED : 2 * SELECTED]
    folder = app.store.folders.create("Folder").id
    doomed = [rich_chat(app, "Doomed") for _ in range(repeats)]
    listed.refresh()
    return each(
        search=lambda: listed.search("chat 9"),
        search_ended=lambda: listed.search(""),
        renamed=lambda: rows.renamed.emit(many[0], "Another name"),
        pinned=lambda: listed.pin(True, many[0]),
        pinned_no_more=lambda: listed.pin(False, many[0]),
        many_moved=lambda: rows.move_wanted.emit(many, folder),
        many_moved_back=lambda: rows.move_wanted.emit(many, None),
        chat_to_be_deleted=lambda: listed.chosen.emit(doomed[-1], None),
        chat_deleted=lambda: listed.delete(doomed.pop()),
    )


SUBJECTS: dict[str, Callable[[App, int], Actions]] = {
    subject.__name__: subject
    for subject in (streaming, chats, looks, resizing, pages, layers, sidebar)
}


if __name__ == "__main__":
    main()
