"""Configuration of decoding: device memory, parts of a loaded model."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import mlx.core as mx

from mlx_engine.decoding.pictures import PictureEncoder
from mlx_engine.decoding.prompt_cache import PromptCache
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.drafting.sources import DrafterFactory
from mlx_engine.models.contract import Model
from mlx_engine.sampling.sampler import PLAIN_OPS, SamplerKernels
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.grammar import GrammarTokens
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadOption, EngineError, OutOfMemory, is_out_of_memory
from mlx_engine.values.options import UNQUANTISED, CacheOptions, LoadOptions

MOST_CACHED = 2 * 1024**3
"""Bytes of freed buffers that MLX may keep for reuse, at most."""

CACHED_SHARE = 16
"""Freed buffers take at most 1/16 of the recommended working set: 0.7 GB of 11 GB."""


def memory_bytes() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def gpu_bytes() -> int:
    """Return the recommended working set of the GPU in bytes, 0 without Metal."""
    if not mx.metal.is_available():
        return 0
    return int(mx.device_info()["max_recommended_working_set_size"])


def usable_bytes() -> int:
    """Return the bytes that models and their chats may use; the rest is for the system."""
    return gpu_bytes() or memory_bytes() * 2 // 3


class MemoryLimits:
    """Sets MLX's limits of cached and wired memory, per process, while an engine generates.

    Without them MLX keeps freed buffers up to 1.5 times the device's memory and wires nothing: the
    system may page weights out, and the GPU then waits for them. Memory is wired only while
    generating, as by mlx-lm's `wired_limit`.
    """

    def __init__(self) -> None:
        self._answers = 0
        self._replaced = ExitStack()

    @contextmanager
    def during_generation(self) -> Iterator[None]:
        """Context in which MLX's memory limits are set, until the last of several answers ends.

        Has no effect without Metal.
        """
        most = gpu_bytes()
        if most and not self._answers:
            self._set_limit(mx.set_cache_limit, min(MOST_CACHED, most // CACHED_SHARE))
            self._set_limit(mx.set_wired_limit, most, unlimited=0)  # more would raise
            self._replaced.callback(mx.synchronize)  # first: limits change while nothing runs
        self._answers += 1
        try:
            yield
        finally:
            self._answers -= 1
            if not self._answers:
                self._replaced.close()

    def _set_limit(
        self, set_limit: Callable[[int], int], engine_bytes: int, unlimited: int = -1
    ) -> None:
        """Set an MLX memory limit until the last answer ends, unless a stricter one is set."""
        before = set_limit(engine_bytes)
        if before < engine_bytes and before != unlimited:
            set_limit(before)
        elif before != engine_bytes:
            self._replaced.callback(set_limit, before)


@contextmanager
def translate_oom() -> Iterator[None]:
    """Context that raises OutOfMemory if MLX or Python reports that memory ran out."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError) as error:
        if isinstance(error, EngineError) or not is_out_of_memory(error):
            raise
        raise OutOfMemory(
            "Memory ran out while answering; the conversation is kept. Close other programs "
            "or chats, begin a new chat, load the model with a shorter context, or take a "
            "smaller or more strongly quantised one. MLX says: {error}",
            error=str(error),
        ) from error


def most_bytes(options: LoadOptions) -> int:
    """Return the bytes that a model and its conversations may take; 0 for no limit."""
    return 0 if options.anyway else options.memory_bytes or usable_bytes()


def prompt_cache_bytes_of(options: LoadOptions, weights: int) -> int:
    """Return the bytes that conversations may hold: the option's, else half of what is left."""
    if options.prompt_cache_bytes is not None:
        return options.prompt_cache_bytes
    return max(0, (options.memory_bytes or usable_bytes()) - weights) // 2


def never_retry(error: Exception) -> bool:
    """The default answer to whether the engine may retry after an error: False."""
    del error
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """Configuration of decoding, the same for all answers of an engine.

    chunk: prompt tokens per pass, between two looks at the stop flag. sampling: kernels that pick
    tokens. suppressed: tokens that are never picked; first_suppressed: tokens that never begin an
    answer. can_retry: whether the engine computes differently after an error of the device, so that
    a second attempt may succeed. batch: begins rounds ahead, and shares passes among answers.
    breaking: finds the tokens whose text contains one of several strings.
    """

    chunk: int
    sampling: SamplerKernels = PLAIN_OPS
    suppressed: Collection[int] = ()
    first_suppressed: Collection[int] = ()
    can_retry: Callable[[Exception], bool] = never_retry
    limits: MemoryLimits = field(default_factory=MemoryLimits)
    batch: BatchScheduler = field(default_factory=lambda: BatchScheduler(reader=outcome_reader()))
    breaking: Callable[[tuple[str, ...]], Collection[int]] = lambda _: ()

    def free_memory(self) -> None:
        """Free the memory of conversations without a running answer, if there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParts(DecodeConfig):
    """Parts of a loaded model that its conversations use.

    stop: strings that end an answer in the template's format. drafting: heads and models that can
    draft. prompts: prompts that conversations have read. grammars: binds answers to a
    schema or grammar. pictures: encodes pictures, or says why the model sees none. after_answer:
    called after the last event of an answer.
    """

    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate
    stop: tuple[str, ...]
    context_length: int
    drafting: DrafterFactory
    prompts: PromptCache
    grammars: GrammarTokens
    pictures: PictureEncoder
    after_answer: Callable[[], None] = lambda: None

    def free_memory(self) -> None:
        """Drop encoded pictures, and the caches of conversations without a running answer."""
        self.prompts.drop_idle_chats()
        self.pictures.forget()

    def check_cache(self, cache: CacheOptions) -> None:
        """Raise BadOption if this model cannot keep keys and values in these bits."""
        why = self.model.packed_cache
        if why is not None and cache != UNQUANTISED:
            raise BadOption(
                "{cache} is not possible here. {words} Use CacheOptions().",
                cache=cache,
                words=why.words,
            )
