"""The card of a model, with the options to load it with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QAction, QActionGroup, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QWidget,
)
from typing_extensions import override

from app.state.card import OfferedModel
from app.state.settings import KeptSettings
from app.values.app_settings import ModelSettings
from app.window.controls.bound import Bound, Control
from app.window.controls.choices import Option, Segments, Tick
from app.window.controls.dialogs import choose_file, choose_folder
from app.window.controls.fields import on_key
from app.window.controls.labels import (
    describe,
    label,
    open_below,
    paragraph,
    say,
    set_role,
    set_tip,
)
from app.window.controls.layouts import Group, Wide, column, named, row
from app.window.controls.numbers import NumberField, NumberKind
from app.window.controls.scroll_bar import overlay_bar
from app.window.language import DRAFTING_HEADS, TOKEN, tr
from app.window.models.model_facts import ModelFacts
from mlx_engine.values.options import Misfit
from mlx_engine.values.words import Words

NUMERICS = (
    Option(
        "auto",
        Words("Automatic"),
        what=Words("Exact, unless that would noticeably slow things down."),
    ),
    Option(
        "exact", Words("Exact"), what=Words("Always the same words, with and without drafting.")
    ),
    Option(
        "fast",
        Words("Fast"),
        what=Words("Slightly faster. With drafting, a word may occasionally differ."),
    ),
)
ACTIVATIONS = (
    Option("auto", Words("Automatic"), what=Words("The fastest one on this computer.")),
    Option("float16", Words("float16"), what=Words("Fast on every Mac.")),
    Option(
        "bfloat16",
        Words("bfloat16"),
        what=Words("What most models were made with; slow on M1 and M2."),
    ),
)
BITS = (
    Option(16, Words("16-bit")),
    Option(8, Words("8-bit")),
    Option(4, Words("4-bit")),
)
ABOUT_PRECISION = Words("Whether answers have exactly the same words with and without drafting.")
ABOUT_ACTIVATIONS = Words(
    "The kind of 16-bit numbers that the model computes in. It changes the speed, and answers a "
    "little."
)
ABOUT_BITS = Words(
    "How precisely the model remembers the chat. Fewer bits use less memory and change answers "
    "slightly."
)
ABOUT_HEAD_BITS = Words(
    "How precisely the drafting heads remember the chat. Fewer bits use less memory; answers stay "
    "the same."
)
KEEP = Words("Stays in memory even when unused for a long time, so it can answer right away.")
MODEL_FILES = Words("Models (*.gguf *.safetensors)")
CONTEXT = NumberKind(8, 2**31, 1024)


class PlaceField(Control):
    """A field for a file, a folder, or where allowed a hub id.

    settings_file: holds the folder of the last file dialog. Signal `chosen`(str | None).
    """

    def __init__(self, name: str, what: str, none: str) -> None:
        """none: placeholder for no file."""
        super().__init__()
        self.settings_file: KeptSettings | None = None
        self._name, self._place = name, ""
        self._edit = QLineEdit()
        self._edit.setAccessibleName(name)
        self._edit.setPlaceholderText(none)
        describe(self._edit, what)
        set_tip(self, what)
        choose, menu = QPushButton(tr("Choose…")), QMenu(self)
        choose.setAccessibleName(tr("Choose: {name}", name=name))
        describe(choose, what)
        menu.addAction(tr("File…"), self._choose_file)
        menu.addAction(tr("Folder…"), self._choose_folder)
        menu.addSeparator()
        self._none = menu.addAction(none, lambda: self._take(""))
        open_below(choose, menu)
        self._menu, self._found = menu, QActionGroup(self)
        row(Wide(self._edit), choose, of=self, spacing=8)
        self._edit.editingFinished.connect(lambda: self._take(self._edit.text().strip()))

    def offer(self, places: Sequence[str]) -> None:
        """List places that were found at the top of the menu."""
        for action in self._found.actions():
            self._menu.removeAction(action)
            self._found.removeAction(action)
            action.deleteLater()
        for place in places:
            action = QAction(Path(place).name, self._found)
            action.triggered.connect(lambda *_, place=place: self._take(place))
            self._menu.insertAction(self._menu.actions()[0], action)

    def set_value(self, place: object) -> None:
        """Show a path or hub id, None for none, without emitting it."""
        self._place = str(place or "")
        self._edit.setText(self._place)

    def _take(self, place: str) -> None:
        if place != self._place:
            self.set_value(place)
            self.chosen.emit(place or None)

    def _choose_file(self) -> None:
        if self.settings_file is not None:
            path = choose_file(self.window(), self._name, tr(MODEL_FILES), self.settings_file)
            self._take(path or self._place)

    def _choose_folder(self) -> None:
        if self.settings_file is not None:
            path = choose_folder(self.window(), self._name, self.settings_file)
            self._take(path or self._place)


class LoadFields(Group):
    """Fields for the options to load the offered model with."""

    _offered: OfferedModel
    _known: ModelSettings | None = None

    def __init__(self) -> None:
        about = Words("How the model is loaded. The defaults suit most models.")
        super().__init__(Words("Load options"), is_open=False, what=about)
        self._bound = bound = Bound()
        what = tr(
            "The longest chat, in tokens. A shorter one takes less memory. {token}", token=TOKEN
        )
        self._context = NumberField(tr("Context length"), CONTEXT, what, tr("maximum"))
        heads = PlaceField(
            tr("Drafting heads"),
            tr(
                "A file or folder of drafting heads, where they are not in the model's own files. "
                "{heads}",
                heads=DRAFTING_HEADS,
            ),
            tr("Included with the model"),
        )
        vision = PlaceField(
            tr("Picture part"),
            tr(
                "The file with which a GGUF model sees pictures (mmproj), where it is not beside "
                "the model."
            ),
            tr("Beside the model"),
        )
        self._drafter = drafter = PlaceField(
            tr("Draft model"),
            tr(
                "A second, much smaller model of the same family, which can guess in place of "
                "drafting heads: a file, a folder, or owner/name on Hugging Face."
            ),
            tr("None"),
        )
        numerics = Segments(tr("Precision"), NUMERICS, tr(ABOUT_PRECISION))
        activations = Segments(tr("Number format"), ACTIVATIONS, tr(ABOUT_ACTIVATIONS))
        bits = Segments(tr("Chat memory"), BITS, tr(ABOUT_BITS))
        head_bits = Segments(tr("Drafting head memory"), BITS, tr(ABOUT_HEAD_BITS))
        self.add(
            bound.bind("load.context_length", self._context),
            named(tr("Drafting heads"), bound.bind("load.heads", heads)),
            named(tr("Picture part"), bound.bind("load.vision", vision)),
            named(tr("Draft model"), bound.bind("load.draft_model", drafter)),
            named(tr("Precision"), bound.bind("load.numerics", numerics)),
            named(tr("Number format"), bound.bind("load.activations", activations)),
            named(tr("Chat memory"), bound.bind("cache.bits", bits)),
            named(tr("Drafting head memory"), bound.bind("cache.head_bits", head_bits)),
            bound.bind("keep", Tick(tr("Keep in memory when idle"), tr(KEEP))),
        )

    def watch(self, offered: OfferedModel, settings: KeptSettings) -> None:
        """Show and change these options. settings: hold the folder of the last file dialog."""
        self._offered = offered
        for field in self.findChildren(PlaceField):
            field.settings_file = settings
        offered.changed.connect(self._refresh)
        self._bound.watch(lambda: offered.own, self._take, offered.changed)

    def _refresh(self) -> None:
        """Unfold for a model whose options are not the defaults."""
        own, facts = self._offered.own, self._offered.facts
        self._drafter.offer(facts.draft_models if facts else ())
        if own is not self._known:
            self._known = own
            self._bound.show_all()
            self.open(own != ModelSettings())

    def settle(self) -> None:
        """Use a value that is being typed."""
        self._context.edit.interpretText()
        self._context.leave()

    def _take(self, settings: ModelSettings) -> None:
        misfit: Misfit = "plain" if settings.load.draft_model else "refuse"
        self._known = replace(settings, load=replace(settings.load, draft_misfit=misfit))
        self._offered.change(self._known)


LOOKING = Words("Checking files")


class FittingArea(QScrollArea):
    """A scroll area as high as its content, if there is room."""

    def __init__(self, body: QWidget) -> None:
        super().__init__()
        self._body = body
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(body)
        overlay_bar(self)
        for ground in (self.viewport(), body):
            ground.setAutoFillBackground(False)

    # Qt

    @override
    def sizeHint(self) -> QSize:
        return QSize(self._body.sizeHint().width(), self._body.heightForWidth(self.width()))

    @override
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()


class ModelCardView(QFrame):
    """The card of the offered model. load: its Load button. other: opens another file."""

    _offered: OfferedModel

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.setAccessibleName(tr("Model"))
        self.facts, self.load_fields = ModelFacts(), LoadFields()
        self._problem = paragraph("", "problem")
        self._looking = label(LOOKING, "muted")
        self.load = QPushButton(tr("Load"))
        self.load.setProperty("role", "primary")
        describe(self.load, tr("Load this model; it answers from then on"))
        self._cancel = QPushButton(tr("Cancel"))
        describe(self._cancel, tr("Close this card and change nothing"))
        self.other = QPushButton(tr("Choose another…"))
        describe(self.other, tr("Open another file or folder"))
        foot = row(Wide(self._looking), self._cancel, self.other, self.load, spacing=8)
        body = QWidget()
        lines = (self.facts, self.load_fields, self._problem)
        column(*lines, of=body, margins=(16, 16, 16, 0), spacing=8)
        foot.setContentsMargins(16, 8, 16, 16)
        column(Wide(FittingArea(body)), foot, of=self, spacing=0)
        self.load.clicked.connect(self._try_load)
        self._cancel.clicked.connect(self._close)
        on_key(self, Qt.Key.Key_Escape, self._close)

    def watch(self, offered: OfferedModel, settings: KeptSettings) -> None:
        """Show this model, and change its options. settings: hold the folder of the last file
        dialog.
        """
        self._offered = offered
        self.load_fields.watch(offered, settings)
        offered.changed.connect(self._refresh)

    def _refresh(self) -> None:
        offered, phase, fields = self._offered, self._offered.phase, self.load_fields
        if phase == "closed":
            return
        if offered.facts is None:
            self.facts.show_name(offered.name)
        else:
            self.facts.show_facts(offered.facts)
        is_reading, is_unreadable = phase == "reading", phase == "unreadable"
        is_refused = is_unreadable or offered.is_hopeless
        self._looking.setVisible(is_reading)
        again = tr("Load") if phase in ("reading", "offered") else tr("Try again")
        self.load.setText(tr("Load anyway") if offered.is_too_large else again)
        self.load.setEnabled(not is_reading)
        self.load.setVisible(not is_refused)
        self.other.setVisible(is_refused or phase == "failed")
        set_role(self.other, "primary" if is_refused else "")
        # settings that make a model unreadable can be taken back
        is_odd = offered.own != ModelSettings()
        fields.setVisible(is_odd if is_unreadable else not is_reading)
        say(self._problem, offered.problem)

    def _close(self) -> None:
        self._offered.close()

    def _try_load(self) -> None:
        self.load_fields.settle()
        self._offered.load()

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            (self.other if self.load.isHidden() else self.load).click()
        else:
            super().keyPressEvent(event)
