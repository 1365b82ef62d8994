"""The window's process is killed in the middle of an answer: what was shown for 2 s is there."""

from pathlib import Path

import pytest
from kill_the_window import kill_window_once

from app.store.session_store import open_store


@pytest.mark.usefixtures("needs_window")
def test_at_most_two_seconds_of_an_answer_are_lost(tmp_path: Path) -> None:
    kill = kill_window_once(tmp_path, tmp_path / "shown.log", after_s=2.6)
    assert kill.old_enough > 0
    assert kill.promise_kept, kill
    store = open_store(tmp_path / "chats.db")
    (summary,) = store.chats.listed()
    question, answer = (turn.message for turn in store.open_chat(summary.id).turns)
    store.close()
    assert question.text == "Tell me everything."
    assert answer.interrupted
