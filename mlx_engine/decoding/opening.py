"""What an answer begins with: a loaded model, a chat's settings, and the prompt it goes on from."""

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import UnionType
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.decoding.batch import BatchScheduler
from mlx_engine.decoding.device_memory import MemoryLimits
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.sequence import TokenSequence
from mlx_engine.drafting.drafter import ROWS_OF_A_PROMPT
from mlx_engine.drafting.sources import DraftKit
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import PLAIN_OPS, SamplerKernels
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Message, PromptProgress
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    AS_THEY_COME,
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
    require,
)

LONGEST_LEAD_IN = 24
"""Tokens a template may put before an answer ("<|im_start|>assistant\\n<think>\\n")."""

NOTHING_SAID = Message("assistant", "")


def nothing_survives(error: Exception) -> bool:
    """Where nothing can be done otherwise."""
    del error
    return False


def computes_beside() -> bool:
    """Whether the default device is a GPU: a CPU's threads are the host's as well."""
    return bool(mx.default_device().type == mx.DeviceType.gpu)


def outcome_reader() -> Executor | None:
    """A thread that waits for the outcomes of passes; None where the host's processor computes.

    On a GPU queueing the next pass can block until most of it has run, so who queues it sees the
    outcome of the last one that much too late.
    """
    return ThreadPoolExecutor(1, "outcomes") if computes_beside() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How answers of an engine are made.

    chunk: prompt tokens read between two looks at the stop flag. sampling: what samplers pick by.
    suppressed: tokens that are never picked; first_suppressed: not as the first of an answer.
    survives: asked about an error of the device, whether the engine works otherwise from now on, so
    that it is worth going on. together: answers of the engine at the same time, which may be driven
    in between. looks_ahead: what follows a round is begun before its outcome is known;
    follows_drafts: also where it has a draft, which is more to compute and pays where the host has
    no part in that.
    """

    chunk: int
    sampling: SamplerKernels = PLAIN_OPS
    suppressed: Collection[int] = ()
    first_suppressed: Collection[int] = ()
    survives: Callable[[Exception], bool] = nothing_survives
    limits: MemoryLimits = field(default_factory=MemoryLimits)
    together: BatchScheduler = field(
        default_factory=lambda: BatchScheduler(reader=outcome_reader())
    )
    looks_ahead: bool = True
    follows_drafts: bool = field(default_factory=computes_beside)

    def has_room(self) -> bool:
        """Whether there is memory for a round more."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParts(Conduct):
    """What a conversation needs of a loaded model.

    prompts: all that its conversations have read. stop: strings that end an answer in this
    template's format. drafting: what there is to draft with. after_answer: called when an answer is
    complete and was handed out. most_bytes: of all that MLX holds, 0 for any number.
    """

    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    stop: tuple[str, ...]
    context_length: int
    drafting: DraftKit
    prompts: PromptCache
    after_answer: Callable[[], None] = lambda: None
    most_bytes: int = 0

    def has_room(self) -> bool:
        """Whether there is memory to go on. Where there is not, what conversations that rest have
        read is given back; they read it again when they go on.
        """
        if self.most_bytes == 0 or mx.get_active_memory() <= self.most_bytes:
            return True
        self.prompts.forget()
        return mx.get_active_memory() <= self.most_bytes

    def check_cache(self, cache: CacheOptions) -> None:
        """BadOption where this model cannot keep keys and values so."""
        why = self.model.packed_cache
        if why is not None and cache != AS_THEY_COME:
            raise BadOption(
                "{cache} is not possible here. {words} Use CacheOptions().",
                cache=cache,
                words=why.words,
            )


@dataclass(slots=True)
class Settings:
    """Of one chat; changes apply at the next round (sampling, draft) or message.

    cache: another one is in effect from the next message on, for which all is read again.
    """

    sampling: SamplingOptions
    draft: DraftOptions = field(default_factory=DraftOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    system: str | None = None
    template_arguments: Mapping[str, TemplateValue] = field(default_factory=dict)
    cache: CacheOptions = AS_THEY_COME

    def __setattr__(self, name: str, value: object) -> None:
        """Raises BadOption for what is no such options: Python looks at no types."""
        kind = _OPTIONS.get(name, object)
        words = kind.__name__ if isinstance(kind, type) else str(kind)
        require(name, value, words, lambda given: isinstance(given, kind))
        object.__setattr__(self, name, value)


_OPTIONS: dict[str, type | UnionType] = {
    "sampling": SamplingOptions,
    "draft": DraftOptions,
    "generation": GenerationOptions,
    "cache": CacheOptions,
    "system": str | None,
}


class Opening(NamedTuple):
    """The beginning of an answer.

    prompt: at least one token. stable: how many of them the next turn's prompt is sure to begin
    with. thinking_open: as `opens_thinking` says of the prompt. answered: this answer's first
    tokens, when it is continued. said: its beginning where only the text is known (it is then part
    of the prompt). shared: tokens that other conversations may well begin with, too.
    """

    prompt: tuple[int, ...]
    stable: int
    thinking_open: bool | None = None
    answered: tuple[int, ...] = ()
    said: Message = NOTHING_SAID
    shared: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """Everything that stands before the next token."""
        return self.prompt + self.answered


def stable_length(prompt: tuple[int, ...], special_ids: AbstractSet[int]) -> int:
    """How much of a chat prompt the next turn's prompt is sure to begin with.

    What a template puts before an answer may be gone from the history ("<think>"): it starts at
    the last special token. Where there is none near the end, all but the last token.
    """
    end = len(prompt) - 1
    for start in range(end, max(0, end - LONGEST_LEAD_IN), -1):
        if prompt[start] in special_ids:
            return start
    return end


def prefill(
    sequence: TokenSequence, opening: Opening, chunk: int, stopped: Callable[[], bool]
) -> Iterator[PromptProgress]:
    """Read all tokens of the opening but the last; ends early, between chunks, when `stopped`.

    What an earlier turn, or another conversation, has read is reused; a draft source that runs a
    model, and is new here, reads that first. The sequence makes a checkpoint to come back to after
    the shared tokens, after the stable ones, and on a long way to them; none where it is past them.
    Heads read at the first two of these, and only what is near before them: hidden states of all
    else are not computed. A prompt is read in the same parts with and without heads.
    """
    prompt = opening.tokens
    reused = min(sequence.reuse(prompt), sequence.followed)
    last = len(prompt) - 1
    yield PromptProgress(reused, len(prompt), reused)
    while not stopped():
        start = len(sequence.tokens)
        if sequence.followed < start:
            sequence.catch_up(chunk)
            yield PromptProgress(sequence.followed, len(prompt), reused)
            continue
        if start and start in (opening.shared, opening.stable):
            head_rows = sequence.mark()
            if head_rows:
                yield PromptProgress(start, len(prompt), reused, head_rows)
        if start == last:
            return
        sequence.mark_if_far()
        marks = [place for place in (opening.shared, opening.stable) if place > start]
        near = [place - ROWS_OF_A_PROMPT - 1 for place in marks]
        is_far = bool(near) and start < min(near)
        stops = [place for place in (*marks, *near, last) if place > start]
        tokens = prompt[start : min(start + chunk, *stops)]
        hidden = sequence.model.forward(mx.array([tokens]), sequence.caches)
        sequence.commit(tokens, hidden, is_far=is_far)
        sequence.settle()
        yield PromptProgress(len(sequence.tokens), len(prompt), reused)
