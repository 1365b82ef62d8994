"""Handle what is dropped, opened or passed at the start: load, attach, download, refuse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.control.files import FileController
from app.library.dropped import (
    Dropped,
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedModels,
    DroppedText,
    DroppedWords,
    all_of,
    what_says,
)
from app.start.threads import LatestTask
from app.state.attached_files import AttachedFiles
from app.state.card import OfferedModel
from app.state.hub import HubState
from app.state.known_models import KnownModels
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.attached_text import Refused
from app.window.controls.dialogs import choose_files
from app.window.language import said, tr
from app.window.layers import DropPlan
from app.window.widgets import Widgets
from mlx_engine.hub.weight_files import GGUF
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words, size_words

PATIENCE_MS = 120
"""Milliseconds of examining files before the overlay says that it takes a while."""

MODELS = Words(
    "Models, texts and pictures (*.gguf *.safetensors *.json *.txt *.md *.py *);;All files (*)"
)
MOST_REFUSED = 3
SHOWN = 120
"""Characters of a dropped text that the plan shows."""
LOOKING = DropPlan(
    "looking", Words("Checking the file"), Words("Checking what can be done with it.")
)


@dataclass(slots=True)
class _Examined:
    """Files dragged over the window. things: their kinds, None until known."""

    addresses: tuple[str, ...]
    text: str
    things: Sequence[Dropped] | None = None
    is_dropped: bool = False

    def is_of(self, other: "_Examined") -> bool:
        """Whether a drag carries the same files."""
        return (self.addresses, self.text) == (other.addresses, other.text)


class DropController(QObject):
    """Shows what a drop would do while something is dragged, and does it when it is dropped.

    Files are examined in a background thread, since disks may be slow.
    """

    def __init__(
        self,
        widgets: Widgets,
        models: ModelState,
        offered: OfferedModel,
        known: KnownModels,
        hub: HubState,
        attached: AttachedFiles,
        files: FileController,
        settings: KeptSettings,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._files, self._settings = files, settings
        self._widgets, self._models = widgets, models
        self._overlay, self._notice = widgets.overlay, widgets.notice
        self._offered, self._known, self._hub = offered, known, hub
        self._attached = attached
        self._disk = LatestTask(self)
        self._refusal = ""
        self._hovering: _Examined | None = None
        self._slow = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._slow.timeout.connect(lambda: self._overlay.show_plan(LOOKING))

    def hover(self, addresses: Sequence[str], text: str = "") -> None:
        """Show what a drop would do, once it is known."""
        self._hovering = _Examined(tuple(addresses), text)
        self._examine(self._hovering)
        self._slow.start()

    def leave(self) -> None:
        """Hide the plan when nothing is dragged over the window any more."""
        self._hovering = None
        self._slow.stop()
        self._overlay.hide()

    def take(self, addresses: Sequence[str], text: str = "") -> None:
        """Carry out a drop; files examined while dragged are not examined again."""
        hovered, asked = self._hovering, _Examined(tuple(addresses), text)
        self.leave()
        if hovered is not None and hovered.is_of(asked):
            asked = hovered
        else:
            self._examine(asked)
        asked.is_dropped = True
        self._use(asked)

    def choose(self) -> None:
        """Ask for a model or text files, and treat them as dropped; a file may stand for its
        folder.
        """
        title, kinds = tr("Open", "title of a dialog"), tr(MODELS)
        paths = choose_files(self._widgets.window, title, kinds, self._settings)
        if paths:
            self.take(paths)

    def _examine(self, asked: "_Examined") -> None:
        def found(things: Sequence[Dropped]) -> None:
            asked.things = things
            self._use(asked)

        model = self._models.description
        in_use = Path(model.path) if model and model.path.lower().endswith(GGUF) else None
        self._disk.run_each(lambda: _things(asked.addresses, asked.text, in_use), found)

    def _use(self, asked: "_Examined") -> None:
        """Do what was dropped, or show the plan, once the files are examined."""
        if asked.things is not None and asked.is_dropped:
            self._carry_out(asked.things)
        elif asked.things is not None and asked is self._hovering:
            self._slow.stop()
            self._overlay.show_plan(drop_plan(asked.things, self._models.description))

    def begin_with(self, texts: Sequence[str], otherwise: Callable[[], object]) -> None:
        """Handle command line arguments: load a model without asking, else call `otherwise`, and
        carry out the plan.
        """

        def begin(things: Sequence[Dropped]) -> None:
            models = [thing for thing in things if isinstance(thing, DroppedModel)]
            if len(models) != 1 or models[0].heads or models[0].vision:
                otherwise()
                self._carry_out(things)
                return
            self._models.load(str(models[0].path))
            rest = [thing for thing in things if thing is not models[0]]
            if rest:
                self._carry_out(rest)

        self._disk.run_each(lambda: all_of(texts), begin)

    def _carry_out(self, things: Sequence[Dropped]) -> None:
        plan = drop_plan(things, self._models.description)
        self._notice.withdraw(self._refusal)
        if plan.kind == "refused":
            self._refusal = f"{plan.title}. {said(plan.detail)}"
            self._notice.mention(self._refusal)
            return
        self._offered.close()  # the card would cover what comes
        for thing in things:
            self._offer(thing)
        if refused := [thing for thing in things if isinstance(thing, Refused)]:
            self._notice.mention(_in_lines(refused))
        files = [thing for thing in things if isinstance(thing, DroppedText)]
        if chats := tuple(file.path for file in files if file.is_chat):
            self._files.import_from(*chats)
        if texts := [file.path for file in files if not file.is_chat]:
            self._widgets.window.show_page("chat")
            self._attached.read(texts)
            self._widgets.composer.setFocus()

    def _offer(self, thing: Dropped) -> None:
        match thing:
            case DroppedModel(path, heads, vision):
                self._offered.offer(str(path), heads, vision)
            case DroppedModels():
                self._widgets.window.show_page("library")
                self._known.add_folder(thing.path)
            case DroppedHeads():
                if self._models.in_use is not None:
                    self._offered.offer(self._models.in_use.path, thing.path)
            case DroppedHubModel():
                self._hub.show(thing.model.shortest_link)
            case DroppedWords():
                self._widgets.window.show_page("chat")
                self._widgets.composer.type(thing.text)
            case DroppedText() | Refused():
                pass  # all of them together


def _things(addresses: Sequence[str], text: str, in_use: Path | None) -> Sequence[Dropped]:
    return (what_says(text),) if text else all_of(addresses, in_use)


def drop_plan(things: Sequence[Dropped], model: ModelDescription | None) -> DropPlan:
    """Return what a drop of these things would do while `model` is in use."""
    refused = [thing for thing in things if isinstance(thing, Refused)]
    texts = [thing for thing in things if isinstance(thing, DroppedText)]
    chats = [text for text in texts if text.is_chat]
    words = [thing for thing in things if isinstance(thing, DroppedWords)]
    if chats and len(chats) == len(things):
        return _import_plan(chats)
    if texts and len(texts) + len(refused) == len(things):
        return _attach_plan(texts, refused)
    if words:
        return DropPlan("attach", tr("Add to the message"), _beginning(words[0].text))
    if refused:
        return DropPlan("refused", tr("This can't be used"), _in_lines(refused))
    if len(things) != 1:
        return DropPlan(
            "refused",
            tr("Drop one model at a time"),
            tr("Several text files can be dropped together."),
        )
    return _plan(things[0], model)


def _plan(thing: Dropped, model: ModelDescription | None) -> DropPlan:
    match thing:
        case DroppedModel():
            heads, vision = thing.heads, thing.vision
            details = [
                tr("with {name} as drafting heads", name=heads.name) if heads else "",
                tr("with {name}, to see pictures", name=vision.name) if vision else "",
            ]
            lies = tr("Opened in place, not copied")
            detail = "\n".join(filter(None, details)) or lies
            return DropPlan("load", tr("Load {name}", name=thing.name), detail)
        case DroppedModels():
            title = tr("Add {name} to the library", name=thing.path.name)
            return DropPlan(
                "folder",
                title,
                tr(
                    "{n:,} models, opened in place",
                    "1 model, opened in place",
                    thing.count,
                ),
            )
        case DroppedHeads() if model is None:
            return DropPlan(
                "refused",
                tr("These are drafting heads"),
                tr("Load the model they belong to first."),
            )
        case DroppedHeads():
            title = tr("Use {name} as drafting heads", name=thing.path.name)
            return DropPlan(
                "heads", title, tr("for {name}, which reloads", name=model.name if model else "")
            )
        case DroppedHubModel():
            return DropPlan(
                "download",
                tr("Download {hub_id}", hub_id=thing.model.hub_id),
                tr("Its size is shown before it starts."),
            )
        case _:
            return DropPlan("refused", tr("This can't be used"))


def _beginning(text: str) -> str:
    """Shorten a text to one line."""
    words = " ".join(text[: 2 * SHOWN].split())
    return words if len(words) <= SHOWN else f"{words[:SHOWN]}…"


def _import_plan(chats: list[DroppedText]) -> DropPlan:
    title = (
        tr("Import {name}", name=chats[0].path.name)
        if len(chats) == 1
        else tr("Import {n:,} chats", "", len(chats))
    )
    return DropPlan(
        "import", title, tr("Chats of your own; to attach one as text, choose it as attachment.")
    )


def _attach_plan(texts: list[DroppedText], refused: list[Refused]) -> DropPlan:
    title = (
        tr("Attach {name}", name=texts[0].path.name)
        if len(texts) == 1
        else tr("Attach {n:,} files", "", len(texts))
    )
    size = said(size_words(sum(text.nbytes for text in texts)))
    return DropPlan("attach", title, "\n".join(filter(None, (size, _in_lines(refused)))))


def _in_lines(refused: Sequence[Refused]) -> str:
    """Say why things are refused, the first of them."""
    return "\n".join(said(thing.words) for thing in refused[:MOST_REFUSED])
