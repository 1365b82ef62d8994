"""Whatever is dragged over the window and let go there, through Qt's own events."""

import json
from pathlib import Path
from threading import Event

import pytest
from model_files import gguf, model_folder, safetensors
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from scripted_models import WorkerEngine, described
from windows import Driven, scripted

from app.control import drops

BUTTON, KEYS = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
ACTION = Qt.DropAction.CopyAction


@pytest.fixture
def source(model):
    made = scripted()
    made.engines[str(model)] = WorkerEngine(description=described("Small-4bit", 10**9))
    return made


@pytest.fixture(autouse=True)
def _nothing_hovers_any_more(driven):
    """Qt keeps a pointer to what was hovered over last, also when that is gone."""
    yield
    QApplication.sendEvent(driven.widgets.window, QDragLeaveEvent())


def mime_of(*things: Path | str) -> QMimeData:
    """Files as the Finder drags them; a text as a browser does."""
    mime = QMimeData()
    if isinstance(things[0], str):
        mime.setText(things[0])
    else:
        mime.setUrls([QUrl.fromLocalFile(str(thing)) for thing in things])
    return mime


def drag(driven: Driven, mime: QMimeData) -> str:
    """Hover; what the overlay says."""
    overlay = driven.widgets.overlay
    QApplication.sendEvent(driven.widgets.window, QDragLeaveEvent())
    event = QDragEnterEvent(QPoint(300, 300), ACTION, mime, BUTTON, KEYS)
    QApplication.sendEvent(driven.widgets.window, event)
    driven.until(
        lambda: overlay.isVisible() and "Checking the file" not in overlay.accessibleDescription()
    )
    return overlay.accessibleDescription()


def drop(driven: Driven, mime: QMimeData) -> None:
    event = QDropEvent(QPointF(300, 300), ACTION, mime, BUTTON, KEYS)
    QApplication.sendEvent(driven.widgets.window, event)
    assert not driven.widgets.overlay.isVisible()


def test_what_leaves_again_does_nothing(driven, tmp_path):
    link = mime_of("https://huggingface.co/org/small")
    assert drag(driven, link).startswith("Download org/small Its size is shown before it starts")
    assert "Load Small-4bit" in drag(driven, mime_of(tmp_path / "Small-4bit"))
    QApplication.sendEvent(driven.widgets.window, QDragLeaveEvent())
    assert not driven.widgets.overlay.isVisible()
    assert not driven.widgets.layer.isVisible()


def test_a_model_folder_or_a_file_of_it(driven, tmp_path):
    for name in ("model.safetensors", "config.json", ""):
        mime = mime_of(tmp_path / "Small-4bit" / name)
        assert drag(driven, mime).startswith("Load Small-4bit Opened in place")
    drop(driven, mime)
    driven.until(driven.widgets.layer.isVisible)
    driven.app.offered.load()
    driven.until(lambda: driven.app.models.model_name == "Small-4bit")


def test_a_folder_that_says_only_its_form_is_called_as_its_card_is(driven, tmp_path):
    model_folder(tmp_path / "Qwen3.5-4B" / "mlx")
    said = drag(driven, mime_of(tmp_path / "Qwen3.5-4B" / "mlx"))
    assert said.startswith("Load Qwen3.5-4B Opened")


def test_a_refusal_goes_when_something_else_is_let_go(driven, tmp_path):
    (tmp_path / "notes.txt").write_text("words")
    none = mime_of(tmp_path / "none.txt", tmp_path / "nor this.txt")
    note = mime_of(tmp_path / "notes.txt")
    driven.widgets.window.show_page("library")
    drag(driven, none)
    drop(driven, none)
    driven.until(driven.widgets.notice.isVisible)
    said = driven.widgets.notice.words()
    assert said.startswith("This can't be used.") and said.count("there is no such file") == 2
    drag(driven, note)
    drop(driven, note)
    driven.until(lambda: bool(driven.widgets.composer.attachments()))
    assert driven.widgets.notice.words() == ""


def test_files_of_one_model_at_once_and_one_shard_for_all(driven, tmp_path):
    second = [gguf(tmp_path / f"m-0000{number}-of-00002.gguf") for number in (1, 2)][1]
    assert drag(driven, mime_of(second)).startswith("Load m-00001-of-00002.gguf")
    mime = mime_of(*sorted((tmp_path / "Small-4bit").iterdir()))
    assert drag(driven, mime).startswith("Load Small-4bit")
    drop(driven, mime)
    driven.until(driven.widgets.layer.isVisible)


def test_heads_for_the_model_in_use(driven, tmp_path):
    mime = mime_of(safetensors(tmp_path / "mtp.safetensors", ["mtp.fc.weight"]))
    assert drag(driven, mime).startswith("Use mtp.safetensors as drafting heads for Pocket model")
    drop(driven, mime)
    driven.until(driven.widgets.layer.isVisible)


def test_a_model_and_its_heads_at_once(driven, tmp_path):
    heads = safetensors(tmp_path / "mtp.safetensors", ["mtp.fc.weight"])
    mime = mime_of(heads, tmp_path / "Small-4bit")
    assert drag(driven, mime) == "Load Small-4bit with mtp.safetensors as drafting heads"
    drop(driven, mime)
    driven.until(driven.widgets.layer.isVisible)
    assert driven.app.offered.own.load.heads == heads


def test_a_folder_of_several_models_is_for_the_library(driven, tmp_path):
    for name in ("one", "two"):
        model_folder(tmp_path / "many" / name)
    mime = mime_of(tmp_path / "many")
    assert drag(driven, mime).startswith("Add many to the library 2 models")
    drop(driven, mime)
    driven.until(lambda: driven.widgets.window.page == "library")
    assert driven.app.settings.value.model_folders == (tmp_path / "many",)


def test_a_card_covers_nothing_that_is_dropped_later(driven, tmp_path):
    model = mime_of(tmp_path / "Small-4bit")
    drag(driven, model)
    drop(driven, model)
    driven.until(driven.widgets.layer.isVisible)
    note = tmp_path / "note.txt"
    note.write_text("words")
    drag(driven, mime_of(note))
    drop(driven, mime_of(note))
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 1)
    assert not driven.widgets.layer.isVisible()


def test_texts_together_with_one_that_is_none(driven, tmp_path):
    paths = [tmp_path / name for name in ("a.py", "b.md", "c.gz", "d.gz")]
    for path, content in zip(paths, ("x = 1\n", "# b", "\x1f\x8b", "\x1f\x8b"), strict=True):
        path.write_text(content, encoding="latin-1")
    said = drag(driven, mime_of(*paths))
    assert said.startswith("Attach 2 files 9 B")
    assert "c.gz is compressed" in said
    drop(driven, mime_of(*paths))
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 2)
    for name in ("c.gz", "d.gz"):
        assert f"{name} is compressed" in driven.widgets.notice.words()


def test_a_chat_that_was_exported_is_imported_unless_it_is_attached_with_others(driven, tmp_path):
    driven.ask("What is a head start?")
    app, before = driven.app, driven.app.chat.chat_id
    assert before is not None
    exported, note = tmp_path / "chat.json", tmp_path / "note.txt"
    app.files.export_to(before, exported)
    note.write_text("words")
    app.chats.begin()
    assert drag(driven, mime_of(exported)).startswith("Import chat.json")
    drop(driven, mime_of(exported))
    driven.until(lambda: app.chat.chat_id not in (None, before))
    assert driven.shown[0] == "What is a head start?"
    assert driven.widgets.composer.attachments() == ()
    assert drag(driven, mime_of(exported, note)).startswith("Attach 2 files")
    drop(driven, mime_of(exported, note))
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 2)


def test_chats_dropped_together_are_imported_in_their_order(driven, tmp_path):
    driven.ask("What is a head start?")
    app, before = driven.app, driven.app.chat.chat_id
    assert before is not None
    exported = tmp_path / "chat.json"
    app.files.export_to(before, exported)
    content = json.loads(exported.read_text())
    names = [f"Number {n}" for n in range(20)]
    files = [tmp_path / f"{name}.json" for name in names]
    for file in files:
        file.write_text(json.dumps(content | {"title": file.stem}))
    opened = []
    app.chat.opened.connect(lambda _: opened.append(app.chat.title))
    drag(driven, mime_of(*files))
    drop(driven, mime_of(*files))
    driven.until(lambda: len(opened) > 0)
    driven.until_answered()
    assert opened == names[-1:], "the others are in the list"
    made = [chat.title for chat in app.store.chats.listed()]
    assert made[:20] == names[::-1]


def test_two_models_are_one_too_many(driven, tmp_path):
    mime = mime_of(tmp_path / "Small-4bit", gguf(tmp_path / "other.gguf"))
    assert drag(driven, mime).startswith("Drop one model at a time")
    drop(driven, mime)
    driven.until(lambda: "one model at a time" in driven.widgets.notice.words())


def test_a_file_of_no_use(driven, tmp_path):
    packed, why = tmp_path / "packed.gz", "compressed"
    packed.write_bytes(b"\x1f\x8b")
    said = drag(driven, mime_of(packed))
    assert said.startswith("This can't be used") and why in said
    drop(driven, mime_of(packed))
    driven.until(lambda: why in driven.widgets.notice.words())


def test_two_files_opened_one_after_the_other_both_count(driven, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
        driven.app.drops.take([str(tmp_path / name)])
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 2)


def test_words_are_written_into_the_message(driven):
    driven.widgets.composer.show_message("Before: ")
    driven.widgets.window.show_page("library")
    words = "  two\n  lines, about org/small\n"
    assert drag(driven, mime_of(words)).startswith("Add to the message two lines, about")
    drop(driven, mime_of(words))
    driven.until(lambda: driven.widgets.composer.text() == "Before: " + words)
    assert driven.widgets.window.page == "chat"
    assert driven.widgets.notice.words() == ""
    drag(driven, mime_of("word " * 10_000))
    drop(driven, mime_of("word " * 10_000))
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 1)


def test_what_hovers_is_examined_once_for_the_plan_and_the_card(driven, tmp_path, monkeypatch):
    examined, read = [], []
    real_things, real_card = drops.all_of, driven.app.offered._read_card
    monkeypatch.setattr(
        drops, "all_of", lambda paths, _: examined.append(paths) or real_things(paths)
    )
    monkeypatch.setattr(
        driven.app.offered, "_read_card", lambda *what: read.append(what[0]) or real_card(*what)
    )
    mime = mime_of(tmp_path / "Small-4bit")
    drag(driven, mime)
    drop(driven, mime)
    driven.until(lambda: driven.app.offered.phase == "offered")
    assert (len(examined), len(read)) == (1, 1)


def test_what_is_let_go_before_it_is_examined_is_used_once_it_is(driven, tmp_path, monkeypatch):
    gate, real = Event(), drops.all_of
    monkeypatch.setattr(drops, "all_of", lambda paths, _: gate.wait(60) and real(paths))
    (tmp_path / "note.txt").write_text("words")
    mime = mime_of(tmp_path / "note.txt")
    event = QDragEnterEvent(QPoint(300, 300), ACTION, mime, BUTTON, KEYS)
    QApplication.sendEvent(driven.widgets.window, event)
    drop(driven, mime)
    gate.set()
    driven.until(lambda: len(driven.widgets.composer.attachments()) == 1)
    assert not driven.widgets.overlay.isVisible()
