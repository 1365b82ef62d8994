"""The card of a model from its description, before it is loaded as well."""

from dataclasses import replace
from pathlib import Path

import mlx_engine
from app.library.machine import Machine
from app.values.models import Fit, MemorySum, ModelCard, short_quantisation
from mlx_engine.values.errors import EngineError
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.words import Words, count_words, size_words, token_words

SHORT_CONTEXT = 4096
TIGHT_SHARE = 0.9
"""Above this share of the usable memory the system itself gets slow."""


def make_card(model: ModelDescription, machine: Machine) -> ModelCard:
    """Pure: a description and a machine in, words and numbers out."""
    return ModelCard(
        name=model.name,
        architecture=model.architecture,
        parameters=_parameter_words(model),
        quantisation=short_quantisation(model.quantisation),
        size=size_words(model.nbytes),
        context=Words("{tokens} tokens", tokens=token_words(model.context_length)),
        heads=_heads_words(model),
        has_heads=model.mtp_heads > 0 and model.mtp is None and not _heads_misfit(model),
        memory=memory_sum(model, machine.usable_bytes),
        notes=tuple(reason.words for reason in model.declined),
        groups=model.groups,
    )


def memory_sum(model: ModelDescription, usable: int) -> MemorySum:
    """Weights and caches against what a model may use here."""
    short = min(SHORT_CONTEXT, model.context_length)
    free = usable - model.memory_needed(0)
    longest = _longest_context(model, free)
    return MemorySum(
        weights=model.nbytes,
        short_context=short,
        short_cache=model.memory_needed(short) - model.nbytes,
        full_context=model.context_length,
        full_cache=model.memory_needed(model.context_length) - model.nbytes,
        usable=usable,
        longest=longest,
        fit=_fit(model, short, usable),
    )


def _fit(model: ModelDescription, short: int, usable: int) -> Fit:
    if model.memory_needed(short) > usable:
        return "too-large"
    if model.memory_needed(model.context_length) > usable:
        return "tight"
    return "tight" if model.memory_needed(short) > TIGHT_SHARE * usable else "fits"


def _longest_context(model: ModelDescription, free: int) -> int:
    if free < 0:
        return 0
    if model.cache_bytes_per_token == 0:
        return model.context_length
    return min(model.context_length, free // model.cache_bytes_per_token)


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
        return Words("No MTP heads. It runs without drafting.")
    heads = Words("{n} MTP heads", "1 MTP head", model.mtp_heads)
    if not _heads_misfit(model):
        return heads
    return Words("{heads}, seemingly of another model", heads=heads)


def read_card(
    path: str | Path | None, machine: Machine, load: LoadOptions | None = None
) -> ModelCard | str:
    """Reads file headers only: milliseconds for most, a tenth of a second for the largest.

    A sentence when the engine cannot run what is there. path: None for the built-in model. load:
    how it would be loaded, with heads from elsewhere, and no more context than this.
    """
    wanted = load or LoadOptions()
    try:
        model = mlx_engine.inspect(path, heads=wanted.heads).on(metal=machine.has_metal)
    except EngineError as error:
        return str(error)
    context = min(model.context_length, wanted.context_length or model.context_length)
    return make_card(replace(model, context_length=context), machine)
