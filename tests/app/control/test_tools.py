"""Tools in the window, with a real model that makes a call and a real tool server."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication, QMessageBox, QPlainTextEdit, QScrollArea
from pytestqt.qtbot import QtBot
from seen import press
from tool_model import CALL_TOKEN, tool_folder
from windows import Driven, running

from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings, SamplingChoice
from app.values.tools import ToolServer
from app.window.controls.bound import with_field
from app.window.session_panel.tools_group import ToolsGroup
from app.window.tools_pane import ToolsPane
from app.window.transcript.tool_card import ToolCard
from app.worker.model_in_use import ModelSource
from mlx_engine import load
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

PROGRAM = Path(__file__).parents[2] / "helpers" / "tool_server.py"
SERVER = ToolServer("home", sys.executable, (str(PROGRAM),))
BIAS = {CALL_TOKEN: 60.0, 3067: 48.0, 3069: 48.0}
"""A call, then the end of the answer."""
SETTINGS = ChatSettings(
    tool_servers=("home",),
    sampling=SamplingChoice(temperature=0, presence_penalty=10, frequency_penalty=10),
    generation=GenerationOptions(max_tokens=12),
)


class CallingEngine:
    """The real engine, which makes a call when it is asked and has calls left."""

    def __init__(self, folder: Path) -> None:
        self._engine, self.calls = load(folder), 1

    @property
    def description(self) -> Any:
        """Recommends sampling under which the next answer is a call."""
        told = self._engine.description
        return replace(told, sampling=SamplingOptions(logit_bias=BIAS)) if self.calls else told

    def session(self, *, name: str | None = None) -> Any:
        return self._engine.session(name=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class CallingModels(ModelSource):
    """Has the tool model in place of the built-in one."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.engine: CallingEngine

    def load(self, *_: Any) -> Any:
        self.engine = CallingEngine(self.folder)
        return self.engine


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> CallingModels:
    return CallingModels(tool_folder(tmp_path_factory.mktemp("model") / "tools"))


@pytest.fixture(scope="module")
def started(
    qapp: QApplication, request: Any, tmp_path_factory: Any, models: CallingModels
) -> Iterator[Driven]:
    with running(qapp, QtBot(request), tmp_path_factory.mktemp("home"), models) as driven:
        driven.widgets.window.setProperty("stays", True)
        yield driven


@pytest.fixture
def driven(started: Driven, models: CallingModels) -> Driven:
    models.engine.calls = 1
    started.app.settings.change(AppSettings(tool_servers=(SERVER,), write_titles=False))
    started.app.chat.begin(SETTINGS)
    return started


def ask(driven: Driven) -> ToolCard:
    """Ask, until the user is asked for leave."""
    driven.send("What is the weather?")
    driven.until(lambda: "asked" in states(driven))
    driven.until(lambda: bool(cards(driven)))
    return cards(driven)[-1]


def states(driven: Driven) -> list[str]:
    running, answer = driven.app.chat.running, driven.app.chat.last_answer
    uses = running.uses if running else answer.uses if answer else ()
    return [use.state for use in uses]


def cards(driven: Driven) -> list[ToolCard]:
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    return driven.widgets.transcript.findChildren(ToolCard)


def shown(card: ToolCard) -> str:
    """What is said in the unfolded part of a card."""
    return "\n".join(part.source for part in card.parts())


def test_a_call_is_asked_for_made_and_answered(driven: Driven, models: CallingModels) -> None:
    card = ask(driven)
    assert card.head.text() == "The model asks to use get_weather (home)"
    assert '"city": "Bonn"' in shown(card)
    once = card.buttons["once"]
    assert once.accessibleName() == "Allow Once: get_weather (home)"
    models.engine.calls = 0
    once.click()
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None and answer.text.startswith("I do not know that name.")
    assert answer.uses[0].result == "Sun in Bonn for 3 days."
    assert (card.head.text(), card.head.isChecked()) == ("Called get_weather (home)", False)
    card.head.setChecked(True)
    assert "Sun in Bonn for 3 days." in shown(card)
    assert [m.role for m in driven.app.store.messages.conversation([answer.id])] == [
        "assistant",
        "tool",
        "assistant",
    ]
    driven.app.chat.open(answer.chat_id)
    driven.until(lambda: len(cards(driven)) == 1)
    assert cards(driven)[0].head.text() == "Called get_weather (home)"


def test_the_same_text_with_drafting_on_and_off(driven: Driven, models: CallingModels) -> None:
    texts = []
    for draft in (DraftOptions(depth=3), DraftOptions(source="none")):
        models.engine.calls = 1
        driven.app.chat.begin(replace(SETTINGS, draft=draft))
        card = ask(driven)
        models.engine.calls = 0
        card.buttons["chat"].click()
        driven.until_answered()
        answer = driven.app.chat.last_answer
        assert answer is not None
        texts.append((answer.text, answer.uses[0].arguments, answer.uses[0].result))
    assert texts[0] == texts[1]
    (allowed,) = driven.app.chat.settings.allowed_tools
    assert allowed.startswith("home/get_weather ")


def test_a_call_that_is_not_allowed_is_not_made(driven: Driven, models: CallingModels) -> None:
    card = ask(driven)
    models.engine.calls = 0
    card.buttons["deny"].click()
    driven.until_answered()
    assert states(driven) == ["denied"]
    assert card.head.text() == "get_weather (home): not allowed"


def test_stop_while_a_call_waits(driven: Driven, models: CallingModels) -> None:
    ask(driven)
    driven.app.actions["stop"].trigger()
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None and (answer.state, states(driven)) == ("stopped", ["new"])
    driven.until(lambda: cards(driven)[-1].head.text() == "get_weather (home): no result")
    assert not cards(driven)[-1].buttons["once"].isVisible()
    driven.app.chat.continue_answer()
    driven.until(lambda: states(driven) == ["asked"])
    models.engine.calls = 0
    cards(driven)[-1].buttons["once"].click()
    driven.until_answered()
    assert states(driven) == ["done"]


def test_a_dead_server_is_told_and_answered_without(driven: Driven, models: CallingModels) -> None:
    models.engine.calls = 0
    dead = ToolServer("gone", "/no/such/program")
    driven.app.settings.change(replace(driven.app.settings.value, tool_servers=(dead,)))
    driven.app.chat.begin(replace(SETTINGS, tool_servers=("gone",)))
    assert driven.ask("Hello")
    assert "there is no program /no/such/program" in driven.widgets.notice.words()


def agree(pane: ToolsPane, verb: str) -> None:
    (box,) = (box for box in pane.findChildren(QMessageBox) if box.isVisible())
    press(box, verb)


def test_servers_are_added_changed_switched_and_removed(driven: Driven) -> None:
    driven.app.settings.change(replace(driven.app.settings.value, tool_servers=()))
    driven.app._show_tool_servers()
    (pane,) = driven.widgets.settings.findChildren(ToolsPane)

    def names() -> list[str]:
        return [server.name for server in driven.app.settings.value.tool_servers]

    pane.start.setPlainText('{"mcpServers": {"home": {"command": 3}}}')
    pane.save.click()
    assert pane._problem.text() == "“home” needs a command or an address, not both."
    own = {"command": sys.executable, "args": [str(PROGRAM)], "env": {"A": "1"}}
    pane.start.setPlainText(json.dumps({"mcpServers": {"home": own}}))
    pane.save.click()
    assert driven.app.settings.value.tool_servers == (replace(SERVER, environment={"A": "1"}),)
    (shown,) = pane._states
    driven.until(lambda: shown._state.text() == "6 tools")
    group = driven.widgets.session.findChild(ToolsGroup)
    assert group is not None and list(group._ticks) == ["home"]
    shown.change.click()
    assert pane.start.toPlainText() == f"A=1 {sys.executable} {PROGRAM}"
    pane.name.setText("other")
    pane.start.setPlainText(f"{sys.executable} {PROGRAM}")
    pane.save.click()
    assert names() == ["other"]
    for name in ("second", "other"):
        pane.name.setText(name)
        pane.start.setPlainText("false")
        pane.save.click()
    assert pane._problem.text().startswith("There is a server “other” already")
    assert names() == ["other", "second"]
    pane._states[1].change.click()
    pane.name.setText("other")
    pane.save.click()
    assert pane._problem.text().startswith("There is a server “other” already")
    assert names() == ["other", "second"]
    pane._states[1].remove.click()
    agree(pane, "Remove")
    assert names() == ["other"] and pane.name.text() == ""
    pane._states[0].tick.click()
    assert (pane._states[0]._state.text(), list(group._ticks)) == ("Off", [])
    pane._states[0].remove.click()
    assert names() == ["other"]
    agree(pane, "Remove")
    assert names() == []


MOST = "generation.max_tokens"


def test_an_answer_is_bound_to_a_schema(driven: Driven, models: CallingModels) -> None:
    models.engine.calls = 0
    driven.app.chat.begin(ChatSettings(sampling=SETTINGS.sampling))
    field = driven.widgets.session.format.field
    edit = field.findChild(QPlainTextEdit)
    assert edit is not None

    def type_in(text: str) -> str:
        edit.setPlainText(text)
        field.settle()
        return field.problem.text()

    assert type_in("{").startswith("This is not JSON: Expecting property name")
    problem = "No answer can have this format (Invalid type: odd)."
    free = "Until this is corrected, answers can be any text."
    assert type_in('{"type": "odd"}') == f"{problem} {free}"
    assert type_in("[ab").startswith("No answer can have this format")
    assert type_in('{"enum": ["yes", "no"]}') == ""
    assert driven.ask("Is it?") in ('"yes"', '"no"')
    assert type_in('{"enum": ["yes"').endswith("answers keep the format set before.")
    driven.app.chat.change_settings(with_field(driven.app.chat.settings, MOST, 400))
    assert edit.toPlainText() == '{"enum": ["yes"' and field.problem.text()
    assert driven.ask("Is it still?") in ('"yes"', '"no"')
    driven.app.chat.change_settings(with_field(driven.app.chat.settings, MOST, None))
    assert type_in("(a|b){3}") == ""
    assert set(driven.ask("Well?")) <= {"a", "b"}
    assert type_in("") == ""
    assert driven.app.chat.settings.generation == GenerationOptions()


def test_a_broken_schema_is_told_in_view(driven: Driven) -> None:
    window, panel = driven.widgets.window, driven.widgets.session
    window.show()
    window.show_panel("session")
    panel.fold_groups(())
    field = panel.format.field
    edit = field.findChild(QPlainTextEdit)
    area = next(a for a in panel.findChildren(QScrollArea) if a.isAncestorOf(field))
    assert edit is not None
    driven.until(lambda: field.isVisible() and area.verticalScrollBar().maximum() > 0)
    assert edit.visibleRegion().isEmpty()
    edit.setPlainText('{"type": ')
    driven.until(lambda: not field.problem.visibleRegion().isEmpty())
