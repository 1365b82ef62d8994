"""How answers are decoded, the parts of a loaded model they need, and a chat's settings."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import UnionType

import mlx.core as mx

from mlx_engine.decoding.batch import BatchScheduler
from mlx_engine.decoding.device_memory import MemoryLimits
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.drafting.sources import DraftKit
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import PLAIN_OPS, SamplerKernels
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
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


def never_retry(error: Exception) -> bool:
    """Where there is no other way to compute."""
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
class DecodeConfig:
    """How answers of an engine are decoded.

    chunk: prompt tokens read between two looks at the stop flag. sampling: kernels that pick.
    suppressed: tokens that are never picked; first_suppressed: not as the first of an answer.
    can_retry: whether the engine works in another way after an error of the device, so that it is
    worth going on. batch: shares passes among the engine's answers. looks_ahead: a round is begun
    before the outcome of the last is known; follows_drafts: also where that one has a draft, which
    is more to compute and pays where the host has no part in that. most_bytes: of all that MLX
    holds, 0 for any number.
    """

    chunk: int
    sampling: SamplerKernels = PLAIN_OPS
    suppressed: Collection[int] = ()
    first_suppressed: Collection[int] = ()
    can_retry: Callable[[Exception], bool] = never_retry
    limits: MemoryLimits = field(default_factory=MemoryLimits)
    batch: BatchScheduler = field(default_factory=lambda: BatchScheduler(reader=outcome_reader()))
    looks_ahead: bool = True
    follows_drafts: bool = field(default_factory=computes_beside)

    most_bytes: int = 0

    def make_room(self) -> None:
        """Give back memory of conversations that rest; they read it again when they go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParts(DecodeConfig):
    """What a conversation needs of a loaded model.

    prompts: all that its conversations have read. stop: strings that end an answer in this
    template's format. drafting: what there is to draft with. after_answer: called when an answer is
    complete and was handed out.
    """

    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    stop: tuple[str, ...]
    context_length: int
    drafting: DraftKit
    prompts: PromptCache
    after_answer: Callable[[], None] = lambda: None

    def make_room(self) -> None:
        """Drop what conversations without a running answer have read."""
        self.prompts.forget()

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
