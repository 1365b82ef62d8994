"""Options of the engine, read from command-line flags and from key=value words of a chat."""

import json
import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    MAX_DEPTH,
    SOURCES,
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
    TemplateValue,
    read_template_value,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)

DEPTHS: Mapping[str, int | Literal["auto"]] = {
    **{"auto": "auto", "off": 0},
    **{str(depth): depth for depth in range(MAX_DEPTH + 1)},
}
_BIAS = re.compile(r"(\d{1,9})[:=]([-+]?\d{1,9}(?:\.\d{1,9})?)")


def read_depth(text: str) -> int | Literal["auto"]:
    """Read a draft depth from text: "auto", 0 to 8, or "off" (0); raises BadOption."""
    if text not in DEPTHS:
        raise BadOption(f"depth={text!r} is not possible: use auto or 0 to {MAX_DEPTH}.")
    return DEPTHS[text]


def read_biases(text: str) -> dict[int, float]:
    """Read biases by token id from "ID:BIAS,ID:BIAS" or with "="; raises BadOption."""
    biases = {}
    for pair in filter(None, text.split(",")):
        match = _BIAS.fullmatch(pair)
        if match is None:
            raise BadOption(f"logit_bias={pair!r} is not possible: write ID:BIAS, like 42:-1.5.")
        biases[int(match[1])] = float(match[2])
    return biases


def read_count(text: str) -> int:
    """Read a whole number above 0; raises BadOption."""
    if not text.isdecimal() or not int(text):
        raise BadOption(f"{text!r} is not a whole number above 0")
    return int(text)


def _read_texts(text: str) -> tuple[str, ...]:
    """Read a JSON list of texts. Raises BadOption."""
    try:
        return tuple(json.loads(text))
    except (ValueError, TypeError, RecursionError):
        raise BadOption(f'{text!r} is not possible: write a list such as ["\\n",":"].') from None


def _read_schema(path: str) -> dict[str, Any]:
    """Read a JSON schema from a file. Raises BadOption."""
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadOption(f"{path}: no JSON can be read there ({error})") from None
    if not isinstance(schema, dict):
        raise BadOption(f"{path}: a JSON schema is an object")
    return schema


READERS: Mapping[str, Callable[[str], Any]] = {
    **{
        name: kind
        for options in (LoadOptions, SamplingOptions, DraftOptions, GenerationOptions)
        for name, hint in get_type_hints(options).items()
        for kind in (float, int, Path)
        if hint in (kind, kind | None)
    },
    **dict.fromkeys(("bits", "head_bits", "cache_bits", "head_cache_bits", "port"), int),
    "parallel": read_count,
    "depth": read_depth,
    "seed": lambda text: None if text == "new" else int(text),
    "logit_bias": read_biases,
    "dry_sequence_breakers": _read_texts,
    "schema": _read_schema,
}
"""Readers of an option's value from text, by field; other values are the text itself."""


def change_options(
    base: "Options", words: Iterable[str], field_name_of: Callable[[str], str] = lambda _: ""
) -> "Options":
    """Change options by words such as "temperature=0.2"; raises BadOption.

    field_name_of: names the field that a word without "=" sets.
    """
    names, given = [field.name for field in fields(base)], {}
    for word in words:
        key, sign, text = word.partition("=")
        if not sign:
            key, text = field_name_of(word), word
        name = key.strip().lower().replace("-", "_")
        if name not in names:
            keys = ", ".join(names)
            raise BadOption(f"{word!r} is not possible: write key=value with a key of {keys}.")
        try:
            given[name] = READERS.get(name, str)(text.strip())
        except ValueError:
            number = "a number" if READERS[name] is float else "a whole number"
            raise BadOption(f"{name}={text!r} is not possible: use {number}.") from None
    return replace(base, **given)


def change_draft_options(base: DraftOptions, words: Iterable[str]) -> DraftOptions:
    """Change drafting options by a source, a depth, "off" or key=value; raises BadOption."""
    return change_options(
        base, words, lambda word: "depth" if word in DEPTHS or word.isdecimal() else "source"
    )


def change_cache_bits(base: CacheOptions, words: Iterable[str]) -> CacheOptions:
    """Change the KV cache bits of the model, then of the drafter. Raises BadOption."""
    names = iter(("bits", "head_bits"))
    return change_options(base, words, lambda _: next(names, ""))


def option_words(options: "DataclassInstance") -> str:
    """Write options as key=value, in words that change_options reads back."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return " ".join(
        f"{name}={_value_words(value)}" for name, value in values.items() if value != {}
    )


def _value_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{token}:{bias:g}" for token, bias in value.items())
    if isinstance(value, tuple):
        return json.dumps(value, separators=(",", ":")).replace(" ", "\\u0020")
    if isinstance(value, float):
        return f"{value:g}"
    return "new" if value is None else str(value)


DRAFT_WORDS = (*SOURCES, *DEPTHS, *(f"{field.name}=" for field in fields(DraftOptions)))
SAMPLING_WORDS = tuple(f"{field.name}=" for field in fields(SamplingOptions))
"""Words after /draft and /sampling, for completion."""


def template_arguments(words: Iterable[str]) -> dict[str, TemplateValue]:
    """Read template arguments such as "preserve_thinking=true": JSON values, else text."""
    given: dict[str, TemplateValue] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise BadOption(f"{word!r} is not possible: write NAME=VALUE.")
        given[name.strip()] = read_template_value(text)
    return given


def given_options(arguments: Namespace, kind: "type[DataclassInstance]") -> dict[str, Any]:
    """Collect the command-line flags given that are fields of a dataclass: name -> value."""
    names = {field.name for field in fields(kind)}
    typed = vars(arguments).items()
    return {name: value for name, value in typed if name in names and value is not None}


def load_options(arguments: Namespace) -> LoadOptions:
    """Read the options of loading a model from command-line flags; raises BadOption."""
    return LoadOptions(**given_options(arguments, LoadOptions))


def sampling_options(arguments: Namespace, recommended: SamplingOptions) -> SamplingOptions:
    """Replace a model's recommended sampling options by the flags given; raises BadOption."""
    given = given_options(arguments, SamplingOptions)
    if "logit_bias" in given:
        given["logit_bias"] = {t: bias for pair in given["logit_bias"] for t, bias in pair.items()}
    return replace(recommended, **given)


def draft_options(arguments: Namespace) -> DraftOptions:
    """Read drafting options from flags; a draft model is the default source. Raises BadOption."""
    source = {"source": "model"} if arguments.draft_model else {}
    return DraftOptions(**source | given_options(arguments, DraftOptions))


def session_options(arguments: Namespace, recommended: SamplingOptions) -> dict[str, Any]:
    """Read a session's sampling, draft, generation and cache options from flags.

    recommended: the model's sampling options. Raises BadOption.
    """
    bits = {"bits": arguments.cache_bits, "head_bits": arguments.head_cache_bits}
    return {
        "sampling": sampling_options(arguments, recommended),
        "draft": draft_options(arguments),
        "generation": GenerationOptions(**given_options(arguments, GenerationOptions)),
        "cache": CacheOptions(**{name: given for name, given in bits.items() if given is not None}),
    }
