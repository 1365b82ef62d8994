"""Every text of the window can be translated, figures are written as the language does."""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx
import pytest
from filled_window import filled_window
from metal_emulator import EmulatorLauncher
from PySide6.QtCore import QLocale, Qt, QTranslator
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from scripted_engine import Answer
from windows import close, folders_in, running, scripted

from app.app import App
from app.library.dropped import what_is
from app.library.machine import Machine, chosen_for, first_choices
from app.state.round_history import LastAnswer
from app.state.settings import save_settings
from app.values.app_settings import AppSettings, Language
from app.values.attached_text import Refused
from app.values.chats import ListedChat
from app.values.models import DownloadFigures
from app.window.controls.labels import ShortLabel
from app.window.controls.layouts import Group
from app.window.drafting_view import kernel_names, kernels_in_words
from app.window.language import number, said, tr
from app.window.models.downloads import progress_in_words
from app.window.models.first_run_view import QUESTIONS
from app.window.session_panel.abilities import ModelAbilities, SourceAbility, in_effect
from app.window.sidebar.chat_list import COPY
from metal_kernels.choice import NO_KERNELS, Kernels, KernelWork
from metal_kernels.kernel import Launch
from mlx_engine.drafting.contract import DraftChoice, DraftOffer
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.record import PassCosts
from mlx_engine.loading.gguf.header import read_gguf_header
from mlx_engine.self_check.kernel_record import KernelRecord
from mlx_engine.self_check.kernel_states import kernel_states
from mlx_engine.self_check.kernel_trials import TRIALS, try_kernel
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import DraftOptions
from mlx_engine.values.words import Words, join_words, size_words

Speak = Callable[[Language], None]
OF_MODELS = re.compile(r"\S+/\S+|\S+( model)?\. \. (GGUF|MLX|8-bit)|8-bit|4-bit")
BRACKETED = re.compile(r"⟦[^⟦⟧]*(?:⟧|…$)")


class Brackets(QTranslator):
    """A language that is English in brackets."""

    def isEmpty(self) -> bool:
        return False

    def translate(
        self, context: str, text: str, disambiguation: str | None = None, n: int = -1
    ) -> str:
        return f"⟦{text}⟧" if context == "" else text


def texts_of(widget: QWidget) -> Iterator[str]:
    """What is read on it or of it."""
    yield from (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription())
    match widget:
        case QLabel() | QAbstractButton():
            yield widget.text()
        case QLineEdit() | QPlainTextEdit():
            yield widget.placeholderText()
        case QComboBox():
            yield from (widget.itemText(row) for row in range(widget.count()))
        case QAbstractItemView():
            model = widget.model()
            for row in range(model.rowCount()):
                for role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
                    yield str(model.index(row, 0).data(role) or "")
    yield from (action.text() for action in widget.actions())


def rest_of(text: str) -> str:
    """What no translation would change."""
    while BRACKETED.search(text):
        text = BRACKETED.sub("", text)
    return text


OWN = {"Headstart", "Hugging Face", "GGUF", "MLX", "English", "Deutsch", "Pocket model"}
"""Names, which no language changes."""
NEVER_SHOWN = {"Scroll Left", "Scroll Right"}
"""Of the arrows of Qt's tab bar, which the settings' is without."""
FILLED = {
    *("Kernels", "Today", "notes.txt", "Something to know", "Model"),
    *("Qwen", "1 drafting head", "Load Qwen 18 GB"),
}
"""Of the user's chats, and of models: what filled_window fills in."""


@pytest.fixture
def brackets(qapp):
    translator = Brackets()
    qapp.installTranslator(translator)
    yield
    qapp.removeTranslator(translator)


def untranslated(*roots: QWidget) -> list[str]:
    """What no translation would change."""
    widgets = (widget for root in roots for widget in (root, *root.findChildren(QWidget)))
    rests = {
        rest_of(text).replace("\xa0", " ").strip(" ·:,.…\n")
        for widget in widgets
        for text in texts_of(widget)
    }
    return sorted(text for text in rests - NEVER_SHOWN if re.search("[A-Za-z]{3}", text))


def test_every_text_of_the_filled_window_can_be_translated(qtbot, brackets):
    made = filled_window(qtbot)
    for group in made.window.findChildren(Group):
        group.open(True)
    seen = set(untranslated(made.window)) - OWN - {*QUESTIONS}
    assert {text for text in seen if not OF_MODELS.fullmatch(text)} == FILLED


def test_every_text_of_the_running_app_can_be_translated(qapp, qtbot, tmp_path, brackets):
    with running(qapp, qtbot, tmp_path, scripted(Answer("2 + 2 = 4", pause_s=0.0))) as driven:
        app, widgets, seen = driven.app, driven.widgets, list[str]()
        driven.ask("2 * 2")
        driven.widgets.sidebar.list.make_folder([1])
        app.chats.duplicate(1, tr(COPY))
        app.chats.delete(1)
        chats = [ListedChat(chat) for chat in app.store.chats.listed()]
        (folder,) = app.store.folders.listed()
        listed, here = widgets.sidebar.list, widgets.library.here
        for menu in (
            listed.menu_for(chats),
            listed.menu_for(chats * 2),
            listed.folder_menu_for(folder, (1, 2)),
            here.menu_of(here.table.topLevelItem(0)),
        ):
            assert menu is not None
            seen += untranslated(menu)
        for place in ("hub", "here"):
            widgets.library.show_place(place)
            seen += untranslated(widgets.window)
        app.chats.show_trash(True)
        app.offered.offer(None)
        driven.until(lambda: not widgets.card.isHidden())
        widgets.transcript.open_find()
        app.compare.run("3 + 3")
        app.drops.hover([__file__])
        app.files.export_into([chats[0].chat.id], tmp_path / "gone", ".md")
        driven.until(lambda: not app.compare.is_running)
        seen += untranslated(widgets.window)
        seen += untranslated(*(action.menu() for action in widgets.window.menuBar().actions()))
    ours = {text for text in set(seen) - OWN - {*QUESTIONS} if not OF_MODELS.fullmatch(text)}
    assert ours == set()


def test_german(speaking):
    assert tr("{n:,} chats", "1 chat", 1) == "1 chat", "without a translation, as in the source"
    speaking("de")
    assert tr("New chat") == "Neuer Chat"
    assert tr("{n:,} chats", "1 chat", 1) == "1 Chat"
    assert tr("{n:,} chats", "1 chat", 12_345) == "12.345 Chats"
    assert number(1234.5, ",.1f") == "1.234,5"
    assert said("New chat") == "New chat", "a chat may be called that"
    told = join_words(("Qwen", size_words(18.2e9), Words("fits")))
    assert told == "Qwen · 18.2 GB · fits", "in the log and the terminal"
    assert said(told) == "Qwen · 18,2 GB · passt"
    assert QApplication.translate("QPlatformTheme", "Cancel") == "Abbrechen", "Qt's own"


def test_an_error_is_said_in_the_language_of_the_window(speaking, tmp_path):
    speaking("de")
    file = tmp_path / "cut.gguf"
    file.write_bytes(b"GGUF\3\0\0\0" + bytes(12))
    with pytest.raises(BadModelFile) as caught:
        read_gguf_header(file)
    english = str(caught.value)
    assert english.endswith("damaged at byte 16, the file is cut short. Download the file again.")
    german = "beschädigt bei Byte 16, die Datei ist abgeschnitten. Die Datei noch einmal "
    assert said(english) == f"{file}: {german}herunterladen."
    assert said(str(pickle.loads(pickle.dumps(caught.value)))) == said(english), "from a process"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.gguf", b""),
        ("a.gguf", b"noise" * 9),
        ("a.gguf", b"version https://git-lfs.github.com/spec/v1"),
        ("a.safetensors", b"abc"),
        ("a.safetensors", b"\xff" * 24),
    ],
)
def test_what_is_wrong_with_a_dropped_file_is_said_in_it_too(speaking, tmp_path, name, data):
    speaking("de")
    (tmp_path / name).write_bytes(data)
    for dropped in (tmp_path / name, tmp_path):
        refused = what_is(str(dropped))
        assert isinstance(refused, Refused)
        assert said(refused.words) != str(refused.words)
        assert not {"the", "download"} & set(said(refused.words).split())


def test_kernels_are_said_in_it_too(speaking):
    speaking("de")
    none = kernels_in_words(kernel_states(NO_KERNELS))
    assert none.endswith("Dieser Computer hat kein Metal, Apples Zugang zum Grafikprozessor.")
    kernels = Kernels(EmulatorLauncher())
    kernels.served_row_counts("attention", KernelWork("", 640, 640))
    told = kernels_in_words(kernel_states(kernels)).split("\n")
    assert "1 aus: Nicht für Modelle wie dieses gemacht." in told
    names = kernel_names(kernel_states(kernels))
    assert "Aus. Nicht für Modelle wie dieses gemacht: Zurückblicken auf den Chat." in names


def test_what_was_found_of_kernels_is_said_in_it_after_it_was_remembered(speaking, tmp_path):
    class Broken:
        def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
            raise RuntimeError("no memory")

    class Off:
        def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
            return [one + 1 for one in EmulatorLauncher(check=False).run(launch, inputs)]

    speaking("de")
    noise = next(one for one in TRIALS if one.name == "noise")
    file, here = tmp_path / "kernels.json", dict[str, str]()
    other = try_kernel(noise, Broken(), mx.float32, KernelRecord(file, here)).trouble
    assert said(other) == "er läuft nicht (RuntimeError('no memory'))"

    def remembered() -> list[str]:
        return [
            said(one.wrong) for one in KernelRecord(file, here).known_verdicts(mx.float32).values()
        ]

    try_kernel(noise, Off(), mx.float32, KernelRecord(file, here))
    wrong = "auf dieser GPU ist noise falsch: sein Ergebnis ist nicht das seiner Referenz"
    assert remembered() == [wrong]
    with KernelRecord(file, here).claim_trial("noise float32"):
        (died,) = remembered()
    assert died.endswith("noise falsch: das Programm endete, während er erprobt wurde")


def test_rows_of_the_hub_and_of_downloads_are_said_in_it_too(speaking):
    speaking("de")
    rows = {said(row.about) for row in chosen_for(Machine(9 * 10**9))}
    assert {"Für das meiste", "Das größte der Familie"} <= rows
    assert said(first_choices(Machine(9 * 10**9))[0].detail) == "Für das meiste · 5,9 GB zu laden"
    paused = DownloadFigures("", "", "paused", 10**9, 7 * 10**9)
    assert progress_in_words(paused) == "1,00 von 7,00 GB · angehalten"
    assert progress_in_words(DownloadFigures("", "", "waiting")) == "Wartet"


def test_the_system_speaks_the_first_language_that_there_is(speaking, monkeypatch):
    for languages, words in ((["en-GB", "de-DE"], "New chat"), (["fr-FR", "de-AT"], "Neuer Chat")):
        monkeypatch.setattr(QLocale, "uiLanguages", lambda _, languages=languages: languages)
        speaking("system")
        assert tr("New chat") == words


def test_the_window_begins_in_the_language_of_the_settings(qapp, tmp_path, speaking):
    folders = folders_in(tmp_path)
    save_settings(folders.settings_file, AppSettings(language="de"))
    app = App(qapp, folders, scripted())
    menus = [action.text() for action in app.widgets.window.menuBar().actions()]
    assert menus == ["Ablage", "Bearbeiten", "Chat", "Darstellung", "Fenster", "Hilfe"]
    close(app)


@pytest.mark.parametrize("language", ["en", "de"])
def test_why_the_last_answer_was_not_drafted_is_told_whole(speaking, qtbot, wear, language):
    """One line in the panel, all of it under the pointer and to a screen reader."""
    speaking(language)
    never, falls = (PassCosts(tuple([1.0] + [1 + gain] * 8), 0.1) for gain in (11.2, 0.15))
    policies = [DepthPolicy(lambda costs=costs: costs) for costs in (never, falls)]
    for _ in range(40):
        policies[1].learn_round(DraftChoice(1, None, by="mtp"), 1, 0, 1.2)
    words = ShortLabel(name="In effect")
    qtbot.addWidget(words)
    words.resize(249, 100)
    words.show()
    wear("light", 1.0)
    able = ModelAbilities((SourceAbility("mtp", 8),))
    for why in (policy.plan_round((DraftOffer("mtp"),), "auto", None).why for policy in policies):
        assert why is not None and why.code.startswith("parked")
        whole = in_effect(DraftOptions(), able, LastAnswer(0, 0, 0, why))
        words.show_text(whole)
        assert words.text().endswith("…") and whole.startswith(words.text()[:-1].strip())
        assert words.toolTip().split() == whole.split()
        assert words.accessibleDescription().split() == whole.split()
