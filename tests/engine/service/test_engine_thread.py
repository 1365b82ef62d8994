"""The engine's thread: functions between rounds, answers by turns, stops, errors and limits."""

import threading
from concurrent.futures import Future, wait

import pytest

import mlx_engine
from mlx_engine.service.engine_thread import EngineThread, TooManyAnswers
from mlx_engine.values.conversation import GenerationFinished, RoundFinished, TextPiece
from mlx_engine.values.errors import BadPrompt, EngineMisuse, ModelNotFound
from mlx_engine.values.options import GenerationOptions, SamplingOptions

GREEDY = SamplingOptions(temperature=0)


@pytest.fixture(scope="module")
def thread():
    made = EngineThread(mlx_engine.load, most_at_once=2, most_waiting=1)
    made.start()
    made.opened.result(60)
    yield made
    made.close()


def continuation(prompt, tokens=12, **options):
    limits = GenerationOptions(tokens, ignore_eos=True)
    return lambda engine: engine.stream(prompt, GREEDY, generation=limits, **options)


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, TextPiece))


def test_answers_at_once_are_those_of_one_after_the_other(thread):
    prompts = ["def join(a, b):", "class Path:"]
    alone = [
        thread.call(lambda e, p=p: e.generate(p, 12, GREEDY, ignore_eos=True).text) for p in prompts
    ]
    heard = [[], []]
    asked = [
        thread.answer(continuation(prompt), events.append)
        for prompt, events in zip(prompts, heard, strict=True)
    ]
    wait([answer.done for answer in asked], 60)
    assert [text_of(events) for events in heard] == [text.result() for text in alone]
    assert all(isinstance(events[-1], GenerationFinished) for events in heard)


def test_functions_run_between_the_rounds_of_an_answer(thread):
    rounds, at = [], Future()

    def hear(event):
        if isinstance(event, RoundFinished):
            rounds.append(event)
            if len(rounds) == 3:
                thread.call(lambda engine: at.set_result(len(rounds)))

    asked = thread.answer(continuation("import os", 40), hear)
    asked.done.result(60)
    assert at.result(1) == 3


def test_a_stopped_answer_ends_and_says_nothing_more(thread):
    begun, heard = threading.Event(), []

    def hear(event):
        heard.append(event)
        begun.set()

    asked = thread.answer(continuation("import os", 4000), hear)
    assert begun.wait(60)
    asked.stop()
    assert asked.done.result(60) is None
    assert not isinstance(heard[-1], GenerationFinished)
    assert thread.call(lambda engine: thread.running_answers).result(60) == 0


def test_an_error_ends_its_own_answer_alone(thread):
    heard = []
    good = thread.answer(continuation("import os"), heard.append)
    bad = thread.answer(continuation(""), heard.append)
    with pytest.raises(BadPrompt):
        bad.done.result(60)
    good.done.result(60)
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda engine: 1 / 0).result(60)
    assert thread.call(lambda engine: engine.detokenize(engine.tokenize("a"))).result(60) == "a"


def test_more_answers_than_may_wait_are_refused(thread):
    asked = [thread.answer(continuation("import os", 400), lambda event: None) for _ in range(3)]
    with pytest.raises(TooManyAnswers, match="3 answers"):
        thread.answer(continuation("import os"), lambda event: None)
    assert (thread.running_answers, thread.waiting_answers) == (2, 1)
    for answer in asked:
        answer.stop()
    wait([answer.done for answer in asked], 60)
    thread.answer(continuation("import os", 2), lambda event: None).done.result(60)


def test_closing_stops_answers_and_refuses_more():
    thread = EngineThread(mlx_engine.load)
    thread.start()
    thread.opened.result(60)
    begun = threading.Event()
    asked = thread.answer(continuation("import os", 4000), lambda event: begun.set())
    assert begun.wait(60)
    thread.close()
    assert asked.done.done()
    with pytest.raises(EngineMisuse):
        thread.call(lambda engine: None)


def test_a_model_that_cannot_be_opened_is_said(tmp_path):
    thread = EngineThread(lambda: mlx_engine.load(tmp_path / "nothing"))
    thread.start()
    with pytest.raises(ModelNotFound):
        thread.opened.result(60)
    thread.close()
