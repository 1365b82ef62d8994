"""Joins the page of models with what is on the disk, what is recent, and downloads."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, QThread, Signal

from app.downloads import Downloads
from app.kept_settings import KeptSettings
from app.library.find_models import Place, find_models, recall, usual_places
from app.library.found_model import FoundModel
from app.library.hub_link import HubModel, read_hub_link
from app.library.machine import Machine
from app.library.words import size_words
from app.model_values import library_entry
from app.settings import with_recent_model
from app.window.models.first_run_view import FirstRunView
from app.window.models.library_view import LibraryView
from app.window.models.model_values import LibraryEntry
from mlx_engine.values.model_description import ModelDescription

BUILT_IN = "built-in"
NO_MODEL = "This is neither a link to a model on the hub nor a name such as Qwen/Qwen3.5-4B."
QUESTIONS = (
    "How does drafting work?",
    "How do I read a file line by line?",
    "What does os.path.join do?",
)


class Search(QThread):
    """Looks through folders away from the window; signal `found`(tuple of FoundModel)."""

    found = Signal(tuple)

    def __init__(
        self, look: Callable[[], tuple[FoundModel, ...]], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._look = look

    def run(self) -> None:
        """Look once."""
        self.found.emit(self._look())


class LibraryController(QObject):
    """Signal `chosen`: the path of a model to load, None for the built-in one."""

    chosen = Signal(object)

    def __init__(
        self,
        library: LibraryView,
        start: FirstRunView,
        downloads: Downloads,
        settings: KeptSettings,
        places: Sequence[Place],
        machine: Machine,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._library, self._start = library, start
        self._downloads, self._settings = downloads, settings
        self._places = tuple(places)
        self._search: Search | None = None
        library.chosen.connect(self._choose)
        library.get_wanted.connect(self._get)
        library.pause_wanted.connect(downloads.pause)
        library.resume_wanted.connect(downloads.resume)
        library.cancel_wanted.connect(downloads.cancel)
        start.chosen.connect(self._choose)
        downloads.changed.connect(library.show_downloads)
        downloads.came.connect(lambda _: self.refresh())
        start.show_questions(QUESTIONS)
        start.show_advice(advice(machine))

    def refresh(self) -> None:
        """Look again; the page shows what is known until then."""
        if self._search is not None:
            return
        recent = tuple(p for p in self._settings.value.recent_models if p != BUILT_IN)
        own = [Place("Your folders", f) for f in self._settings.value.model_folders]
        places = (*self._places, *own)
        self._search = Search(lambda: (*recall(recent), *find_models(places)), self)
        self._search.found.connect(self._show)
        self._search.finished.connect(self._rest)
        self._search.start()

    def remember(self, model: ModelDescription, path: str | None) -> None:
        """A model was loaded from there."""
        used = BUILT_IN if path is None else model.path
        self._settings.change(with_recent_model(self._settings.value, used))

    def get(self, model: HubModel) -> None:
        """Download a model."""
        self._library.show_problem("")
        self._downloads.start(model)

    def close(self) -> None:
        """The program ends."""
        self._downloads.stop_all()
        if self._search is not None:
            self._search.wait()

    def _rest(self) -> None:
        if self._search is not None:
            self._search.deleteLater()
            self._search = None

    def _show(self, found: tuple[FoundModel, ...]) -> None:
        entries = [LibraryEntry(BUILT_IN, "Pocket model", "Built in", "7 MB · 1 drafting head")]
        seen: set[tuple[str, Path]] = set()
        for model in found:
            if (model.place, model.path) not in seen:
                seen.add((model.place, model.path))
                entries.append(library_entry(model))
        self._library.show_entries(entries)
        self._start.show_recent([library_entry(m) for m in found if m.place == "recent"])

    def _choose(self, path: str) -> None:
        self.chosen.emit(None if path == BUILT_IN else path)

    def _get(self, text: str) -> None:
        link = read_hub_link(text)
        if isinstance(link, HubModel):
            self.get(link)
        else:
            self._library.show_problem(link or NO_MODEL)


def advice(machine: Machine) -> str:
    """What to get next for this much memory: a 4-bit model takes about 0.6 GB a billion."""
    billions = machine.usable_bytes / 1e9 / 0.75
    best = next((size for size in (122, 35, 27, 9, 4, 2) if size <= billions), 0.8)
    return (
        f"This machine gives a model {size_words(machine.usable_bytes)}. A Qwen3.5 of up to "
        f"{best:g}B parameters in 4 bits fits with room for long chats: take a version that kept "
        "its MTP heads."
    )


def all_places(hub_models: Path, home: Path) -> tuple[Place, ...]:
    """The hub's cache where it really is, and the other usual places."""
    hub = Place("Hugging Face", hub_models, "hub-cache")
    return (hub, *(place for place in usual_places(home) if place.layout != "hub-cache"))
