"""Options that callers set; every value is checked when the option object is made."""

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
Activations = Literal["float16", "bfloat16", "float32"]
AskedActivations = Literal["auto", "float16", "bfloat16"]
DraftedBy = Literal["mtp", "prompt-lookup", "model", "grammar"]
DraftSourceName = Literal[
    "mtp", "prompt-lookup", "model", "prompt-lookup+mtp", "prompt-lookup+model", "none"
]
SOURCES: dict[str, DraftSourceName] = {name: name for name in get_args(DraftSourceName)}
DraftOutput = Literal["full", "4-bit", "frequent"]
Misfit = Literal["refuse", "plain"]
DraftRule = Literal["shared-noise", "greedy"]
HeadBits = Literal[4, 8]
CacheBits = Literal[16, 8, 4]
"""Bits of a cached key or value element: 16 unquantised, 8 and 4 as `mx.quantize` rounds."""

TemplateValue = bool | int | float | str | None
MAX_DEPTH = 8
DRAFT_VOCABULARY = 32768


def require(
    name: str,
    value: object,
    allowed_words: str,
    is_allowed: Callable[[Any], object],
    wrong_part: object = None,
) -> None:
    """Raise BadOption for an option's value unless fits(value) is true and raises no TypeError.

    allowed_words: what is allowed, for the message. wrong_part: part of the value that is shown
    instead of all of it.
    """
    try:
        is_fine = is_allowed(value)
    except TypeError:
        is_fine = False
    if not is_fine:
        raise BadOption(
            "{name}={value} is not possible: use {allowed}.",
            name=name,
            value=repr(value if wrong_part is None else wrong_part),
            allowed=allowed_words,
        )


def _number(value: Any) -> int:
    """Return value as an int. Raises TypeError for anything but a whole number, bool included."""
    if isinstance(value, bool):
        raise TypeError
    return index(value)


def _whole_number_from(minimum: int, *, allows_none: bool = False) -> Callable[[Any], bool]:
    """Make an option's check: a whole number from `minimum`, or None with `allows_none`."""
    return lambda value: (allows_none and value is None) or _number(value) >= minimum


def _number_between(minimum: float, maximum: float) -> Callable[[Any], bool]:
    """Make a check of an option's value: a number (no bool) from `minimum` to `maximum`."""
    return lambda value: not isinstance(value, bool) and minimum <= value <= maximum


def _one_of(names: object) -> Callable[[Any], bool]:
    """Make a check of an option's value: one of the strings of a Literal type."""
    return lambda value: value in get_args(names)


def read_template_value(text: str) -> TemplateValue:
    """Parse a template argument: a JSON scalar (`true`, `0.5`, `"true"`) or plain text (`low`).

    Raises BadOption for lists, objects, NaN, infinities, and text that only begins like JSON.
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
    """Format a template argument as the shortest text that read_template_value parses back."""
    quoted = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or not value or value != value.strip():
        return quoted
    try:
        return value if read_template_value(value) == value else quoted
    except BadOption:
        return quoted


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options for opening a model.

    heads: file or folder of the MTP heads, instead of searching the model's files and the files
    beside them. vision: GGUF file of a GGUF model's vision tower (mmproj), instead of searching
    beside it. numerics: "exact" makes a row's logits independent of the other rows of a pass,
    "auto" does so where a pass gets at most 5 % slower on this machine. activations: 16-bit type of
    weights and activations; "auto" is float16 on M1 and M2, whose GPUs have no bfloat16 arithmetic,
    float32 without a GPU, else the type that the model is stored in. context_length: tokens at
    most, None for the model's own limit.

    draft_model: path or hub id of a small model with the same tokenizer, or of one made for this
    model (EAGLE-3, DFlash, Gemma 4's assistant); read when it first drafts. draft_misfit: "refuse"
    raises an error for a draft model that does not fit, "plain" opens the model without it and
    gives a reason. head_bits: quantise unquantised MTP heads to this many bits, None for no change.
    check_heads: test MTP heads on a text of 64 tokens when they are first read (at once if `heads`
    is given), and describe the result.

    repack_cache: folder to cache repacked GGUF weights in (as large as the model in memory), None
    for repacking at every load. prompt_cache_bytes: limit for the caches of all conversations in
    memory, None for half of what the weights leave free; beyond it the least recently used
    conversation is processed again when it continues; 0 keeps none between answers. prompt_files:
    folder to store prompt caches in, so that chats continue quickly after a restart; None to store
    none. The files contain conversations and are readable by their owner only (mode 0600).
    prompt_files_bytes: limit for the stored prompt caches; the least recently used are deleted
    first.

    memory_bytes: limit for the model and its caches, None for what this machine offers; an answer
    that reaches the limit ends. anyway: apply no memory limit, and load models that do not fit by
    their memory plan.
    """

    heads: Path | None = None
    vision: Path | None = None
    numerics: AskedNumerics = "auto"
    activations: AskedActivations = "auto"
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
        for name in ("heads", "vision", "repack_cache", "prompt_files"):
            path = getattr(self, name)
            if path is not None:
                require(name, path, Words("a path, or None"), Path)
                object.__setattr__(self, name, Path(path))
        require("head_bits", self.head_bits, "4 or 8, or None", (None, 4, 8).__contains__)
        require("draft_misfit", self.draft_misfit, '"refuse" or "plain"', _one_of(Misfit))
        for name, choices in (("numerics", AskedNumerics), ("activations", AskedActivations)):
            allowed = f"one of {', '.join(get_args(choices))}"
            require(name, getattr(self, name), allowed, _one_of(choices))
        for name, least, allowed in (
            ("context_length", 8, Words("8 or more, or None")),
            ("prompt_cache_bytes", 0, Words("0 or more, or None")),
            ("memory_bytes", 1, Words("1 or more, or None")),
        ):
            require(name, getattr(self, name), allowed, _whole_number_from(least, allows_none=True))
        require(
            "prompt_files_bytes", self.prompt_files_bytes, Words("0 or more"), _whole_number_from(0)
        )


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Options for sampling the next token; temperature 0 is greedy.

    top_k 0, top_p 1, min_p 0 and neutral penalties (repetition 1, others 0) mean "off". top_p 0
    keeps the most likely token alone, min_p 1 all tokens that are equally likely. The repetition
    penalty applies to prompt and answer (as in CTRL, Keskar et al. 2019), presence and frequency
    penalties to the answer only. logit_bias: token id -> number added to its logit. seed: None
    draws a new one for every answer.

    xtc_probability: how often, of the tokens that the filters keep, all with at least xtc_threshold
    but the least likely of them are excluded. dry_multiplier: penalty for a token that prolongs a
    passage of dry_allowed_length tokens which has stood before, in the last dry_penalty_last_n
    tokens (-1 for all); dry_base times as much for each further token of the passage. No passage
    reaches across a token whose text contains one of dry_sequence_breakers.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        require("temperature", self.temperature, Words("0 to 10"), _number_between(0, 10))
        require("top_k", self.top_k, Words("0 (off) or more"), _whole_number_from(0))
        require("top_p", self.top_p, Words("0 to 1 (off)"), _number_between(0, 1))
        require("min_p", self.min_p, Words("0 (off) to 1"), _number_between(0, 1))
        repetition = self.repetition_penalty
        require("repetition_penalty", repetition, Words("0.01 to 10"), _number_between(0.01, 10))
        for name in ("presence_penalty", "frequency_penalty"):
            require(name, getattr(self, name), Words("-10 to 10"), _number_between(-10, 10))
        require(
            "xtc_probability", self.xtc_probability, Words("0 (off) to 1"), _number_between(0, 1)
        )
        require("xtc_threshold", self.xtc_threshold, Words("0 to 1"), _number_between(0, 1))
        require(
            "dry_multiplier", self.dry_multiplier, Words("0 (off) to 100"), _number_between(0, 100)
        )
        require("dry_base", self.dry_base, Words("1 to 10"), _number_between(1, 10))
        length, last = self.dry_allowed_length, self.dry_penalty_last_n
        require("dry_allowed_length", length, Words("1 or more"), _whole_number_from(1))
        require("dry_penalty_last_n", last, Words("-1 (all) or more"), _whole_number_from(-1))
        breakers = stop_strings(self.dry_sequence_breakers, "dry_sequence_breakers")
        object.__setattr__(self, "dry_sequence_breakers", breakers)
        allowed = Words("token ids of 0 or more, each with -1000 to 1000")
        biases = self.logit_bias
        require("logit_bias", biases, allowed, lambda given: isinstance(given, Mapping))
        for token, bias in biases.items():
            require("logit_bias", token, allowed, _whole_number_from(0), {token: bias})
            require("logit_bias", bias, allowed, _number_between(-1000, 1000), {token: bias})
        seed, seeds = self.seed, Words("0 to 2**64-1, or None")
        require("seed", seed, seeds, lambda seed: seed is None or 0 <= _number(seed) < 2**64)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Options for drafting tokens; none of them changes the text of an answer.

    source: the model's MTP heads, copies of earlier text (prompt lookup), a separate draft model,
    or prompt lookup where it is sure enough and one of the models elsewhere. depth: tokens drafted
    in a round, "auto" for the fastest depth on this machine. min_probability: end a
    draft before the first token that its source finds less likely. rule: how a drafted token is
    chosen, "shared-noise" with the noise of the target's own sampling. output: output matrix for
    MTP heads: the model's own ("full"), a copy in 4 bits, or its rows for the `vocabulary` most
    frequent tokens and the tokens of the conversation.
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
        require("min_probability", self.min_probability, Words("0 to 1"), _number_between(0, 1))
        require("rule", self.rule, '"shared-noise" or "greedy"', _one_of(DraftRule))
        require("output", self.output, f"one of {outputs}", _one_of(DraftOutput))
        require("vocabulary", self.vocabulary, Words("256 or more"), _whole_number_from(256))


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """Bits in which keys and values of a conversation are stored; fewer bits change the text.

    bits: for the model. head_bits: for MTP heads or a draft model, where fewer bits change only the
    speed. Recurrent states are never quantised. With equal bits the text is the same with drafting
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
        """The bits of stored keys and values in words: "8 bits", "8 bits, 4 for drafting"."""
        if self.bits == self.head_bits:
            return f"{self.bits} bits"
        return f"{self.bits} bits, {self.head_bits} for drafting"


UNQUANTISED = CacheOptions()
"""Cache options without quantisation."""


def stop_strings(strings: Sequence[str], name: str = "stop") -> tuple[str, ...]:
    """Return strings as a tuple; a single string is one of them. Raises BadOption."""
    texts = [strings] if isinstance(strings, str) else strings

    def is_stop_string(_: object) -> bool:
        return isinstance(texts, Sequence) and all(isinstance(t, str) and t for t in texts)

    require(name, strings, "strings that are not empty", is_stop_string)
    return tuple(texts)


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options for when an answer ends.

    max_tokens: limit for the answer, None for the rest of the context. stop: strings that end the
    answer and are not part of it; a single string is accepted. ignore_eos: continue after the
    model's end token.

    schema: JSON schema of the answer, or regex: regular expression, or grammar: Lark grammar that
    the whole answer matches, unless a limit cuts it. At most one of the three. max_thinking: tokens
    of the thought before the answer, which is then closed; None for no limit. logprobs: report the
    log-probability of each token, and of this many of the likeliest at its place; None for neither.
    must_call: names of tools of the chat; the answer is calls of these, whatever else binds it.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    schema: Mapping[str, Any] | None = None
    regex: str | None = None
    grammar: str | None = None
    max_thinking: int | None = None
    logprobs: int | None = None
    must_call: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require(
            "logprobs",
            self.logprobs,
            Words("0 to 20, or None"),
            lambda count: count is None or 0 <= _number(count) <= 20,
        )
        limit, allowed = self.max_tokens, Words("1 or more, or None")
        require("max_tokens", limit, allowed, _whole_number_from(1, allows_none=True))
        object.__setattr__(self, "stop", stop_strings(self.stop))
        object.__setattr__(self, "must_call", stop_strings(self.must_call, "must_call"))
        limit, allowed = self.max_thinking, Words("0 or more, or None")
        require("max_thinking", limit, allowed, _whole_number_from(0, allows_none=True))
        schema, allowed = self.schema, Words("an object, or None")
        require("schema", schema, allowed, lambda value: isinstance(value, Mapping | None))
        for name in ("regex", "grammar"):
            allowed = Words("a text, or None")
            require(name, getattr(self, name), allowed, lambda value: isinstance(value, str | None))
        if sum(value is not None for value in (self.schema, self.regex, self.grammar)) > 1:
            raise BadOption("schema, regex, grammar: an answer can be bound to one of them only.")
