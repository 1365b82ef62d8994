"""What the window shows of models on the hub: what a search found, and what one would bring."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.words import Words, joined, size_words

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
"""What a suggested model is good for, by its `use` in assets/models.json."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A published conversion of a model whose owners say that its MTP heads are in it.

    link: what names it on the hub. gigabytes: of the download. memory: in GB, with room for long
    chats.
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
        """ "For most things · 5.9 GB to download"."""
        size = size_words(round(self.gigabytes * 1e9))
        return joined((USES[self.use], Words("{size} to download", size=size)))

    def fits(self, usable_bytes: int) -> bool:
        """Whether it fits into the memory that models may use."""
        return self.memory * 1e9 <= usable_bytes


USUAL = "Q4_K_M"
"""The quantisation that most people take: small, and close to the model as it was trained."""


@dataclass(frozen=True, slots=True)
class HubFind:
    """A model on the hub. What is not known of it is 0, or None. downloads: of a month.

    nbytes: of its weights, where there is one choice of them; fit: whether those fit, or of a GGUF
    those in 4 bits. heads: whether it has MTP heads. gated: its owners want their terms accepted
    first. note: what else is worth a few words.
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
        """What it is good for, how popular it is, and what its owners want."""
        terms = Words("accept its owners' terms on its page first") if self.gated else ""
        many = Words("{n:,} downloads a month", "1 download a month", self.downloads)
        count = many if self.downloads else ""
        return joined((self.note, count, terms))


@dataclass(frozen=True, slots=True)
class HubOffer:
    """One of the models in a repository. link: what names it. nbytes: of all files it needs.

    words: what a download would fetch, or why there is no room for it on the disk. path: where it
    lies when all of it is on this disk already, else "".
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
    """What most would take of these: the usual one if it fits, else the largest that does."""
    fitting = [offer for offer in offers if offer.fit == "fits"]
    usual = [offer for offer in fitting if offer.label.removeprefix("UD-") == USUAL]
    by_size = sorted(fitting, key=lambda offer: -offer.nbytes)
    smallest = sorted(offers, key=lambda offer: offer.nbytes)
    return next(iter((*usual, *by_size, *smallest)), None)
