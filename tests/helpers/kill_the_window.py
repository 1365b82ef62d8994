"""The window is killed while an answer streams in it; what it had shown for 2 s must be stored."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from kill_while_writing import Kill

from app.store.session_store import open_store

DRIVER = Path(__file__).with_name("window_that_streams.py")
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Shown:
    """All of an answer's text that was on show at a time (seconds since 1970)."""

    at: float
    text: str


def kill_window_once(folder: Path, log: Path, after_s: float) -> Kill:
    """kill -9 a new window in `folder` so long after its first words; open what it left."""
    with subprocess.Popen([sys.executable, str(DRIVER), str(folder), str(log)]) as child:
        try:
            _wait_for_words(child, log)
            time.sleep(after_s)
        finally:
            child.kill()
            killed_at = time.time()
    shown = _read(log)
    store = open_store(folder / "chats.db")
    message = store.messages.path(store.chats.listed()[0].id)[-1].message
    sound = message.interrupted and store.notices == ()
    sound = sound and store.database.rows("PRAGMA integrity_check")[0][0] == "ok"
    store.close()
    found = message.text
    longest = max(shown[-1].text, found, key=len)
    sound = sound and longest.startswith(found) and longest.startswith(shown[-1].text)
    lost = [one.at for one in shown if len(one.text) > len(found)]
    return Kill(
        shown=len(shown[-1].text),
        old_enough=max((len(one.text) for one in shown if one.at <= killed_at - 2), default=0),
        found=len(found),
        lost_s=killed_at - lost[0] if lost else 0.0,
        sound=sound,
    )


def _wait_for_words(child: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not log.exists() or not log.stat().st_size:
        if child.poll() is not None or time.monotonic() > give_up:
            raise RuntimeError(f"the window showed no answer (exit status {child.poll()})")
        time.sleep(0.01)


def _read(log: Path) -> list[Shown]:
    """Every whole line, its text with all that was shown before."""
    found, text = [], ""
    for line in log.read_bytes().split(b"\n")[:-1]:
        at, more = json.loads(line)
        text += more
        found.append(Shown(at, text))
    return found
