"""What a caller may set, checked at birth."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import Words

Numerics = Literal["exact", "fast"]
AskedNumerics = Literal["auto", "exact", "fast"]
DraftedBy = Literal["mtp", "prompt-lookup", "model"]
DraftSourceName = Literal[
    "mtp", "prompt-lookup", "model", "prompt-lookup+mtp", "prompt-lookup+model", "none"
]
SOURCES: dict[str, DraftSourceName] = {name: name for name in get_args(DraftSourceName)}
DraftOutput = Literal["full", "4-bit", "3-bit", "frequent", "auto"]
Misfit = Literal["refuse", "plain"]
DraftRule = Literal["shared-noise", "greedy"]
HeadBits = Literal[4, 8]
CacheBits = Literal[16, 8, 4]
"""Of an element of keys and values: 16 for as it comes, the others as `mx.quantize` rounds rows."""

TemplateValue = bool | int | float | str | None
MAX_DEPTH = 8
DRAFT_VOCABULARY = 32768


def _require(condition: bool, name: str, value: object, allowed: str) -> None:
    if not condition:
        raise BadOption(
            "{name}={value} is not possible: use {allowed}.",
            name=name,
            value=repr(value),
            allowed=allowed,
        )


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
        misfit = self.draft_misfit
        bits = self.head_bits
        _require(bits in (None, 4, 8), "head_bits", bits, "4 or 8, or None")
        _require(misfit in ("refuse", "plain"), "draft_misfit", misfit, '"refuse" or "plain"')
        names = get_args(AskedNumerics)
        _require(self.numerics in names, "numerics", self.numerics, f"one of {', '.join(names)}")
        length = self.context_length
        _require(
            length is None or length >= 8, "context_length", length, Words("8 or more, or None")
        )
        most = self.prompt_cache_bytes
        _require(most is None or most >= 0, "prompt_cache_bytes", most, Words("0 or more, or None"))
        memory = self.memory_bytes
        _require(memory is None or memory > 0, "memory_bytes", memory, Words("1 or more, or None"))
        files = self.prompt_files_bytes
        _require(files >= 0, "prompt_files_bytes", files, Words("0 or more"))


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is chosen; temperature 0 is greedy.

    top_k 0, top_p 1, min_p 0 and the neutral penalties mean "off". The repetition penalty looks at
    prompt and answer (as in CTRL, Keskar et al. 2019); presence and frequency penalties look at the
    answer only. seed None draws a new one for every answer.
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
        _require(0 <= self.temperature <= 10, "temperature", self.temperature, Words("0 to 10"))
        _require(self.top_k >= 0, "top_k", self.top_k, Words("0 (off) or more"))
        _require(0 < self.top_p <= 1, "top_p", self.top_p, Words("more than 0, at most 1 (off)"))
        _require(0 <= self.min_p < 1, "min_p", self.min_p, Words("0 (off) or more, below 1"))
        repetition = self.repetition_penalty
        _require(0.01 <= repetition <= 10, "repetition_penalty", repetition, Words("0.01 to 10"))
        presence, frequency = self.presence_penalty, self.frequency_penalty
        _require(-10 <= presence <= 10, "presence_penalty", presence, Words("-10 to 10"))
        _require(-10 <= frequency <= 10, "frequency_penalty", frequency, Words("-10 to 10"))
        for token, bias in self.logit_bias.items():
            _require(
                token >= 0 and abs(bias) <= 1000,
                "logit_bias",
                {token: bias},
                Words("-1000 to 1000"),
            )
        seed = self.seed
        _require(seed is None or 0 <= seed < 2**64, "seed", seed, Words("0 to 2**64-1, or None"))


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How tokens are drafted; none of it can change the text.

    source: the model's own heads, a copy of earlier text, a small model; or a copy where it is
    sure enough, else one of the models. depth: tokens drafted in a round, "auto" for as many as pay
    on this machine. min_probability: a draft ends before the first token its source finds less
    likely than this, which saves rows and costs a wait for each token: of use where rows are dear
    and `depth` is a number, as "auto" weighs both without it. rule: how the head's own choice is
    made; "shared-noise" uses the noise of the final choice. output: the output head that MTP heads
    draft with: the model's own, a copy of it in fewer bits ("auto": if that is measured to be
    faster), or its rows for the `vocabulary` most frequent tokens and those of the conversation.
    """

    source: DraftSourceName = "mtp"
    depth: int | Literal["auto"] = "auto"
    min_probability: float = 0.0
    rule: DraftRule = "shared-noise"
    output: DraftOutput = "full"
    vocabulary: int = DRAFT_VOCABULARY

    def __post_init__(self) -> None:
        _require(self.source in SOURCES, "source", self.source, f"one of {', '.join(SOURCES)}")
        depth_is_fine = self.depth == "auto" or (
            isinstance(self.depth, int) and 0 <= self.depth <= MAX_DEPTH
        )
        _require(depth_is_fine, "depth", self.depth, f'"auto" or 0 to {MAX_DEPTH}')
        probability = self.min_probability
        _require(0 <= probability < 1, "min_probability", probability, Words("0 or more, below 1"))
        rules = ("shared-noise", "greedy")
        _require(self.rule in rules, "rule", self.rule, '"shared-noise" or "greedy"')
        outputs = get_args(DraftOutput)
        _require(self.output in outputs, "output", self.output, f"one of {', '.join(outputs)}")
        _require(self.vocabulary >= 256, "vocabulary", self.vocabulary, Words("256 or more"))


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
        for name, bits in (("bits", self.bits), ("head_bits", self.head_bits)):
            is_known = isinstance(bits, int) and bits in get_args(CacheBits)
            _require(is_known, name, bits, "16, 8 or 4")

    @property
    def words(self) -> str:
        """For people."""
        if self.bits == self.head_bits:
            return f"{self.bits} bits"
        return f"{self.bits} bits, those of what drafts {self.head_bits}"


AS_THEY_COME = CacheOptions()
"""Nothing is rounded."""


def stop_strings(given: Sequence[str]) -> tuple[str, ...]:
    """One text is one stop string, not one for each of its letters."""
    return (given,) if isinstance(given, str) else tuple(given)


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
        limit = self.max_tokens
        _require(limit is None or limit >= 1, "max_tokens", limit, Words("1 or more, or None"))
        object.__setattr__(self, "stop", stop_strings(self.stop))
        for text in self.stop:
            _require(bool(text), "stop", text, "strings that are not empty")
