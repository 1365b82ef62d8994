"""Cards, library, downloads, first page and drop overlay: values in, signals out."""

import dataclasses
from pathlib import Path

import pytest
from model_states import StatedModels
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QLineEdit, QPushButton, QScrollArea, QToolButton, QWidget
from seen import button, find, press, words_on

from app.values.hub import HubFind, HubOffer
from app.values.models import DownloadFigures, FoundModel, ModelCard
from app.window.controls.chart import ShareBar
from app.window.controls.choices import Segments
from app.window.layers import CardLayer, DropOverlay, DropPlan
from app.window.models import library_list
from app.window.models.downloads import DownloadRow, DownloadWishes, progress_in_words
from app.window.models.first_run_view import FirstRunView
from app.window.models.library_list import LibraryList
from app.window.models.library_view import LibraryView
from app.window.models.model_card_view import ModelCardView
from app.window.models.model_facts import memory_parts
from mlx_engine.values.memory_plan import MemoryFit, MemoryPlan
from mlx_engine.values.model_description import TensorGroup

GB = 10**9


def fit(weights: int) -> MemoryFit:
    plans = (MemoryPlan(4096, weights, cache=GB), MemoryPlan(262144, weights, cache=9 * GB))
    return MemoryFit(*plans, 48 * GB, 262144 if weights < 40 * GB else 0)


FITS, TOO_LARGE = fit(18 * GB), fit(60 * GB)
FACTS = ModelCard(
    "Qwen", "qwen3_5", "27B parameters", "Q4_K_M", "256k tokens", "1 MTP head", True,
    FITS, ("A note.",), (TensorGroup("experts", 3, "4-bit affine, groups of 64", 10, 12 * GB),),
)  # fmt: skip
ENTRIES = (
    FoundModel("Qwen", Path("/m/qwen.gguf"), "Recent", 18 * GB),
    FoundModel("org/Gemma", Path("/hub/gemma"), "Hugging Face", 3 * GB),
    FoundModel("org/Broken", Path("/hub/broken"), "Hugging Face", 0, "config.json is missing"),
)


@pytest.fixture
def add(qtbot):
    def shown(widget):
        qtbot.addWidget(widget)
        return widget

    return shown


def buttons(widget):
    return [b.text() for b in widget.findChildren(QPushButton) if not b.isHidden()]


@pytest.fixture
def stated(qapp):
    return StatedModels()


@pytest.fixture
def card(add, theme, stated):
    view = add(ModelCardView())
    view.watch(stated.offered, stated.settings)
    return view


def test_a_card_says_what_a_model_is_and_loads_it(qtbot, card, stated):
    stated.show_card(FACTS)
    assert {"1 MTP head", "Uses 19 GB of 48 GB memory"} <= set(words_on(card))
    press(card, "Cancel")
    assert stated.offered.phase == "closed"
    stated.show_card(FACTS)
    qtbot.keyClick(card, Qt.Key.Key_Escape)
    assert stated.offered.phase == "closed"
    stated.show_card(FACTS)
    with qtbot.waitSignal(stated.offered.accepted):
        qtbot.keyClick(card, Qt.Key.Key_Return)
    assert [request.path for request in stated.requests] == ["/models/Qwen"]
    assert stated.offered.phase == "closed"


def test_a_card_says_why_a_load_failed_and_tries_again(qtbot, card, stated):
    problem = "qwen.gguf is cut short: download it again."
    stated.show_card(FACTS, "failed", problem)
    assert problem in words_on(card)
    with qtbot.waitSignal(stated.offered.accepted):
        press(card, "Try again")
    stated.show_card(None, "reading")
    assert "Try again" not in buttons(card) and "Checking files" in words_on(card)
    stated.show_card(dataclasses.replace(FACTS, memory=TOO_LARGE), "failed", "It does not fit.")
    with qtbot.waitSignal(stated.offered.accepted):
        press(card, "Load anyway")
    assert stated.requests[-1].options.anyway
    stated.show_card(FACTS, "unreadable", "config.json: not JSON.")
    assert not {"Try again", "Load"} & set(buttons(card))
    with qtbot.waitSignal(card.other.clicked):
        qtbot.keyClick(card, Qt.Key.Key_Return)


def test_what_is_changed_on_a_card_is_what_it_is_loaded_with(card, stated):
    stated.show_card(FACTS)
    card.load_fields.open(True)
    press(card, "Precision: Fast")
    assert stated.offered.own.load.numerics == "fast"
    stated.offered.load()
    assert stated.requests[-1].options.numerics == "fast"
    assert stated.settings.value.models == {}, "only what was loaded is remembered"


def test_details_on_demand(card, stated):
    stated.show_card(FACTS)
    assert not any("qwen3_5" in words for words in words_on(card))
    press(card, "Details")
    assert {"12 GB", "experts"} <= set(words_on(card))
    (details,) = [words for words in words_on(card) if "qwen3_5" in words]
    assert details.splitlines() == [
        "Architecture: qwen3_5",
        "Weights: Q4_K_M",
        "Longest chat: 256k tokens",
        f"Memory: {FITS.words}",
        "A note.",
    ]
    press(card, "Hide Details")
    assert not any("qwen3_5" in words for words in words_on(card))


def test_a_model_that_does_not_fit_says_what_is_too_much_at_once(card, stated):
    stated.show_card(dataclasses.replace(FACTS, memory=TOO_LARGE))
    assert TOO_LARGE.words in words_on(card)


def test_the_memory_bar_warns_by_colour(add, theme):
    bar = add(ShareBar("Memory"))
    bar.resize(200, 6)

    def first_pixel(memory):
        bar.show_parts(memory.words, *memory_parts(memory))
        return bar.grab().toImage().pixelColor(3, 3)

    assert first_pixel(FITS) == QColor(theme.accent)
    assert first_pixel(TOO_LARGE) == QColor(theme.error)
    assert bar.accessibleName() == f"Memory: {TOO_LARGE.words}"


@pytest.fixture
def library(add, theme):
    view = add(LibraryView())
    view.show_entries(ENTRIES)
    return view


def rows(library):
    models = library.findChild(LibraryList)
    return [models.item(n).text() for n in range(models.count())]


def test_models_stand_under_their_place(library):
    assert rows(library) == ["Recent", "Qwen", "Hugging Face", "org/Gemma", "org/Broken"]


def test_rows_are_worded_as_they_are_seen(qapp, library, monkeypatch):
    worded, second_line = [], library_list.second_line
    monkeypatch.setattr(
        library_list, "second_line", lambda entry: worded.append(entry) or second_line(entry)
    )
    many = [FoundModel(f"Model {n}", Path(f"/m/{n}.gguf"), "Here", GB) for n in range(300)]
    library.resize(600, 600)
    library.show()
    library.show_entries(many)
    qapp.processEvents()
    assert 0 < len(worded) < 30
    assert library.list.visualItemRect(library.list.item(300)).height() > 30, (
        "though it has a place"
    )
    library.list.scrollToBottom()
    qapp.processEvents()
    assert many[-1] in worded and len(worded) < 60


def test_choosing_by_key_and_click_but_not_a_broken_one(qtbot, library):
    models = library.findChild(LibraryList)
    heard = []
    library.list.chosen.connect(heard.append)
    for row in range(models.count()):
        models.setCurrentRow(row)
        qtbot.keyClick(models, Qt.Key.Key_Return)
    assert heard == [ENTRIES[0], ENTRIES[1]]
    library.resize(600, 600)
    library.show()
    where = models.visualItemRect(models.item(3)).center()
    qtbot.mouseClick(models.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert heard[2:] == [ENTRIES[1]]
    broken = models.item(4).data(Qt.ItemDataRole.AccessibleTextRole)
    assert "Cannot be loaded: config.json is missing" in broken


def test_the_filter_and_empty_states(library):
    field = find(library, QLineEdit, "Filter models")
    field.setText("HUB gem")
    assert rows(library) == ["Hugging Face", "org/Gemma"]
    field.setText("nothing like it")
    assert "No model matches “nothing like it”." in words_on(library)
    library.show_entries(())
    assert any(text.startswith("No models found. Drop") for text in words_on(library))


def test_refreshing_keeps_the_place(library):
    models = library.findChild(LibraryList)
    models.setCurrentRow(3)
    library.show_entries((FoundModel("New", Path("/new"), "Recent"), *ENTRIES))
    assert models.currentItem().text() == "org/Gemma"


def test_a_search_by_words_and_format(qtbot, library):
    hub = library.hub
    field = find(hub, QLineEdit, "Search Hugging Face")
    qtbot.keyClicks(field, " qwen 9b ")
    with qtbot.waitSignal(hub.search_wanted) as got:
        qtbot.keyClick(field, Qt.Key.Key_Return)
    assert got.args == ["qwen 9b", ""]
    mlx = find(hub, QPushButton, "Format: MLX")
    with qtbot.waitSignal(hub.search_wanted) as got:
        mlx.click()
    assert got.args == ["qwen 9b", "MLX"]
    hub.say("org/name: there is no such model on the hub.", is_problem=True)
    assert "org/name: there is no such model on the hub." in words_on(hub)


def test_keys_lead_from_the_search_to_what_was_found(qtbot, library):
    hub = library.hub
    library.show_place("hub")
    library.show()
    library.activateWindow()
    field = find(hub, QLineEdit, "Search Hugging Face")
    hub.list.show_finds("Found", [HubFind("a/one", "GGUF", heads=True), HubFind("b/two")])
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert hub.list.hasFocus() and hub.list.currentItem().text() == "a/one"
    with qtbot.waitSignal(hub.list.look_wanted) as got:
        qtbot.keyClick(hub.list, Qt.Key.Key_Return)
    assert got.args == ["a/one"]


def test_a_model_of_the_hub_opens_and_offers_what_fits(qtbot, library):
    hub = library.hub
    hub.list.show_finds("Found", [HubFind("a/one", "GGUF", heads=True), HubFind("b/two")])
    with qtbot.waitSignal(hub.list.look_wanted) as got:
        row = hub.list.visualItemRect(hub.list.item(1)).center()
        qtbot.mouseClick(hub.list.viewport(), Qt.MouseButton.LeftButton, pos=row)
    assert got.args == ["a/one"]
    hub.list.open("a/one")
    small = HubOffer("a/one:Q4_K_M", "Q4_K_M", GB, True, "fits", "1 file, 1 GB; 9 GB free")
    large = HubOffer("a/one:F32", "F32", 99 * GB, None, "too-large", "No room", has_room=False)
    hub.list.show_offers("b/two", (large,))
    assert hub.list.count() == 4, "too late: another one is open"
    hub.list.show_offers("a/one", (small, large))
    assert [hub.list.item(n).text() for n in range(5)] == [
        "Found", "a/one", "Q4_K_M", "F32", "b/two",
    ]  # fmt: skip
    assert hub.list.offer == small
    assert "1 file, 1 GB; 9 GB free" in words_on(hub)
    with qtbot.waitSignal(hub.download_wanted) as got:
        press(hub, "Download")
    assert got.args == [small.link]
    hub.list.setCurrentRow(3)
    assert "No room" in words_on(hub)
    with qtbot.assertNotEmitted(hub.download_wanted):
        qtbot.keyClick(hub.list, Qt.Key.Key_Return)
        press(hub, "Download")


def test_what_came_is_offered_to_be_loaded_and_what_comes_not_again(qtbot, library):
    hub = library.hub
    hub.list.show_finds("", [HubFind("a/one", "GGUF")])
    hub.list.open("a/one")
    small = HubOffer("a/one:Q4_K_M", "Q4_K_M", GB, True, "fits", "1 file, 1 GB; 9 GB free")
    large = HubOffer("a/one:F32", "F32", 9 * GB, None, "tight", "9 GB", False, "/hub/f32.gguf")
    hub.list.show_offers("a/one", (small, large))
    library.show_place("hub")
    library.show()
    library.activateWindow()
    get = button(hub, "Download")
    get.setFocus()
    qtbot.waitUntil(get.hasFocus)
    get.click()
    library.show_downloads([DownloadFigures(small.link, "one", "running", 1, 2)])
    assert hub.list.hasFocus(), "not what comes after the button, which is of no use now"
    with qtbot.assertNotEmitted(hub.download_wanted):
        press(hub, "Download")
    done = DownloadFigures(small.link, "one", "done", 2, 2, path="/hub/q4.gguf")
    library.show_downloads([done])
    assert "1 GB · downloaded" in words_on(hub)
    with qtbot.waitSignal(hub.load_wanted) as got:
        press(hub, "Load…")
    assert got.args == ["/hub/q4.gguf"]
    hub.list.setCurrentRow(2)
    with qtbot.waitSignal(hub.load_wanted) as got, qtbot.assertNotEmitted(hub.download_wanted):
        qtbot.keyClick(hub.list, Qt.Key.Key_Return)
    assert got.args == ["/hub/f32.gguf"], "it was here before, whatever room there is"


def test_a_download_that_failed_gives_no_room_to_the_others(qtbot, library):
    library.resize(900, 900)
    library.show()
    words = "no connection to the hub (ReadTimeout). Check the network and try again."
    failed = DownloadFigures("a", "A", "failed", 1, 2, words=words)
    library.show_downloads([failed, DownloadFigures("b", "B", "done", 2, 2)])
    rows = library.findChildren(DownloadRow)
    qtbot.waitUntil(lambda: rows[0].height() == rows[0].heightForWidth(rows[0].width()))
    assert rows[1].height() == rows[1].heightForWidth(rows[1].width())


def test_downloads_come_and_go(qtbot, library):
    library.show_downloads(
        [DownloadFigures("a", "A", "running"), DownloadFigures("b", "B", "done")]
    )
    first = library.findChildren(DownloadRow)[0]
    library.show_downloads([DownloadFigures("a", "A", "paused", 1, 2)])
    assert first.accessibleName() == "Download of A"
    resume = find(first, QToolButton, "Resume")
    with qtbot.waitSignal(library.downloads.wishes.resume_wanted) as got:
        resume.click()
    assert got.args == ["a"]


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (DownloadFigures("", "", "waiting"), "Waiting"),
        (
            DownloadFigures("", "", "running", 41 * GB // 10, 182 * GB // 10, 32.1e6),
            "4.1 of 18.2 GB · 32.1 MB/s · 7 min left",
        ),
        (DownloadFigures("", "", "running", 5000), "5 kB"),
        (DownloadFigures("", "", "paused", GB, 7 * GB), "1.00 of 7.00 GB · paused"),
        (DownloadFigures("", "", "failed", 0, 0, 0, "No network."), "Stopped"),
        (DownloadFigures("", "", "done", GB, GB), "1 GB · downloaded"),
    ],
)
def test_progress_in_words(figures, said):
    assert progress_in_words(figures) == said


def test_a_failed_download_says_why_and_can_go_on(qtbot, add, theme):
    row = add(DownloadRow(DownloadWishes()))
    row.show_figures(DownloadFigures("k", "A", "running", 1, 2, 1.0))
    pause, cancel = row.findChildren(QToolButton)
    with qtbot.waitSignal(row.wishes.pause_wanted):
        pause.click()
    row.show_figures(DownloadFigures("k", "A", "failed", 1, 2, 0.0, "A: no connection."))
    assert "A: no connection." in words_on(row)
    with qtbot.waitSignal(row.wishes.resume_wanted):
        pause.click()
    with qtbot.waitSignal(row.wishes.cancel_wanted) as got:
        cancel.click()
    assert got.args == ["k"]


def test_the_first_page(qtbot, add, theme, stated):
    page = add(FirstRunView())
    page.watch(stated.models)
    page.show_questions(["What is a & b?", "Write a haiku"])
    page.show_recent(ENTRIES)
    page.show_advice("This Mac has 64 GB.")
    assert "This Mac has 64 GB." in words_on(page)
    with qtbot.waitSignal(page.asked) as got:
        press(page, "What is a & b?")
    assert got.args == ["What is a & b?"]
    with qtbot.waitSignal(page.chosen) as got:
        press(page, "Qwen · 18 GB")
    assert got.args == [ENTRIES[0]]
    assert not any("Broken" in text for text in buttons(page))
    press(page, "Start with the built-in one")
    assert stated.requests[-1].path is None
    page.show_model("Qwen3.5-9B")
    assert "Start with the built-in one" not in buttons(page)
    assert "Qwen3.5-9B" in words_on(page) and not page._target.isVisible()
    page.show_model("")
    assert "Start with the built-in one" in buttons(page)
    with qtbot.waitSignal(page.get.clicked):
        press(page, "Browse Models")
    with qtbot.waitSignal(page.open.clicked):
        press(page, "Open…")
    page.show_recent(())
    assert "Recent models" not in words_on(page)


def test_the_first_page_has_room_in_a_small_window(qtbot, add, theme):
    page = add(FirstRunView())
    name = "org/Model-" + "long" * 60
    page.show_questions(["Why?", "How?", "When?"])
    page.show_recent([FoundModel(name, Path("/m"), "Recent", n * GB) for n in range(1, 5)])
    page.resize(400, 320)
    page.show()
    assert (page.width(), page.height()) == (400, 320)  # it scrolls, and asks for no more room
    pressed = [b for b in page.findChildren(QPushButton) if not b.isHidden()]
    assert len(pressed) == 9
    qtbot.waitUntil(lambda: all(b.height() >= b.sizeHint().height() for b in pressed))
    last = next(b for b in pressed if b.accessibleName() == f"{name} · 4 GB")
    assert last.text().endswith("g · 4 GB")
    assert last.fontMetrics().horizontalAdvance(last.text()) < last.width() < 400


def test_the_overlay_covers_its_window_and_says_the_plan(qtbot, add, theme):
    window = add(QWidget())
    window.resize(500, 300)
    overlay = DropOverlay(window)
    window.show()
    overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB, 1 MTP head."))
    window.resize(640, 400)
    assert overlay.geometry() == window.rect()
    assert overlay.accessibleDescription() == "Load Qwen 18 GB, 1 MTP head."

    def redness():
        image = overlay.grab().toImage()
        edge = [image.pixelColor(16, y) for y in range(40, 200)]
        return max(colour.red() - colour.green() for colour in edge)

    assert redness() < 20
    overlay.show_plan(DropPlan("refused", "x.zip cannot be used", "It is an archive."))
    assert redness() > 20


def test_a_card_that_is_higher_than_the_window_is_scrolled(add, theme, qtbot):
    window, card, stated = add(QWidget()), ModelCardView(), StatedModels()
    layer = CardLayer(card, window)
    window.resize(760, 480)
    card.watch(stated.offered, stated.settings)
    stated.show_card(FACTS)
    press(card, "Details")
    card.load_fields.open(True)
    window.show()
    layer.open()
    rows = card.findChildren(Segments)
    assert len(rows) == 3
    qtbot.waitUntil(lambda: all(row.height() == row.sizeHint().height() for row in rows))
    assert layer.findChild(QScrollArea).verticalScrollBar().maximum() > 0
    bottom = button(card, "Load")
    assert bottom.visibleRegion().isEmpty()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    while window.focusWidget() is not bottom:
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    assert not bottom.visibleRegion().isEmpty()
