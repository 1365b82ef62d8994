"""Whose turn it is: chats, guests, answers that run alone, and models taken into use."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
from scripted_models import WorkerEngine

from mlx_engine.service.engine_thread import EngineThread, NoModel, QueuedAnswer
from mlx_engine.values.conversation import Event, RoundFinished
from mlx_engine.values.errors import EngineMisuse
from mlx_engine.values.options import UNQUANTISED, CacheOptions
from mlx_engine.values.stats import RoundStats

ROUND = RoundFinished(RoundStats(0, 0, 0, 0, 1, 0.0, 1.0, 0.0))
TIMEOUT_S = 60


class Turns:
    """Answers of some rounds, and which of them ran in which order."""

    def __init__(self, parallel: int = 2) -> None:
        self.thread = EngineThread(WorkerEngine, parallel)
        self.log: list[str] = []
        self.asked: list[QueuedAnswer] = []

    def ask(
        self,
        name: str,
        rounds: int = 2,
        chat: str | None = None,
        alone: bool = False,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        """after: called in each round."""

        def events(engine: object) -> Iterator[Event]:
            for _ in range(rounds):
                self.log.append(name)
                after()
                yield ROUND

        self.asked.append(self.thread.answer(events, lambda _: None, chat, runs_alone=alone))

    def run(self) -> str:
        """Until all answers have ended or failed."""
        self.thread.start()
        for answer in self.asked:
            answer.done.exception(TIMEOUT_S)
        self.thread.close()
        return "".join(self.log)


def test_chats_and_guests_run_by_turns():
    turns = Turns()
    turns.ask("a", chat="1")
    turns.ask("b", chat="2")
    turns.ask("c")
    assert turns.run() == "abcabc"


def test_answers_of_one_chat_come_one_after_the_other():
    turns = Turns()
    turns.ask("a", chat="1")
    turns.ask("b", chat="1")
    turns.ask("c", chat="2")
    assert turns.run() == "acacbb"


def test_guests_over_the_limit_wait_and_hold_up_no_chat():
    turns = Turns(parallel=1)
    turns.ask("a")
    turns.ask("b")
    turns.ask("c", chat="1")
    assert turns.run() == "acacbb"


def test_an_answer_alone_comes_after_all_earlier_and_before_all_later_ones():
    turns = Turns()
    turns.ask("a", chat="1")
    turns.ask("x", chat="2", alone=True)
    turns.ask("b", chat="3")
    turns.ask("c")
    assert turns.run() == "aaxxbcbc"


@pytest.mark.parametrize("begun", [0, 1])
def test_a_model_waits_for_chats_ends_guests_and_serves_those_that_wait(begun):
    """Whether or not the first guest has begun when the model is wanted."""
    turns, old = Turns(parallel=1), WorkerEngine()
    turns.thread._open = lambda: old

    def use_engine() -> None:
        turns.log.append("!")
        turns.thread.use_engine(WorkerEngine())

    def want() -> None:
        if turns.log.count("b") == begun and len(turns.asked) == 3:
            turns.asked.append(turns.thread.queue_engine_change(use_engine))

    turns.ask("a", rounds=5, chat="1", after=lambda: turns.thread.run_soon(want))
    turns.ask("b", rounds=100)
    turns.ask("c")
    log = turns.run()
    assert old.closed
    if begun:
        assert log.replace("b", "") == "aaaaa!cc" and log.endswith("!cc")
        with pytest.raises(EngineMisuse, match="changed or unloaded"):
            turns.asked[1].done.result()
    else:
        assert log == "aaaaa!" + 100 * "b" + "cc"


def test_a_load_hears_at_once_that_a_question_behind_it_is_withdrawn():
    turns = Turns()
    heard = list[bool]()

    def load() -> None:
        turns.asked[0].stop()
        turns.thread.run_soon(lambda: heard.append(True))
        turns.thread.run_posted_functions()
        heard.append(turns.asked[0].done.done())

    turns.thread.run_soon(lambda: turns.asked.append(turns.thread.queue_engine_change(load)))
    turns.thread.run_soon(lambda: turns.ask("a", chat="1"))
    turns.thread.run_soon(turns.asked.reverse)
    turns.thread.start()
    turns.thread.call(lambda _: None).result(TIMEOUT_S)
    turns.asked[-1].done.result(TIMEOUT_S)
    turns.thread.close()
    assert heard == [True, True] and not turns.log and not turns.asked[0].has_begun


def test_without_a_model_everything_that_needs_one_fails_and_the_thread_goes_on():
    turns = Turns()
    turns.thread._open = None
    turns.ask("a")
    called = turns.thread.call(lambda engine: engine.tokenize("a b"))
    turns.thread.start()
    for failed in (called, turns.asked[0].done):
        with pytest.raises(NoModel, match="open one"):
            failed.result(TIMEOUT_S)
    turns.thread.run_soon(lambda: turns.thread.use_engine(WorkerEngine()))
    assert turns.thread.call(lambda engine: engine.tokenize("a b")).result(TIMEOUT_S) == [1, 1]
    turns.thread.close()


def test_an_error_of_a_posted_function_is_reported_and_survived():
    reported = list[BaseException]()
    thread = EngineThread(WorkerEngine, report_error=reported.append)
    thread.start()
    thread.run_soon(lambda: 1 // 0)
    thread.call(lambda _: None).result(TIMEOUT_S)
    thread.close()
    assert isinstance(reported[0], ZeroDivisionError)


def test_work_while_idle_gives_way_and_goes_on():
    turns, worked, done = Turns(), list[str](), Future[None]()

    def work() -> bool:
        worked.append("".join(turns.log))
        if len(worked) == 3:
            done.set_result(None)
        return len(worked) == 3

    turns.ask("a", chat="1")
    turns.thread.run_soon(lambda: turns.thread.when_idle(work))
    turns.thread.start()
    done.result(TIMEOUT_S)
    turns.thread.close()
    assert worked == ["aa"] * 3


class Cold(WorkerEngine):
    """Has three kernels to compile, one in each call."""

    left = 3

    def warm_up(self, stop: Callable[[], bool], cache: CacheOptions = UNQUANTISED) -> bool:
        assert not stop()
        self.left -= 1
        return self.left == 0


def test_an_engine_is_warmed_up_while_nothing_is_answered():
    warmed = Future[None]()

    def after_turns() -> None:
        if thread.engine is not None and thread.engine.left == 0 and not warmed.done():
            warmed.set_result(None)

    thread = EngineThread(Cold, after_each_step=after_turns)
    thread.start()
    warmed.result(TIMEOUT_S)
    thread.call(lambda engine: None).result(TIMEOUT_S)
    assert thread.engine.left == 0
    thread.close()


def test_an_engine_gives_way_to_others_but_not_to_the_answer_that_ends():
    """Its upkeep runs at the end of each answer, which still counts as running then."""
    turns, seen = Turns(), list[bool]()
    turns.ask("a", rounds=1, chat="1", after=lambda: seen.append(turns.thread.has_other_work()))
    turns.run()
    turns = Turns()
    turns.ask("a", rounds=1, chat="1", after=lambda: seen.append(turns.thread.has_other_work()))
    turns.ask("b", chat="2")
    turns.run()
    assert seen == [False, True]
