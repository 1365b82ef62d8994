"""The card of a model from its description, before it is loaded as well."""

import re
from dataclasses import replace
from pathlib import Path

from app.library.headers import described
from app.library.machine import Machine
from app.values.app_settings import ModelSettings
from app.values.models import ModelCard, family_name, short_quantisation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import UNQUANTISED, CacheOptions, LoadOptions
from mlx_engine.values.words import Words, count_words, size_words, token_words


def make_card(
    model: ModelDescription,
    machine: Machine,
    cache: CacheOptions = UNQUANTISED,
    draft: ModelDescription | None = None,
    asked: int | None = None,
) -> ModelCard:
    """Pure: a description and a machine in, words and numbers out. draft: a model to draft with.
    asked: tokens of context that were asked for.
    """
    usable, gpu = machine.usable_bytes, machine.gpu_bytes
    packed = (model.packed_cache,) if model.packed_cache and cache != UNQUANTISED else ()
    cache = UNQUANTISED if packed else cache
    return ModelCard(
        name=model.name,
        architecture=family_name(model.architecture),
        parameters=_parameter_words(model),
        quantisation=short_quantisation(model.quantisation),
        context=Words("{tokens} tokens", tokens=token_words(model.context_length)),
        heads=_heads_words(model),
        has_heads=model.mtp_heads > 0 and model.mtp is None and not _heads_misfit(model),
        memory=model.memory_fit(usable, cache, asked=asked, draft=draft, gpu_bytes=gpu),
        notes=(
            *_clamped(model, asked),
            *(reason.words for reason in (*model.declined, *packed)),
        ),
        groups=model.groups,
        size=size_words(model.nbytes),
        format=_format_words(model),
    )


def _format_words(model: ModelDescription) -> str:
    """Bits of most weights, and the kind of file: "4-bit GGUF", "8-bit MLX"."""
    kind = "GGUF" if model.path.endswith(".gguf") else "MLX"
    bits = re.search(r"\d+", model.quantisation)  # of "Q4_K as …", "8-bit affine", "bfloat16"
    return Words("{bits}-bit {kind}", bits=bits[0], kind=kind) if bits else kind


def _clamped(model: ModelDescription, asked: int | None) -> tuple[str, ...]:
    """Say so when a longer context is asked for than the model can read."""
    if asked is None or asked <= model.context_length:
        return ()
    return (
        Words(
            "A context of {asked:,} tokens is asked for; this model reads at most {most:,}.",
            asked=asked,
            most=model.context_length,
        ),
    )


def _parameter_words(model: ModelDescription) -> str:
    """Where a token passes through some of them only, how many."""
    total = Words("{count} parameters", count=count_words(model.parameters))
    if model.active_parameters is None:
        return total
    return Words("{total}, {count} active", total=total, count=count_words(model.active_parameters))


def _heads_misfit(model: ModelDescription) -> bool:
    """Whether its heads were tried and seem to be another model's."""
    return any(reason.code == "heads-implausible" for reason in model.declined)


def _heads_words(model: ModelDescription) -> str:
    if model.mtp is not None:
        return Words("{words} It runs without drafting.", words=model.mtp.words)
    if model.mtp_heads == 0:
        return Words("No drafting heads. It runs without drafting.")
    heads = Words("{n} drafting heads", "1 drafting head", model.mtp_heads)
    if model.heads_from:
        heads = Words("{heads}, from {name}", heads=heads, name=Path(model.heads_from).name)
    if not _heads_misfit(model):
        return heads
    return Words("{heads}, seemingly of another model", heads=heads)


def read_card(
    path: str | Path | None, machine: Machine, own: ModelSettings | None = None
) -> ModelCard | str:
    """Reads file headers only: milliseconds for most, a tenth of a second for the largest.

    A sentence when the engine cannot run what is there. path: None for the built-in model. own:
    how it would be loaded, with heads from elsewhere, and no more context than this.
    """
    own = own or ModelSettings()
    wanted = own.load
    try:
        place = None if path is None else Path(path)
        model = described(place, wanted.heads).on(metal=machine.has_metal)
    except EngineError as error:
        return str(error)
    context = min(model.context_length, wanted.context_length or model.context_length)
    model = replace(model, context_length=context)
    return make_card(model, machine, own.cache, _drafter(wanted, machine), wanted.context_length)


def _drafter(load: LoadOptions, machine: Machine) -> ModelDescription | None:
    """None for one that is not on this disk, or that headers do not tell of."""
    if load.draft_model is None or not Path(load.draft_model).exists():
        return None
    try:
        return described(Path(load.draft_model)).on(metal=machine.has_metal)
    except EngineError:
        return None
