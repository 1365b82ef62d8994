"""Description of a model for users, the same for every file format."""

from bisect import bisect_right
from dataclasses import dataclass, field

from mlx_engine.values.errors import DoesNotFit, Reason
from mlx_engine.values.memory_plan import (
    GROWTH,
    SHORT_CONTEXT,
    CacheBytes,
    MemoryFit,
    MemoryPlan,
    PictureSizes,
    WorkSize,
    chunk_rows,
)
from mlx_engine.values.options import (
    UNQUANTISED,
    Activations,
    CacheOptions,
    Numerics,
    SamplingOptions,
)
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class KernelState:
    """Whether one of our Metal kernels is in use.

    name: a stable identifier ("products"). words: what the kernel computes. why_not: why it is not
    used, in plain words, "" when it is. details: the same for engineers, "" for nothing more; of a
    kernel in use, the weight formats it is switched off for.
    """

    name: str
    words: str
    why_not: str
    details: str = ""

    @property
    def is_in_use(self) -> bool:
        """Whether any layer of the model computes with this Metal kernel."""
        return not self.why_not


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors with one role: their number, storage ("8-bit affine, groups of 64") and bytes.

    file_nbytes: bytes in the file, None when the tensors are loaded as stored. why_not: why the
    tensors of the group "skipped" are not loaded, "" in other groups.
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
        """How a group of model tensors is stored, or why it is not loaded, in words."""
        return Words("not loaded: {why}", why=self.why_not) if self.why_not else self.storage


CHECKPOINTS = 6
"""Checkpoints of a conversation to roll back to, each with a copy of the recurrent states and
windows.
"""


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as users see it; all fields but the last listed here are known from file headers.

    mtp_heads: number of heads found as tensors, whatever the config promises. mtp: why there are no
    heads or they cannot be used; None when they can. vision: why pictures cannot be read, None when
    they can. heads_from: file or folder of the heads where they are not in the model's own files.
    draft_models: draft models made for this one, folders or GGUF files, found in or beside its
    folder. packed_cache: why keys and values can only be cached in 16 bits; None when 8 and 4 bits
    work (for classes of mlx-lm known once loaded). declined: reasons for every other feature that
    is off. trunk_cache, head_cache: cache sizes of trunk and heads. work: temporary memory of a
    pass. pictures: memory of a vision tower, None without one or where it is not known.
    active_parameters: parameters one token uses, None where it uses all. sampling: options that
    generation_config.json recommends.

    A loaded model is described for this machine, an inspected one for a Mac with Metal;
    without_metal is the description for other machines, where it differs and is known from headers.

    Known once the model is loaded: can_switch_thinking (the chat template can switch thinking on
    and off), template_arguments (names the template reads), kernels (all Metal kernels, used or
    not), and repack_cache (a sentence on where repacked GGUF weights are cached; None without a
    cache).
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
    vision: Reason | None
    groups: tuple[TensorGroup, ...]
    trunk_cache: CacheBytes
    head_cache: CacheBytes
    sampling: SamplingOptions
    numerics: Numerics = "exact"
    activations: Activations = "float32"
    heads_from: str = ""
    draft_models: tuple[str, ...] = ()
    declined: tuple[Reason, ...] = ()
    can_switch_thinking: bool = False
    template_arguments: tuple[str, ...] = ()
    active_parameters: int | None = None
    repack_cache: str | None = None
    without_metal: "ModelDescription | None" = None
    kernels: tuple[KernelState, ...] = ()
    packed_cache: Reason | None = None
    work: WorkSize = field(default_factory=WorkSize)
    pictures: PictureSizes | None = None

    @property
    def unused_draft_model(self) -> tuple[Reason, ...]:
        """A notice about a draft model that was found, for a model opened without one."""
        words = Words(
            "A draft model made for this model was found and is not in use: {path}. Choose it as "
            "the draft model to draft with it.",
            path=next(iter(self.draft_models), ""),
        )
        return (Reason("draft-model-found", words),) if self.draft_models else ()

    @property
    def picture_words(self) -> str:
        """The memory that pictures take, or why the model sees none; "" if it is not known."""
        if self.vision is not None:
            return self.vision.words
        return self.pictures.words if self.pictures else ""

    @property
    def cache_bytes_per_token(self) -> int:
        """Bytes of unquantised keys and values that one token adds in trunk and heads."""
        return self.cache_bytes(UNQUANTISED)

    @property
    def state_bytes(self) -> int:
        """Bytes of recurrent states and unquantised windows in trunk and heads."""
        return self.trunk_cache.checkpoint_bytes() + self.head_cache.checkpoint_bytes()

    def cache_bytes(self, cache: CacheOptions) -> int:
        """Bytes of keys and values that one token adds in trunk and heads, stored as in `cache`."""
        heads = self.head_cache.per_token(cache.head_bits)
        return self.trunk_cache.per_token(cache.bits) + heads

    def memory_needed(
        self, context: int, cache: CacheOptions = UNQUANTISED, *, gpu_bytes: int = 0
    ) -> int:
        """Bytes of memory that the model and a chat of `context` tokens need."""
        return self.memory_plan(context, cache, gpu_bytes=gpu_bytes).total_bytes

    def memory_plan(
        self,
        context: int,
        cache: CacheOptions = UNQUANTISED,
        *,
        draft: "ModelDescription | None" = None,
        others: int = 0,
        gpu_bytes: int = 0,
    ) -> MemoryPlan:
        """Plan the memory of a chat of `context` tokens, weights included.

        draft: description of a separate draft model. others: bytes of other chats' caches.
        gpu_bytes: memory a GPU may use, 0 without one; with a GPU rounds run ahead and keep a
        second copy of the recurrent states.
        """
        trunk, heads = self.trunk_cache, self.head_cache
        place = trunk.checkpoint_bytes(cache.bits) + heads.checkpoint_bytes(cache.head_bits)
        slack = trunk.window_slack_bytes(cache.bits) + heads.window_slack_bytes(cache.head_bits)
        rows = -(-context // GROWTH) * GROWTH
        ahead = trunk.states + heads.states if gpu_bytes else 0
        chunk = chunk_rows(self.nbytes, self.active_parameters or self.parameters, gpu_bytes)
        draft_cache = CacheOptions(cache.head_bits)
        return MemoryPlan(
            context,
            weights=self.nbytes,
            draft_model=draft.nbytes + rows * draft.cache_bytes(draft_cache) if draft else 0,
            cache=rows * self.cache_bytes(cache),
            states=place + slack + ahead,
            checkpoints=CHECKPOINTS * place,
            work=self.work.nbytes(chunk, context, trunk.element, is_packed=cache.bits != 16),
            others=others,
            pictures=self.pictures.most_bytes if self.pictures else 0,
        )

    def memory_fit(
        self,
        usable_bytes: int,
        cache: CacheOptions = UNQUANTISED,
        *,
        requested_context: int | None = None,
        draft: "ModelDescription | None" = None,
        gpu_bytes: int = 0,
    ) -> MemoryFit:
        """Compare the memory plans of a short and of the full context with `usable_bytes` bytes.

        requested_context: requested context in tokens, None for as many as fit. draft, gpu_bytes:
        as in `memory_plan`.
        """

        def plan_for_context(context: int) -> MemoryPlan:
            return self.memory_plan(context, cache, draft=draft, gpu_bytes=gpu_bytes)

        full = min(requested_context or self.context_length, self.context_length)
        lengths = range(full + 1)
        longest = (
            bisect_right(
                lengths, usable_bytes, key=lambda length: plan_for_context(length).total_bytes
            )
            - 1
        )
        short, whole = plan_for_context(min(SHORT_CONTEXT, full)), plan_for_context(full)
        return MemoryFit(
            short, whole, usable_bytes, max(0, longest), is_asked=requested_context is not None
        )

    def check_fits(self, fit: MemoryFit, *, loads_anyway: bool = False) -> None:
        """Raise DoesNotFit when the memory plan `fit` says that the model is "too-large".

        loads_anyway: only if it is hopelessly so.
        """
        if fit.is_hopeless:
            raise DoesNotFit(
                Words(
                    "{name}: {plan}. Take a smaller model.",
                    name=self.name,
                    plan=fit.words,
                )
            )
        if fit.fit_in_memory == "too-large" and not loads_anyway:
            raise DoesNotFit(
                Words(
                    "{name}: {plan}. Limit chats to fewer tokens, take a smaller model, or load it "
                    "anyway: the computer may then slow down, or end the program.",
                    name=self.name,
                    plan=fit.words,
                )
            )

    def with_machine(self, *, has_metal: bool) -> "ModelDescription":
        """The model's description for a machine with or without Metal; self where alike."""
        return self if has_metal or self.without_metal is None else self.without_metal
