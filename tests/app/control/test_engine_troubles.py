"""What goes wrong with models and the engine is said, logged, and not in the way of the end."""

from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel
from scripted_engine import Answer
from scripted_models import ScriptedCosts, WorkerEngine, described
from seen import press, words_on
from windows import PATIENCE_MS, Driven, running, scripted

from app.window.controls.labels import ShortLabel
from app.window.layers import CrashBox
from app.window.main_window import MainWindow
from app.window.transcript.prose_segment import ProseSegment
from app.worker.model_in_use import Stop
from mlx_engine.values.errors import OutOfMemory

POCKET = Path(__file__).parents[3] / "assets" / "pocket_model"


@pytest.fixture
def source():
    made = scripted()
    made.engines[str(POCKET)] = WorkerEngine(description=described("Large", 10**9))
    return made


class Full(WorkerEngine):
    """Has no memory left for wide passes."""

    def measure_costs(self, stop: Stop) -> ScriptedCosts | None:
        raise RuntimeError("[metal::malloc] Attempting to allocate 99 bytes. Insufficient Memory")


def card_says(driven: Driven) -> str:
    return " ".join(words_on(driven.widgets.card))


def offer(driven: Driven, path: Path) -> None:
    driven.app.offered.offer(str(path))
    driven.until(driven.widgets.layer.isVisible)


def test_closing_in_the_middle_of_a_load_ends_it(alone, source):
    source.pause_s, source.slices = 0.02, 10_000
    offer(alone, POCKET)
    alone.app.offered.load()
    head = alone.widgets.head
    alone.until(
        lambda: any(
            "of 1.00 GB" in label.accessibleName() for label in head.findChildren(ShortLabel)
        )
    )
    alone.widgets.window.close()
    assert alone.app.worker.wait(PATIENCE_MS)
    assert str(POCKET) not in source.loaded


def test_a_model_whose_file_is_deleted_under_its_card(driven, source):
    offer(driven, POCKET)
    del source.engines[str(POCKET)]
    driven.app.offered.load()
    driven.until(lambda: "no such file or folder" in card_says(driven))
    assert driven.app.models.model_name == "Pocket model"
    driven.app.offered.close()
    assert driven.ask("Still there?") == "You said: Still there?"


def test_the_card_of_one_model_is_left_alone_by_the_load_of_another(driven, source, tmp_path):
    other = tmp_path / "other.gguf"
    source.engines[str(other)] = WorkerEngine(description=described("Other", 10**9))
    offer(driven, POCKET)
    driven.app.models.load(str(other))
    driven.until(lambda: driven.app.models.model_name == "Other")
    assert driven.widgets.layer.isVisible()
    assert "pocket_model" in card_says(driven)


def test_a_bug_in_an_answer_has_details_to_copy_and_is_in_the_log(driven, source, home, qtbot):
    source.engines["None"].answers.append(Answer("Half", error=KeyError("lost")))
    driven.send("Why?")
    driven.until(lambda: "Headstart made a mistake." in driven.widgets.notice.words())
    press(driven.widgets.notice, "Details")
    box = driven.widgets.window.findChild(CrashBox)
    assert box.isVisible()
    box.copy_button.click()
    assert "scripted_engine.py" in QGuiApplication.clipboard().text()
    box.accept()
    assert "KeyError: 'lost'" in (home / "logs" / "headstart.log").read_text()
    assert driven.ask("And now?") == "You said: And now?"


def test_full_memory_in_an_answer_is_told_and_the_chat_goes_on(driven, source):
    words = "Memory ran out while answering; the conversation is kept. Begin a new chat."
    source.engines["None"].answers.append(Answer("Half of it", error=OutOfMemory(words)))
    driven.send("Why?")
    driven.until(lambda: driven.app.chat.last_answer is not None)
    driven.until_answered()
    answer = driven.app.chat.last_answer
    assert answer is not None
    assert (answer.text, answer.problem, answer.interrupted) == ("Half of it", words, True)
    notices = driven.widgets.transcript.findChildren(ProseSegment)
    assert words in [n.toPlainText() for n in notices if n.accessibleName() == "Why it ended"]
    assert driven.widgets.window.findChild(CrashBox) is None
    driven.app.chat.continue_answer()
    driven.until_answered()
    driven.until(lambda: driven.app.chat.last_answer.problem == "")


def test_full_memory_outside_of_answers_is_a_notice(driven, source):
    full = Full(description=described("Large", 10**9))
    source.engines[str(POCKET)] = full
    driven.app.models.load(str(POCKET))
    driven.until(lambda: "Memory ran out" in driven.widgets.notice.words())
    assert driven.widgets.window.findChild(CrashBox) is None
    driven.app.models.load(None)
    driven.until(lambda: driven.widgets.notice.words() == "")
    assert driven.ask("Still there?") == "You said: Still there?"


def test_a_bug_outside_of_answers_opens_the_crash_box(driven, source):
    source.engines[str(POCKET)] = WorkerEngine(
        description=described("Large", 10**9), passes_left=1, pass_s=-1.0
    )
    driven.app.models.load(str(POCKET))
    driven.until(lambda: driven.widgets.window.findChild(CrashBox) is not None)
    (box,) = driven.widgets.window.findChildren(CrashBox)
    assert box.isVisible() and not box.isModal()
    for _ in range(20):
        driven.app.crash_log.report("Another", "details")
    assert driven.widgets.window.findChildren(CrashBox) == [box]
    assert "20 more since then" in " ".join(words_on(box))
    assert driven.ask("Still there?") == "You said: Still there?"
    box.accept()
    assert driven.ask("Still there?") == "You said: Still there?"


def test_tokens_of_an_attachment_are_counted_while_an_answer_runs(driven, source, tmp_path):
    source.engines["None"].answers.append(Answer("word " * 3000, pause_s=0.005))
    driven.send("Go")
    driven.until(lambda: bool(driven.app.figures.history.tokens_per_pass_over_time))
    note = tmp_path / "note.py"
    note.write_text("print('hello')\n")
    driven.app.drops.take([str(note)])
    composer = driven.widgets.composer
    driven.until(
        lambda: any(
            label.text().endswith("B · 5 tokens") for label in composer.findChildren(QLabel)
        )
    )
    assert driven.app.chat.running is not None
    driven.app.chat.stop()
    driven.until_answered()


def test_a_window_that_nobody_sees_gets_a_model_too(qapp, qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("app.app.UNSEEN_MS", 1)
    monkeypatch.setattr(MainWindow, "show", lambda _: None)
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        assert not driven.widgets.window.isVisible()


def test_the_window_is_gone_before_the_engine_is(qapp, qtbot, tmp_path, monkeypatch):
    with running(qapp, qtbot, tmp_path, scripted()) as driven:
        window, seen = driven.widgets.window, list[bool]()
        shutdown = driven.app.worker.shutdown

        def end(timeout_s: float) -> bool:
            seen.append(window.isVisible())
            return shutdown(timeout_s)

        monkeypatch.setattr(driven.app.worker, "shutdown", end)
        window.close()
        assert seen == [False]
