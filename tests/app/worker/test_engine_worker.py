"""The thread as Qt sees it: values in, values out, and nobody waits for anybody."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QThread, Slot
from scripted_engine import Answer
from scripted_models import ScriptedModels, WorkerEngine
from served import ask, is_end

from app.worker.engine_worker import EngineWorker
from app.worker.replies import AnswerEvents, LoadFailed, ModelLoaded, Reply
from app.worker.requests import LoadModel, StopAnswer
from mlx_engine.values.conversation import GenerationFinished, RoundFinished

LONG = " ".join(["word"] * 2000)
MEMORY = 64 * 10**9
PATIENCE_S = 60.0


class Window(QObject):
    """Receives as the window would: in a slot, on its own thread."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[Reply] = []
        self.threads: set[QThread] = set()

    @Slot(object)
    def receive(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.threads.add(QThread.currentThread())

    def has(self, kind: type[Reply]) -> bool:
        return any(isinstance(reply, kind) for reply in self.replies)

    def batches(self) -> list[AnswerEvents]:
        return [reply for reply in self.replies if isinstance(reply, AnswerEvents)]


@pytest.fixture
def window(qapp):
    return Window()


@pytest.fixture
def source():
    return ScriptedModels({"m": WorkerEngine([Answer(LONG, pause_s=0.002)])})


@pytest.fixture
def worker(source, window):
    made = EngineWorker(MEMORY, source)
    made.replied.connect(window.receive)
    made.start()
    yield made
    assert made.shutdown(PATIENCE_S)


def test_replies_arrive_on_the_window_s_thread(worker, window, qtbot):
    worker.request(LoadModel("m"))
    qtbot.waitUntil(lambda: window.has(ModelLoaded))
    assert window.threads == {QThread.currentThread()}


def test_rounds_that_follow_quickly_come_in_few_batches(worker, source, window, qtbot):
    source.engines["m"].answers[:] = [Answer(LONG)]
    worker.request(LoadModel("m"))
    worker.request(ask("Why?"))
    qtbot.waitUntil(lambda: any(map(is_end, window.replies)))
    batches = window.batches()
    events = [event for batch in batches for event in batch.events]
    rounds = sum(isinstance(event, RoundFinished) for event in events)
    assert rounds > 600
    assert len(batches) < rounds / 5


def test_asking_never_waits_for_the_engine(worker, window, qtbot):
    worker.request(LoadModel("m"))
    worker.request(ask("Why?"))
    qtbot.waitUntil(lambda: bool(window.batches()))
    gate = threading.Event()
    held = worker.engine_thread.call(lambda _: gate.wait(PATIENCE_S))
    for _ in range(1000):
        worker.request(StopAnswer("another chat"))
    gate.set()
    assert held.result(PATIENCE_S), "its thread was held for as long as was asked"
    worker.request(StopAnswer("chat"))
    qtbot.waitUntil(lambda: any(map(is_end, window.replies)))
    last = window.batches()[-1].events[-1]
    assert isinstance(last, GenerationFinished)
    assert last.reason == "stopped"


def test_the_thread_outlives_failures(worker, window, qtbot):
    worker.request(LoadModel("nowhere"))
    worker.request(LoadModel("m"))
    qtbot.waitUntil(lambda: window.has(ModelLoaded))
    assert window.has(LoadFailed)
    assert worker.isRunning()


def test_everything_happens_on_one_thread(window, qtbot):
    seen: set[int] = set()

    class Watched(ScriptedModels):
        def load(self, *args: object) -> WorkerEngine:
            seen.add(threading.get_ident())
            return WorkerEngine()

    worker = EngineWorker(MEMORY, Watched({"m": WorkerEngine()}))
    worker.replied.connect(window.receive)
    worker.start()
    for _ in range(3):
        worker.request(LoadModel("m"))
    qtbot.waitUntil(lambda: sum(isinstance(r, ModelLoaded) for r in window.replies) == 3)
    assert worker.shutdown(PATIENCE_S)
    assert len(seen) == 1
    assert threading.get_ident() not in seen


SHOWN = """
import sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.app import App
from app.start.folders import Folders
from app.worker.engine_worker import EngineWorker

EngineWorker.start = lambda worker: print("engine") or application.quit()
application, place = QApplication(["-", "-platform", "offscreen"]), Path(sys.argv[1])
app = App(application, Folders(place, place, place, place, place))
app.widgets.window.painted.connect(lambda: print("painted"))
app.start()
application.exec()
print(sorted({"mlx", "numpy", "mlx_lm"} & {name.split(".")[0] for name in sys.modules}))
app.close()
"""


def test_the_window_is_painted_before_mlx_is_imported(tmp_path):
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", SHOWN, tmp_path]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["painted", "engine", "[]"]
