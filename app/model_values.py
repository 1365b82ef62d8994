"""Models of the library and the engine as the window's plain values."""

from pathlib import Path

from app.library.dropped import (
    Dropped,
    DroppedHeads,
    DroppedHubModel,
    DroppedModel,
    DroppedText,
    Refused,
)
from app.library.found_model import FoundModel
from app.library.machine import Machine
from app.library.model_card import ModelCard, make_card
from app.library.words import size_words
from app.window.models.model_values import CardFacts, DropPlan, LibraryEntry, MemoryFigures
from mlx_engine.values.model_description import ModelDescription, TensorGroup


def card_facts(card: ModelCard, groups: tuple[TensorGroup, ...] = ()) -> CardFacts:
    """The lines of a card."""
    memory = card.memory
    return CardFacts(
        name=card.name,
        architecture=card.architecture,
        parameters=card.parameters,
        quantisation=card.quantisation,
        size=card.size,
        context=card.context,
        heads=card.heads,
        has_heads=card.has_heads,
        memory=MemoryFigures(
            memory.weights, memory.short_cache, memory.usable, memory.fit, memory.words
        ),
        notes=card.notes,
        groups=groups,
    )


def facts_of(model: ModelDescription, machine: Machine) -> CardFacts:
    """The model in use."""
    return card_facts(make_card(model, machine), model.groups)


def library_entry(found: FoundModel) -> LibraryEntry:
    """A model on this computer."""
    detail = size_words(found.nbytes) if found.nbytes else ""
    return LibraryEntry(str(found.path), found.name, found.place, detail, found.problem or "")


def drop_plan(things: list[Dropped], model: ModelDescription | None) -> DropPlan:
    """What letting go of these would do while `model` is in use."""
    refused = [thing for thing in things if isinstance(thing, Refused)]
    texts = [thing for thing in things if isinstance(thing, DroppedText)]
    if refused:
        return DropPlan("refused", "This cannot be used", refused[0].words)
    if texts and len(texts) == len(things):
        return _attach_plan(texts)
    if len(things) != 1:
        return DropPlan(
            "refused", "Drop one model at a time", "Text files can be dropped together."
        )
    return _plan(things[0], model)


def _plan(thing: Dropped, model: ModelDescription | None) -> DropPlan:
    match thing:
        case DroppedModel():
            return DropPlan("load", f"Load {thing.path.name}", "Opened where it lies, not copied")
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


def _attach_plan(texts: list[DroppedText]) -> DropPlan:
    title = f"Attach {texts[0].path.name}" if len(texts) == 1 else f"Attach {len(texts)} files"
    return DropPlan("attach", title, f"{size_words(sum(t.nbytes for t in texts))} of text")


def model_name(path: str | None) -> str:
    """What a model is called before it was looked at."""
    return "Pocket model" if path is None else Path(path).name
