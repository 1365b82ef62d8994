"""Make the card of a model on this disk from its file headers, which are cached."""

import os
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import mlx_engine
from app.library.find_models import nbytes_on_disk
from app.library.machine import Machine
from app.values.app_settings import ModelSettings
from app.values.models import (
    FoundModel,
    ModelCard,
    family_name,
    format_name,
    format_words,
    short_quantisation,
)
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.hub.weight_files import GGUF, is_gguf_head
from mlx_engine.values.errors import EngineError, HeadsOnly
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED, CacheOptions, LoadOptions
from mlx_engine.values.words import Words, count_words, join_words, size_words

Stamp = tuple[tuple[str, int, int], ...]


def described(
    path: Path | None, heads: Path | None = None, vision: Path | None = None
) -> ModelDescription:
    """Describe a model as `mlx_engine.inspect` does, None for the built-in one; raises
    EngineError.
    """
    stamps = (_stamp(place) for place in (path, heads, vision) if place is not None)
    found = _inspect(path, heads, vision, *stamps)
    if isinstance(found, EngineError):
        raise found.with_traceback(None)
    return found


@lru_cache(maxsize=1024)
def _inspect(
    path: Path | None, heads: Path | None, vision: Path | None, *stamps: Stamp
) -> ModelDescription | EngineError:
    """Read headers, cached by names, sizes and times of the files."""
    del stamps
    try:
        place = None if path is None else str(path)
        return mlx_engine.inspect(place, heads=heads, vision=vision)
    except EngineError as error:
        return error


def _stamp(path: Path) -> Stamp:
    """Return names, sizes and times of the files of a model, and beside it, where heads may be."""
    found = []
    with suppress(OSError), os.scandir(path if path.is_dir() else path.parent) as entries:
        for entry in entries:
            with suppress(OSError):
                facts = entry.stat()
                found.append((entry.name, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(found))


def is_heads_file(file: Path) -> bool:
    """Whether a GGUF file has MTP heads without a model, by its name or tensors."""
    if is_gguf_head(file.name):
        return True
    if not file.name.lower().endswith(GGUF):
        return False
    try:
        described(file)
    except EngineError as error:
        return isinstance(error, HeadsOnly)
    return False


def with_headers(
    model: FoundModel, machine: Machine, heads: Path | None = None
) -> FoundModel | None:
    """Add what the file headers say of a model; None for a file of MTP heads alone.

    heads: a file of MTP heads for the model.
    """
    if model.problem or model.is_built_in:
        return model
    try:
        told = described(model.path, heads).with_machine(has_metal=machine.has_metal)
    except HeadsOnly:
        return None
    except EngineError as error:
        return replace(model, refusal=str(error))
    memory = told.memory_fit(machine.usable_bytes, gpu_bytes=machine.gpu_bytes)
    return replace(
        model,
        parameters=told.parameters,
        format=format_words(told),
        heads=told.mtp_heads > 0 and told.mtp is None,
        fit=memory.fit_in_memory,
    )


MISSING = Words("The draft model {place} is not there: choose another one, or None.")


def make_card(
    model: ModelDescription,
    machine: Machine,
    cache: CacheOptions = UNQUANTISED,
    draft: ModelDescription | None = None,
    asked: int | None = None,
) -> ModelCard:
    """Make the card of a described model; only file sizes are looked up.

    draft: the draft model. asked: tokens of context that were asked for.
    """
    usable, gpu = machine.usable_bytes, machine.gpu_bytes
    packed = (model.packed_cache,) if model.packed_cache and cache != UNQUANTISED else ()
    cache = UNQUANTISED if packed else cache
    name, kinds = format_name(model), short_quantisation(model.quantisation)
    in_files = sum(group.file_nbytes or group.nbytes for group in model.groups)
    return ModelCard(
        name=model.name,
        architecture=family_name(model.architecture),
        parameters=_parameter_words(model),
        quantisation=join_words((name if name not in kinds.split(" + ") else "", kinds)),
        context=Words(
            "{tokens:,} tokens, about {words:,} words",
            tokens=model.context_length,
            words=model.context_length * 3 // 4,
        ),
        heads=_heads_words(model),
        has_heads=model.mtp_heads > 0 and model.mtp is None and not _heads_misfit(model),
        memory=model.memory_fit(usable, cache, requested_context=asked, draft=draft, gpu_bytes=gpu),
        pictures=model.picture_words,
        sees=model.pictures is not None,
        notes=tuple(reason.words for reason in (*model.declined, *packed)),
        warnings=_clamped(model, asked),
        draft_models=model.draft_models,
        size=size_words(nbytes_on_disk(Path(model.path)) or in_files or model.nbytes),
        format=format_words(model),
    )


def _clamped(model: ModelDescription, asked: int | None) -> tuple[str, ...]:
    """Return a note if a longer context is asked for than the model can read."""
    if asked is None or asked <= model.context_length:
        return ()
    return (
        Words(
            "Chats of {asked:,} tokens are asked for; this model reads at most {most:,}.",
            asked=asked,
            most=model.context_length,
        ),
    )


def _parameter_words(model: ModelDescription) -> str:
    """Describe the number of parameters, and of those a mixture of experts uses for a token."""
    total = Words("{count} parameters", count=count_words(model.parameters))
    if model.active_parameters is None:
        return total
    active = count_words(model.active_parameters)
    return Words("{total}, {count} used at a time", total=total, count=active)


def _heads_misfit(model: ModelDescription) -> bool:
    """Whether a model's drafting heads were tried and seem to belong to another model."""
    return any(reason.code == "heads-implausible" for reason in model.declined)


def _heads_words(model: ModelDescription) -> str:
    if model.mtp is not None:
        return Words("Without drafting: {words}", words=model.mtp.words)
    if model.mtp_heads == 0:
        return Words("Without drafting: this model has no drafting heads.")
    heads = Words("{n} drafting heads", "1 drafting head", model.mtp_heads)
    if model.heads_from:
        heads = Words("{heads}, from {name}", heads=heads, name=Path(model.heads_from).name)
    if _heads_misfit(model):
        heads = Words("{heads}, seemingly of another model", heads=heads)
    return Words("With drafting ({heads})", heads=heads)


def read_card(
    path: str | Path | None, machine: Machine, own: ModelSettings | None = None
) -> ModelCard | str:
    """Read file headers and make the card, or return a sentence why the model cannot run.

    Takes milliseconds for most models, a tenth of a second for the largest. path: None for the
    built-in model. own: options to load it with.
    """
    own = own or ModelSettings()
    wanted = own.load
    try:
        place = None if path is None else Path(path)
        model = described(place, wanted.heads, wanted.vision).with_machine(
            has_metal=machine.has_metal
        )
    except EngineError as error:
        return str(error)
    context = min(model.context_length, wanted.context_length or model.context_length)
    model = replace(model, context_length=context)
    drafter = _drafter(wanted, machine)
    draft, problem = (None, drafter) if isinstance(drafter, str) else (drafter, "")
    card = make_card(model, machine, own.cache, draft, wanted.context_length)
    found = () if wanted.draft_model else (reason.words for reason in model.unused_draft_model)
    blind = model.vision.words if wanted.vision is not None and model.vision else ""
    warnings = (*card.warnings, *filter(None, (problem, blind)))
    return replace(card, notes=(*card.notes, *found), warnings=warnings)


def _drafter(load: LoadOptions, machine: Machine) -> ModelDescription | str | None:
    """Describe the draft model; None if it is not on this disk or unreadable."""
    if load.draft_model is None:
        return None
    place = Path(load.draft_model).expanduser()
    if not place.exists():
        is_on_hub = isinstance(read_hub_link(str(load.draft_model)), HubModel)
        return None if is_on_hub else Words(MISSING.template, place=load.draft_model)
    try:
        return described(place).with_machine(has_metal=machine.has_metal)
    except EngineError:
        return None
