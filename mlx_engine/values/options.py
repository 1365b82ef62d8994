"""What a caller may set, checked at birth."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index
from pathlib import Path
from typing import Any, Literal, get_args

from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words

Numerics = Literal["exact", "fast"]
AskedNumerics = Literal["auto", "exact", "fast"]
DraftedBy = Literal["mtp", "prompt-lookup", "model"]
DraftSourceName = Literal[
    "mtp", "prompt-lookup", "model", "prompt-lookup+mtp", "prompt-lookup+model", "none"
]
SOURCES: dict[str, DraftSourceName] = {name: name for name in get_args(DraftSourceName)}
DraftOutput = Literal["full", "4-bit", "frequent"]
Misfit = Literal["refuse", "plain"]
DraftRule = Literal["shared-noise", "greedy"]
HeadBits = Literal[4, 8]
CacheBits = Literal[16, 8, 4]
"""Of an element of keys and values: 16 for as it comes, the others as `mx.quantize` rounds rows."""

TemplateValue = bool | int | float | str | None
MAX_DEPTH = 8
DRAFT_VOCABULARY = 32768


def require(
    name: str, value: object, allowed: str, fits: Callable[[Any], object], shown: object = None
) -> None:
    """BadOption where fits(value) says no, or fails because it is of another kind altogether.

    shown: instead of the value, the part of it that is wrong.
    """
    try:
        is_fine = fits(value)
    except TypeError:
        is_fine = False
    if not is_fine:
        raise BadOption(
            "{name}={value} is not possible: use {allowed}.",
            name=name,
            value=repr(value if shown is None else shown),
            allowed=allowed,
        )


def _number(value: Any) -> int:
    """A whole number; TypeError for anything else, a truth value too."""
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _whole(least: int, *, or_none: bool = False) -> Callable[[Any], bool]:
    """Whether something is a whole number of at least so much."""
    return lambda value: (or_none and value is None) or _number(value) >= least


def _between(least: float, most: float) -> Callable[[Any], bool]:
    """Whether something is a number, and no truth value, in a range that both ends belong to."""
    return lambda value: not isinstance(value, bool) and least <= value <= most


def _one_of(names: object) -> Callable[[Any], bool]:
    """Whether something is one of a Literal's texts or numbers."""
    return lambda value: value in get_args(names)


def read_template_value(text: str) -> TemplateValue:
    """A value of JSON, else a text: `true`, `0.5`, `low`, `"true"`. BadOption for lists, objects,
    numbers that are none, and what only begins like JSON.
    """
    value: object
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None if text.startswith(('"', "[", "{")) else text
        is_sound = value is not None
    else:
        is_sound = not isinstance(value, float) or math.isfinite(value)
    if is_sound and isinstance(value, TemplateValue):
        return value
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    raise BadOption(
        "“{shown}” is not possible: use a text, a number, true, false or null.", shown=shown
    )


def template_value_text(value: TemplateValue) -> str:
    """The shortest text that read_template_value takes for it."""
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or not value or value != value.strip():
        return quoted
    try:
        return value if read_template_value(value) == value else quoted
    except BadOption:
        return quoted


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model is opened.

    heads: a file or folder to take the MTP heads from, instead of looking in and beside the model.
    numerics: "exact" asks that a row's logits do not depend on the rows beside it, "auto" the same
    where it makes a pass at most 5 % slower on this machine.
    context_length: tokens at most, None for what the model was made for. draft_model: a small model
    with the same tokenizer, or one made to read what this model computes (EAGLE-3, DFlash, Gemma
    4's assistant), as a path or hub id; it is read when drafting from it begins.
    draft_misfit: whether one that does not fit is refused, or passed over with a reason. head_bits:
    MTP heads that are not quantised are rounded to this many bits, None for as they are.
    check_heads: try MTP heads on a short text when they are first read (at once where `heads` is
    given), and say so in the description when they do not fit; costs a prompt of 64 tokens.
    repack_cache: a folder to keep repacked GGUF weights in (as much again as the model has in
    memory), None for repacking at every load. prompt_cache_bytes: what all conversations may hold
    in memory together, None for half of what the weights leave free; beyond it the least recently
    used is read again when it goes on, and with 0 each of them is at every answer. prompt_files: a
    folder to keep what was read in, so that chats go on after a restart as if there had been none;
    None for nowhere. Its files hold conversations, for their owner's eyes alone (mode 0600).
    prompt_files_bytes: what they may take together; the least recently used go first, all with 0.
    memory_bytes: what the model and all that it reads may take, None for what this machine has for
    it; an answer that comes there ends. anyway: there is no such bound, and what does not fit by
    its plan, or whose context_length does not, is loaded too.
    """

    heads: Path | None = None
    numerics: AskedNumerics = "auto"
    context_length: int | None = None
    draft_model: str | Path | None = None
    draft_misfit: Misfit = "refuse"
    head_bits: HeadBits | None = None
    check_heads: bool = True
    repack_cache: Path | None = None
    prompt_cache_bytes: int | None = None
    prompt_files: Path | None = None
    prompt_files_bytes: int = 4 * 2**30
    memory_bytes: int | None = None
    anyway: bool = False

    def __post_init__(self) -> None:
        for name in ("heads", "repack_cache", "prompt_files"):
            path = getattr(self, name)
            if path is not None:
                require(name, path, Words("a path, or None"), Path)
                object.__setattr__(self, name, Path(path))
        require("head_bits", self.head_bits, "4 or 8, or None", (None, 4, 8).__contains__)
        require("draft_misfit", self.draft_misfit, '"refuse" or "plain"', _one_of(Misfit))
        names = ", ".join(get_args(AskedNumerics))
        require("numerics", self.numerics, f"one of {names}", _one_of(AskedNumerics))
        for name, least, allowed in (
            ("context_length", 8, Words("8 or more, or None")),
            ("prompt_cache_bytes", 0, Words("0 or more, or None")),
            ("memory_bytes", 1, Words("1 or more, or None")),
        ):
            require(name, getattr(self, name), allowed, _whole(least, or_none=True))
        require("prompt_files_bytes", self.prompt_files_bytes, Words("0 or more"), _whole(0))


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is chosen; temperature 0 is greedy.

    top_k 0, top_p 1, min_p 0 and the neutral penalties mean "off"; top_p 0 and min_p 1 keep the
    likeliest alone (min_p all that are as likely). The repetition penalty looks at prompt and
    answer (as in CTRL, Keskar et al. 2019); presence and frequency penalties look at the answer
    only. seed None draws a new one for every answer.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        require("temperature", self.temperature, Words("0 to 10"), _between(0, 10))
        require("top_k", self.top_k, Words("0 (off) or more"), _whole(0))
        require("top_p", self.top_p, Words("0 to 1 (off)"), _between(0, 1))
        require("min_p", self.min_p, Words("0 (off) to 1"), _between(0, 1))
        repetition = self.repetition_penalty
        require("repetition_penalty", repetition, Words("0.01 to 10"), _between(0.01, 10))
        for name in ("presence_penalty", "frequency_penalty"):
            require(name, getattr(self, name), Words("-10 to 10"), _between(-10, 10))
        allowed = Words("token ids of 0 or more, each with -1000 to 1000")
        biases = self.logit_bias
        require("logit_bias", biases, allowed, lambda given: isinstance(given, Mapping))
        for token, bias in biases.items():
            require("logit_bias", token, allowed, _whole(0), {token: bias})
            require("logit_bias", bias, allowed, _between(-1000, 1000), {token: bias})
        seed, seeds = self.seed, Words("0 to 2**64-1, or None")
        require("seed", seed, seeds, lambda seed: seed is None or 0 <= _number(seed) < 2**64)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How tokens are drafted; none of it can change the text.

    source: the model's own heads, a copy of earlier text, a small model; or a copy where it is
    sure enough, else one of the models. depth: tokens drafted in a round, "auto" for as many as pay
    on this machine. min_probability: the first drafted token that its source finds less likely than
    this, and all behind it, are not accepted. rule: how the head's own choice is made;
    "shared-noise" uses the noise of the final choice. output: the output matrix that MTP heads
    draft with: the model's own ("full"), a copy in 4 bits, or the rows of the `vocabulary` most
    frequent tokens and those of the conversation.
    """

    source: DraftSourceName = "mtp"
    depth: int | Literal["auto"] = "auto"
    min_probability: float = 0.0
    rule: DraftRule = "shared-noise"
    output: DraftOutput = "full"
    vocabulary: int = DRAFT_VOCABULARY

    def __post_init__(self) -> None:
        sources, outputs = ", ".join(SOURCES), ", ".join(get_args(DraftOutput))
        require("source", self.source, f"one of {sources}", SOURCES.__contains__)
        require(
            "depth",
            self.depth,
            f'"auto" or 0 to {MAX_DEPTH}',
            lambda depth: depth == "auto" or 0 <= _number(depth) <= MAX_DEPTH,
        )
        require("min_probability", self.min_probability, Words("0 to 1"), _between(0, 1))
        require("rule", self.rule, '"shared-noise" or "greedy"', _one_of(DraftRule))
        require("output", self.output, f"one of {outputs}", _one_of(DraftOutput))
        require("vocabulary", self.vocabulary, Words("256 or more"), _whole(256))


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """In how many bits the keys and values of a conversation are kept; fewer change the words.

    bits: of the model's; head_bits: of those of its MTP heads or a draft model, which change speed
    alone. Recurrent states stay as they are. With the same bits the text is the same with drafting
    on and off.
    """

    bits: CacheBits = 16
    head_bits: CacheBits = 16

    def __post_init__(self) -> None:
        for name in ("bits", "head_bits"):
            bits = getattr(self, name)
            require(name, bits, "16, 8 or 4", lambda bits: _number(bits) in get_args(CacheBits))

    @property
    def words(self) -> str:
        """Bits as people read them: "8 bits", "8 bits, 4 for drafting"."""
        if self.bits == self.head_bits:
            return f"{self.bits} bits"
        return f"{self.bits} bits, {self.head_bits} for drafting"


AS_THEY_COME = CacheOptions()
"""Nothing is rounded."""


def stop_strings(given: Sequence[str]) -> tuple[str, ...]:
    """One text is one stop string, not one for each of its letters. Raises BadOption."""
    texts = [given] if isinstance(given, str) else given

    def fits(_: object) -> bool:
        return isinstance(texts, Sequence) and all(isinstance(t, str) and t for t in texts)

    require("stop", given, "strings that are not empty", fits)
    return tuple(texts)


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """When an answer ends.

    max_tokens: None for as many as the context holds. stop: strings that end the answer and are not
    part of it; one text is one of them. ignore_eos: go on past the model's own end of text.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        limit, allowed = self.max_tokens, Words("1 or more, or None")
        require("max_tokens", limit, allowed, _whole(1, or_none=True))
        object.__setattr__(self, "stop", stop_strings(self.stop))
