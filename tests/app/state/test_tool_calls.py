"""Answers that call tools: leave, results, limits, Stop, and what is stored of it."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_states import StatedChat

from app.library.tool_servers import Listed, ToolServers
from app.state.tools import Tools
from app.store.session_store import SessionStore, open_store
from app.store.transfer import export_chat, insert_chat, read_chat
from app.values.chat_settings import ChatSettings, as_preset
from app.values.errors import ToolServerFailed
from app.values.tools import MOST_CALLS, OfferedTool, ToolResult, ToolServer
from mlx_engine.values.conversation import (
    FinishReason,
    GenerationFinished,
    Message,
    TextPiece,
    Tool,
    ToolCall,
)
from mlx_engine.values.stats import GenerationStats

SERVER = ToolServer("home", "program")
ADD = OfferedTool("home", "add", Tool("add"))
CALL = ToolCall("add", '{"a": 1}', "c1")


class ScriptedServers(ToolServers):
    """Has one tool; a call waits until the test returns its result."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.problem = problem
        self.calls: list[tuple[str, str]] = []
        self.futures: list[Future[ToolResult]] = []

    def list_tools(self, server: ToolServer) -> Future[Listed]:
        future = Future[Listed]()
        if self.problem:
            future.set_exception(ToolServerFailed(self.problem))
        else:
            future.set_result(Listed((replace(ADD, server=server.name),)))
        return future

    def call(self, server: ToolServer, name: str, arguments: str) -> Future[ToolResult]:
        self.calls.append((name, arguments))
        self.futures.append(Future())
        return self.futures[-1]


class CallingChat(StatedChat):
    """A chat with a tool server."""

    def __init__(self, store: SessionStore, qtbot: Any, problem: str = "") -> None:
        self.servers, self.qtbot = ScriptedServers(problem), qtbot
        self.server = SERVER
        self.tools = Tools(lambda: (self.server,), self.servers)
        self.problems: list[str] = []
        self.tools.failed.connect(self.problems.append)
        super().__init__(store, ChatSettings(tool_servers=("home",)), self.tools)

    def close(self) -> None:
        self.answers.keep_all()
        super().close()

    def ask(self, text: str) -> None:
        """Send, and wait for the engine to be asked."""
        self.chat.send(text)
        self.until_asked(1)

    def until_asked(self, count: int) -> None:
        self.qtbot.waitUntil(lambda: len(self.asked) == count)

    def call(self, *calls: ToolCall, text: str = "", reason: FinishReason = "end") -> None:
        """The engine asks for calls."""
        stats = GenerationStats(generated_tokens=1)
        pieces = (TextPiece(text),) if text else ()
        self.say(*pieces, GenerationFinished(reason, stats, text, "", calls))

    @property
    def states(self) -> list[str]:
        uses = self.chat.running.uses if self.chat.running else self.stored.uses
        return [use.state for use in uses]

    @property
    def stored(self) -> Any:
        return self.store.messages.all_of(1)[-1]

    def give(self, text: str) -> None:
        """The tool returns."""
        count = len(self.asked)
        self.servers.futures[-1].set_result(ToolResult(text))
        self.until_asked(count + 1)


@pytest.fixture
def calling(tmp_path: Path, qtbot: Any) -> Iterator[CallingChat]:
    chat = CallingChat(open_store(tmp_path / "chats.sqlite"), qtbot)
    yield chat
    chat.close()


def test_a_call_that_is_allowed_is_made_and_the_answer_goes_on(
    calling: CallingChat, qtbot: Any
) -> None:
    calling.ask("One and one?")
    assert calling.asked[-1].tools == (ADD.tool,)
    calling.call(CALL, text="I add.")
    assert calling.states == ["asked"] and calling.servers.calls == []
    assert calling.stored.uses[0].state == "new"  # a call that waits is stored at once
    calling.chat.decide_call("once")
    assert calling.servers.calls == [("add", '{"a": 1}')]
    calling.give("2")
    question = Message("user", "One and one?")
    called = Message("assistant", "I add.", calls=(CALL,))
    assert calling.asked[-1].messages == (question, called, Message("tool", "2", call_id="c1"))
    calling.answer(qtbot, "It is 2.")
    assert calling.stored.text == "I add.\n\nIt is 2."
    assert calling.states == ["done"]
    calling.chat.send("Sure?")
    calling.until_asked(3)
    assert calling.asked[-1].messages[1:4] == (
        called,
        Message("tool", "2", call_id="c1"),
        Message("assistant", "It is 2."),
    )
    calling.call(CALL)
    assert calling.states == ["asked"]  # once was once


def test_allowed_in_this_chat_is_not_asked_again_and_no_preset_has_it(
    calling: CallingChat, qtbot: Any
) -> None:
    calling.ask("One and one?")
    calling.call(CALL)
    calling.chat.decide_call("chat")
    calling.give("2")
    calling.call(CALL)
    assert calling.states == ["done", "running"]
    calling.give("3")
    calling.answer(qtbot, "Done.")
    assert calling.chat.settings.allowed_tools == (f"home/add {SERVER.fingerprint}",)
    assert as_preset(calling.chat.settings).allowed_tools == ()
    calling.server = replace(SERVER, arguments=("--other",))
    calling.tools.refresh()
    calling.chat.send("And now?")
    calling.until_asked(4)
    calling.call(CALL)
    assert calling.states == ["asked"], "of another program under the same name"


def test_a_call_that_is_not_allowed_is_told_to_the_model(calling: CallingChat, qtbot: Any) -> None:
    calling.ask("One and one?")
    calling.call(CALL, replace(CALL, id="c2"), ToolCall("sub", "{}", "c3"))
    calling.chat.decide_call("deny")
    calling.chat.decide_call("deny")
    calling.until_asked(2)
    assert calling.servers.calls == []
    assert [message.text for message in calling.asked[-1].messages[2:]] == [
        "The user did not allow this call.",
        "The user did not allow this call.",
        "There is no tool “sub”.",
    ]
    calling.answer(qtbot, "Then not.")
    assert calling.states == ["denied", "denied", "failed"]


@pytest.mark.parametrize("is_running", [False, True])
def test_stop_ends_an_answer_that_waits_and_it_can_go_on(
    calling: CallingChat, qtbot: Any, is_running: bool
) -> None:
    calling.ask("One and one?")
    calling.call(CALL)
    if is_running:
        calling.chat.decide_call("once")
    calling.chat.stop()
    assert calling.chat.running is None
    assert not is_running or calling.servers.futures[-1].cancelled()
    assert (calling.stored.state, calling.stored.finish_reason) == ("stopped", "stopped")
    assert calling.store.messages.conversation([1, 2])[-1].text == "The call gave no result."
    calling.chat.continue_answer()
    qtbot.waitUntil(lambda: calling.states == ["asked"])
    calling.chat.decide_call("once")
    calling.give("2")
    calling.answer(qtbot, "2.")
    assert (calling.stored.text, calling.states) == ("2.", ["done"])


def test_an_answer_stopped_with_a_call_does_not_make_it(calling: CallingChat, qtbot: Any) -> None:
    calling.ask("One and one?")
    calling.call(CALL, text="I add.", reason="stopped")
    qtbot.waitUntil(lambda: calling.chat.running is None)
    assert (calling.states, calling.servers.calls) == (["new"], [])


def test_too_many_calls_stop_the_answer(calling: CallingChat) -> None:
    calling.ask("Count.")
    for number in range(MOST_CALLS):
        calling.call(ToolCall("nothing", "{}", str(number)))
    calling.call(CALL)
    assert calling.chat.running is None
    assert "more than 20 tool calls" in calling.stored.problem
    calling.chat.continue_answer()
    calling.qtbot.waitUntil(lambda: calling.states[-1] == "asked")


def test_a_dead_server_is_told_and_the_question_is_asked_without_it(
    tmp_path: Path, qtbot: Any
) -> None:
    calling = CallingChat(open_store(tmp_path / "chats.sqlite"), qtbot, "It is dead.")
    calling.ask("One and one?")
    assert (calling.problems, calling.asked[-1].tools) == (["It is dead."], ())
    calling.close()


def test_what_a_crash_leaves_opens(calling: CallingChat, tmp_path: Path) -> None:
    calling.ask("One and one?")
    calling.call(CALL, text="I add.")
    copy = open_store(tmp_path / "chats.sqlite")
    (_, answer) = copy.messages.all_of(1)
    assert (answer.state, answer.text, answer.uses[0].state) == ("stopped", "I add.\n\n", "new")
    copy.close()


def test_branches_and_files_keep_calls(calling: CallingChat, tmp_path: Path, qtbot: Any) -> None:
    calling.ask("One and one?")
    calling.call(CALL, text="I add.")
    calling.chat.decide_call("chat")
    calling.give("2")
    calling.answer(qtbot, "It is 2.")
    uses = calling.stored.uses
    calling.chat.edit(2, "It is two.")
    assert calling.store.messages.conversation([1, 3])[1:] == (
        Message("assistant", "", calls=(CALL,)),
        Message("tool", "2", call_id="c1"),
        Message("assistant", "It is two."),
    )
    calling.chat.show_branch(3, -1)
    export_chat(calling.store, 1, tmp_path / "chat.json")
    chat = read_chat(tmp_path / "chat.json", ChatSettings())
    assert (chat.messages[1].uses, chat.settings.tool_servers) == (uses, ())
    assert chat.settings.allowed_tools == ()
    added = insert_chat(calling.store, chat)
    assert calling.store.open_chat(added).turns[1].message.uses == uses
    export_chat(calling.store, 1, tmp_path / "chat.md")
    text = (tmp_path / "chat.md").read_text()
    assert 'I add.\n\n**Tool add**\n\n```json\n{"a": 1}\n```\n\n```\n2\n```\n\nIt is 2.' in text
