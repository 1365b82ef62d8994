"""What a model is, in one shape for every file format."""

from dataclasses import dataclass, replace

from mlx_engine.values.errors import Reason
from mlx_engine.values.options import Numerics, SamplingOptions


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
        return f"not loaded: {self.why_not}" if self.why_not else self.storage


CHECKPOINTS = 6
"""Places a conversation can go back to. Each keeps a copy of what tokens overwrite: recurrent
states, and keys and values of windows.
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a model needs on another kind of machine; fields as in ModelDescription."""

    nbytes: int
    cache_bytes_per_token: int
    state_bytes: int

    def memory_needed(self, context: int) -> int:
        """Bytes to hold the weights and a conversation of `context` tokens."""
        states = (1 + CHECKPOINTS) * self.state_bytes
        return self.nbytes + states + context * self.cache_bytes_per_token


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as the user sees it; everything here can be told from file headers.

    mtp_heads: heads found as tensors, whatever the config claims. mtp: why there are none, or why
    they cannot be used; None when they can. packed_cache: why keys and values are kept in 16 bits
    only; None when they can be in 8 or 4 (of a class of mlx-lm known once it is loaded). declined:
    everything else that is off, with reasons. state_bytes: recurrent states and windows at one
    place in a conversation; cache_bytes_per_token: keys and values, all layers and heads.
    active_parameters: those one token passes through, where that is not all of them.
    Of a loaded model bytes are those of this machine, of one inspected those of a Mac with Metal;
    without_metal: those elsewhere, where they differ and are known from headers.
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
    cache_bytes_per_token: int
    state_bytes: int
    sampling: SamplingOptions
    numerics: Numerics = "exact"
    declined: tuple[Reason, ...] = ()
    can_switch_thinking: bool = False
    template_arguments: tuple[str, ...] = ()
    active_parameters: int | None = None
    repack_cache: str | None = None
    without_metal: Footprint | None = None
    kernels: tuple[KernelState, ...] = ()
    packed_cache: Reason | None = None

    def memory_needed(self, context: int) -> int:
        """Bytes to hold the weights and a conversation of `context` tokens."""
        states = (1 + CHECKPOINTS) * self.state_bytes
        return self.nbytes + states + context * self.cache_bytes_per_token

    def on(self, *, metal: bool) -> "ModelDescription":
        """The same with the bytes of a machine with or without Metal, where both are known."""
        other = self.without_metal
        if metal or other is None:
            return self
        return replace(
            self,
            nbytes=other.nbytes,
            cache_bytes_per_token=other.cache_bytes_per_token,
            state_bytes=other.state_bytes,
            without_metal=None,
        )
