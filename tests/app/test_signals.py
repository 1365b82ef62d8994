"""Every signal that we declare has a receiver in the assembled app: no button that nobody hears."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal
from scripted_engine import Answer
from signal_receivers import declared_signals, living_objects, unheard
from windows import Driven, running, scripted

from app.run import hear_outside
from app.start.outside import SingleInstance
from app.window.models.downloads import DownloadRow
from mlx_engine.hub.client import Hub

ROOT = Path(__file__).parents[2]
WITH_ALL = Answer("Look:\n\n```python\nprint(1)\n```\n", thinking="Hm.")


def bring_out_everything(driven: Driven, place: Path) -> None:
    """Widgets that are made for something: an attachment, a folder, a download, code, thinking."""
    (place / "note.txt").write_text("words")
    driven.ask("Show me some code.")
    driven.app.attached.read([place / "note.txt"])
    driven.until(lambda: bool(driven.widgets.composer.attachments()))
    driven.app.downloads.resume("org/small")
    driven.until(lambda: bool(driven.widgets.library.findChildren(DownloadRow)))
    driven.app.known.add_folder(place)
    driven.widgets.window.show_page("settings")
    for pane in ("appearance", "models", "drafting", "server", "advanced"):
        driven.widgets.settings.show_pane(pane)
    driven.widgets.transcript.edit_last_prompt()


def test_every_signal_has_a_receiver(qapp, qtbot, tmp_path):
    nowhere = Hub(tmp_path / "hub", "http://127.0.0.1:9", token=False)
    with running(qapp, qtbot, tmp_path, scripted(WITH_ALL), nowhere) as driven:
        instance = SingleInstance(tmp_path)
        hear_outside(driven.app, qapp, instance)
        bring_out_everything(driven, tmp_path)
        assert unheard(declared_signals(ROOT), living_objects()) == []


class Sender(QObject):
    """One signal has a receiver in the test, one has none."""

    heard = Signal(int)
    in_vain = Signal()


def test_a_signal_without_a_receiver_is_seen():
    deaf, sender = Sender(), Sender()
    sender.heard.connect(lambda _: None)
    declared: dict[type, tuple[str, ...]] = {Sender: ("heard", "in_vain")}
    assert unheard(declared, [deaf, sender]) == [f"{__name__}.Sender.in_vain"]
    assert unheard(declared, [deaf]) == [f"{__name__}.Sender.heard", f"{__name__}.Sender.in_vain"]
