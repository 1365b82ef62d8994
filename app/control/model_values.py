"""Models of the library and the engine as the window's plain values."""

from collections.abc import Sequence
from pathlib import Path

from app.library.dropped import (
    Dropped,
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedModels,
    DroppedText,
    Refused,
)
from app.library.find_models import RECENT, FoundModel
from app.window.models.model_values import DropPlan, LibraryEntry
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import size_words


def library_entry(found: FoundModel) -> LibraryEntry:
    """A model on this computer."""
    detail = size_words(found.nbytes) if found.nbytes else ""
    return LibraryEntry(
        str(found.path),
        found.name,
        found.place,
        detail,
        found.problem or "",
        found.unfinished,
        is_recent=found.place == RECENT,
    )


def drop_plan(things: Sequence[Dropped], model: ModelDescription | None) -> DropPlan:
    """What letting go of these would do while `model` is in use."""
    refused = [thing for thing in things if isinstance(thing, Refused)]
    texts = [thing for thing in things if isinstance(thing, DroppedText)]
    if texts and len(texts) + len(refused) == len(things):
        return _attach_plan(texts, refused)
    if refused:
        return DropPlan("refused", "This cannot be used", refused[0].words)
    if len(things) != 1:
        return DropPlan(
            "refused", "Drop one model at a time", "Text files can be dropped together."
        )
    return _plan(things[0], model)


def _plan(thing: Dropped, model: ModelDescription | None) -> DropPlan:
    match thing:
        case DroppedModel():
            return DropPlan("load", f"Load {thing.path.name}", "Opened where it lies, not copied")
        case DroppedModels():
            title = f"Add {thing.path.name} to the library"
            return DropPlan("folder", title, f"{thing.count} models, opened where they lie")
        case DroppedHeads() if model is None:
            return DropPlan(
                "refused", "These are drafting heads", "Load the model they belong to first."
            )
        case DroppedHeads():
            title = f"Use {thing.path.name} as drafting heads"
            return DropPlan("heads", title, f"for {model.name if model else ''}, loaded anew")
        case DroppedHubModel():
            return DropPlan(
                "download", f"Download {thing.model.hub_id}", "Its size is shown before it starts."
            )
        case _:
            return DropPlan("refused", "This cannot be used")


def _attach_plan(texts: list[DroppedText], refused: list[Refused]) -> DropPlan:
    title = f"Attach {texts[0].path.name}" if len(texts) == 1 else f"Attach {len(texts)} files"
    size = f"{size_words(sum(text.nbytes for text in texts))} of text"
    return DropPlan("attach", title, "\n".join([size, *(thing.words for thing in refused[:3])]))


def model_name(path: str | None) -> str:
    """What a model is called before it was looked at."""
    return "Pocket model" if path is None else Path(path).name
