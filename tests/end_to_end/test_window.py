"""The window with the real engine on the built-in model, without a screen."""

import gc
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot
from seen import button
from tiny_gguf import write_tiny_gguf
from windows import close, folders_in

from app.app import App
from app.library.machine import this_machine
from app.values.app_settings import ModelSettings, settings_of
from app.values.chat_settings import SamplingChoice
from app.values.chats import StoredMessage
from mlx_engine.values.options import DraftOptions, GenerationOptions, LoadOptions

PATIENCE_MS = 60_000
POCKET = Path(__file__).parents[2] / "assets" / "pocket_model"
QUESTION = "Count from one to twenty in words."


@pytest.fixture(scope="module", autouse=True)
def _no_collection_on_other_threads() -> Iterator[None]:
    """As app.start has it: while a closed app's engine ends, its thread must collect no widget."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def apps(qapp: QApplication, tmp_path: Path) -> Iterator[list[App]]:
    """Apps to be closed at the end; all share one folder."""
    made: list[App] = []
    yield made
    for app in made:
        close(app)


def start(apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot) -> App:
    app = App(qapp, folders_in(tmp_path))
    apps.append(app)
    app.start()
    qtbot.waitUntil(lambda: app.models.description is not None, timeout=PATIENCE_MS)
    return app


def set_up(app: App, max_tokens: int = 110, **draft: object) -> None:
    """A repeatable answer, long unless it is told otherwise."""
    settings = replace(
        app.chat.settings,
        sampling=SamplingChoice(temperature=0.7, seed=3),
        generation=GenerationOptions(max_tokens=max_tokens, ignore_eos=True),
        draft=DraftOptions(**draft),  # type: ignore[arg-type]
    )
    app.chat.change_settings(settings)


def ask(app: App, text: str) -> None:
    app.widgets.composer.show_message(text)
    app.chat.send(text)
    app.widgets.composer.show_message("")


def is_answering(app: App) -> bool:
    return app.chat.running is not None


def wait_for_words(app: App, qtbot: QtBot, characters: int) -> None:
    def has_words() -> bool:
        running = app.chat.running
        return running is not None and len(running.answer.text) >= characters

    qtbot.waitUntil(has_words, timeout=PATIENCE_MS)


def wait_for_end(app: App, qtbot: QtBot) -> StoredMessage:
    qtbot.waitUntil(lambda: not is_answering(app), timeout=PATIENCE_MS)
    answer = app.chat.last_answer
    assert answer is not None
    return answer


def test_a_whole_session(apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot) -> None:
    app = start(apps, qapp, tmp_path, qtbot)
    widgets, chats = app.widgets, app.chat
    set_up(app, depth=2)

    ask(app, QUESTION)
    assert is_answering(app)
    wait_for_words(app, qtbot, 40)
    history = app.figures.history
    assert history.drafted > 0
    assert history.depth_in_use == 2
    assert f"{100 * history.accepted / history.drafted:.0f}%" in (
        widgets.strip.accessibleDescription()
    )

    chats.change_settings(replace(chats.settings, draft=DraftOptions(depth=0)))
    qtbot.waitUntil(lambda: history.depth_in_use == 0, timeout=PATIENCE_MS)
    assert is_answering(app)

    app.actions["stop"].trigger()
    stopped = wait_for_end(app, qtbot)
    assert stopped.state == "stopped"
    assert stopped.finish_reason == "stopped"
    assert len(stopped.text) >= 40
    assert stopped.spans

    set_up(app, depth=3)
    app.actions["regenerate"].trigger()
    whole = wait_for_end(app, qtbot)
    assert whole.state == "done"
    assert whole.stats is not None
    assert whole.stats.accepted > 0
    assert whole.text.startswith(stopped.text), "same seed, other depth: same words"
    assert chats.turns[-1].siblings == (stopped.id, whole.id)

    close(app)
    apps.remove(app)
    again = start(apps, qapp, tmp_path, qtbot)
    shown = [view.message for view in again.widgets.transcript.column.views]
    assert [message.text for message in shown] == [QUESTION, whole.text]
    assert again.chat.settings.draft.depth == 3
    found = again.store.search.find("twenty words")
    assert [hit.chat.title for hit in found] == [QUESTION]


def test_a_donor_that_is_dropped_gives_its_heads_to_the_model_in_use(
    apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    model = write_tiny_gguf(tmp_path / "small.gguf", heads="none", claimed_heads=0)
    donor = write_tiny_gguf(tmp_path / "donor.gguf", heads="only")
    app = start(apps, qapp, tmp_path / "home", qtbot)
    card, layer = app.widgets.card, app.widgets.layer
    for dropped, heads in ((model, 0), (donor, 1)):
        app.drops.take([str(dropped)])
        qtbot.waitUntil(layer.isVisible, timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: button(card, "Load").isEnabled(), timeout=PATIENCE_MS)
        button(card, "Load").click()
        qtbot.waitUntil(lambda: app.models.loading is None, timeout=PATIENCE_MS)
        qtbot.waitUntil(lambda: not layer.isVisible(), timeout=PATIENCE_MS)
        loaded = app.models.description
        assert loaded is not None
        assert (loaded.path, loaded.mtp_heads) == (str(model), heads)


def test_a_small_model_that_comes_in_mid_chat_reads_on_show_and_can_be_stopped(
    apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    app = start(apps, qapp, tmp_path, qtbot)
    chats, strip = app.chat, app.widgets.strip
    beside = LoadOptions(draft_model=str(POCKET), draft_misfit="plain")
    app.models.load(None, own=ModelSettings(beside))
    qtbot.waitUntil(lambda: app.models.loading is None, timeout=PATIENCE_MS)
    set_up(app, max_tokens=24, source="none")
    ask(app, QUESTION)
    assert len(wait_for_end(app, qtbot).text) > 40

    shown: list[str] = []
    app.answers.grown.connect(lambda *_: shown.append(strip.accessibleDescription()))
    set_up(app, max_tokens=24, source="model", depth=2)
    app.answers.grown.connect(stop_at_once := lambda *_: chats.stop())
    ask(app, "And on?")
    stopped = wait_for_end(app, qtbot)
    assert (stopped.finish_reason, stopped.text) == ("stopped", "")
    assert re.search(r"\b0 of [\d,]+ tokens read", shown[0]), (
        "the small model knows nothing of the chat yet"
    )

    app.answers.grown.disconnect(stop_at_once)
    app.actions["regenerate"].trigger()
    whole = wait_for_end(app, qtbot)
    assert whole.state == "done"
    assert whole.stats is not None
    assert whole.stats.accepted > 0


def test_two_chats_never_share_settings(
    apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    app = start(apps, qapp, tmp_path, qtbot)
    set_up(app, max_tokens=24, depth=4)
    ask(app, "One")
    first = app.chat.chat_id
    app.actions["new-chat"].trigger()
    assert app.chat.settings.draft.depth == "auto"
    set_up(app, max_tokens=24, depth=1)
    ask(app, "Two")
    second = app.chat.chat_id
    assert first is not None
    assert second is not None
    qtbot.waitUntil(lambda: not app.answers.chat_ids, timeout=PATIENCE_MS)
    drafted = app.figures.history_of
    assert len(drafted(first).depths) == 4
    assert len(drafted(second).depths) == 1
    app.chat.open(first)
    assert app.chat.settings.draft.depth == 4


def test_closing_in_the_middle_of_an_answer_keeps_it(
    apps: list[App], qapp: QApplication, tmp_path: Path, qtbot: QtBot
) -> None:
    app = start(apps, qapp, tmp_path, qtbot)
    set_up(app, depth=2)
    ask(app, QUESTION)
    wait_for_words(app, qtbot, 30)
    running = app.chat.running
    assert running is not None
    seen = running.answer.text
    app.widgets.window.close()
    close(app)
    apps.remove(app)
    again = start(apps, qapp, tmp_path, qtbot)
    kept = again.chat.last_answer
    assert kept is not None
    assert kept.text.startswith(seen)
    assert kept.interrupted
    again.actions["continue"].trigger()
    went_on = wait_for_end(again, qtbot)
    assert len(went_on.text) > len(kept.text)
    assert went_on.id == kept.id


def test_what_does_not_fit_is_loaded_anyway_where_its_user_says_so(
    apps: list[App],
    qapp: QApplication,
    tmp_path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One sum on the card and in the refusal; that it was wanted is remembered."""
    small = replace(this_machine(), usable_bytes=14_000_000)
    monkeypatch.setattr("app.app.this_machine", lambda: small)
    app = App(qapp, folders_in(tmp_path))
    apps.append(app)
    app.start()
    card = app.widgets.card
    qtbot.waitUntil(card.isVisible, timeout=PATIENCE_MS)
    assert app.models.description is None
    qtbot.waitUntil(lambda: app.offered.facts is not None, timeout=PATIENCE_MS)
    texts = [label.text() for label in card.findChildren(QLabel) if not label.isHidden()]
    said = [text for text in texts if "does not fit" in text]
    assert len(said) == 2 and said[0] in said[1]
    qtbot.mouseClick(button(card, "Load anyway"), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: app.models.description is not None, timeout=PATIENCE_MS)
    assert not card.isVisible()
    set_up(app, max_tokens=5)
    ask(app, QUESTION)
    qtbot.waitUntil(lambda: not is_answering(app), timeout=PATIENCE_MS)
    answer = app.chat.last_answer
    assert answer is not None and answer.finish_reason == "max-tokens"
    assert settings_of(app.settings.value, None).load.anyway
