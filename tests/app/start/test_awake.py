"""The machine is kept awake while an answer is written, and not a moment longer."""

import os
import sys
from pathlib import Path

from scripted_engine import Answer
from windows import running, scripted

from app.control.rest import CAFFEINATE, Awake, this_systems_command

LASTS = (sys.executable, "-c", "import time; time.sleep(60)")


def test_one_process_at_a_time():
    awake, seen = Awake(LASTS), set[int]()
    for is_needed in (False, True, True, False, True, False):
        awake.hold(is_needed)
        process = awake._process
        assert (process is not None) == is_needed
        if process is not None:
            assert process.poll() is None
            seen.add(process.pid)
    assert len(seen) == 2


def test_a_machine_without_the_program():
    for command in ((), ("/nowhere/caffeinate",)):
        awake = Awake(command)
        awake.hold(True)
        awake.hold(False)


def test_the_program_ends_with_this_process_whatever_happens():
    command = this_systems_command()
    assert bool(command) == Path(CAFFEINATE).exists()
    assert not command or command[1:] == ("-i", "-w", str(os.getpid()))


def test_while_an_answer_or_a_comparison_runs(qapp, qtbot, tmp_path):
    slow = Answer("word " * 50, pause_s=0.01)
    with running(qapp, qtbot, tmp_path, scripted(slow, slow, slow)) as driven:
        awake = driven.app.rest.awake = Awake(LASTS)
        driven.send("Why?")
        assert awake._process
        driven.until_answered()
        assert not awake._process
        driven.app.compare.run("Why?")
        assert awake._process
        driven.until(lambda: not driven.app.compare.is_running)
        assert not awake._process
        driven.send("And now?")
        assert awake._process
        driven.app.close()
        assert not awake._process
