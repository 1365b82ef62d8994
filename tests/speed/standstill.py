"""How long the window stands still at most: while it streams, changes chat, zooms, opens a page.

`PYTHONPATH=. python tests/speed/standstill.py [REPEATS] [SUBJECT...]`, of all SUBJECTS without any
named; milliseconds of the longest turn between two looks at what its user did. Of each action's
repeats the fastest, as other programs make one slower only, and the median, of the time that its
thread worked; then the median and the first by the clock, and the median of the work of all turns.
Everything is laid out and painted, and CHATS are in the sidebar.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "helpers"))

from chat_stores import finish_answer
from rich_answer import ANSWER, STATS, drafted
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine, described
from whole_window import turn, until, whole_window

from app.app import App
from app.values.chat_settings import ChatSettings
from app.values.models import FoundModel
from app.window.attachments import AttachmentChip
from mlx_engine.values.conversation import GenerationFinished, Message, Role
from mlx_engine.values.saved_chat import SavedChat, chat_as_content

POCKET = Path(__file__).resolve().parents[2] / "assets" / "pocket_model"
MESSAGES, LONG, TURNS = 80, 400, 20_000
CODE = "```python\n" + "    total += price_of(item)\n" * 5000 + "```\n"
TABLE = "| Name | Worth |\n|---|--:|\n" + "| a name of three words | 1,000 |\n" * 200
LONG_ANSWER = 20
"""Times the answer of the screenshots, in words 3,300."""
PASTED = "A line of words that come from elsewhere.\n" * 7500
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

    @property
    def is_idle(self) -> bool:
        """Those are not kept: a hundred thousand are work for the collector of garbage."""
        return max(self) < IDLE_MS


Actions = dict[str, Callable[[], list[Turn]]]


def turns_of(action: Callable[[], object]) -> list[Turn]:
    """From an action until there is nothing left to do."""
    turns = [timed(action)]
    quiet_since = time.monotonic()
    while time.monotonic() < quiet_since + REST_S:
        if not (next_turn := timed(turn)).is_idle:
            turns.append(next_turn)
            quiet_since = time.monotonic()
        time.sleep(0.0005)
    return turns


def turns_until(is_so: Callable[[], bool]) -> list[Turn]:
    """All until then."""
    turns = []
    while not is_so():
        if not (next_turn := timed(turn)).is_idle:
            turns.append(next_turn)
        time.sleep(0.0005)
    return turns


def timed(action: Callable[[], object]) -> Turn:
    """What an action takes."""
    began, started = time.thread_time(), time.perf_counter()
    action()
    return Turn(1e3 * (time.thread_time() - began), 1e3 * (time.perf_counter() - started))


def rich_chat(app: App, title: str, messages: int = MESSAGES, answer: str = ANSWER) -> int:
    """A stored chat, of which half was drafted; its id."""
    store, parent, spans = app.store, None, drafted(answer)
    chat = store.chats.create(ChatSettings(), title)
    for number in range(messages // 2):
        question = f"Question {number}, and some words about it."
        parent = store.messages.add(chat, parent, "user", question).id
        parent = store.messages.begin_answer(chat, parent, "Tiny")
        finish_answer(store.messages, parent, GenerationFinished("end", STATS, answer, ""), spans)
        store.database._saving.join()
    return chat


class Bench(NamedTuple):
    """answers: those that the model will give next."""

    app: App
    repeats: int
    answers: list[Answer]


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    answers = list[Answer]()
    source = ScriptedModels({"None": WorkerEngine(answers, described("small", 10**7))})
    with whole_window(source) as app:
        for number in range(CHATS):
            app.store.chats.create(ChatSettings(), f"Chat {number}")
        app.settings.change(replace(app.settings.value, show_drafted=True))
        app.start()
        until(lambda: app.models.description is not None)
        print(f"{'ms':24} fastest  median   clock   first  in all")
        for subject in sys.argv[2:] or SUBJECTS:
            measure(SUBJECTS[subject](Bench(app, repeats, answers)), repeats)


def measure(actions: Actions, repeats: int) -> None:
    """Do them all in their order, again and again, and print a line for each."""
    found: dict[str, list[list[Turn]]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            found[name].append(action())
    for name, times in found.items():
        longest = [max(turn.worked for turn in turns) for turns in times]
        clock = [max(turn.passed for turn in turns) for turns in times]
        whole = statistics.median(sum(turn.worked for turn in turns) for turns in times)
        middle, middle_clock = statistics.median(longest), statistics.median(clock)
        figures = (min(longest), middle, middle_clock, clock[0], whole)
        print(f"{name:24}", " ".join(f"{figure:7.1f}" for figure in figures), flush=True)


def each(**actions: Callable[[], object]) -> Actions:
    """Each until nothing is left to do of it."""
    return {
        name.replace("_", " "): lambda action=action: turns_of(action)
        for name, action in actions.items()
    }


def in_steps(steps: Iterable[Callable[[], object]], rest_s: float = 0.02) -> list[Turn]:
    """One after the other, as fast as a user does them, then until nothing is left to do."""
    turns = []
    for step in steps:
        turns.append(timed(step))
        end = time.monotonic() + rest_s
        turns += turns_until(lambda end=end: time.monotonic() > end)
    return [*turns, *turns_of(turn)]


def streaming(bench: Bench) -> Actions:
    app = bench.app

    def stream(text: str, pause_s: float = 0.01) -> list[Turn]:
        bench.answers.append(Answer(text, accepted=(3, 2, 3), pause_s=pause_s))
        turns_of(app.chats.begin)
        begin = timed(lambda: app.chat.send("Go on."))
        return [begin, *turns_until(lambda: app.chat.running is None), *turns_of(turn)]

    def while_drafting_opens() -> list[Turn]:
        bench.answers.append(Answer(ANSWER * 4, pause_s=0.01))
        turns_of(app.chats.begin)
        app.chat.send("Go on.")
        toggle = app.actions["drafting"].trigger
        turns = in_steps([toggle] * 4, 0.3)
        return [*turns, *turns_until(lambda: app.chat.running is None), *turns_of(turn)]

    return {
        "streaming": lambda: stream(ANSWER * 4),
        "table of 200 rows": lambda: stream(TABLE, 0.005),
        "code of 5,000 lines": lambda: stream(CODE, 0.0005),
        "drafting opens and goes": while_drafting_opens,
    }


def chats(bench: Bench) -> Actions:
    app = bench.app
    one, other, long = rich_chat(app, "One"), rich_chat(app, "Other"), rich_chat(app, "Long", LONG)
    app.chats.refresh()
    go_to = app.chat.open
    return each(
        chat_of_80=lambda: go_to(one, None),
        other_chat_of_80=lambda: go_to(other, None),
        chat_of_400=lambda: go_to(long, None),
        new_chat=app.chats.begin,
    )


def looks(bench: Bench) -> Actions:
    """Of the window with a chat."""
    app = bench.app
    turns_of(lambda: app.chat.open(rich_chat(app, "Looked at"), None))
    return each(
        larger_text=lambda: app.look.zoom(1),
        text_as_before=lambda: app.look.zoom(0),
        dark=lambda: app.look.choose("dark"),
        light=lambda: app.look.choose("light"),
        drafted_words=app.actions["drafted-words"].trigger,
    )


def resizing(bench: Bench) -> Actions:
    """Of the window with a long chat, then with an answer of 9,200 pixels, at their ends."""
    app, window = bench.app, bench.app.widgets.window
    long, high = rich_chat(app, "Long", LONG), rich_chat(app, "High", 2, ANSWER * 10)
    go_to = app.chat.open

    def dragged() -> list[Turn]:
        widths = [*range(1180, 900, -20), *range(900, 1181, 20)]
        return in_steps([lambda width=width: window.resize(width, 760) for width in widths], 0.016)

    return {
        **each(chat_of_400=lambda: go_to(long, None)),
        "edge dragged": dragged,
        **each(
            answer_of_9200_pixels=lambda: go_to(high, None),
            narrower=lambda: window.resize(900, 700),
            wider=lambda: window.resize(1180, 760),
        ),
    }


def long_chat(bench: Bench) -> Actions:
    """What is done in a chat of 400 messages, and with a long text."""
    app, column = bench.app, bench.app.widgets.transcript.column
    chat, long = rich_chat(app, "Long", LONG), rich_chat(app, "High", 2, ANSWER * LONG_ANSWER)
    go_to, actions = app.chat.open, app.actions
    bar = column.verticalScrollBar()

    def wheel(pixels: int) -> None:
        place = QPointF(column.viewport().rect().center())
        event = QWheelEvent(
            place,
            column.viewport().mapToGlobal(place),
            QPoint(),
            QPoint(0, pixels),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        QApplication.sendEvent(column.viewport(), event)

    def drag(to: float) -> None:
        bar.setSliderDown(True)
        bar.setSliderPosition(round(to * bar.maximum()))

    def dragged() -> list[Turn]:
        places = [1 - n / 40 for n in range(41)] + [n / 7 for n in range(8)]
        turns = in_steps([lambda to=to: drag(to) for to in places], 0.03)
        bar.setSliderDown(False)
        return turns

    def paste() -> None:
        QGuiApplication.clipboard().setText(PASTED)
        app.widgets.composer.setFocus()
        actions["paste"].trigger()

    def give_up() -> None:
        app.widgets.composer.findChild(AttachmentChip).remove.click()

    def select_all() -> None:
        column.views[-1].texts()[0].setFocus()
        actions["select-all"].trigger()

    return {
        **each(chat_of_400=lambda: go_to(chat, None)),
        "wheel": lambda: in_steps([lambda: wheel(120)] * 60),
        "scroll bar dragged": dragged,
        **each(
            answer_of_3300_words=lambda: go_to(long, None),
            select_all=select_all,
            copy=actions["copy"].trigger,
            copy_answer=actions["copy-answer"].trigger,
            paste_of_300_kB=paste,
            pasted_text_goes=give_up,
        ),
    }


def endless_chat(bench: Bench) -> Actions:
    """A chat of TURNS messages: taken from a file, opened, searched, left and asked."""
    app, find = bench.app, bench.app.widgets.transcript.find_bar
    file = app.store.database.path.with_name("endless.json")
    roles: tuple[Role, Role] = ("user", "assistant")
    said = tuple(Message(roles[n % 2], f"Words of number {n}.") for n in range(TURNS))
    file.write_text(json.dumps(chat_as_content(SavedChat("Tiny", None, said))))

    def endless() -> int:
        return max(chat.id for chat in app.store.chats.listed())

    def go_to(message: int | None = None) -> None:
        app.chat.open(endless(), message)

    def first_message() -> int:
        return app.store.messages.path(endless())[0].message.id

    def send() -> list[Turn]:
        bench.answers.append(Answer("So it goes."))
        begin = timed(lambda: app.chat.send("Go on."))
        return [begin, *turns_until(lambda: app.chat.running is None), *turns_of(turn)]

    return {
        **each(
            imported=lambda: app.files.import_from(file),
            new_chat=app.chats.begin,
            opened=go_to,
            other_chat=app.chats.begin,
            opened_at_its_first_message=lambda: go_to(first_message()),
            opened_again=go_to,
            find_opened=app.widgets.transcript.open_find,
            find_typed=lambda: find.field.setText("words"),
            match_before_the_first=lambda: app.widgets.transcript.find_further(-1),
            find_closed=app.widgets.transcript.close_find,
            jump_to_latest=app.widgets.transcript.jump.click,
        ),
        "asked": send,
        **each(duplicated=lambda: app.chats.duplicate(endless(), "copy")),
    }


def comparing(bench: Bench) -> Actions:
    app = bench.app

    def run() -> list[Turn]:
        bench.answers.extend([Answer(ANSWER * 4, pause_s=0.005)] * 2)
        app.actions["compare"].trigger()
        begin = timed(lambda: app.compare.run("Go on."))
        turns = turns_until(lambda: not app.compare.is_running)
        return [begin, *turns, *turns_of(turn)]

    return {"compare": run} | each(back_to_the_chat=lambda: app.widgets.window.show_page("chat"))


def pages(bench: Bench) -> Actions:
    app = bench.app
    window, commands = app.widgets.window, app.actions
    entries = tuple(
        FoundModel(f"Model {n}", Path(f"/models/{n}"), "Here", n * 10**8, "") for n in range(MODELS)
    )

    def library() -> None:
        app.known.models = entries
        app.known.changed.emit()
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


def layers(bench: Bench) -> Actions:
    """What lies over the window."""
    app = bench.app
    return each(
        a_models_card=lambda: app.offered.offer(str(POCKET)),
        the_card_goes=app.widgets.layer.hide,
        folder_dragged=lambda: app.drops.hover([str(POCKET)]),
        folder_left=app.drops.leave,
        a_box=app.actions["about"].trigger,
        the_box_goes=lambda: app.widgets.window.findChild(QMessageBox).reject(),
    )


def sidebar(bench: Bench) -> Actions:
    app, listed = bench.app, bench.app.chats
    many = [chat.id for chat in app.store.chats.listed()][SELECTED : 2 * SELECTED]
    folder = app.store.folders.create("Folder").id
    doomed = [rich_chat(app, "Doomed") for _ in range(bench.repeats)]
    listed.refresh()
    field = app.widgets.sidebar.findChild(QLineEdit)

    def type_search() -> list[Turn]:
        letters = [lambda letter=letter: QTest.keyClicks(field, letter) for letter in "chat 9"]
        return in_steps(letters, 0.3)

    return {"search typed": type_search} | each(
        search_ended=field.clear,
        renamed=lambda: listed.rename(many[0], "Another name"),
        pinned=lambda: listed.pin(True, many[0]),
        pinned_no_more=lambda: listed.pin(False, many[0]),
        many_moved=lambda: listed.move(many, folder),
        many_moved_back=lambda: listed.move(many, None),
        chat_to_be_deleted=lambda: app.chat.open(doomed[-1]),
        chat_deleted=lambda: listed.delete(doomed.pop()),
    )


SUBJECTS: dict[str, Callable[[Bench], Actions]] = {
    subject.__name__: subject
    for subject in (
        streaming,
        chats,
        looks,
        resizing,
        long_chat,
        endless_chat,
        comparing,
        pages,
        layers,
        sidebar,
    )
}


if __name__ == "__main__":
    main()
