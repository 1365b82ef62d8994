"""A model that is ejected, idle or not loaded at the start is loaded by the next question."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel, QLineEdit, QMenu
from scripted_engine import Answer
from seen import button
from windows import Driven, close, folders_in, scripted

from app.app import App
from app.control.rest import MINUTE_MS, RestController
from app.state.settings import save_settings
from app.values.app_settings import AppSettings
from app.window.chat_page import TopBar
from app.window.compare_view import ComparePane
from app.window.controls.labels import ShortLabel
from mlx_engine.values.errors import ModelNotFound


@pytest.fixture
def source():
    return scripted(Answer("One."), Answer("Two."), Answer("slow " * 400, pause_s=0.01))


def detail(driven: Driven) -> str:
    return " ".join(part.accessibleName() for part in driven.widgets.head.findChildren(ShortLabel))


def held(driven: Driven) -> str:
    """What is said of the memory of the model in use."""
    (menu,) = driven.widgets.head.findChildren(QMenu)
    return menu.parentWidget().toolTip()


def eject(driven: Driven) -> None:
    (menu,) = driven.widgets.head.findChildren(QMenu)
    menu.aboutToShow.emit()
    next(action for action in menu.actions() if action.text() == "Eject Model").trigger()


def test_what_is_loaded_and_its_memory_stand_in_the_head_bar(driven):
    driven.until(lambda: "It uses 7 MB of memory now." in held(driven))
    assert detail(driven) == "With drafting"
    driven.ask("Hello")
    driven.until(lambda: "of memory" in held(driven) and "7 MB" not in held(driven))
    eject(driven)
    assert "of memory" not in held(driven)


def test_a_long_title_gives_way_to_what_is_said_of_an_ejected_model(driven):
    driven.ask("A long question that names a chat " * 3)
    head = driven.widgets.head
    head.setFixedWidth(660)
    driven.widgets.window.show()
    eject(driven)
    texts = [part.text() for part in head.findChildren(ShortLabel)]
    assert texts == ["Ejected until your next message"]


def test_an_ejected_model_is_loaded_again_by_a_question(driven, source):
    assert driven.ask("Hello") == "One."
    eject(driven)
    assert detail(driven) == "Ejected until your next message"
    assert driven.app.models.description is None
    driven.until(lambda: source.engines["None"].closed)
    assert driven.ask("And now?") == "Two."
    assert source.loaded == ["None", "None"]
    assert detail(driven) == "With drafting"


def test_the_panel_tells_of_the_model_that_rests(driven):
    """It is the one that answers next."""

    def told() -> list[str]:
        panel = driven.widgets.session
        fields = [field.text() for field in panel.findChildren(QLineEdit)]
        return fields + [line.text() for line in panel.findChildren(QLabel)]

    before = told()
    assert "0.6" in before, "the temperature that it recommends"
    eject(driven)
    assert told() == before
    driven.app.models.forget(driven.app.models.resting.request.path)
    assert "0.6" not in told()


def test_a_model_that_cannot_be_loaded_again_rests(driven, source):
    """The next question tries again, so the head bar and the panel go on telling of it."""
    eject(driven)
    before = detail(driven)
    source.broken["None"] = ModelNotFound("model.gguf: no such file or folder.")
    driven.send("Hello")
    driven.until(lambda: driven.app.models.loading is not None)
    driven.until(lambda: driven.app.models.loading is None)
    assert detail(driven) == before


def test_a_question_right_after_is_answered_too(driven):
    eject(driven)
    assert driven.ask("At once") == "One."


def test_nothing_is_ejected_while_it_answers(driven):
    driven.ask("One")
    driven.ask("Two")
    driven.send("Three")
    eject(driven)
    assert driven.app.models.description is not None
    assert "stop it" in driven.widgets.notice.words()
    driven.app.chat.stop()
    driven.until_answered()
    assert driven.widgets.notice.words() == ""


def idle_of(driven: Driven) -> RestController:
    (made,) = driven.app.findChildren(RestController)
    return made


def wish(driven: Driven, **changes: object) -> None:
    settings = driven.app.settings
    settings.change(replace(settings.value, **changes))  # type: ignore[arg-type]


def test_an_idle_model_is_let_go_after_the_users_time(driven):
    idle = idle_of(driven).idle
    assert not idle.isActive(), "it stays for ever unless its user says otherwise"
    wish(driven, idle_minutes=10**6)  # as somebody may write into the file of settings
    assert idle.isActive()
    wish(driven, idle_minutes=30)
    assert idle.interval() == 30 * MINUTE_MS
    driven.ask("One")
    assert idle.isActive()
    driven.ask("Two")
    driven.send("Three")
    assert not idle.isActive(), "it is answering"
    driven.app.chat.stop()
    driven.until_answered()
    assert idle.isActive()
    idle.start(1)
    driven.until(lambda: driven.app.models.description is None)
    assert "after 30 min idle" in detail(driven)
    assert not idle.isActive()
    wish(driven, idle_minutes=0)


def test_the_last_model_is_not_loaded_at_the_start_where_that_is_switched_off(
    qapp, qtbot, tmp_path, source
):
    folders = folders_in(tmp_path)
    save_settings(folders.settings_file, AppSettings(load_at_start=False))
    app = App(qapp, folders, source)
    driven = Driven(app, qtbot)
    try:
        app.start()
        head = app.widgets.window.findChild(TopBar)
        assert head is not None
        assert "Your next message loads it" in detail(driven)
        assert driven.ask("Hello") == "One."
        assert source.loaded == ["None"]
    finally:
        close(app)


def test_a_question_is_taken_as_soon_as_the_window_is_there(qapp, qtbot, tmp_path, source):
    """Before the engine's thread has said a word of the load, which takes seconds on a slow day."""
    app = App(qapp, folders_in(tmp_path), source)
    driven = Driven(app, qtbot)
    try:
        app.start()
        assert driven.ask("Hello") == "One."
    finally:
        close(app)


def test_a_comparison_loads_a_model_that_rests(driven):
    eject(driven)
    compare = driven.widgets.compare
    driven.app.actions["compare"].trigger()
    compare.show_prompt("Hello")
    run = button(compare, "Run")
    assert run.isEnabled() and "model first" not in run.toolTip()
    run.click()
    driven.until(lambda: not driven.app.compare.is_running)
    assert driven.app.models.description is not None
    assert {pane.view.text() for pane in compare.findChildren(ComparePane)} == {"One.", "Two."}
