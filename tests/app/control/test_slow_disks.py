"""A disk that takes its time holds up neither the window nor the end of the program."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPlainTextEdit, QToolButton
from seen import find, words_on
from windows import Driven

from app.library.dropped import Dropped
from app.library.machine import Machine
from app.library.model_card import read_card
from app.start.threads import LatestTask
from app.state import attached_files
from app.state import settings as settings_file
from app.state.settings import KeptSettings, read_settings
from app.values.app_settings import AppSettings, ModelSettings
from app.values.attached_text import AttachedPdf, AttachedText, Refused
from app.values.errors import SettingsNotSaved
from app.values.models import ModelCard
from mlx_engine.values.words import Words


@pytest.fixture
def gate():
    """A disk answers once it is set."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def driven(alone):
    """A test may change how cards are read."""
    return alone


@pytest.fixture
def cards(driven, gate):
    def slowly(path: str | Path | None, machine: Machine, own: ModelSettings) -> ModelCard | str:
        gate.wait()
        return read_card(None, machine, own)

    driven.app.offered._read_card = slowly
    return driven.app.offered


def said(driven: Driven) -> list[str]:
    return words_on(driven.widgets.card)


def test_a_card_says_that_it_is_looking_and_then_what_it_saw(driven, cards, gate):
    cards.offer("/volumes/far/Qwen-27B")  # comes back, though the disk does not answer yet
    driven.until(driven.widgets.layer.isVisible)
    assert "Checking files" in said(driven)
    assert "Qwen-27B" in said(driven)
    gate.set()
    driven.until(lambda: "With drafting (1 drafting head)" in said(driven))
    assert "Checking files" not in said(driven)


def test_a_card_that_was_closed_meanwhile_stays_closed(driven, cards, gate, qtbot):
    cards.offer("/volumes/far/Qwen-27B")
    driven.until(driven.widgets.layer.isVisible)
    qtbot.keyClick(driven.widgets.card, Qt.Key.Key_Escape)
    assert not driven.widgets.layer.isVisible()
    gate.set()
    qtbot.wait(50)
    assert not driven.widgets.layer.isVisible()


def test_what_hovers_is_looked_at_beside_the_window(driven, gate, monkeypatch):
    def slowly(texts: Sequence[str], in_use: Path | None) -> tuple[Dropped, ...]:
        gate.wait()
        return (Refused("It is nothing."),)

    monkeypatch.setattr("app.control.drops.all_of", slowly)
    overlay = driven.widgets.overlay
    driven.app.drops.hover(["/volumes/far/x"])
    driven.until(overlay.isVisible)
    assert overlay.accessibleDescription().startswith("Checking the file")
    gate.set()
    driven.until(lambda: "It is nothing." in overlay.accessibleDescription())


def test_a_file_that_is_being_read_belongs_to_its_chat_and_holds_its_question(
    driven, gate, qtbot, monkeypatch
):
    def slowly(
        path: Path, _: object, is_wanted: Callable[[], bool], sees: bool
    ) -> AttachedPdf | Refused:
        gate.wait()
        assert is_wanted()
        if path.suffix == ".pdf":
            return AttachedPdf(path, AttachedText(path.name, "text"))
        return Refused(Words("{name} is empty.", name=path.name))

    monkeypatch.setattr(attached_files, "read_attachment", slowly)
    widget, app = driven.widgets.composer, driven.app
    driven.ask("First")
    first = app.chat.chat_id
    assert first is not None
    app.chats.begin()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(f"/far/{name}") for name in ("report.pdf", "none.txt")])
    QApplication.clipboard().setMimeData(data)
    box = widget.focusProxy()
    assert isinstance(box, QPlainTextEdit)
    qtbot.keyClick(box, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    driven.send("What is it about?")
    assert app.chat.running is None and widget.text() == "What is it about?"

    def told() -> list[str]:
        return [label.text() for label in widget.findChildren(QLabel) if label.isVisible()]

    assert "Reading report.pdf, none.txt…" in told()
    app.chat.open(first)
    assert "Reading report.pdf, none.txt…" not in told()
    gate.set()
    driven.until(lambda: "none.txt is empty." in told())
    assert widget.attachments() == ()
    app.chats.begin()
    assert widget.attachments() == (AttachedText("report.pdf", "text"),)
    assert [pdf.path for pdf in widget.message().pdfs] == [Path("/far/report.pdf")]
    qtbot.keyClick(box, Qt.Key.Key_Return)
    driven.until_answered()
    assert "report.pdf" in app.chat.turns[0].message.text


def test_reading_an_attachment_is_given_up_by_hand(driven, gate, monkeypatch):
    wanted: list[bool] = []

    def slowly(
        path: Path, _: object, is_wanted: Callable[[], bool], sees: bool
    ) -> AttachedText | Refused:
        gate.wait()
        wanted.append(is_wanted())
        return AttachedText(path.name, "text")

    monkeypatch.setattr(attached_files, "read_attachment", slowly)
    widget = driven.widgets.composer
    driven.app.attached.read([Path("/far/report.pdf")])
    stop = find(widget, QToolButton, "Stop reading")
    assert stop.isVisible()
    stop.click()
    assert not stop.isVisible() and QApplication.focusWidget() is widget.focusProxy()
    assert driven.ask("Hello") and widget.attachments() == ()
    gate.set()
    driven.until(lambda: wanted == [False])
    QTest.qWait(50)
    assert widget.attachments() == ()


def test_a_disk_that_hangs_does_not_hold_up_the_end(driven, cards):
    cards.offer("/volumes/far/Qwen-27B")
    driven.until(driven.widgets.layer.isVisible)
    started = time.perf_counter()
    driven.widgets.window.close()
    assert time.perf_counter() - started < 10


def test_only_the_newest_look_counts_and_mistakes_come_back(qapp, qtbot):
    beside, seen = LatestTask(), list[int]()
    for number in range(5):
        beside.run(lambda number=number: number, seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [4]
    for number in range(3):
        beside.run_each(lambda number=number: number, seen.append)
    qtbot.waitUntil(lambda: len(seen) == 4)
    with qtbot.captureExceptions() as raised:
        beside.run(lambda: 1 // 0, seen.append)
        qtbot.waitUntil(lambda: bool(raised))
    assert raised[0][0] is ZeroDivisionError


def test_looks_at_a_disk_that_hangs_are_bounded(qapp, qtbot, gate):
    """The newest of those that wait, and each that always counts, is done once there is room."""
    beside, begun, seen = LatestTask(qapp), list[int](), list[int]()

    def look(number: int) -> int:
        begun.append(number)
        gate.wait(60)
        return number

    for number in range(50):
        beside.run(partial(look, number), seen.append)
    beside.run_each(partial(look, 99), seen.append)
    qtbot.wait(100)
    assert begun == [0, 1, 2, 3]
    gate.set()
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert sorted(seen) == [49, 99] and sorted(begun[4:]) == [49, 99]


def test_changed_settings_are_on_the_disk_at_the_end_and_nobody_waits_for_it_before(
    qtbot, tmp_path, gate, monkeypatch
):
    path, save, saved = tmp_path / "settings.json", settings_file.save_settings, []

    def slowly(path: Path, settings: AppSettings) -> None:
        gate.wait(60)
        save(path, settings)
        saved.append(settings)

    monkeypatch.setattr(settings_file, "save_settings", slowly)
    kept = KeptSettings(path)
    for zoom in (0.8, 0.9, 1.1):
        kept.change(AppSettings(text_zoom=zoom))
    assert saved == []
    gate.set()
    kept.close()
    assert read_settings(path).value.text_zoom == 1.1
    assert len(saved) <= 2, "what is older is not saved after it"


def test_each_failure_to_save_the_settings_is_told_once_until_they_are_saved(
    qtbot, tmp_path, monkeypatch
):
    kept, told, trouble = KeptSettings(tmp_path / "settings.json"), [], ["full"]
    kept.failed.connect(told.append)

    def save(path: Path, settings: AppSettings) -> None:
        if trouble[0]:
            raise SettingsNotSaved(trouble[0])

    monkeypatch.setattr(settings_file, "save_settings", save)
    zooms = count(11)
    for words, expected in (
        ("full", ["full"]),
        ("full", ["full"]),
        ("gone", ["full", "gone"]),
        ("", ["full", "gone"]),
        ("full", ["full", "gone", "full"]),
    ):
        trouble[0] = words
        kept.change(AppSettings(text_zoom=next(zooms) / 10))
        kept.close()
        assert told == expected
