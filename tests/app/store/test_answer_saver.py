"""An answer is saved soon, but not with every word, and a pause leaves nothing unsaved."""

from chat_stores import Clock, talk

from app.store.messages import AnswerSaver
from app.store.session_store import SessionStore
from app.values.chats import AnswerSoFar, DraftedSpan


def test_saved_soon_but_not_at_every_word(store: SessionStore) -> None:
    chat = talk(store, "hello")
    answer = store.messages.begin_answer(chat, None, "Tiny")
    clock = Clock(100.0)
    saver = AnswerSaver(store.messages, answer, every_s=0.5, clock=clock)
    shown, saves, text = {}, 0, ""
    for _ in range(400):
        clock.now += 0.01
        text += "word "
        before = store.messages.get(answer).text
        saver.show(AnswerSoFar(text, "thought", [DraftedSpan(0, 4, 1)]))
        shown[clock.now] = len(text)
        saved = len(store.messages.get(answer).text)
        saves += saved != len(before)
        old_enough = max((size for at, size in shown.items() if at <= clock.now - 0.51), default=0)
        assert saved >= old_enough
    assert 7 <= saves <= 8
    assert store.messages.get(answer).spans == (DraftedSpan(0, 4, 1),)


def test_a_pause_is_no_loss(store: SessionStore) -> None:
    answer = store.messages.begin_answer(talk(store, "hello"), None, "Tiny")
    clock = Clock(100.0)
    saver = AnswerSaver(store.messages, answer, every_s=0.5, clock=clock)
    clock.now += 0.1
    saver.show(AnswerSoFar("just before the pause"))
    assert store.messages.get(answer).text == ""
    clock.now += 0.5
    saver.tick()
    assert store.messages.get(answer).text == "just before the pause"
