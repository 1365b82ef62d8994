"""What a model is, in one shape for every file format."""

from bisect import bisect_right
from dataclasses import dataclass, field

from mlx_engine.values.errors import DoesNotFit, Reason
from mlx_engine.values.memory_plan import (
    GROWTH,
    SHORT_CONTEXT,
    CacheBytes,
    MemoryFit,
    MemoryPlan,
    WorkSize,
    chunk_rows,
)
from mlx_engine.values.options import AS_THEY_COME, CacheOptions, Numerics, SamplingOptions
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class KernelState:
    """Whether a kernel of ours is in use.

    name: stable ("products"). words: what it does. why_not: "" when it is in use.
    """

    name: str
    words: str
    why_not: str

    @property
    def in_use(self) -> bool:
        """Whether some layer goes through the kernel."""
        return not self.why_not


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors of one role: how many, how they are stored ("8-bit affine, groups of 64"), bytes.

    file_nbytes: bytes in the file, None when they are loaded as they lie there. why_not: why those
    of a group "skipped" are not loaded, "" for others.
    """

    name: str
    tensors: int
    storage: str
    parameters: int
    nbytes: int
    file_nbytes: int | None = None
    why_not: str = ""

    @property
    def words(self) -> str:
        """How they are stored, or why they are not loaded."""
        return Words("not loaded: {why}", why=self.why_not) if self.why_not else self.storage


CHECKPOINTS = 6
"""Places a conversation can go back to. Each keeps a copy of what tokens overwrite: recurrent
states, and keys and values of windows.
"""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as the user sees it; everything here can be told from file headers.

    mtp_heads: heads found as tensors, whatever the config claims. mtp: why there are none, or why
    they cannot be used; None when they can. heads_from: the file or folder they lie in, where that
    is not the model's own. packed_cache: why keys and values are kept in 16 bits only; None when
    they can be in 8 or 4 (of a class of mlx-lm known once it is loaded). declined: everything else
    that is off, with reasons. trunk_cache, head_cache: what a conversation remembers in each; work:
    what a pass takes.
    active_parameters: those one token passes through, where that is not all of them.
    A loaded model is told as this machine holds it, one inspected as a Mac with Metal would;
    without_metal: as others would, where that differs and is known from headers.
    sampling: what the model's own generation_config recommends. Known once it is loaded:
    can_switch_thinking, whether its chat template lets a conversation switch thinking on or off;
    template_arguments, all that the template asks for; kernels, all of ours, used or not.
    repack_cache: in words, where repacked weights are kept and whether they came from there; None
    for nowhere.
    """

    name: str
    path: str
    architecture: str
    parameters: int
    quantisation: str
    nbytes: int
    layers: int
    hidden_size: int
    vocabulary: int
    context_length: int
    mtp_heads: int
    mtp: Reason | None
    groups: tuple[TensorGroup, ...]
    trunk_cache: CacheBytes
    head_cache: CacheBytes
    sampling: SamplingOptions
    numerics: Numerics = "exact"
    heads_from: str = ""
    declined: tuple[Reason, ...] = ()
    can_switch_thinking: bool = False
    template_arguments: tuple[str, ...] = ()
    active_parameters: int | None = None
    repack_cache: str | None = None
    without_metal: "ModelDescription | None" = None
    kernels: tuple[KernelState, ...] = ()
    packed_cache: Reason | None = None
    work: WorkSize = field(default_factory=WorkSize)

    @property
    def cache_bytes_per_token(self) -> int:
        """Keys and values of all layers and heads, as they come."""
        return self.cache_bytes(AS_THEY_COME)

    @property
    def state_bytes(self) -> int:
        """Recurrent states and windows at one place in a conversation, as they come."""
        return self.trunk_cache.place() + self.head_cache.place()

    def cache_bytes(self, cache: CacheOptions) -> int:
        """Keys and values of one token, of trunk and heads."""
        heads = self.head_cache.per_token(cache.head_bits)
        return self.trunk_cache.per_token(cache.bits) + heads

    def memory_needed(
        self, context: int, cache: CacheOptions = AS_THEY_COME, *, gpu_bytes: int = 0
    ) -> int:
        """Bytes of the whole plan."""
        return self.memory_plan(context, cache, gpu_bytes=gpu_bytes).total

    def memory_plan(
        self,
        context: int,
        cache: CacheOptions = AS_THEY_COME,
        *,
        draft: "ModelDescription | None" = None,
        others: int = 0,
        gpu_bytes: int = 0,
    ) -> MemoryPlan:
        """What a chat of `context` tokens needs, the weights with it. draft: a model that drafts.
        others: bytes that other chats hold. gpu_bytes: what a GPU may hold, 0 for none; on one
        rounds are begun ahead, and states from before the block that is not read yet live on.
        """
        trunk, heads = self.trunk_cache, self.head_cache
        place = trunk.place(cache.bits) + heads.place(cache.head_bits)
        slack = trunk.slack(cache.bits) + heads.slack(cache.head_bits)
        rows = -(-context // GROWTH) * GROWTH
        ahead = trunk.states + heads.states if gpu_bytes else 0
        chunk = chunk_rows(self.nbytes, self.active_parameters or self.parameters, gpu_bytes)
        its = CacheOptions(cache.head_bits)
        return MemoryPlan(
            context,
            weights=self.nbytes,
            draft_model=draft.nbytes + rows * draft.cache_bytes(its) if draft else 0,
            cache=rows * self.cache_bytes(cache),
            states=place + slack + ahead,
            checkpoints=CHECKPOINTS * place,
            work=self.work.nbytes(chunk, context, trunk.element, is_packed=cache.bits != 16),
            others=others,
        )

    def memory_fit(
        self,
        usable: int,
        cache: CacheOptions = AS_THEY_COME,
        *,
        asked: int | None = None,
        draft: "ModelDescription | None" = None,
        gpu_bytes: int = 0,
    ) -> MemoryFit:
        """A short and the full context against what may be used; see `memory_plan`. asked: tokens
        that are to fit, None for as many as do.
        """

        def plan(context: int) -> MemoryPlan:
            return self.memory_plan(context, cache, draft=draft, gpu_bytes=gpu_bytes)

        full = min(asked or self.context_length, self.context_length)
        lengths = range(full + 1)
        longest = bisect_right(lengths, usable, key=lambda length: plan(length).total) - 1
        short, whole = plan(min(SHORT_CONTEXT, full)), plan(full)
        return MemoryFit(short, whole, usable, max(0, longest), is_asked=asked is not None)

    def check_fits(self, fit: MemoryFit) -> None:
        """Raises DoesNotFit where a plan says so."""
        if fit.fit == "too-large":
            raise DoesNotFit(
                Words(
                    "{name}: {plan}. Ask for a shorter context, take a smaller or more strongly "
                    "quantised model, or load it anyway: the system may get slow then, or end the "
                    "program.",
                    name=self.name,
                    plan=fit.words,
                )
            )

    def on(self, *, metal: bool) -> "ModelDescription":
        """As a machine with or without Metal holds it, where both are known."""
        return self if metal or self.without_metal is None else self.without_metal
