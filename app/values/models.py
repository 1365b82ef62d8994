"""Models as the window shows them: on disk, on the hub, downloading, before loading."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlx_engine.values.memory_plan import Fit, MemoryFit
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words, join_words, size_words

BUILT_IN_NAME = "Pocket model"
RECENT, BUILT_IN_PLACE = Words("Recent"), Words("Built in")


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on this computer.

    path: what to load. place: the heading it is listed under. nbytes: size of all its files.
    problem: why it cannot be loaded, "" for none as far as names, sizes and first bytes tell.
    unfinished: hub id of an unfinished download, "" for none. base: the name without storage
    format. Known once headers are read: parameters, format (how weights are stored), heads (whether
    it has usable MTP heads), fit (into memory), refusal (why the engine cannot run it).
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
        """Whether it is listed because it was used before."""
        return self.place == RECENT

    @property
    def is_built_in(self) -> bool:
        """Whether it is the built-in model."""
        return self.place == BUILT_IN_PLACE

    def is_of(self, model: ModelDescription) -> bool:
        """Whether a loaded model is this one; the built-in model is compared by name."""
        return model.name == self.name if self.is_built_in else model.path == str(self.path)

    @property
    def label(self) -> str:
        """Name as on cards, without a file extension."""
        return self.name.removesuffix(".gguf")

    @property
    def detail(self) -> str:
        """Size and drafting heads as far as known: "18.2 GB · drafting heads"."""
        size = size_words(self.nbytes) if self.nbytes else ""
        return join_words((size, heads_words(self.heads)))


def heads_words(heads: bool | None) -> str:
    """Say whether a model has drafting heads, "" if not known."""
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


FORMAT_NAME = re.compile(r"(?<![a-z0-9])(i?q\d(_[a-z0-9]{1,3})*|(bf|f|mxfp|nvfp)\d+)(?![a-z0-9])")


def format_name(model: ModelDescription) -> str:
    """Name of how most weights are stored: "Q4_K_M" of a file called so, else "Q4_K", "8-bit"."""
    called = FORMAT_NAME.search(Path(model.path).stem.lower()) if is_gguf(model) else None
    if called is not None:
        return called[0].upper()
    return short_quantisation(model.quantisation).split(" + ")[0]


def format_words(model: ModelDescription) -> str:
    """Bits of most weights and kind of file: "4-bit GGUF", "8-bit MLX", "16-bit Safetensors"."""
    rounded = "MLX" if " affine" in model.quantisation else "Safetensors"
    kind = "GGUF" if is_gguf(model) else rounded
    bits = re.search(r"\d+", format_name(model))
    return Words("{bits}-bit {kind}", bits=bits[0], kind=kind) if bits else kind


def is_gguf(model: ModelDescription) -> bool:
    """Whether the weights are in a GGUF file."""
    return model.path.endswith(".gguf")


FAMILIES = {
    **{name: name.upper() for name in ("dsa", "glm", "gpt", "lfm", "oss", "vl")},
    **{"deepseek": "DeepSeek", "mimo": "MiMo", "minimax": "MiniMax", "exaone": "EXAONE"},
    **{"moe": "MoE", "olmo": "OLMo", "olmoe": "OLMoE", "smollm": "SmolLM", "text": ""},
}
"""Parts of architecture names, and how they are written in the names of models."""


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
    """What the window tells about a model.

    heads: how it drafts, or why it does not. notes: other limitations. warnings: load options that
    will not take effect. memory: None for a model of which nothing is known. size, format: of the
    files, in plain words. pictures: the memory that they take, or why the model sees none; sees:
    whether it does. quantisation: the format's name. draft_models: draft models made for it,
    folders or GGUF files in or beside its folder.
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
    draft_models: tuple[str, ...] = ()
    size: str = ""
    format: str = ""
    warnings: tuple[str, ...] = ()
    pictures: str = ""
    sees: bool = False


Phase = Literal["waiting", "looking", "running", "paused", "failed", "done"]


@dataclass(frozen=True, slots=True)
class DownloadFigures:
    """State of one download.

    key: the link to its model. words: the error if it failed. path: what to load once it is "done".
    needs_sign_in: whether it failed for lack of a sign-in.
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


Format = Literal["GGUF", "MLX", "Safetensors"]
FITS: dict[Fit, str] = {
    "fits": Words("fits"),
    "tight": Words("tight"),
    "too-large": Words("too large"),
}
USES = {
    "quick": Words("Small and quick"),
    "everyday": Words("For everyday questions"),
    "most": Words("For most things"),
    "thorough": Words("Thorough, also with code"),
    "thorough-mlx": Words("Thorough, as MLX weights"),
    "few-active": Words("Quick: 3B of it work at a time"),
    "largest": Words("The largest of the family"),
}
"""What suggested models are good for, by their `use` in assets/models.json."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A published model whose owners say that it includes MTP heads.

    link: its name on the hub. gigabytes: of the download. memory: in GB, with room for long chats.
    """

    name: str
    link: str
    format: Format
    billions: int
    gigabytes: float
    memory: float
    heads: bool
    use: str

    @property
    def detail(self) -> str:
        """Use and size: "For most things · 5.9 GB to download"."""
        size = size_words(round(self.gigabytes * 1e9))
        return join_words((USES[self.use], Words("{size} to download", size=size)))

    def fits(self, usable_bytes: int) -> bool:
        """Whether the model fits into the memory that models may use."""
        return self.memory * 1e9 <= usable_bytes


USUAL = "Q4_K_M"
"""The quantisation that most people take: small, and close to the original model."""


@dataclass(frozen=True, slots=True)
class HubFind:
    """A model found on the hub; unknown fields are 0 or None.

    downloads: in a month. nbytes: of its weights, if there is one choice of them. fit: whether they
    fit into memory, for several GGUF files those in 4 bits. heads: whether it has MTP heads. gated:
    its owners' terms must be accepted first. note: anything else worth telling.
    """

    hub_id: str
    format: Format | None = None
    parameters: int = 0
    nbytes: int = 0
    fit: Fit | None = None
    downloads: int = 0
    heads: bool | None = None
    gated: bool = False
    note: str = ""

    @property
    def about(self) -> str:
        """Use, popularity and terms of the model, in a few words."""
        terms = Words("accept its owners' terms on its page first") if self.gated else ""
        many = Words("{n:,} downloads a month", "1 download a month", self.downloads)
        count = many if self.downloads else ""
        return join_words((self.note, count, terms))


@dataclass(frozen=True, slots=True)
class HubOffer:
    """One of the models in a hub repository.

    link: its name. nbytes: of all files it needs. words: what a download would fetch, or why the
    disk has no room for it. path: where it is if all of it is on this disk already, else "".
    """

    link: str
    label: str
    nbytes: int
    heads: bool | None
    fit: Fit
    words: str = ""
    has_room: bool = True
    path: str = ""


def suggested(offers: tuple[HubOffer, ...]) -> HubOffer | None:
    """Choose the offer for most users: the usual one if it fits, else the largest that does."""
    fitting = [offer for offer in offers if offer.fit == "fits"]
    usual = [offer for offer in fitting if offer.label.removeprefix("UD-") == USUAL]
    by_size = sorted(fitting, key=lambda offer: -offer.nbytes)
    smallest = sorted(offers, key=lambda offer: offer.nbytes)
    return next(iter((*usual, *by_size, *smallest)), None)
