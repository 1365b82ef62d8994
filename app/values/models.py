"""What the window shows of a model: facts, memory as one sum, a verdict; and of its download."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.model_description import TensorGroup
from mlx_engine.values.words import about_tokens, size_words, token_words

Fit = Literal["fits", "tight", "too-large"]


@dataclass(frozen=True, slots=True)
class MemorySum:
    """Bytes: weights, caches of a short and of the full context, and what a model may use here.

    longest: the context in tokens that fits, 0 when not even the weights do.
    """

    weights: int
    short_context: int
    short_cache: int
    full_context: int
    full_cache: int
    usable: int
    longest: int
    fit: Fit

    @property
    def words(self) -> str:
        """ "18.2 GB weights + 0.42 GB cache at 4k tokens = 18.6 of 48 GB: fits"."""
        short = self.weights + self.short_cache
        start = (
            f"{size_words(self.weights)} weights + {size_words(self.short_cache)} cache at "
            f"{token_words(self.short_context)} tokens = {size_words(short)} of "
            f"{size_words(self.usable)}"
        )
        match self.fit:
            case "fits":
                full = size_words(self.weights + self.full_cache)
                return f"{start}: fits ({full} with all {token_words(self.full_context)})"
            case "tight":
                return f"{start}: tight, room for about {about_tokens(self.longest)} tokens"
            case "too-large":
                over = size_words(short - self.usable)
                return f"{start}: does not fit, {over} too much"


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Lines of the card. heads: how it drafts, or why it does not; notes: what else is off.

    memory: None for a model of which nothing is known.
    """

    name: str
    architecture: str
    parameters: str
    quantisation: str
    size: str
    context: str
    heads: str
    has_heads: bool
    memory: MemorySum | None = None
    notes: tuple[str, ...] = ()
    groups: tuple[TensorGroup, ...] = ()


Phase = Literal["looking", "offered", "choice", "waiting", "running", "paused", "failed", "done"]


@dataclass(frozen=True, slots=True)
class FileChoice:
    """One of several models under one name; `words` are for a list: "Q4_K_M.gguf · 2.7 GB"."""

    file: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class DownloadFigures:
    """One download. words: what is wrong when it failed, what it will fetch when it is offered.

    choices: what can be chosen from in the phase "choice". path: what to load once it is "done".
    """

    key: str
    name: str
    phase: Phase
    done: int = 0
    total: int = 0
    bytes_per_second: float = 0.0
    words: str = ""
    choices: tuple[FileChoice, ...] = ()
    path: str = ""
