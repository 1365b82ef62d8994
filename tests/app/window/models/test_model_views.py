"""Cards, library, downloads, first page and drop overlay: values in, signals out."""

import dataclasses
from pathlib import Path

import pytest
from model_states import StatedModels
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QColor, QCursor
from PySide6.QtWidgets import (
    QApplication,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QToolButton,
    QWidget,
)
from scripted_models import described
from seen import button, find, press, words_on
from shown_transcript import settle

from app.library.find_models import FoundHere
from app.state.known_models import POCKET
from app.values.models import RECENT, DownloadFigures, FoundModel, HubFind, HubOffer, ModelCard
from app.window.controls.chart import ShareBar
from app.window.controls.choices import Segments, Tick
from app.window.controls.labels import ShortButton, open_below
from app.window.controls.layouts import column
from app.window.controls.numbers import NumberEdit
from app.window.language import said
from app.window.layers import CardLayer, DropOverlay, DropPlan
from app.window.models.downloads import DownloadRow, progress_in_words
from app.window.models.first_run_view import FOR_ALL, FirstRunView, FirstSteps, questions_for
from app.window.models.hub_view import SignIn
from app.window.models.library_view import LibraryView
from app.window.models.model_card_view import ModelCardView
from app.window.models.model_facts import memory_parts
from app.window.models.model_table import ModelTable
from app.worker.replies import ModelLoaded
from app.worker.requests import LoadModel
from mlx_engine.values.memory_plan import MemoryFit, MemoryPlan

GB = 10**9
ACCESSIBLE = Qt.ItemDataRole.AccessibleTextRole


def fit(weights: int) -> MemoryFit:
    plans = (MemoryPlan(4096, weights, cache=GB), MemoryPlan(262144, weights, cache=9 * GB))
    return MemoryFit(*plans, 48 * GB, 262144 if weights < 40 * GB else 0)


FITS, TOO_LARGE = fit(18 * GB), fit(60 * GB)
FACTS = ModelCard(
    "Qwen", "qwen3_5", "27B parameters", "Q4_K_M", "256k tokens", "1 drafting head", True,
    FITS, ("A note.",),
)  # fmt: skip
ENTRIES = (
    FoundModel(
        "Qwen",
        Path("/m/qwen.gguf"),
        RECENT,
        18 * GB,
        parameters=27 * GB,
        format="Q4_K",
        heads=True,
        fit="fits",
    ),
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
    assert {"1 drafting head", "Needs 19 GB of 48 GB memory"} <= set(words_on(card))
    press(card, "Cancel")
    assert stated.offered.phase == "closed"
    stated.show_card(dataclasses.replace(FACTS, sees=True))
    assert "27B\N{NO-BREAK SPACE}parameters\N{NO-BREAK SPACE}· sees\N{NO-BREAK SPACE}pictures" in (
        words_on(card)
    )
    qtbot.keyClick(card, Qt.Key.Key_Escape)
    assert stated.offered.phase == "closed"
    stated.show_card(FACTS)
    with qtbot.waitSignal(card.load.clicked):
        qtbot.keyClick(card, Qt.Key.Key_Return)
    assert [request.path for request in stated.requests] == ["/models/Qwen"]
    assert stated.offered.phase == "closed"


def test_a_card_says_why_a_load_failed_and_tries_again(qtbot, card, stated):
    problem = "qwen.gguf is cut short: download it again."
    stated.show_card(FACTS, "failed", problem)
    assert problem in words_on(card)
    with qtbot.waitSignal(card.load.clicked):
        press(card, "Try again")
    stated.show_card(None, "reading")
    assert "Try again" not in buttons(card) and "Checking files" in words_on(card)
    stated.show_card(dataclasses.replace(FACTS, memory=TOO_LARGE), "failed", "It does not fit.")
    with qtbot.waitSignal(card.load.clicked):
        press(card, "Load anyway")
    assert stated.requests[-1].options.anyway
    stated.show_card(dataclasses.replace(FACTS, memory=fit(1_200 * GB)))
    assert not {"Load", "Load anyway"} & set(buttons(card))
    assert any("far too large for this computer" in words for words in words_on(card))
    stated.show_card(FACTS, "unreadable", "config.json: not JSON.")
    assert not {"Try again", "Load"} & set(buttons(card))
    with qtbot.waitSignal(card.other.clicked):
        qtbot.keyClick(card, Qt.Key.Key_Return)


def test_what_is_changed_on_a_card_is_what_it_is_loaded_with(card, stated):
    stated.show_card(FACTS)
    card.load_fields.open(True)
    press(card, "Precision: Fast")
    assert stated.offered.own.load.numerics == "fast"
    press(card, "Number format: bfloat16")
    stated.offered.load()
    assert stated.requests[-1].options.numerics == "fast"
    assert stated.requests[-1].options.activations == "bfloat16"
    assert stated.settings.value.models == {}, "only what was loaded is remembered"


def test_a_draft_model_that_was_found_is_offered_in_the_menu(card, stated):
    found = "/models/Qwen-DFlash2"
    stated.show_card(dataclasses.replace(FACTS, draft_models=(found,)))
    stated.show_card(dataclasses.replace(FACTS, draft_models=(found,)))
    card.load_fields.open(True)
    (button,) = (
        b for b in card.findChildren(QPushButton) if b.accessibleName() == "Choose: Draft model"
    )
    assert [action.text() for action in button.menu().actions() if action.text()] == [
        "Qwen-DFlash2", "File…", "Folder…", "None",
    ]  # fmt: skip
    button.menu().actions()[0].trigger()
    assert stated.offered.own.load.draft_model == found
    stated.show_card(FACTS)
    assert button.menu().actions()[0].text() == "File…"


def test_details_on_demand(card, stated):
    stated.show_card(FACTS)
    assert not any("qwen3_5" in words for words in words_on(card))
    press(card, "Details")
    (details,) = [words for words in words_on(card) if "qwen3_5" in words]
    assert details.splitlines() == [
        "Model family: qwen3_5",
        "Format: Q4_K_M",
        "Longest chat: 256k tokens",
        "Memory: Needs 19 GB for a chat of 4,096 tokens (18 GB model + 1 GB chat), 27 GB for the "
        "longest. Fits in 48 GB.",
        "A note.",
    ]
    press(card, "Hide Details")
    assert not any("qwen3_5" in words for words in words_on(card))


def test_what_will_not_hold_is_said_at_once(card, stated):
    stated.show_card(dataclasses.replace(FACTS, warnings=("The draft model is not there.",)))
    assert "The draft model is not there." in words_on(card)
    stated.show_card(FACTS)
    assert "The draft model is not there." not in words_on(card)


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
def library(add, theme, stated):
    view = add(LibraryView())
    view.watch(*stated.watched, stated.settings)
    stated.find(*ENTRIES)
    return view


def names(table: ModelTable) -> list[str]:
    return [row.name for row in table.rows]


def cells(table: ModelTable, name: str) -> list[str]:
    item = table.item_of(lambda row: row.name == name)
    assert item is not None
    return [item.text(column) for column in range(table.columnCount())]


def make_current(table: ModelTable, name: str) -> None:
    item = table.item_of(lambda row: row.name == name)
    assert item is not None
    table.setCurrentItem(item)


def test_a_table_tells_what_is_known_of_a_model(library, stated):
    table = library.here.table
    assert cells(table, "Qwen") == ["Qwen", "27B", "Q4_K", "18 GB", "Yes", "fits", ""]
    assert cells(table, "org/Gemma")[1:] == ["", "", "3 GB", "", "", ""]
    spoken = table.item_of(lambda row: row.name == "Qwen").data(0, ACCESSIBLE)
    assert spoken == "Qwen. 27B. Q4_K. 18 GB. drafting heads. fits"
    broken = table.item_of(lambda row: row.name == "org/Broken")
    assert broken.child(0).text(0) == "Cannot be loaded: config.json is missing"
    assert said(POCKET.format) == "8-bit MLX"


@pytest.mark.parametrize("named", ["/m/cut.gguf", "cut.gguf"])
def test_what_is_wrong_with_a_file_is_said_without_its_name_above(library, stated, named):
    problem = f"{named}: the file is empty"
    stated.find(FoundModel("cut", Path("/m/cut.gguf"), RECENT, problem=problem))
    (row,) = library.here.table.rows
    assert row.problem == "Cannot be loaded: the file is empty"


def test_a_name_on_the_hub_is_not_longer_than_it_must_be(library, stated):
    stated.show_finds(HubFind("a/One-7B-GGUF", "GGUF"), HubFind("b/Two-GGUF", "MLX"))
    assert names(library.hub.table) == ["a/One-7B", "b/Two-GGUF"]
    assert library.hub.table.rows[0].tip.startswith("a/One-7B-GGUF\n")


def test_a_button_does_not_look_pointed_at_after_its_menu(add, theme):
    button, menu = add(ShortButton()), add(QMenu())
    open_below(button, menu)
    button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)
    button.move(QCursor.pos() + QPoint(100, 100))
    menu.aboutToHide.emit()
    assert not button.underMouse()
    assert button.menu() == menu


def test_the_model_in_use_has_a_mark(library, stated):
    table = library.here.table
    description = dataclasses.replace(described("Qwen", 18 * GB), path="/m/qwen.gguf")
    stated.models.take(ModelLoaded("/m/qwen.gguf", description))
    marked = [row.name for row in table.rows if row.is_in_use]
    assert marked == ["Qwen"]
    item = table.item_of(lambda row: row.is_in_use)
    assert not item.icon(0).isNull() and "in use" in item.data(0, ACCESSIBLE)


def test_folders_are_looked_into_again_whenever_the_page_is_shown(library, stated, monkeypatch):
    looks = []
    monkeypatch.setattr(stated.known, "refresh", lambda: looks.append("again"))
    for number in (1, 2):
        library.show()
        assert len(looks) >= number
        library.hide()


def test_the_mark_makes_no_other_row_higher(library, stated):
    table = library.here.table
    library.show()
    first, *_, last = [row.entry.path for row in table.rows]
    heights = set()
    for path in (last, first):
        description = dataclasses.replace(described("Qwen", GB), path=str(path))
        stated.models.take(ModelLoaded(str(path), description))
        heights.add(table.visualItemRect(table.topLevelItem(1)).height())
    assert len(heights) == 1


def test_a_file_has_one_name_before_and_after_it_was_used(library, stated):
    file = Path("/m/small-Q8_0.gguf")
    stated.find(FoundModel(file.name, file, "Here", GB))
    assert names(library.here.table) == ["small-Q8_0"]


def test_a_click_on_a_header_sorts_and_a_third_one_gives_that_up(qtbot, library):
    table = library.here.table
    library.resize(900, 600)
    library.show()
    header, given = table.header(), names(table)
    place = QPoint(header.sectionViewportPosition(3) + 10, 5)
    orders = []
    for _ in range(3):
        qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
        orders.append(names(table))
    assert orders[0] == ["org/Broken", "org/Gemma", "Qwen"]
    assert orders[1] == orders[0][::-1]
    assert orders[2] == given


def test_sizes_of_one_model_stand_below_its_name(library, stated):
    four, eight = (
        FoundModel(f"Qwen-4B-Q{bits}_0", Path(f"/m/q{bits}"), "Here", bits * GB, base="Qwen-4B")
        for bits in (4, 8)
    )
    other = FoundModel("Other-Q8_0", Path("/m/other"), "Here", GB, base="Other")
    stated.find(four, other, eight)
    table = library.here.table
    assert names(table) == ["Qwen-4B", "Qwen-4B-Q4_0", "Qwen-4B-Q8_0", "Other-Q8_0"]
    table.header().setSortIndicator(3, Qt.SortOrder.DescendingOrder)
    assert names(table) == ["Qwen-4B", "Qwen-4B-Q8_0", "Qwen-4B-Q4_0", "Other-Q8_0"]


def test_choosing_by_key_and_click_but_not_a_broken_one(qtbot, library, stated):
    table, offered = library.here.table, stated.offered
    library.resize(600, 600)
    library.show()
    for name in names(table):
        make_current(table, name)
        qtbot.keyClick(table, Qt.Key.Key_Return)
    assert offered.path == str(ENTRIES[1].path), "the broken one is not offered"
    offered.close()
    where = table.visualItemRect(table.item_of(lambda row: row.name == "Qwen")).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=where)
    assert offered.path == str(ENTRIES[0].path)


def test_the_filter_and_empty_states(library, stated):
    field = find(library, QLineEdit, "Filter models")
    field.setText("HUB gem")
    assert names(library.here.table) == ["org/Gemma"]
    field.setText("nothing like it")
    assert "No model matches “nothing like it”." in words_on(library)
    stated.find()
    assert any(text.startswith("No models found. Drop") for text in words_on(library))


def test_refreshing_keeps_the_place(library, stated):
    table = library.here.table
    make_current(table, "org/Gemma")
    stated.find(FoundModel("New", Path("/new"), "Recent"), *ENTRIES)
    assert table.entry == ENTRIES[1]


def test_a_narrow_table_does_without_some_columns(library, stated):
    table = library.here.table
    library.resize(520, 600)
    library.show()
    assert table.isColumnHidden(1) and not table.isColumnHidden(3)
    library.resize(900, 600)
    assert not table.isColumnHidden(1)


def test_a_search_by_words_and_format(qtbot, library, stated, monkeypatch):
    asked = []
    monkeypatch.setattr(stated.hub, "search", lambda *what: asked.append(what))
    field = find(library.hub, QLineEdit, "Search Hugging Face")
    qtbot.keyClicks(field, " qwen 9b ")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    find(library.hub, QPushButton, "Format: MLX").click()
    assert asked == [("qwen 9b", None), ("qwen 9b", "MLX")]


def test_keys_lead_from_the_search_to_what_was_found(qtbot, library, stated, monkeypatch):
    asked = []
    monkeypatch.setattr(stated.hub, "look", asked.append)
    hub = library.hub
    library.show_place("hub")
    library.show()
    library.activateWindow()
    field = find(hub, QLineEdit, "Search Hugging Face")
    stated.show_finds(HubFind("a/one", "GGUF", heads=True), HubFind("b/two"))
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert hub.table.hasFocus() and hub.table.entry.hub_id == "a/one"
    assert hub.table.selectedItems(), "it is marked, too"
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    assert asked == ["a/one"]


def test_a_model_of_the_hub_opens_and_offers_what_fits(qtbot, library, stated, monkeypatch):
    hub, fetched = library.hub, []
    monkeypatch.setattr(stated.downloads, "resume", fetched.append)
    stated.show_finds(HubFind("a/one", "GGUF", heads=True), HubFind("b/two"))
    small = HubOffer("a/one:Q4_K_M", "Q4_K_M", GB, True, "fits", "1 file, 1 GB; 9 GB free")
    large = HubOffer("a/one:F32", "F32", 99 * GB, None, "too-large", "No room", has_room=False)
    stated.show_offers("a/one", small, large)
    assert names(hub.table) == ["a/one", "Q4_K_M", "F32", "b/two"]
    assert hub.offer == small
    assert "1 file, 1 GB; 9 GB free" in words_on(hub)
    press(hub, "Download")
    make_current(hub.table, "F32")
    assert "No room" in words_on(hub)
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    press(hub, "Download")
    assert fetched == [small.link]


def test_what_came_is_offered_to_be_loaded_and_what_comes_not_again(
    qtbot, library, stated, monkeypatch
):
    hub, fetched = library.hub, []
    monkeypatch.setattr(stated.downloads, "resume", fetched.append)
    stated.show_finds(HubFind("a/one", "GGUF"))
    small = HubOffer("a/one:Q4_K_M", "Q4_K_M", GB, True, "fits", "1 file, 1 GB; 9 GB free")
    large = HubOffer("a/one:F32", "F32", 9 * GB, None, "tight", "9 GB", False, "/hub/f32.gguf")
    stated.show_offers("a/one", small, large)
    library.show_place("hub")
    library.show()
    library.activateWindow()
    get = button(hub, "Download")
    get.setFocus()
    qtbot.waitUntil(get.hasFocus)
    get.click()
    assert hub.table.hasFocus(), "not what comes after the button, which is of no use now"
    stated.show_downloads(DownloadFigures(small.link, "one", "running", 1, 2))
    press(hub, "Download")
    assert fetched == [small.link]
    stated.show_downloads(DownloadFigures(small.link, "one", "done", 2, 2, path="/hub/q4.gguf"))
    assert "1 GB · downloaded" in words_on(hub)
    press(hub, "Load…")
    assert stated.offered.path == "/hub/q4.gguf"
    make_current(hub.table, "F32")
    qtbot.keyClick(hub.table, Qt.Key.Key_Return)
    assert stated.offered.path == "/hub/f32.gguf", "it was here before, whatever room there is"
    assert fetched == [small.link]


def test_who_is_not_signed_in_can_do_so_where_that_is_needed(qtbot, library, stated, monkeypatch):
    hub, tokens = library.hub, []
    monkeypatch.setattr(stated.hub, "sign_in", tokens.append)
    panel = hub.findChild(SignIn)
    assert panel.isHidden()
    stated.hub.needs_sign_in = True
    stated.hub.changed.emit()
    assert not panel.isHidden()
    field = find(panel, QLineEdit, "Access token")
    assert field.echoMode() == QLineEdit.EchoMode.Password
    qtbot.keyClicks(field, " hf_secret ")
    press(panel, "Sign In")
    assert (tokens, field.text()) == (["hf_secret"], "")


def test_a_download_that_failed_gives_no_room_to_the_others(qtbot, library, stated):
    library.resize(900, 900)
    library.show()
    words = "no connection to the hub. Check the network and try again."
    failed = DownloadFigures("a", "A", "failed", 1, 2, words=words)
    stated.show_downloads(failed, DownloadFigures("b", "B", "done", 2, 2))
    rows = library.findChildren(DownloadRow)
    qtbot.waitUntil(lambda: rows[0].height() == rows[0].heightForWidth(rows[0].width()))
    assert rows[1].height() == rows[1].heightForWidth(rows[1].width())


def test_downloads_come_and_go(library, stated, monkeypatch):
    done = []
    monkeypatch.setattr(stated.downloads, "resume", done.append)
    stated.show_downloads(DownloadFigures("a", "A", "running"), DownloadFigures("b", "B", "done"))
    first = library.findChildren(DownloadRow)[0]
    stated.show_downloads(DownloadFigures("a", "A", "paused", 1, 2))
    assert first.accessibleName() == "Download of A"
    find(first, QToolButton, "Resume").click()
    assert done == ["a"]


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


def test_a_failed_download_says_why_and_can_go_on(library, stated, monkeypatch):
    done = []
    for name in ("pause", "resume", "cancel"):
        monkeypatch.setattr(stated.downloads, name, lambda key, name=name: done.append(name))
    stated.show_downloads(DownloadFigures("org/a", "A", "running", 1, 2, 1.0))
    (row,) = library.findChildren(DownloadRow)
    pause, cancel = row.findChildren(QToolButton)
    pause.click()
    problem = "A: its owners ask you to accept their terms."
    stated.show_downloads(
        DownloadFigures("org/a", "A", "failed", 1, 2, 0.0, problem, needs_sign_in=True)
    )
    assert problem in words_on(row)
    pause.click()
    cancel.click()
    assert done == ["pause", "resume", "cancel"]
    with_signal = []
    stated.hub.wanted.connect(lambda: with_signal.append(stated.hub.words))
    press(row, "Sign In…")
    assert with_signal == ["org/a"] and stated.hub.needs_sign_in


@pytest.fixture
def start(add, theme, stated):
    page = add(FirstRunView())
    page.asked = []
    page.watch(*stated.watched, page.asked.append)
    return page


def load(stated: StatedModels, path: str | None, name: str) -> None:
    """As if the engine had loaded it."""
    stated.models.take(ModelLoaded(path, dataclasses.replace(described(name, GB), path=path or "")))


def test_the_start_page_asks_and_offers_recent_models(qtbot, start, stated):
    stated.find(*ENTRIES)
    press(start, FOR_ALL[0])
    assert start.asked == [FOR_ALL[0]]
    press(start, "Qwen · 18 GB · drafting heads")
    assert stated.offered.path == str(ENTRIES[0].path)
    assert not any("Broken" in text for text in buttons(start))
    stated.offered.close()
    with qtbot.waitSignal(start.open.clicked):
        press(start, "Open…")
    press(start, "Start with the built-in one")
    assert stated.models.loading == LoadModel(None)
    load(stated, None, "Pocket model")
    assert "Start with the built-in one" not in buttons(start)
    assert "Pocket model" in words_on(start) and start._target.isHidden()
    stated.find()
    assert "Recent models" not in words_on(start)


def test_a_new_user_gets_a_model_in_three_steps(qtbot, start, stated, monkeypatch):
    fetched = []
    monkeypatch.setattr(stated.downloads, "resume", fetched.append)
    steps = start.findChild(FirstSteps)
    assert steps.isHidden(), "nobody knows yet whether there are models"
    stated.known._take(FoundHere((), ()))
    assert not steps.isHidden() and "Welcome to Headstart" in words_on(start)
    load(stated, None, "Pocket model")
    assert not steps.isHidden(), "the built-in one is none of theirs"
    first = stated.known.suggestions[0]
    press(steps, f"{first.name} · {said(first.detail)}")
    assert fetched == [first.link]
    stated.show_downloads(DownloadFigures(first.link, first.name, "running", GB, 4 * GB))
    assert "1.00 of 4.00 GB" in words_on(steps)
    done = DownloadFigures(first.link, first.name, "done", GB, GB, path="/hub/first.gguf")
    stated.show_downloads(done)
    stated.downloads.completed.emit(done)
    assert stated.models.loading == LoadModel("/hub/first.gguf")
    load(stated, "/hub/first.gguf", "First")
    assert steps.isHidden() and "First" in words_on(start)
    assert not stated.settings.value.is_new


def test_tab_goes_through_the_start_page_from_its_top_to_its_end(start, stated):
    composer, box, send = QWidget(), QLineEdit(), QPushButton("Send")
    column(box, send, of=composer)
    start.place_composer(composer)
    stated.known._take(FoundHere((), ()))
    load(stated, None, "Pocket model")
    start.window().activateWindow()
    names = ["Skip these steps and use the built-in model", "Browse Models"]
    names += [f"{one.name} · {said(one.detail)}" for one in stated.known.suggestions]
    names += ["", "Send", *map(said, questions_for(stated.models.description))]
    start.findChild(FirstSteps)._skip.setFocus()
    passed = []
    for _ in names:
        at = start.focusWidget()
        passed.append(at.accessibleName() or (at.text() if at is not box else ""))
        start.focusNextPrevChild(True)
    assert passed == names and len(names) == 10


def test_the_composer_is_in_view_however_low_the_start_page_is(start, stated):
    composer = QWidget()
    box = QLineEdit()
    column(box, of=composer)
    composer.setFixedHeight(80)
    start.place_composer(composer)
    stated.known._take(FoundHere((), ()))
    start.show()
    start.window().activateWindow()
    box.setFocus()
    for width, height in ((700, 900), (560, 480), (700, 900)):
        start.resize(width, height)
        settle()
        place = composer.mapTo(start, composer.rect().bottomLeft())
        assert place.y() < height and start.focusWidget() is box
        assert start.findChild(QScrollArea).isAncestorOf(composer) == (height == 900)


def test_the_focus_leaves_the_first_steps_with_them(start, stated):
    stated.known._take(FoundHere((), ()))
    skip = start.findChild(FirstSteps)._skip
    skip.setFocus()
    skip.click()
    assert start.focusWidget() is start or start.hasFocus()


@pytest.mark.parametrize("how", ["skipped", "dropped", "found"])
def test_who_has_a_model_needs_no_first_steps(start, stated, how):
    steps = start.findChild(FirstSteps)
    stated.known._take(FoundHere(ENTRIES if how == "found" else (), ()))
    if how == "skipped":
        press(steps, "Skip these steps and use the built-in model")
    elif how == "dropped":
        load(stated, "/m/mine.gguf", "Mine")
    assert steps.isHidden() and not stated.settings.value.is_new


def test_the_first_page_has_room_in_a_small_window(qtbot, start, stated):
    name = "org/Model-" + "long" * 60
    stated.find(*(FoundModel(name, Path(f"/m{n}"), "Recent", n * GB) for n in range(1, 5)))
    start.resize(400, 320)
    start.show()
    assert (start.width(), start.height()) == (400, 320)  # it scrolls, and asks for no more room
    pressed = [b for b in start.findChildren(QPushButton) if b.isVisible()]
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
    overlay.show_plan(DropPlan("load", "Load Qwen", "18 GB, 1 drafting head."))
    window.resize(640, 400)
    assert overlay.geometry() == window.rect()
    assert overlay.accessibleDescription() == "Load Qwen 18 GB, 1 drafting head."

    def redness():
        image = overlay.grab().toImage()
        edge = [image.pixelColor(16, y) for y in range(40, 200)]
        return max(colour.red() - colour.green() for colour in edge)

    assert redness() < 20
    overlay.show_plan(DropPlan("refused", "x.zip cannot be used", "It is an archive."))
    assert redness() > 20


def test_details_stay_open_when_an_option_is_changed(card, stated):
    stated.show_card(FACTS)
    press(card, "Details")
    stated.show_card(dataclasses.replace(FACTS, memory=TOO_LARGE))
    assert button(card, "Hide Details").isVisibleTo(card)
    stated.show_card(dataclasses.replace(FACTS, name="Another"))
    assert button(card, "Details").isVisibleTo(card)


@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_length_can_be_typed_anywhere_into_the_word_for_the_longest(qtbot, card, stated, place):
    stated.show_card(FACTS)
    edit = card.load_fields.findChild(NumberEdit)
    assert edit.text() == "maximum"
    edit.lineEdit().setCursorPosition(place)
    qtbot.keyClicks(edit.lineEdit(), "2048")
    assert edit.text() == "2048" and edit.value() == 2048


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
    assert len(rows) == 4
    qtbot.waitUntil(lambda: all(row.height() == row.sizeHint().height() for row in rows))
    assert layer.findChild(QScrollArea).verticalScrollBar().maximum() > 0
    foot = [button(card, name) for name in ("Cancel", "Load")]
    assert all(part.visibleRegion().boundingRect().size() == part.size() for part in foot)
    bottom = card.findChild(Tick)
    assert bottom.visibleRegion().isEmpty()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    while window.focusWidget() is not bottom:
        qtbot.keyClick(window.focusWidget(), Qt.Key.Key_Tab)
    assert not bottom.visibleRegion().isEmpty()
    window.resize(760, 1200)
    area = layer.findChild(QScrollArea)
    qtbot.waitUntil(lambda: area.verticalScrollBar().maximum() == 0)


def test_the_questions_to_begin_with_suit_the_model(start):
    view, asked = start, start.asked
    made = described("Any", 10**9)
    kinds = {
        "palindrome": dataclasses.replace(made, name="Qwen3-Coder", parameters=10**9),
        "ball": dataclasses.replace(made, parameters=10**9, can_switch_thinking=True),
        "vaccines": dataclasses.replace(made, parameters=10**9),
        "drafting": dataclasses.replace(made, parameters=4_000_000),
    }
    for word, model in kinds.items():
        view.show_questions(questions_for(model))
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        texts = [button.accessibleName() for button in view.findChildren(ShortButton)]
        assert sum(word in text for text in texts) == 1
        next(b for b in view.findChildren(ShortButton) if word in b.accessibleName()).click()
        assert word in asked[-1]
