"""Chats, clocks and other processes for the tests of the store."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from ctypes import CDLL, c_uint32, get_errno
from pathlib import Path
from typing import NamedTuple

from app.store.messages import Messages
from app.store.schema import MIGRATIONS
from app.store.session_store import SessionStore
from app.store.transfer import insert_chat, read_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import AnswerSoFar, DraftedSpan, EndedAnswer, MessageState
from mlx_engine.values.conversation import FinishReason, GenerationFinished
from mlx_engine.values.stats import GenerationStats

ROOT = Path(__file__).parents[2]
CAPABILITIES_VERSION = 0x20080522
CAP_DAC_OVERRIDE = 1 << 1


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def finished(text: str, reason: FinishReason = "end", thinking: str = "") -> GenerationFinished:
    """The last event of an answer."""
    stats = GenerationStats(generated_tokens=len(text), drafted_by_depth=(3, 2), seed=7)
    return GenerationFinished(reason, stats, text, thinking)


def finish_answer(
    messages: Messages,
    message_id: int,
    said: GenerationFinished,
    spans: Sequence[DraftedSpan] = (),
    thinking_seconds: float | None = None,
) -> None:
    """End a stored answer as its model ended it."""
    so_far = AnswerSoFar(said.text, said.thinking, spans, thinking_seconds)
    state: MessageState = "stopped" if said.reason == "stopped" else "done"
    messages.end_answer(message_id, EndedAnswer(so_far, state, said.reason, said.stats))


def interrupt_answer(
    messages: Messages,
    message_id: int,
    so_far: AnswerSoFar,
    problem: str = "",
    reason: FinishReason | None = None,
) -> None:
    """End a stored answer with a problem."""
    messages.end_answer(message_id, EndedAnswer(so_far, "stopped", reason, None, problem))


def talk(store: SessionStore, *texts: str, title: str = "") -> int:
    """A chat in which user and model take turns; its id."""
    chat = store.chats.create(ChatSettings(), title)
    parent = None
    for number, text in enumerate(texts):
        if number % 2 == 0:
            parent = store.messages.add(chat, parent, "user", text).id
        else:
            parent = store.messages.begin_answer(chat, parent, "Tiny")
            finish_answer(store.messages, parent, finished(text))
    return chat


class Imported(NamedTuple):
    """The new chat, and what of its file could not be taken over."""

    chat_id: int
    notes: tuple[str, ...]


def import_chat(store: SessionStore, path: Path, defaults: ChatSettings) -> Imported:
    """Read a chat and add it."""
    chat = read_chat(path, defaults)
    return Imported(insert_chat(store, chat), chat.notes)


def texts(store: SessionStore, chat: int) -> list[str]:
    """What the selected branch says."""
    return [turn.message.text for turn in store.messages.path(chat)]


def file_of_version(path: Path, version: int) -> None:
    """As a Headstart that knew `version` steps left it, with one chat of two messages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.create_function("index_text", 1, bytes.decode)
        for step in MIGRATIONS[:version]:
            step(connection)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(
            "INSERT INTO chat (title, created_at, updated_at, leaf, settings)"
            " VALUES ('old zebra', 1, 2, 2, '{}')"
        )
        for parent, role, text in ((None, "user", "hello lion"), (1, "assistant", "world")):
            connection.execute(
                "INSERT INTO message (chat, parent, role, state, model, created_at, text, thinking,"
                " spans) VALUES (1, ?, ?, 'done', '', 1, ?, '', '[]')",
                (parent, role, text),
            )


@contextmanager
def python(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that can import the project, with pipes for its lines; killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """`folder` may only be read, also by root; everything else is as it was."""
    files = list(folder.iterdir())
    for path in files:
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        with _bound_by_modes() if os.geteuid() == 0 else nullcontext():
            yield
    finally:
        folder.chmod(0o755)
        for path in files:
            path.chmod(0o644)


@contextmanager
def _bound_by_modes() -> Iterator[None]:
    """Linux's root, on this thread, writes only where modes allow it; it stays the owner of what
    it owns, so all that it loads meanwhile is there.
    """
    libc = CDLL(None, use_errno=True)
    of_this_thread = (c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    rights = (c_uint32 * 6)()  # those in effect, permitted, inherited; then the high halves

    def set_rights() -> None:
        if libc.capset(of_this_thread, rights) != 0:
            raise OSError(get_errno(), "capset")

    if libc.capget(of_this_thread, rights) != 0:
        raise OSError(get_errno(), "capget")
    before = rights[0]
    rights[0] = before & ~CAP_DAC_OVERRIDE
    set_rights()
    try:
        yield
    finally:
        rights[0] = before
        set_rights()
