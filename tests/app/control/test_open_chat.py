"""The open chat goes on without its oldest turns by what the model had to read of them."""

import pytest

from app.control.open_chat import OpenChat
from app.store.session_store import open_store
from app.values.chat_settings import ChatSettings
from mlx_engine.values.conversation import GenerationFinished
from mlx_engine.values.stats import GenerationStats

TURNS = ((3000, 100), (3300, 50), (3400, 60), (3500, 40))
"""Tokens of the prompt and the answer of each turn: the first has nearly all of them."""


@pytest.mark.parametrize(("has_figures", "left"), [(True, 1), (False, 2)])
def test_the_older_half_of_the_tokens_goes(tmp_path, has_figures, left):
    """Where no answer tells, the characters do."""
    store = open_store(tmp_path / "chats.sqlite")
    chat = OpenChat(store, ChatSettings())
    for number, (prompt, answer) in enumerate(TURNS):
        asked = chat.add_question("数" * 100)
        its = store.messages.begin_answer(asked.chat_id, asked.id, "Tiny")
        stats = GenerationStats(prompt_tokens=prompt, generated_tokens=answer)
        said = GenerationFinished("end", stats if has_figures else GenerationStats(), "a" * 100, "")
        store.messages.finish_answer(its, said)
        chat.reload()
        assert chat.can_drop == (number > 0)
    chat.drop_oldest()
    assert chat.first_read == 2 * left
    chat.drop_oldest()
    assert chat.first_read > 2 * left
    store.close()
