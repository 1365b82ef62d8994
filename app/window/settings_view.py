"""The settings page: how the window looks, and what a new chat begins with."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from PySide6.QtCore import QCoreApplication, QEvent, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QLabel, QWidget

from app.start.threads import Turns
from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings, as_preset
from app.window.controls.choices import DropDown, Option, Segments, Tick
from app.window.controls.fields import TextField
from app.window.controls.labels import ShortButton, label, paragraph, tabular
from app.window.controls.layouts import STRETCH, Wide, centred, column, named, row, scrolled
from app.window.language import percent, tr
from app.window.look import look
from app.window.session_panel.chat_fields import ChatFields
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SamplingGroup
from mlx_engine.values.words import Words, size_words

COLOURS = (
    Option("system", Words("System")),
    Option("light", Words("Light")),
    Option("dark", Words("Dark")),
)

LANGUAGES = (
    Option("system", Words("System")),
    Option("en", "English"),
    Option("de", "Deutsch"),
)

WIDTHS = (
    Option("narrow", Words("Narrow")),
    Option("usual", Words("Default")),
    Option("wide", Words("Wide")),
    Option("full", Words("Whole window")),
)


class Section(QWidget):
    """A part of the page, hidden and empty until it is made; what it is to show before is seen
    then.
    """

    def __init__(self, title: str, page: QWidget) -> None:
        super().__init__(page)
        self.hide()
        self.setAccessibleName(title)
        self._is_made = False

    def make(self) -> Iterator[None]:
        """Fill it, and wear the look; each step takes milliseconds."""
        raise NotImplementedError

    def _heading(self) -> QLabel:
        return label(self.accessibleName(), "heading")


MARGINS = (0, 8, 0, 0)
"""Of a section."""


class AppearanceSection(Section):
    """Signals: `changed`(AppSettings), and `zoom_wanted`(int) in steps, 0 for the normal size."""

    changed = Signal(object)
    zoom_wanted = Signal(int)

    def __init__(self, page: QWidget) -> None:
        super().__init__(tr("Appearance"), page)
        self._shown = AppSettings()

    def make(self) -> Iterator[None]:
        """All at once."""
        self._colours = Segments(tr("Theme"))
        self._colours.show_options(COLOURS)
        self.setFocusProxy(self._colours)
        self._language = DropDown(tr("Language"))
        self._language.show_options(LANGUAGES)
        in_turn = paragraph(tr("Takes effect the next time Headstart starts."), "muted")
        self._size = label()
        tabular(self._size)
        steps = (
            (tr("Smaller"), tr("Smaller text"), -1),
            (tr("Larger"), tr("Larger text"), 1),
            (tr("Normal"), tr("Normal text size"), 0),
        )
        sizes = QWidget()
        row(*(self._step(*step) for step in steps), STRETCH, of=sizes, spacing=8)
        self._width = Segments(tr("Text width"))
        self._width.show_options(WIDTHS)
        self._drafted = Tick(tr("Highlight drafted words"))
        self._notify = Tick(tr("Notify me when a long answer finishes in the background"))
        choices = (
            self._heading(),
            named(tr("Theme"), self._colours),
            named(tr("Language"), self._language, in_turn),
            named(tr("Text size"), self._size, sizes),
            named(tr("Text width"), self._width),
        )
        ticks = self._drafted, self._notify
        column(*choices, *ticks, of=self, margins=MARGINS, spacing=12)
        self._colours.chosen.connect(lambda value: self._take(theme=value))
        self._language.chosen.connect(lambda value: self._take(language=value))
        self._width.chosen.connect(lambda value: self._take(text_width=value))
        self._notify.clicked.connect(lambda is_on: self._take(notify=is_on))
        self._drafted.clicked.connect(lambda is_on: self._take(show_drafted=is_on))
        self._is_made = True
        self.show_appearance(self._shown)
        yield

    def _step(self, words: str, name: str, step: int) -> ShortButton:
        button = ShortButton()
        button.show_text(words)
        button.setAccessibleName(name)
        button.clicked.connect(lambda: self.zoom_wanted.emit(step))
        return button

    def show_appearance(self, settings: AppSettings) -> None:
        """Show what holds now; nothing is emitted."""
        self._shown = settings
        if not self._is_made:
            return
        self._colours.select(settings.theme)
        self._language.select(settings.language)
        self._size.setText(percent(settings.text_zoom))
        self._size.setAccessibleName(
            tr("Text size {percent:.0f} %", percent=100 * settings.text_zoom)
        )
        self._drafted.setChecked(settings.show_drafted)
        self._width.select(settings.text_width)
        self._notify.setChecked(settings.notify)

    def _take(self, **changes: object) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self.changed.emit(self._shown)


IDLE_MINUTES = (0, 5, 15, 30, 60, 240)
PROMPT_FILES_GB = (0, 2, 4, 8, 16, 32)


class ModelsSection(Section):
    """When a model is in memory, and what is kept in files. Signals: `changed`(AppSettings);
    `seen`, when the page is looked at; `forget_wanted`, of all that files keep.
    """

    changed = Signal(object)
    seen = Signal()
    forget_wanted = Signal()

    def __init__(self, page: QWidget) -> None:
        super().__init__(tr("Models"), page)
        self._shown = AppSettings()

    def make(self) -> Iterator[None]:
        """All at once."""
        self._at_start = Tick(tr("Load the last model when Headstart starts"))
        self._idle = DropDown(tr("Unload an idle model"))
        note = paragraph(tr("Your next message loads it again."), "muted")
        idle = named(self._idle.accessibleName(), self._idle, note)
        self._files = DropDown(tr("Keep chats ready on disk"))
        note = paragraph(
            tr(
                "Stores what a model has read, so that chats continue at once after a restart. "
                "Only you can read these files. Takes effect the next time a model loads."
            ),
            "muted",
        )
        self._held, self._forget = paragraph(), ShortButton()
        tabular(self._held)
        self._forget.show_text(tr("Delete all"))
        self._forget.setAccessibleName(tr("Delete everything stored of chats"))
        self._forget.clicked.connect(self.forget_wanted)
        held = QWidget()
        row(Wide(self._held), self._forget, of=held, spacing=8)
        files = named(self._files.accessibleName(), self._files, note, held)
        choices = self._heading(), self._at_start, idle, files
        column(*choices, of=self, margins=MARGINS, spacing=12)
        self._at_start.clicked.connect(lambda is_on: self._take(load_at_start=is_on))
        self._idle.chosen.connect(lambda minutes: self._take(idle_minutes=int(minutes)))
        self._files.chosen.connect(lambda gb: self._take(prompt_files_gb=int(gb)))
        self._is_made = True
        self.show_settings(self._shown)
        self.show_kept(0)
        yield

    def show_kept(self, nbytes: int) -> None:
        """How much files hold now."""
        words = tr("Using {size} now.", size=size_words(nbytes))
        self._held.setText(words if nbytes else tr("Nothing is stored now."))
        self._forget.setEnabled(nbytes > 0)

    def show_settings(self, settings: AppSettings) -> None:
        """Show what holds now; nothing is emitted."""
        self._shown = settings
        if not self._is_made:
            return
        self._at_start.setChecked(settings.load_at_start)
        minutes = sorted({*IDLE_MINUTES, settings.idle_minutes})
        options = [Option(str(n), idle_words(n)) for n in minutes]
        self._idle.show_options(options, str(settings.idle_minutes))
        sizes = sorted({*PROMPT_FILES_GB, settings.prompt_files_gb})
        options = [Option(str(n), size_words(n * 1e9) if n else tr("Not at all")) for n in sizes]
        self._files.show_options(options, str(settings.prompt_files_gb))

    def _take(self, **changes: object) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self.changed.emit(self._shown)

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        """What files hold may have changed since."""
        super().showEvent(event)
        self.seen.emit()


def idle_words(minutes: int) -> str:
    """ "After 30 minutes", "After 1 hour", "Never" for 0."""
    if not minutes:
        return tr("Never")
    if minutes % 60:
        return tr("After {n} minutes", "After 1 minute", minutes)
    return tr("After {n} hours", "After 1 hour", minutes // 60)


EXPLANATION = Words(
    "New chats start with these settings; existing chats keep their own. Where sampling is left "
    "empty, the model's recommendation is used."
)


class NewChatSection(Section):
    """Signal `changed`(ChatSettings): the user wants new chats to begin with these."""

    changed = Signal(object)

    def __init__(self, page: QWidget) -> None:
        super().__init__(tr("New chats"), page)
        self._shown = ChatSettings()

    def make(self) -> Iterator[None]:
        """One group of controls after another, and then one after another comes to its place."""
        draft = DraftGroup(of_chat=False)
        yield
        sampling = SamplingGroup()
        yield
        system = TextField(
            tr("System prompt of new chats"), 4, tr("How to answer in every new chat")
        )
        self._fields = fields = ChatFields(system, draft, sampling)
        fields.changed.connect(self._take)
        self._reset = ShortButton()
        self._reset.show_text(tr("Restore Defaults"))
        self._reset.clicked.connect(self._take_own)
        explanation, first, last = paragraph(EXPLANATION, "muted"), QWidget(), QWidget()
        opening = self._heading(), explanation, system, fields.thinking, fields.template
        column(*opening, of=first, spacing=12)
        row(self._reset, STRETCH, of=last)
        self._is_made = True
        self.show_settings(self._shown)  # now that no field would show as a window
        parts = column(of=self, margins=MARGINS, spacing=12)
        for part in (first, fields.draft, fields.sampling, last):
            parts.addWidget(part)
            part.show()  # by itself it would be there a turn later, and squeeze the others
            yield

    def show_settings(self, settings: ChatSettings) -> None:
        """Show what new chats begin with now; nothing is emitted."""
        self._shown = settings
        if not self._is_made:
            return
        self._fields.show_settings(settings)
        self._reset.setEnabled(as_preset(settings) != ChatSettings())

    def _take(self, changes: Mapping[str, object]) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self._reset.setEnabled(as_preset(self._shown) != ChatSettings())
        self.changed.emit(self._shown)

    def _take_own(self) -> None:
        self.show_settings(ChatSettings())
        self.changed.emit(self._shown)


WIDEST = 620
"""Pixels of a line of settings at a zoom of 1."""


class SettingsView(QWidget):
    """Arranges `appearance`, `models` and `new_chat`; the owner shows values in them and hears
    them. They are made when the page is first shown, as they would be a third of the widgets that
    a window has at its start: the first at once, the others in turns to come.

    Signal `made`: all that is in them is there.
    """

    made = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Settings"))
        self.appearance, self.models = AppearanceSection(self), ModelsSection(self)
        self.new_chat = NewChatSection(self)
        self.setFocusProxy(self.appearance)
        self._lines: QWidget | None = None
        self._turns, self._steps = Turns(self), self._make()

    def _make(self) -> Iterator[None]:
        self._lines = lines = QWidget()
        sections = column(STRETCH, of=lines, margins=(24, 0, 24, 24), spacing=12)
        body = QWidget()
        body.setLayout(centred(lines))
        area = scrolled(body)
        self._fit()
        column(Wide(area), of=self)
        for place, section in enumerate((self.appearance, self.models, self.new_chat)):
            sections.insertWidget(place, section)
            for _ in section.make():
                area.show()
                section.show()
                # at once: asked for from part to part, it takes turns in which all is squeezed
                QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest)
                yield
        self.made.emit()

    def _make_more(self) -> None:
        for _ in islice(self._steps, 1):
            self._turns.do(self._make_more)

    def _fit(self) -> None:
        if self._lines:
            self._lines.setMaximumWidth(round(WIDEST * look().zoom))

    # Qt

    def showEvent(self, event: QShowEvent) -> None:
        """The first time there is something to show."""
        super().showEvent(event)
        if self._lines is None:
            self._make_more()

    def changeEvent(self, event: QEvent) -> None:
        """Lines are as wide as the text wants them."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()
