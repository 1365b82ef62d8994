"""The chat on show: what is asked of the engine, stored and shown when its user does something."""

from dataclasses import replace

import pytest
from chat_states import BUILT_IN, StatedChat

from app.state.chat import UNSEEN
from app.state.drafting import DraftingFigures
from app.store.messages import BLOCK
from app.store.rows import message_from_row
from app.store.session_store import SessionStore, open_store
from app.store.transfer import NewChat, insert_chat
from app.values.chat_settings import ChatSettings
from app.values.chats import StoredMessage
from app.window.drafting_view import strip_figures
from app.worker.replies import AnswerFailed, ModelLoaded, OldestDropped, Problem
from mlx_engine.values.conversation import GenerationFinished, Message, Role, TextPiece
from mlx_engine.values.errors import Reason
from mlx_engine.values.picture import Picture
from mlx_engine.values.stats import GenerationStats, SourceStats, joined_stats

MANY = 20 * BLOCK


def long_chat(store: SessionStore, roles: tuple[Role, Role] = ("user", "assistant")) -> int:
    messages = [
        StoredMessage(n, 0, n - 1 if n else None, roles[n % 2], f"text {n}") for n in range(MANY)
    ]
    return insert_chat(store, NewChat("Long", ChatSettings(), messages, MANY - 1))


def test_of_a_long_chat_only_the_blocks_that_are_looked_at_are_read(qapp, tmp_path, monkeypatch):
    store, read = open_store(tmp_path / "chats.sqlite"), []

    def counted(row):
        read.append(row["id"])
        return message_from_row(row)

    monkeypatch.setattr("app.store.messages.message_from_row", counted)
    one = StatedChat(store)
    chat = one.chat
    chat.open(long_chat(store))
    assert len(chat.turns) == MANY and len(read) == 1
    assert chat.can_drop and chat.first_read == 0
    assert chat.last_question.text == f"text {MANY - 2}"
    assert chat._question_before(chat.turns.ids[-1]) == chat.last_question
    assert len(read) == 1 + BLOCK
    middle = chat.turns.ids[MANY // 2 + 1]
    assert chat.message(middle).text == f"text {MANY // 2 + 1}"
    assert [turn.message.id for turn in chat.turns[:3]] == list(chat.turns.ids[:3])
    assert len(read) == 1 + 3 * BLOCK
    past = store.messages.conversation(chat.turns.ids[: MANY // 2 + 2])
    assert past[0] == Message("user", "text 0") and len(past) == MANY // 2 + 2
    assert len(read) == 1 + 3 * BLOCK
    one.close()


def test_a_chat_with_pictures_does_not_go_on_with_a_model_that_sees_none(qapp, qtbot, tmp_path):
    one = StatedChat(open_store(tmp_path / "chats.sqlite"))
    chat, mended = one.chat, []
    chat.mended.connect(mended.append)
    sees, blind = replace(BUILT_IN, vision=None), replace(BUILT_IN, vision=Reason("x", "Blind."))
    one.models.take(ModelLoaded("/m/Sees", sees))
    for text, pictures in (("one", ()), ("two", (Picture.from_bytes(b"", 1, 1),)), ("three", ())):
        assert chat.send(text, pictures)
        one.answer(qtbot, "Fine")
    one.models.take(ModelLoaded("/m/Blind", blind))
    before, asked = chat.turns.ids, len(one.asked)
    assert chat.why_unseen(2) is None and "Blind. Load a model" in chat.why_unseen(3)
    assert not chat.send("four")
    for message_id in (before[4], before[2]):
        chat.regenerate(message_id)
        chat.edit(message_id, "else")
    chat.continue_answer()
    assert [words.template for words in one.told] == [UNSEEN.template] * 6
    assert chat.turns.ids == before and len(one.asked) == asked
    one.models.take(ModelLoaded("/m/Sees", sees))
    assert mended == one.told and chat.why_unseen(6) is None
    one.models.take(ModelLoaded("/m/Blind", blind))
    chat.edit(before[2], "two", ())  # without its picture
    one.answer(qtbot, "Fine")
    chat.regenerate(before[0])  # before the pictures
    assert len(one.asked) == asked + 2
    one.answer(qtbot, "Fine")
    assert chat.send("five")
    one.answer(qtbot, "Fine")
    one.close()


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_long_chat_of_one_role_is_not_read_whole_for_the_other(qapp, tmp_path, monkeypatch, role):
    store, read = open_store(tmp_path / "chats.sqlite"), []
    monkeypatch.setattr(
        "app.store.messages.message_from_row", lambda row: read.append(1) or message_from_row(row)
    )
    one = StatedChat(store)
    chat = one.chat
    chat.open(long_chat(store, (role, role)))
    assert (chat.last_answer is None, chat.last_question is None) == (
        role == "user",
        role != "user",
    )
    assert chat.can_drop == (role == "user")
    assert len(read) <= 1 + 2 * BLOCK
    one.close()


def test_a_message_of_a_long_chat_that_cannot_be_read_says_so(qapp, tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    chat = one.chat
    chat.open(long_chat(store))
    store.database.rows("PRAGMA foreign_keys = OFF")
    store.database.write("DELETE FROM message WHERE id = ?", chat.turns.ids[5])
    gone = chat.turns[5].message
    assert gone.interrupted and str(gone.id) in gone.problem
    assert chat.turns[6].message.text == "text 6"
    one.close()


def test_the_model_that_really_answers_is_stored(qapp, qtbot, tmp_path):
    """A question may be asked while another model is being loaded, which then answers it."""
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    one.models.load("/models/Larger")
    one.chat.send("Who are you?")
    one.models.take(ModelLoaded("/models/Larger", replace(BUILT_IN, name="Larger")))
    one.say(TextPiece("I am"), model="Larger")
    one.answer(qtbot, "I am the larger one.", model="Larger")
    assert one.chat.last_answer.model == "Larger" == store.messages.get(2).model
    assert [figures.model for figures in store.messages.figures(one.chat.chat_id)] == ["Larger"]
    one.close()


def test_an_answer_that_fails_names_the_model_that_was_asked(qapp, tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    one.chat.send("Go")
    ask, problem = one.asked[-1], Problem("known", "PromptTooLong", "It is too long.")
    one.answers.take(AnswerFailed(ask.chat_id, ask.message_id, problem, "Pocket"))
    assert one.chat.last_answer.model == "Pocket" == store.messages.get(2).model
    one.close()


def test_another_branch_is_shown_while_an_answer_runs(qapp, qtbot, tmp_path):
    """As after a search whose words are in another version of the chat."""
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    one.chat.send("One?")
    one.answer(qtbot, "First.")
    first = one.chat.turns.ids[1]
    one.chat.regenerate()
    one.say(TextPiece("Sec"))
    one.chat.open(one.chat.chat_id, first)
    assert one.texts == ["One?", "First."] and one.chat.running is not None
    one.chat.show_branch(first, 1)
    assert "Stop the answer that is being written" in one.told[-1]
    one.say(TextPiece("ond"))
    one.answer(qtbot, "Second.")
    assert one.texts == ["One?", "First."]
    one.chat.show_branch(first, 1)
    assert one.texts == ["One?", "Second."]
    one.close()


def test_the_turns_on_show_are_those_of_the_store(qapp, qtbot, tmp_path):
    """Whatever was done: nothing is read again, and nothing differs from what would be."""
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    chat = one.chat

    def check() -> None:
        stored = store.messages.path(chat.chat_id)
        assert (list(chat.turns), chat.turns.ids) == (list(stored), stored.ids)

    steps = (
        lambda: chat.send("One"),
        lambda: chat.send("Two"),
        chat.regenerate,
        lambda: chat.regenerate(chat.turns.ids[0]),
        lambda: chat.edit(chat.turns.ids[0], "Other"),
        lambda: chat.send("Three"),
        lambda: chat.edit(chat.turns.ids[2], "Four"),
    )
    for step in steps:
        step()
        check()
        one.answer(qtbot, "An answer.")
        check()
    chat.edit(chat.turns.ids[1], "Mine.")
    check()
    chat.show_branch(chat.turns.ids[0], -1)
    check()
    assert one.told == []
    one.close()


@pytest.mark.parametrize("text", ["", "Half an"])
@pytest.mark.parametrize("is_on_show", [True, False])
def test_a_full_context_goes_on_in_place_once_the_engine_has_made_room(
    qapp, qtbot, tmp_path, text, is_on_show
):
    """One press: no version of the answer is left, and later questions leave the same unread."""
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    chat = one.chat
    for question in ("One", "Two", "Three"):
        chat.send(question)
        one.answer(qtbot, "An answer.")
    chat.send("Four")
    asked = one.asked[-1]
    if text:
        one.say(TextPiece(text))
    too_long = Problem("known", "PromptTooLong", "It is too long.")
    one.answers.take(AnswerFailed(asked.chat_id, asked.message_id, too_long, "Pocket"))
    chat.drop_oldest(chat.turns.ids[-1])
    again = one.asked[-1]
    assert (again.message_id, again.drops_oldest) == (asked.message_id, True)
    assert again.messages == (*asked.messages, Message("assistant", text))
    shown = chat.chat_id
    if not is_on_show:
        chat.begin(ChatSettings())
    chat.keep_dropped(OldestDropped(again.chat_id, again.message_id, 4))
    one.answer(qtbot, f"{text} answer")
    chat.open(shown)
    assert chat.first_read == 4 and chat.settings.read_from == chat.turns.ids[4]
    assert chat.turns[-1].siblings == (int(asked.message_id),)
    assert chat.turns[-1].message.text == f"{text} answer"
    assert chat.turns[-1].message.problem == ""
    chat.send("Five")
    assert [message.text for message in one.asked[-1].messages][:2] == ["Three", "An answer."]
    assert not one.asked[-1].drops_oldest
    one.answer(qtbot, "Fits.")
    chat.drop_oldest(chat.turns.ids[-1])
    chat.keep_dropped(OldestDropped(again.chat_id, str(chat.turns.ids[-1]), 2))
    assert chat.first_read == 6, "counted from what was read"
    one.close()


def test_tokens_of_the_context_are_of_the_last_answer_and_the_model_in_use(qapp, qtbot, tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    chat = one.chat
    figures = DraftingFigures(chat, one.answers, one.models, store.messages)
    assert figures.context_used is None
    chat.send("One")
    stats = GenerationStats(prompt_tokens=30, generated_tokens=5)
    one.say(TextPiece("Yes."), GenerationFinished("end", stats, "Yes.", ""))
    qtbot.waitUntil(lambda: not one.answers.chat_ids)
    assert figures.context_used == 35
    chat.send("Two")
    assert figures.context_used == 35, "until more is read"
    asked = one.asked[-1]
    problem = Problem("known", "OutOfMemory", "Memory ran out.")
    one.answers.take(AnswerFailed(asked.chat_id, asked.message_id, problem, "Pocket"))
    assert figures.context_used is None, "nobody has counted that answer"
    chat.show_branch(chat.turns.ids[-1], 1)
    chat.regenerate()
    one.say(
        TextPiece("No."), GenerationFinished("end", replace(stats, prompt_tokens=50), "No.", "")
    )
    qtbot.waitUntil(lambda: not one.answers.chat_ids)
    assert figures.context_used == 55
    one.models.take(ModelLoaded("/models/Larger", replace(BUILT_IN, name="Larger")))
    assert figures.context_used is None, "another model has other tokens"
    one.close()


def test_the_speed_on_show_is_of_the_model_in_use(qapp, qtbot, tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    figures = DraftingFigures(one.chat, one.answers, one.models, store.messages)
    speeds = []

    def look() -> None:
        speeds.append(strip_figures(figures).tokens_per_second)

    for name, speed in (("Pocket", 40.0), ("Larger", 8.0)):
        one.models.take(ModelLoaded(f"/models/{name}", replace(BUILT_IN, name=name)))
        look()
        one.chat.send("Hello")
        look()
        stats = GenerationStats(generated_tokens=5, tokens_per_second=speed)
        one.say(TextPiece("Yes."), GenerationFinished("end", stats, "Yes.", ""), model=name)
        qtbot.waitUntil(lambda: not one.answers.chat_ids)
        look()
    assert speeds == [None, None, 40.0, None, None, 8.0]
    one.close()


def test_an_answer_that_goes_on_has_the_figures_of_all_of_it(qapp, qtbot, tmp_path):
    store = open_store(tmp_path / "chats.sqlite")
    one = StatedChat(store)
    one.chat.send("Go")
    first = GenerationStats(
        prompt_tokens=20, generated_tokens=30, drafted=10, accepted=6, drafted_by_depth=(10,),
        accepted_by_depth=(6,), passes=24, tokens_per_second=10.0, time_to_first_token_s=0.5,
        peak_memory_bytes=70, by_source=(SourceStats("mtp", 10, 6),),
    )  # fmt: skip
    rest = GenerationStats(
        prompt_tokens=51, generated_tokens=30, drafted=20, accepted=10, drafted_by_depth=(12, 8),
        accepted_by_depth=(7, 3), passes=20, tokens_per_second=30.0, time_to_first_token_s=0.1,
        peak_memory_bytes=60, by_source=(SourceStats("prompt-lookup", 20, 10),),
    )  # fmt: skip
    one.say(TextPiece("Once"), GenerationFinished("stopped", first, "Once", ""))
    qtbot.waitUntil(lambda: not one.answers.chat_ids)
    one.chat.continue_answer()
    one.say(TextPiece(" upon"), GenerationFinished("end", rest, "Once upon", ""))
    qtbot.waitUntil(lambda: not one.answers.chat_ids)
    stats = store.messages.get(one.chat.turns.ids[-1]).stats
    assert stats == one.chat.last_stats == GenerationStats(
        prompt_tokens=20, generated_tokens=60, drafted=30, accepted=16, drafted_by_depth=(22, 8),
        accepted_by_depth=(13, 3), passes=44, tokens_per_pass=60 / 44, tokens_per_second=15.0,
        time_to_first_token_s=0.5, peak_memory_bytes=70,
        by_source=(SourceStats("mtp", 10, 6), SourceStats("prompt-lookup", 20, 10)),
    )  # fmt: skip
    shorter = joined_stats(replace(first, reused_tokens=19), replace(rest, prompt_tokens=35))
    assert (shorter.prompt_tokens, shorter.reused_tokens) == (5, 5), "turns were left out"
    one.close()
