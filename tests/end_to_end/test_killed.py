"""The window's process is killed in the middle of an answer: what was shown for 2 s is there."""

import subprocess
import sys
import time
from pathlib import Path

from app.store.session_store import open_store

ROOT = Path(__file__).parents[2]
CHILD = """
import sys, time
from dataclasses import replace
from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.build_app import App
from app.folders import Folders
from mlx_engine.values.options import GenerationOptions, SamplingOptions
place = Path(sys.argv[1])
qt = QApplication(["killed", "-platform", "offscreen"])
app = App(qt, Folders(place, place, place / "cache", place / "logs", place / "hub"))
app.start()
chats = app.parts.chats
while app.parts.models.description is None:
    qt.processEvents()
chats.change_settings(replace(chats.chat.settings, sampling=SamplingOptions(seed=1),
                      generation=GenerationOptions(ignore_eos=True)))
chats.send("Tell me everything.")
while True:
    qt.processEvents()
    time.sleep(0.005)
    if chats.running is not None and chats.running.answer.text:
        print(time.time(), len(chats.running.answer.text), flush=True)
"""


def test_at_most_two_seconds_of_an_answer_are_lost(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    seen: list[tuple[float, int]] = []
    while not seen or seen[-1][0] - seen[0][0] < 3.5:
        moment, characters = child.stdout.readline().split()
        seen.append((float(moment), int(characters)))
    child.kill()
    killed = time.time()
    whole_lines = child.stdout.read().splitlines()[:-1]
    seen += [(float(moment), int(count)) for moment, count in map(str.split, whole_lines)]
    child.wait()
    child.stdout.close()
    store = open_store(tmp_path / "chats.db")
    (summary,) = store.chats.listed()
    question, answer = (turn.message for turn in store.open_chat(summary.id).turns)
    store.close()
    assert store.notices == ()
    assert question.text == "Tell me everything."
    assert answer.interrupted
    shown_long_enough = [count for moment, count in seen if moment < killed - 2]
    assert shown_long_enough[-1] > 0
    assert len(answer.text) >= shown_long_enough[-1]
