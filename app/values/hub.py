"""What the window shows of models on the hub: what a search found, and what one would bring."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.memory_plan import Fit
from mlx_engine.values.words import Words, count_words, joined, size_words

Format = Literal["GGUF", "MLX", "Safetensors"]
FITS: dict[Fit, str] = {
    "fits": Words("fits"),
    "tight": Words("tight"),
    "too-large": Words("too large"),
}
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
    def detail(self) -> str:
        """ "GGUF · 27.3B · fits in 4 bits · drafting heads"."""
        count = count_words(self.parameters) if self.parameters else ""
        size = size_words(self.nbytes) if self.nbytes else ""
        fit = FITS[self.fit] if self.fit else ""
        fit = Words("{fit} in 4 bits", fit=fit) if fit and not size else fit
        return joined((self.format or "", count, size, fit, heads_words(self.heads)))

    @property
    def second(self) -> str:
        """A line about it, never empty."""
        terms = Words("accept its owners' terms on its page first") if self.gated else ""
        many = Words("{n:,} downloads a month", "1 download a month", self.downloads)
        count = many if self.downloads else ""
        return joined((self.note, count, terms)) or Words("Click to see files and sizes")


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

    @property
    def detail(self) -> str:
        """ "17.1 GB · fits"."""
        return joined((size_words(self.nbytes), FITS[self.fit]))

    @property
    def second(self) -> str:
        """What is known of its heads."""
        if self.heads is None:
            return Words("Unknown whether it has drafting heads")
        return Words("Drafting heads") if self.heads else Words("No drafting heads")


def heads_words(heads: bool | None) -> str:
    """What is known of MTP heads, "" for nothing."""
    return "" if heads is None else Words("drafting heads") if heads else Words("no drafting heads")


def suggested(offers: tuple[HubOffer, ...]) -> HubOffer | None:
    """What most would take of these: the usual one if it fits, else the largest that does."""
    fitting = [offer for offer in offers if offer.fit == "fits"]
    usual = [offer for offer in fitting if offer.label.removeprefix("UD-") == USUAL]
    by_size = sorted(fitting, key=lambda offer: -offer.nbytes)
    smallest = sorted(offers, key=lambda offer: offer.nbytes)
    return next(iter((*usual, *by_size, *smallest)), None)
