"""Options of the engine, read from command-line flags and from key=value words of a chat."""

import re
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    MAX_DEPTH,
    SOURCES,
    CacheBits,
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

NUMBER_FIELDS: dict[str, Callable[[str], float]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "repetition_penalty": float,
    "presence_penalty": float,
    "frequency_penalty": float,
}
_DEPTHS = {str(depth): depth for depth in range(MAX_DEPTH + 1)}
_BIAS = re.compile(r"(\d{1,9})[:=]([-+]?\d{1,9}(?:\.\d{1,9})?)")


def read_depth(text: str) -> int | Literal["auto"]:
    """Read a draft depth from text: "auto", 0 to 8, or "off" (0); raises BadOption."""
    if text == "auto":
        return "auto"
    if text == "off":
        return 0
    if text in _DEPTHS:
        return _DEPTHS[text]
    raise BadOption(f"depth={text!r} is not possible: use auto or 0 to {MAX_DEPTH}.")


_DRAFT_KEYS: dict[str, Callable[[str], Any]] = {
    "source": str,
    "depth": read_depth,
    "rule": str,
    "min_probability": float,
    "output": str,
    "vocabulary": int,
}
DRAFT_WORDS = (*SOURCES, "auto", "off", *_DEPTHS, *(f"{key}=" for key in _DRAFT_KEYS))
CACHE_WORDS = tuple(map(str, get_args(CacheBits)))
"""Words after /draft and /cache, for completion."""


def read_bias(pairs: Iterable[str]) -> dict[int, float]:
    """Read biases by token id from pairs "ID=BIAS" or "ID:BIAS"; raises BadOption."""
    biases = {}
    for pair in pairs:
        match = _BIAS.fullmatch(pair)
        if match is None:
            raise BadOption(f"logit_bias={pair!r} is not possible: write ID:BIAS, like 42:-1.5.")
        biases[int(match[1])] = float(match[2])
    return biases


_SAMPLING_KEYS: dict[str, Callable[[str], Any]] = {
    **NUMBER_FIELDS,
    "seed": lambda text: None if text in ("none", "new") else int(text),
    "logit_bias": lambda text: read_bias(pair for pair in text.split(",") if pair),
}
SAMPLING_WORDS = tuple(f"{name}=" for name in _SAMPLING_KEYS)
"""Words after /sampling, for completion."""


def _read(word: str, keys: Mapping[str, Callable[[str], Any]], kind: str) -> dict[str, Any]:
    """Split an option "key=value"; kind: name of the options in errors. Raises BadOption."""
    key, _, text = word.partition("=")
    name = key.strip().lower().replace("-", "_")
    if name not in keys:
        raise BadOption(f"{key!r} is not a {kind} option: use {', '.join(keys)}.")
    try:
        return {name: keys[name](text.strip())}
    except ValueError:
        number = "a number" if keys[name] is float else "a whole number"
        raise BadOption(f"{name}={text!r} is not possible: use {number}.") from None


def change_sampling(base: SamplingOptions, words: Iterable[str]) -> SamplingOptions:
    """Change sampling options by words such as "temperature=0.2"; raises BadOption."""
    given: dict[str, Any] = {}
    for word in words:
        if "=" not in word:
            raise BadOption(f"{word!r} is not possible: write key=value, like temperature=0.2.")
        given |= _read(word, _SAMPLING_KEYS, "sampling")
    return replace(base, **given)


def change_draft(base: DraftOptions, words: Iterable[str]) -> DraftOptions:
    """Change drafting options by a source, a depth, "off" or key=value; raises BadOption."""
    for word in words:
        if "=" in word:
            base = replace(base, **_read(word, _DRAFT_KEYS, "drafting"))
        elif word in SOURCES:
            base = replace(base, source=SOURCES[word])
        elif word in ("auto", "off") or word.isdecimal():
            base = replace(base, depth=read_depth(word))
        else:
            raise BadOption(
                f"{word!r} is not possible: use a source ({', '.join(SOURCES)}), "
                f"a depth (auto, off, 0 to {MAX_DEPTH}), or one of {', '.join(_DRAFT_KEYS)} as "
                "key=value."
            )
    return base


def template_arguments(words: Iterable[str]) -> dict[str, TemplateValue]:
    """Read template arguments such as "preserve_thinking=true": JSON values, else text."""
    given: dict[str, TemplateValue] = {}
    for word in words:
        name, sign, text = word.partition("=")
        if not sign:
            raise BadOption(f"{word!r} is not possible: write NAME=VALUE.")
        given[name.strip()] = read_template_value(text)
    return given


def sampling_words(sampling: SamplingOptions) -> str:
    """Write all sampling options as key=value."""
    values = asdict(sampling)
    numbers = [f"{name}={values[name]:g}" for name in NUMBER_FIELDS]
    seed = "seed=new" if sampling.seed is None else f"seed={sampling.seed}"
    biases = ",".join(f"{token}:{bias:g}" for token, bias in sampling.logit_bias.items())
    return " ".join([*numbers, seed, *([f"logit_bias={biases}"] if biases else [])])


def draft_words(draft: DraftOptions) -> str:
    """Write the drafting options in words."""
    more = f", least probability {draft.min_probability:g}" if draft.min_probability else ""
    if draft.output != "full":
        more += f", output head {draft.output}"
    if draft.output == "frequent":
        more += f" ({draft.vocabulary} tokens)"
    return f"source {draft.source}, depth {draft.depth}, rule {draft.rule}{more}"


def given_options(arguments: Namespace, kind: "type[DataclassInstance]") -> dict[str, Any]:
    """Collect the command-line flags given that are fields of a dataclass: name -> value."""
    names = {field.name for field in fields(kind)}
    typed = vars(arguments).items()
    return {name: value for name, value in typed if name in names and value is not None}


def load_options(arguments: Namespace) -> LoadOptions:
    """Read the options of loading a model from command-line flags; raises BadOption."""
    return LoadOptions(**given_options(arguments, LoadOptions))


def draft_options(arguments: Namespace) -> DraftOptions:
    """Read drafting options from flags; a draft model is the default source. Raises BadOption."""
    source = {"source": "model"} if arguments.draft_model else {}
    return DraftOptions(**source | given_options(arguments, DraftOptions))


def sampling_options(arguments: Namespace, recommended: SamplingOptions) -> SamplingOptions:
    """Replace a model's recommended sampling options by the flags given; raises BadOption."""
    given = given_options(arguments, SamplingOptions)
    if "logit_bias" in given:
        given["logit_bias"] = read_bias(given["logit_bias"])
    return replace(recommended, **given)


def cache_options(arguments: Namespace) -> CacheOptions:
    """Read the bits of keys and values from command-line flags; raises BadOption."""
    given = {"bits": arguments.cache_bits, "head_bits": arguments.head_cache_bits}
    return CacheOptions(**{name: bits for name, bits in given.items() if bits is not None})


def change_cache(base: CacheOptions, words: Iterable[str]) -> CacheOptions:
    """Change bits of keys and values: of the model, then of heads and draft models.

    Raises BadOption.
    """
    given = list(words)
    if len(given) > 2 or not all(word.isdecimal() for word in given):
        raise BadOption(f"{' '.join(given)!r} is not possible: write /cache 8, or /cache 8 4.")
    pairs = zip(("bits", "head_bits"), given, strict=False)
    changes: dict[str, Any] = {name: int(word) for name, word in pairs}
    return replace(base, **changes)


def generation_options(arguments: Namespace) -> GenerationOptions:
    """Read the limits of an answer from command-line flags; raises BadOption."""
    return GenerationOptions(**given_options(arguments, GenerationOptions))
