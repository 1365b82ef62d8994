"""Batches come at most 30 times a second, lose nothing, and never make the first word wait."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.worker.answering import Batcher
from app.worker.replies import INTERVAL_S
from mlx_engine.values.conversation import (
    Event,
    GenerationFinished,
    PromptProgress,
    RoundFinished,
    TextPiece,
    ToolCall,
)
from mlx_engine.values.stats import GenerationStats, RoundStats

ROUND = RoundStats(0, 1, 1, 1, 2, 1.0, 9.0, 0.5)
END = GenerationFinished("end", GenerationStats(), "text")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def a_round(number: int) -> RoundFinished:
    return RoundFinished(replace(ROUND, position=number))


def test_the_first_progress_and_the_first_word_do_not_wait():
    batcher = Batcher(Clock())
    assert batcher.add(PromptProgress(1, 9)) == (PromptProgress(1, 9),)
    assert batcher.add(PromptProgress(5, 9)) == ()
    assert batcher.add(PromptProgress(9, 9)) == (PromptProgress(9, 9),)
    assert batcher.add(TextPiece("So")) == ()
    assert batcher.add(a_round(1)) == (TextPiece("So"), a_round(1))


def test_later_rounds_wait_for_the_interval_and_come_together():
    clock = Clock()
    batcher = Batcher(clock)
    batcher.add(a_round(0))
    for number in (1, 2, 3):
        clock.now += INTERVAL_S / 4
        batcher.add(TextPiece(f" {number}"))
        assert batcher.add(a_round(number)) == ()
    clock.now += INTERVAL_S / 4
    batcher.add(TextPiece("!"))
    rounds = [a_round(number) for number in (1, 2, 3, 4)]
    assert batcher.add(a_round(4)) == (TextPiece(" 1 2 3!"), *rounds)


def test_text_of_other_depths_or_channels_stays_apart():
    batcher = Batcher(Clock())
    pieces = [
        TextPiece("a", "thinking"),
        TextPiece("b", "answer"),
        TextPiece("c", "answer", 1),
        TextPiece("d", "answer", 1),
        TextPiece("e", "answer", 2),
    ]
    for piece in pieces:
        batcher.add(piece)
    assert batcher.add(END) == (*pieces[:2], TextPiece("cd", "answer", 1), pieces[4], END)


def test_a_tool_call_keeps_its_place_between_texts():
    batcher, call = Batcher(Clock()), ToolCall("look_up", '{"word": "MTP"}')
    events = [TextPiece("I look it up."), call, TextPiece("\n"), END]
    assert [event for each in events for event in batcher.add(each)] == events


def test_only_the_newest_progress_is_told():
    clock = Clock()
    batcher = Batcher(clock)
    for done in range(5):
        batcher.add(PromptProgress(done, 9))
    clock.now += INTERVAL_S
    assert batcher.add(PromptProgress(6, 9)) == (PromptProgress(6, 9),)


def test_the_end_does_not_wait():
    batcher = Batcher(Clock())
    batcher.add(a_round(0))
    batcher.add(TextPiece("x"))
    batcher.add(a_round(1))
    batcher.add(TextPiece("y"))
    assert batcher.add(END) == (TextPiece("xy"), a_round(1), END)
    assert batcher.rest() == ()


PIECES = st.builds(
    TextPiece,
    st.text("ab ", min_size=1, max_size=3),
    st.sampled_from(["answer", "thinking"]),
    st.integers(0, 2),
)
ROUNDS = st.lists(st.tuples(st.lists(PIECES, max_size=4), st.floats(0, 0.2)), max_size=40)


@given(ROUNDS)
def test_nothing_is_lost_and_batches_are_rare(rounds):
    clock = Clock()
    batcher = Batcher(clock)
    batches: list[tuple[Event, ...]] = []
    times: list[float] = []

    def add(event: Event) -> None:
        if batch := batcher.add(event):
            batches.append(batch)
            times.append(clock.now)

    for number, (pieces, seconds) in enumerate(rounds):
        clock.now += seconds
        for piece in pieces:
            add(piece)
        add(a_round(number))
    add(END)

    events = [event for batch in batches for event in batch]
    sent = [piece for pieces, _ in rounds for piece in pieces]
    assert letters(e for e in events if isinstance(e, TextPiece)) == letters(sent)
    assert [e for e in events if isinstance(e, RoundFinished)] == [
        a_round(number) for number in range(len(rounds))
    ]
    assert events[-1] == END
    gaps = [b - a for a, b in pairwise(times[:-1])]
    assert all(gap >= INTERVAL_S - 1e-9 for gap in gaps)
    for batch in batches:
        texts = [event for event in batch if isinstance(event, TextPiece)]
        assert all(
            len(list(same)) == 1 for _, same in groupby(texts, lambda p: (p.channel, p.depth))
        )


def letters(pieces: Iterable[TextPiece]) -> list[tuple[str, str, int]]:
    return [(letter, p.channel, p.depth) for p in pieces for letter in p.text]
