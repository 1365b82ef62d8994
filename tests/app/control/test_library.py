"""The library: own folders, recent models, and the way from a link to a loaded model."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hub import FakeHub, serving
from model_files import model_folder
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QMenu, QPushButton
from pytestqt.qtbot import QtBot
from scripted_models import ScriptedModels, WorkerEngine, described
from windows import Driven, running, scripted

from app.control.downloads import key_of
from app.start.outside import reveal
from app.values.app_settings import with_recent_model
from app.values.models import RECENT, FoundModel
from app.window.controls.labels import ShortLabel
from app.window.models.downloads import DownloadRow
from app.window.models.library_list import ENTRY, LibraryList
from mlx_engine.hub.client import Hub
from mlx_engine.hub.repository import HubModel

pytestmark = pytest.mark.qt_log_level_fail("WARNING")
POCKET = Path(__file__).parents[3] / "assets" / "pocket_model"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
LINK = "https://huggingface.co/org/small/tree/main"


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    files = {name: (POCKET / name).read_bytes() for name in FILES}
    with serving(FakeHub({"org/small": files})) as made:
        yield made


@pytest.fixture
def source() -> ScriptedModels:
    return scripted()


@pytest.fixture
def driven(
    qapp: QApplication, qtbot: QtBot, tmp_path: Path, fake: FakeHub, source: ScriptedModels
) -> Iterator[Driven]:
    hub = Hub(tmp_path / "home" / "hub", fake.endpoint, token=False)
    with running(qapp, qtbot, tmp_path / "home", source, hub) as one:
        yield one


def entries(driven: Driven) -> list[FoundModel]:
    models = driven.widgets.library.findChild(LibraryList)
    found = [models.item(row).data(ENTRY) for row in range(models.count())]
    return [entry for entry in found if isinstance(entry, FoundModel)]


def names(driven: Driven) -> list[str]:
    return [entry.name for entry in entries(driven)]


def folders_shown(driven: Driven) -> str:
    rows = driven.widgets.library.folders.findChildren(ShortLabel)
    return " ".join(row.whole_text() for row in rows)


def row_of(driven: Driven) -> DownloadRow:
    (row,) = driven.widgets.library.findChildren(DownloadRow)
    return row


def words(driven: Driven) -> str:
    labels = row_of(driven).findChildren(QLabel)
    return " ".join(label.text() for label in labels if not label.isHidden())


def press(driven: Driven, text: str) -> None:
    buttons = row_of(driven).findChildren(QPushButton)
    next(b for b in buttons if b.text() == text and not b.isHidden()).click()


def test_own_folders_are_searched_kept_and_given_up(driven: Driven, tmp_path: Path) -> None:
    folder = tmp_path / "models of mine"
    model_folder(folder / "first")
    driven.app.library.add_folder(str(folder))
    driven.until(lambda: "first" in names(driven))
    driven.app.library.add_folder(str(folder))
    assert driven.app.settings.value.model_folders == (folder,)
    shutil.rmtree(folder)
    driven.app.library.refresh()
    driven.until(lambda: "first" not in names(driven))
    driven.until(lambda: "it is not there now" in folders_shown(driven))
    driven.widgets.library.folders.remove_wanted.emit(str(folder))
    assert driven.app.settings.value.model_folders == ()


def test_a_recent_model_that_is_gone_is_marked_and_can_be_forgotten(
    driven: Driven, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone.gguf")
    driven.app.settings.change(with_recent_model(driven.app.settings.value, gone))
    driven.app.library.refresh()
    driven.until(lambda: "gone.gguf" in names(driven))
    entry = next(entry for entry in entries(driven) if str(entry.path) == gone)
    assert (entry.place, entry.is_recent) == (RECENT, True)
    assert "no longer there" in entry.problem
    models = driven.widgets.library.findChild(LibraryList)
    menu = models.menu_of(models.item(2 + names(driven).index("gone.gguf")))
    titles = {action.text(): action for action in menu.actions()}
    assert not titles["Load…"].isEnabled()
    titles["Remove from recent models"].trigger()
    driven.until(lambda: "gone.gguf" not in names(driven))
    driven.widgets.library.list.reveal_wanted.emit(gone)
    problems = [label.text() for label in driven.widgets.library.findChildren(QLabel)]
    assert f"{gone} is no longer there." in problems


def test_the_arrow_beside_the_models_name_offers_recent_ones_to_load_again(
    driven: Driven, source: ScriptedModels, tmp_path: Path
) -> None:
    small, gone = model_folder(tmp_path / "small & fine" / "mlx"), tmp_path / "gone"
    source.engines[str(small)] = WorkerEngine([], replace(described("small", 9), path=str(small)))
    settings = driven.app.settings
    for path in (small, gone):
        settings.change(with_recent_model(settings.value, str(path)))
    driven.app.library.refresh()
    driven.until(lambda: "small & fine" in names(driven))
    menu = driven.widgets.head.findChild(QMenu)
    assert menu is not None

    def offered() -> dict[str, bool]:
        menu.aboutToShow.emit()
        actions = {a.text().split(" · ")[0]: a for a in menu.actions() if not a.isSeparator()}
        return {text: action.isChecked() for text, action in actions.items()}

    assert offered() == {"small && fine": False, "Pocket model": True, "All models…": False}
    menu.actions()[0].trigger()
    driven.until(lambda: driven.app.models.model_name == "small")
    assert offered() == {"small && fine": True, "Pocket model": False, "All models…": False}
    menu.actions()[0].trigger()
    assert driven.app.models.loading is None, "it is there already"
    menu.actions()[-1].trigger()
    assert driven.widgets.window.page == "library"


def test_nothing_is_revealed_that_is_not_there(tmp_path: Path) -> None:
    assert not reveal(str(tmp_path / "nowhere"))


def test_from_a_link_to_the_loaded_model_over_a_cut_and_a_damaged_file(
    driven: Driven, fake: FakeHub, source: ScriptedModels, tmp_path: Path
) -> None:
    fake.cut_at["model.safetensors"] = 3 * 2**20
    driven.app.drops.take([LINK])
    driven.until(lambda: driven.widgets.window.page == "library")
    driven.until(lambda: "free on the disk" in words(driven))
    assert "4 files" in words(driven)
    assert fake.sent == {}
    press(driven, "Download")
    driven.until(lambda: "goes on where it stopped" in words(driven))
    fake.garbled.add("model.safetensors")
    row_of(driven).wishes.resume_wanted.emit("org/small@main/")
    driven.until(lambda: "its checksum differs" in words(driven))
    assert fake.ranges
    row_of(driven).wishes.resume_wanted.emit("org/small@main/")
    driven.until(lambda: "org/small is downloaded." in driven.widgets.notice.words())
    snapshot = next((tmp_path / "home" / "hub").glob("models--*/snapshots/*"))
    weights = (POCKET / "model.safetensors").read_bytes()
    assert (snapshot / "model.safetensors").read_bytes() == weights
    driven.until(lambda: "org/small" in names(driven))
    source.engines[str(snapshot)] = WorkerEngine(description=described("small", 7_000_000))
    driven.widgets.window.show_page("library")
    press(driven, "Load")
    driven.until(driven.widgets.layer.isVisible)
    assert driven.widgets.window.page == "chat"
    driven.widgets.card.load_wanted.emit()
    driven.until(lambda: driven.app.models.model_name == "small")


def test_the_notice_offers_what_came(driven: Driven) -> None:
    driven.app.drops.take([LINK])
    driven.until(lambda: bool(driven.widgets.library.findChildren(DownloadRow)))
    driven.until(lambda: "free on the disk" in words(driven))
    press(driven, "Download")
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    button = next(b for b in driven.widgets.notice.findChildren(QPushButton) if b.text() == "Load…")
    button.click()
    driven.until(driven.widgets.layer.isVisible)


def test_one_of_several_ggufs_is_chosen(driven: Driven, fake: FakeHub) -> None:
    fake.repositories["org/ggufs"] = {
        "m-Q8_0-00001-of-00002.gguf": b"GGUF" * 1000,
        "m-Q8_0-00002-of-00002.gguf": b"more" * 1000,
        "m-Q4_K_M.gguf": b"GGUF" * 500,
    }
    driven.widgets.library.get_wanted.emit("org/ggufs")
    driven.until(lambda: bool(driven.widgets.library.findChildren(DownloadRow)))
    driven.until(lambda: "It holds 2 models. Which one?" in words(driven))
    choices = row_of(driven).findChild(QComboBox)
    assert [choices.itemText(n) for n in range(choices.count())] == [
        "m-Q4_K_M.gguf · 2 kB",
        "m-Q8_0-00001-of-00002.gguf · 8 kB",
    ]
    choices.setCurrentIndex(1)
    press(driven, "Download")
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    assert fake.sent == {"m-Q8_0-00001-of-00002.gguf": 4000, "m-Q8_0-00002-of-00002.gguf": 4000}


def test_one_of_several_ggufs_is_named(driven: Driven, fake: FakeHub) -> None:
    fake.repositories["org/ggufs"] = {
        "m-Q8_0.gguf": b"GGUF" * 1000,
        "m-Q4_K_M.gguf": b"GGUF" * 500,
    }
    for name in ("org/ggufs:Q4_K_M", "org/ggufs:Q8_0"):
        driven.widgets.library.get_wanted.emit(name)
    driven.until(lambda: len(driven.widgets.library.findChildren(DownloadRow)) == 2)
    rows = driven.widgets.library.findChildren(DownloadRow)

    def texts() -> list[str]:
        return [" ".join(label.text() for label in row.findChildren(QLabel)) for row in rows]

    driven.until(lambda: all("free on the disk" in text for text in texts()))
    assert "org/ggufs:Q4_K_M" in texts()[0]
    assert "org/ggufs:Q8_0" in texts()[1]
    rows[0].wishes.resume_wanted.emit(key_of(HubModel("org/ggufs", quantisation="Q4_K_M")))
    driven.until(lambda: "is downloaded" in driven.widgets.notice.words())
    assert fake.sent == {"m-Q4_K_M.gguf": 2000}


def test_a_download_of_an_earlier_day_goes_on_by_a_click(driven: Driven, tmp_path: Path) -> None:
    (tmp_path / "home" / "hub" / "models--org--small" / "blobs").mkdir(parents=True)
    driven.app.library.refresh()
    driven.until(lambda: "org/small" in names(driven))
    models = driven.widgets.library.findChild(LibraryList)
    rows = [models.item(n) for n in range(models.count())]
    models.itemClicked.emit(next(item for item in rows if item.text() == "org/small"))
    driven.until(lambda: bool(driven.widgets.library.findChildren(DownloadRow)))
    driven.until(lambda: "free on the disk" in words(driven))
