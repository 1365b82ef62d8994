"""The machine is kept awake while an answer is written, and not a moment longer."""

import ctypes
from pathlib import Path
from typing import Any

import pytest
from scripted_engine import Answer
from windows import running, scripted

from app.start.awake import Awake, IOKit


class Recorder:
    """Gives numbers away and remembers them."""

    def __init__(self, gives: bool = True) -> None:
        self.gives, self.said, self.held = gives, list[str](), set[int]()

    def hold(self, why: str) -> int | None:
        self.said.append(why)
        if not self.gives:
            return None
        self.held.add(len(self.said))
        return len(self.said)

    def release(self, number: int) -> None:
        self.held.remove(number)


def test_one_assertion_at_a_time():
    power = Recorder()
    awake = Awake(power)
    for is_needed, held in ((False, 0), (True, 1), (True, 1), (False, 0), (True, 1)):
        awake.hold(is_needed, "work")
        assert len(power.held) == held
    assert power.said == ["work"] * 2
    refused = Awake(Recorder(gives=False))
    refused.hold(True, "work")
    refused.hold(False, "work")


def test_while_an_answer_or_a_comparison_runs(qapp, qtbot, tmp_path):
    slow = Answer("word " * 50, pause_s=0.01)
    with running(qapp, qtbot, tmp_path, scripted(slow, slow, slow)) as driven:
        power = Recorder()
        driven.app.awake = Awake(power)
        driven.send("Why?")
        assert power.held
        driven.until_answered()
        assert not power.held
        driven.app.compare.run("Why?")
        assert power.held
        driven.until(lambda: not driven.app.compare.is_running)
        assert not power.held
        driven.send("And now?")
        assert power.held
        driven.app.close()
        assert not power.held


class Function:
    """In place of one of a library."""

    def __init__(self, does: Any) -> None:
        self._does = does

    def __call__(self, *args: Any) -> Any:
        return self._does(*args)


class Libraries:
    """CoreFoundation and IOKit as far as they are called here."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.texts: dict[int, bytes] = {}
        self.held: dict[int, tuple[bytes, int, bytes]] = {}
        self.CFStringCreateWithCString = Function(self.make_text)
        self.CFRelease = Function(self.texts.pop)
        self.IOPMAssertionCreateWithName = Function(self.create)
        self.IOPMAssertionRelease = Function(self.held.pop)

    def make_text(self, allocator: None, text: bytes, encoding: int) -> int:
        assert (allocator, encoding) == (None, 0x08000100)
        number = 1 + len(self.texts)
        self.texts[number] = text
        return number

    def create(self, kind: int, level: int, name: int, made: Any) -> int:
        made._obj.value = 77
        if not self.status:
            self.held[77] = (self.texts[kind], level, self.texts[name])
        return self.status


def test_what_the_system_is_asked_for():
    opened: list[str] = []
    libraries = Libraries()
    power = IOKit(lambda path: (opened.append(path), libraries)[1])
    assert [Path(path).name for path in opened] == ["CoreFoundation", "IOKit"]
    number = power.hold("Writing an answer")
    assert number == 77
    assert libraries.held == {77: (b"PreventUserIdleSystemSleep", 255, b"Writing an answer")}
    assert libraries.texts == {}, "nothing is left behind"
    power.release(number)
    assert libraries.held == {}
    assert IOKit(lambda _: Libraries(status=-1)).hold("Writing") is None


def test_a_machine_without_the_libraries():
    with pytest.raises(OSError):
        IOKit(lambda path: ctypes.CDLL(f"/nowhere{path}"))
