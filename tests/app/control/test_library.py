"""The library: own folders, recent models, and the way from a link to a loaded model."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hub import FakeHub, serving
from model_files import gguf, model_folder
from PySide6.QtCore import QProcess, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QMenu, QMessageBox, QWidget
from pytestqt.qtbot import QtBot
from scripted_models import WorkerEngine, described
from seen import find, press, words_on
from windows import Driven, folders_in, running, scripted

from app.state.known_models import POCKET
from app.state.settings import save_settings
from app.values.app_settings import AppSettings, with_recent_model
from app.values.models import RECENT, FoundModel
from app.window.controls.labels import ShortLabel
from app.window.models.downloads import DownloadRow
from app.window.models.library_view import reveal
from mlx_engine.hub.client import Hub

POCKET_FOLDER = Path(__file__).parents[3] / "assets" / "pocket_model"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
LINK = "https://huggingface.co/org/small/tree/main"


@pytest.fixture
def fake():
    files = {name: (POCKET_FOLDER / name).read_bytes() for name in FILES}
    with serving(FakeHub({"org/small": files})) as made:
        yield made


@pytest.fixture
def source():
    return scripted()


@pytest.fixture
def driven(qapp, qtbot, tmp_path, fake, source):
    hub = Hub(tmp_path / "home" / "hub", fake.endpoint, token=False)
    with running(qapp, qtbot, tmp_path / "home", source, hub) as one:
        yield one


def entries(driven: Driven) -> list[FoundModel]:
    found = [row.entry for row in driven.widgets.library.here.table.rows]
    return [entry for entry in found if isinstance(entry, FoundModel)]


def menu_of(driven: Driven, is_it: Callable[[FoundModel], bool]) -> dict[str, QAction]:
    """What can be done with the model that is meant."""
    here = driven.widgets.library.here
    menu = here.menu_of(here.table.item_of(lambda row: row.entry is not None and is_it(row.entry)))
    assert menu is not None
    return {action.text(): action for action in menu.actions()}


def names(driven: Driven) -> list[str]:
    return [entry.name for entry in entries(driven)]


def folders_shown(driven: Driven) -> str:
    rows = driven.widgets.library.here.folders.findChildren(ShortLabel)
    return " ".join(row.accessibleName() for row in rows)


def row_of(driven: Driven) -> DownloadRow:
    (row,) = driven.widgets.library.findChildren(DownloadRow)
    return row


def said(widget: QWidget) -> str:
    return " ".join(label.text() for label in widget.findChildren(QLabel) if label.isVisible())


def words(driven: Driven) -> str:
    labels = row_of(driven).findChildren(QLabel)
    return " ".join(label.text() for label in labels if not label.isHidden())


def hub_rows(driven: Driven) -> list[str]:
    return [row.name for row in driven.widgets.library.hub.table.rows]


def heading(driven: Driven) -> str:
    return str(driven.app.hub.heading)


def choose(driven: Driven, name: str) -> None:
    """Make the row of this name on the page of the hub the current one."""
    table = driven.widgets.library.hub.table
    item = table.item_of(lambda row: row.name == name)
    assert item is not None
    table.setCurrentItem(item)


def download(driven: Driven) -> None:
    """Agree to what is chosen on the page of the hub, once its size is known."""
    hub = driven.widgets.library.hub
    driven.until(lambda: "free on the disk" in said(hub))
    press(hub, "Download")


def test_own_folders_are_searched_kept_and_given_up(driven, tmp_path):
    folder = tmp_path / "models of mine"
    model_folder(folder / "first")
    driven.app.known.add_folder(folder)
    driven.until(lambda: "first" in names(driven))
    driven.app.known.add_folder(folder)
    assert driven.app.settings.value.model_folders == (folder,)
    shutil.rmtree(folder)
    driven.app.known.refresh()
    driven.until(lambda: "first" not in names(driven))
    driven.until(lambda: "it is not there now" in folders_shown(driven))
    find(driven.widgets.library, QAbstractButton, f"Stop looking in {folder}").click()
    assert driven.app.settings.value.model_folders == ()


def test_a_recent_model_that_is_gone_is_marked_and_can_be_forgotten(driven, tmp_path):
    gone = str(tmp_path / "gone.gguf")
    driven.app.settings.change(with_recent_model(driven.app.settings.value, gone))
    driven.app.known.refresh()
    driven.until(lambda: "gone" in names(driven))
    entry = next(entry for entry in entries(driven) if str(entry.path) == gone)
    assert (entry.place, entry.is_recent) == (RECENT, True)
    assert "no longer there" in entry.problem
    titles = menu_of(driven, lambda entry: str(entry.path) == gone)
    assert not titles["Load…"].isEnabled()
    titles["Show in Folder"].trigger()
    problems = words_on(driven.widgets.library)
    assert f"{gone} is no longer there." in problems
    titles["Remove from Recent Models"].trigger()
    driven.until(lambda: "gone" not in names(driven))


def test_the_arrow_beside_the_models_name_offers_recent_ones_to_load_again(
    driven, source, tmp_path
):
    small, gone = model_folder(tmp_path / "small & fine" / "mlx"), tmp_path / "gone"
    source.engines[str(small)] = WorkerEngine([], replace(described("small", 9), path=str(small)))
    settings = driven.app.settings
    for path in (small, gone):
        settings.change(with_recent_model(settings.value, str(path)))
    driven.app.known.refresh()
    driven.until(lambda: "small & fine" in names(driven))
    menu = driven.widgets.head.findChild(QMenu)
    assert menu is not None

    assert menu.layoutDirection() == Qt.LayoutDirection.LeftToRight, "the check before the name"

    def offered() -> dict[str, bool]:
        menu.aboutToShow.emit()
        actions = {a.text().split(" · ")[0]: a for a in menu.actions() if not a.isSeparator()}
        return {text: action.isChecked() for text, action in actions.items()}

    assert offered() == {
        "small && fine": False,
        "Pocket model": True,
        "Eject Model": False,
        "Models": False,
    }
    menu.actions()[0].trigger()
    driven.until(lambda: driven.app.models.model_name == "small")
    assert offered() == {
        "small && fine": True,
        "Pocket model": False,
        "Eject Model": False,
        "Models": False,
    }
    menu.actions()[0].trigger()
    assert driven.app.models.loading is None, "it is there already"
    menu.actions()[-1].trigger()
    assert driven.widgets.window.page == "library"


def test_nothing_is_revealed_that_is_not_there(tmp_path):
    assert not reveal(str(tmp_path / "nowhere"))


def test_from_a_link_to_the_loaded_model_over_a_cut_and_a_damaged_file(
    driven, fake, source, tmp_path
):
    driven.app.drops.take([LINK])
    driven.until(lambda: driven.widgets.window.page == "library")
    driven.until(lambda: "4 files" in said(driven.widgets.library.hub))
    assert not driven.widgets.library.findChildren(DownloadRow)
    assert fake.sent.get("model.safetensors", 0) <= 100_001, "a header at most"
    fake.cut_at["model.safetensors"] = 3 * 2**20
    download(driven)
    driven.until(lambda: bool(driven.widgets.library.findChildren(DownloadRow)))
    driven.until(lambda: "goes on where it stopped" in words(driven))
    assert driven.app.settings.value.downloads == ("org/small",), "kept for the next start"
    fake.garbled.add("model.safetensors")
    driven.app.downloads.resume("org/small")
    driven.until(lambda: "its checksum differs" in words(driven))
    assert fake.ranges
    driven.app.downloads.resume("org/small")
    driven.until(lambda: "org/small is downloaded." in driven.widgets.notice.words())
    snapshot = next((tmp_path / "home" / "hub").glob("models--*/snapshots/*"))
    weights = (POCKET_FOLDER / "model.safetensors").read_bytes()
    assert (snapshot / "model.safetensors").read_bytes() == weights
    driven.until(lambda: "org/small" in names(driven))
    source.engines[str(snapshot)] = WorkerEngine(description=described("small", 7_000_000))
    driven.widgets.window.show_page("library")
    press(row_of(driven), "Load")
    driven.until(driven.widgets.layer.isVisible)
    assert driven.widgets.window.page == "library"
    driven.widgets.card.load.click()
    driven.until(lambda: driven.app.models.model_name == "small")
    assert driven.widgets.window.page == "chat"


def test_the_built_in_model_has_the_size_of_its_folder():
    files = [file for file in POCKET_FOLDER.iterdir() if file.is_file()]
    assert sum(file.stat().st_size for file in files) == POCKET.nbytes


def test_the_notice_offers_what_came(driven):
    driven.app.drops.take([LINK])
    download(driven)
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    press(driven.widgets.notice, "Load…")
    driven.until(driven.widgets.layer.isVisible)


def test_one_of_several_ggufs_is_chosen(driven, fake):
    fake.repositories["org/ggufs"] = {
        "m-Q8_0-00001-of-00002.gguf": b"GGUF" * 1000,
        "m-Q8_0-00002-of-00002.gguf": b"more" * 1000,
        "m-Q4_K_M.gguf": b"GGUF" * 500,
    }
    driven.app.drops.take(["org/ggufs"])
    driven.until(lambda: hub_rows(driven) == ["org/ggufs", "Q4_K_M", "Q8_0"])
    hub = driven.widgets.library.hub
    assert "1 file, 2 kB" in said(hub), "what most would take is chosen already"
    choose(driven, "Q8_0")
    assert "2 files, 8 kB" in said(hub)
    download(driven)
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    assert fake.sent == {"m-Q8_0-00001-of-00002.gguf": 4000, "m-Q8_0-00002-of-00002.gguf": 4000}


def test_one_of_several_ggufs_is_named(driven, fake):
    fake.repositories["org/ggufs"] = {"m-Q8_0.gguf": b"GGUF" * 1000, "m-Q4_K_M.gguf": b"GGUF" * 500}
    for name in ("org/ggufs:Q4_K_M", "org/ggufs:Q8_0"):
        driven.app.drops.take([name])
        driven.until(lambda name=name: hub_rows(driven) == ["org/ggufs", name.partition(":")[2]])
        download(driven)
    names = [row.accessibleName() for row in driven.widgets.library.findChildren(DownloadRow)]
    assert names == ["Download of org/ggufs:Q4_K_M", "Download of org/ggufs:Q8_0"]
    driven.until(lambda: fake.sent == {"m-Q4_K_M.gguf": 2000, "m-Q8_0.gguf": 4000})
    driven.until(lambda: driven.app.settings.value.downloads == ())


def test_a_download_of_an_earlier_day_goes_on_by_a_click(driven, tmp_path):
    (tmp_path / "home" / "hub" / "models--org--small" / "blobs").mkdir(parents=True)
    driven.app.known.refresh()
    driven.until(lambda: "org/small" in names(driven))
    table = driven.widgets.library.here.table
    table.itemClicked.emit(table.item_of(lambda row: row.name == "org/small"), 0)
    download(driven)
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())


def field(driven: Driven) -> QLineEdit:
    fields = driven.widgets.library.hub.findChildren(QLineEdit)
    return next(f for f in fields if f.accessibleName() == "Search Hugging Face")


def search(driven: Driven, qtbot: QtBot, text: str) -> None:
    driven.widgets.window.show_page("library")
    driven.widgets.library.show_place("hub")
    field(driven).setText(text)
    qtbot.keyClick(field(driven), Qt.Key.Key_Return)


def test_from_a_search_to_the_download(driven, fake, qtbot):
    fake.repositories["org/ggufs"] = {"m-Q8_0.gguf": b"GGUF" * 9, "m-Q4_K_M.gguf": b"GGUF" * 5}
    assert heading(driven).startswith("Models with drafting heads")
    search(driven, qtbot, "org")
    driven.until(lambda: hub_rows(driven) == ["org/small", "org/ggufs"])
    hub = driven.widgets.library.hub
    choose(driven, "org/ggufs")
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    driven.until(lambda: hub_rows(driven) == ["org/small", "org/ggufs", "Q4_K_M", "Q8_0"])
    assert hub.offer is not None
    assert hub.offer.label == "Q4_K_M"
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    assert fake.sent == {"m-Q4_K_M.gguf": 20}
    choose(driven, "org/ggufs")
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    assert hub_rows(driven) == ["org/small", "org/ggufs"], "and it closes again"
    field(driven).clear()
    assert heading(driven).startswith("Models with")


def test_what_the_hub_cannot_give_is_said(driven, fake, qtbot):
    fake.gated.add("org/gated")
    hub = driven.widgets.library.hub
    for text, told in (
        ("nothing-like-it", "matches “nothing-like-it”"),
        ("org/gated", "Accept its owners' terms"),
        ("org/unknown", "no such model"),
        ("https://huggingface.co/datasets/x/y", "does not lead to a model"),
        ("ö„ §$%", "matches"),
    ):
        search(driven, qtbot, text)
        driven.until(lambda told=told: told in said(hub))
    fake.nonsense = b"<html>"
    search(driven, qtbot, "org")
    driven.until(lambda: "cannot be read" in said(hub))


def test_a_hub_that_hangs_is_given_up_and_can_be_asked_again(driven, fake, qtbot, monkeypatch):
    hub = driven.widgets.library.hub
    fake.silence_s = 0.4
    monkeypatch.setattr("app.state.hub.PATIENCE_MS", 50)
    search(driven, qtbot, "org")
    driven.until(lambda: "does not answer" in said(hub))
    assert heading(driven).startswith("Models with"), "what was there stays"
    fake.silence_s = 0.0
    monkeypatch.setattr("app.state.hub.PATIENCE_MS", 20_000)
    qtbot.keyClick(field(driven), Qt.Key.Key_Return)
    driven.until(lambda: hub_rows(driven) == ["org/small"])
    assert "does not answer" not in said(hub)


def trash(driven: Driven, entry: FoundModel, button: str) -> None:
    """Ask for it to be deleted, and answer the question."""
    menu_of(driven, lambda other: other.path == entry.path)["Move to Trash…"].trigger()
    (box,) = driven.widgets.library.findChildren(QMessageBox)
    assert str(entry.path) in box.informativeText()
    next(b for b in box.buttons() if b.text() == button).click()
    driven.until(lambda: not driven.widgets.library.findChildren(QMessageBox))


def test_a_model_is_deleted_to_the_trash_once_that_is_agreed_to(
    driven, source, tmp_path, monkeypatch
):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = model_folder(tmp_path / "models" / "old")
    model_folder(tmp_path / "models" / "other")
    source.engines[str(folder)] = WorkerEngine(description=described("old", 7_000_000))
    driven.app.known.add_folder(tmp_path / "models")
    driven.until(lambda: {"old", "other"} <= set(names(driven)))
    driven.app.models.load(str(folder))
    driven.until(lambda: driven.app.models.model_name == "old")
    entry = next(entry for entry in entries(driven) if entry.path == folder)
    trash(driven, entry, "Cancel")
    assert folder.exists()
    trash(driven, entry, "Move to Trash")
    driven.until(lambda: not folder.exists())
    driven.until(lambda: "other" in names(driven) and "old" not in names(driven))
    assert list((tmp_path / "data" / "Trash" / "files").iterdir()), "it can be taken back"
    assert not driven.app.models.can_answer, "it was let go, and is not loaded again"


def test_a_model_that_cannot_go_to_the_trash_stays_and_says_so(driven, tmp_path, monkeypatch):
    monkeypatch.setattr("app.state.known_models.to_trash", lambda path: False)
    folder = model_folder(tmp_path / "models" / "old")
    driven.app.known.add_folder(folder.parent)
    driven.until(lambda: "old" in names(driven))
    entry = next(entry for entry in entries(driven) if entry.path == folder)
    trash(driven, entry, "Move to Trash")
    problems = driven.widgets.library.findChildren(QLabel)
    driven.until(lambda: any("could not be moved to the Trash" in p.text() for p in problems))
    assert folder.exists()
    for page in ("library", "chat", "library"):
        driven.widgets.window.show_page(page)
    driven.until(lambda: driven.app.known.problem == "")


def test_what_was_loaded_is_listed_whether_it_is_a_folder_or_a_file(driven, source, tmp_path):
    folder = model_folder(tmp_path / "Folder-4B" / "hf")
    file = gguf(tmp_path / "File-4B-Q4_K_M.gguf")
    for path in (folder, file):
        description = replace(described(path.name, 7_000_000), path=str(path))
        source.engines[str(path)] = WorkerEngine(description=description)
        driven.app.models.load(str(path))
        driven.until(lambda path=path: driven.app.models.model_name == path.name)
    driven.until(lambda: len(entries(driven)) == 3)
    recent = [entry.name for entry in entries(driven) if entry.is_recent]
    assert recent == ["File-4B-Q4_K_M", "Folder-4B"]


def test_a_download_that_was_in_the_queue_is_there_after_a_restart(qapp, qtbot, tmp_path, source):
    left = AppSettings(downloads=("org/small",))
    save_settings(folders_in(tmp_path).settings_file, left)
    with running(qapp, qtbot, tmp_path, source) as again:
        assert row_of(again).accessibleName() == "Download of org/small"
        assert "Paused" in words(again)
        assert not again.app.downloads.findChildren(QProcess), "nothing is fetched unasked"
        assert again.app.settings.value.downloads == ("org/small",)
