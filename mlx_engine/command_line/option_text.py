"""Options from words: the flags of a command and the key=value of a chat share these rules."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import MAX_DEPTH, DraftOptions, DraftSourceName, SamplingOptions

NUMBER_FIELDS: dict[str, Callable[[str], float]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "repetition_penalty": float,
    "presence_penalty": float,
    "frequency_penalty": float,
}
SAMPLING_NAMES = (*NUMBER_FIELDS, "seed", "logit_bias")
SOURCES: dict[str, DraftSourceName] = {name: name for name in get_args(DraftSourceName)}
_DRAFT_KEYS: dict[str, Callable[[str], Any]] = {
    "rule": str,
    "min_probability": float,
    "output": str,
    "vocabulary": int,
}
_DEPTHS = {str(depth): depth for depth in range(MAX_DEPTH + 1)}
_BIAS = re.compile(r"(\d{1,9})[:=]([-+]?\d{1,9}(?:\.\d{1,9})?)")


def read_depth(text: str) -> int | Literal["auto"]:
    """ "auto", or 0 to 8."""
    if text == "auto":
        return "auto"
    if text in _DEPTHS:
        return _DEPTHS[text]
    raise BadOption(f"depth={text!r} is not possible: use auto or 0 to {MAX_DEPTH}.")


def read_bias(pairs: Iterable[str]) -> dict[int, float]:
    """Token id and bias, each as "ID=BIAS" or "ID:BIAS"."""
    biases = {}
    for pair in pairs:
        match = _BIAS.fullmatch(pair)
        if match is None:
            raise BadOption(f"logit_bias={pair!r} is not possible: write ID:BIAS, like 42:-1.5.")
        biases[int(match[1])] = float(match[2])
    return biases


def read_sampling(name: str, text: str) -> Any:
    """The value of one SamplingOptions field from its text; raises BadOption."""
    if name == "logit_bias":
        return read_bias(pair for pair in text.split(",") if pair)
    if name == "seed" and text in ("none", "new"):
        return None
    read = int if name == "seed" else NUMBER_FIELDS.get(name)
    if read is None:
        raise BadOption(f"{name!r} is not a sampling option: use {', '.join(SAMPLING_NAMES)}.")
    try:
        return read(text)
    except ValueError:
        kind = "a whole number" if read is int else "a number"
        raise BadOption(f"{name}={text!r} is not possible: use {kind}.") from None


def change_sampling(base: SamplingOptions, words: Iterable[str]) -> SamplingOptions:
    """`base` with "temperature=0.2", "top-k=40" and so on applied; raises BadOption."""
    given: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign:
            raise BadOption(f"{word!r} is not possible: write key=value, like temperature=0.2.")
        name = key.strip().lower().replace("-", "_")
        given[name] = read_sampling(name, value.strip())
    return replace(base, **given)


def change_draft(base: DraftOptions, words: Iterable[str]) -> DraftOptions:
    """`base` with a source, a depth, "off" or key=value applied, in any order; raises BadOption."""
    for word in words:
        key, sign, value = word.partition("=")
        if sign:
            base = replace(base, **{key.replace("-", "_"): _draft_value(key, value)})
        elif word == "off":
            base = replace(base, depth=0)
        elif word in SOURCES:
            base = replace(base, source=SOURCES[word])
        elif word == "auto" or word.isdecimal():
            base = replace(base, depth=read_depth(word))
        else:
            raise BadOption(
                f"{word!r} is not possible: use a source ({', '.join(SOURCES)}) "
                f"a depth (auto, off, 0 to {MAX_DEPTH}), or one of {', '.join(_DRAFT_KEYS)} as "
                "key=value."
            )
    return base


def _draft_value(key: str, text: str) -> Any:
    read = _DRAFT_KEYS.get(key.replace("-", "_"))
    if read is None:
        raise BadOption(f"{key!r} is not a drafting option: use {', '.join(_DRAFT_KEYS)}.")
    try:
        return read(text)
    except ValueError:
        raise BadOption(f"{key}={text!r} is not possible: use a number.") from None


def sampling_words(sampling: SamplingOptions) -> str:
    """All sampling options as key=value."""
    numbers = [f"{name}={value:g}" for name, value in _numbers(sampling).items()]
    seed = "seed=new" if sampling.seed is None else f"seed={sampling.seed}"
    biases = ",".join(f"{token}:{bias:g}" for token, bias in sampling.logit_bias.items())
    return " ".join([*numbers, seed, *([f"logit_bias={biases}"] if biases else [])])


def _numbers(sampling: SamplingOptions) -> Mapping[str, float]:
    return {
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }


def draft_words(draft: DraftOptions) -> str:
    """The drafting options in words."""
    more = f", least probability {draft.min_probability:g}" if draft.min_probability else ""
    if draft.output != "full":
        more += f", output head {draft.output}"
    if draft.output == "frequent":
        more += f" ({draft.vocabulary} tokens)"
    return f"source {draft.source}, depth {draft.depth}, rule {draft.rule}{more}"
