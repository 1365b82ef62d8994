"""What the window shows of a model: its place, facts, memory as one sum; and of its download."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlx_engine.values.memory_plan import Fit, MemoryFit
from mlx_engine.values.model_description import ModelDescription, TensorGroup
from mlx_engine.values.words import Words, joined, size_words

BUILT_IN_NAME = "Pocket model"
RECENT, BUILT_IN_PLACE = Words("Recent"), Words("Built in")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on this computer. path: what to load. place: the heading it is listed under. nbytes:
    all files of it.

    problem: why it cannot be loaded; "" when nothing is wrong as far as names, sizes and first
    bytes tell. unfinished: the id on the hub of a download that was begun, "" for none. base: the
    name without words that say how the model is stored.

    Known once headers are read: parameters, format (how weights are stored), heads (whether it has
    MTP heads that can be used), fit (into memory), refusal (why the engine cannot run it).
    """

    name: str
    path: Path
    place: str
    nbytes: int = 0
    problem: str = ""
    unfinished: str = ""
    base: str = ""
    parameters: int = 0
    format: str = ""
    heads: bool | None = None
    fit: Fit | None = None
    refusal: str = ""

    @property
    def is_recent(self) -> bool:
        """Listed because it was used."""
        return self.place == RECENT

    @property
    def is_built_in(self) -> bool:
        """It comes with Headstart."""
        return self.place == BUILT_IN_PLACE

    def is_of(self, model: ModelDescription) -> bool:
        """Whether this model was loaded from here; the built-in one is known by its name."""
        return model.name == self.name if self.is_built_in else model.path == str(self.path)

    @property
    def detail(self) -> str:
        """ "18.2 GB · drafting heads", as far as anything is known."""
        size = size_words(self.nbytes) if self.nbytes else ""
        return joined((size, heads_words(self.heads)))


def heads_words(heads: bool | None) -> str:
    """What is known of MTP heads, "" for nothing."""
    return "" if heads is None else Words("drafting heads") if heads else Words("no drafting heads")


MOST_KINDS = 3


def short_quantisation(words: str) -> str:
    """Short form of a storage format for users: "Q4_K + Q6_K", "8-bit".

    words: as a ModelDescription has them, "Q4_K as 4-bit affine, groups of 32 + kept as Q6_K blocks
    (our kernel)".
    """
    parts = (part.removeprefix("kept as ") for part in words.split(" + "))
    kinds = list(dict.fromkeys(re.split(" as | blocks| affine|,", part)[0] for part in parts))
    more = " + …" if len(kinds) > MOST_KINDS else ""
    return " + ".join(kinds[:MOST_KINDS]) + more


FAMILIES = {
    **{name: name.upper() for name in ("dsa", "glm", "gpt", "lfm", "oss", "vl")},
    **{"deepseek": "DeepSeek", "mimo": "MiMo", "minimax": "MiniMax", "exaone": "EXAONE"},
    **{"moe": "MoE", "olmo": "OLMo", "olmoe": "OLMoE", "smollm": "SmolLM", "text": ""},
}
"""Words in names of architectures -> the words in the names of models."""


def family_name(architecture: str) -> str:
    """Name of a model family for users: "Qwen3.5 MoE" for "qwen3_5_moe" or "qwen35moe"."""
    spaced = re.sub(r"(?<=\d)_(?=\d)", ".", architecture.lower())
    spaced = re.sub(r"^(qwen\d)(\d)", r"\1.\2", spaced)
    found = []
    for word in re.findall(r"[a-z][a-z\d.]*", spaced.replace("moe", "_moe_")):
        letters = word.rstrip("0123456789.")
        name = FAMILIES.get(letters, letters.capitalize())
        found.append(name + word[len(letters) :] if name else "")
    return " ".join(filter(None, found))


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is told of a model. heads: how it drafts, or why it does not; notes: what else is off.
    memory: None for a model of which nothing is known. size, format: of the files, in plain words.
    """

    name: str
    architecture: str
    parameters: str
    quantisation: str
    context: str
    heads: str
    has_heads: bool
    memory: MemoryFit | None = None
    notes: tuple[str, ...] = ()
    groups: tuple[TensorGroup, ...] = ()
    size: str = ""
    format: str = ""


Phase = Literal["waiting", "looking", "running", "paused", "failed", "done"]


@dataclass(frozen=True, slots=True)
class DownloadFigures:
    """One download. key: the link to its model. words: what is wrong when it failed.

    path: what to load once it is "done". needs_sign_in: that is why it failed.
    """

    key: str
    name: str
    phase: Phase
    done: int = 0
    total: int = 0
    bytes_per_second: float = 0.0
    words: str = ""
    path: str = ""
    needs_sign_in: bool = False
