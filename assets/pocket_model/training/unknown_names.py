"""Names the model should decline: the rest of the standard library, other packages, inventions."""

from __future__ import annotations

import importlib
import random
from pathlib import Path

from facts import Fact


def read_listing() -> dict[str, list[str]]:
    """The words of unknown_names.txt by heading."""
    lines = (Path(__file__).parent / "unknown_names.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ") for line in lines if not line.startswith("#"))
    return {heading: words.split() for heading, words in pairs}


LISTING = read_listing()


def other_names(known: set[str]) -> list[str]:
    """Real names that are not among the known ones, sorted."""
    names = set(LISTING["packages"])
    for module in LISTING["modules"]:
        loaded = importlib.import_module(module)
        public = [n for n in dir(loaded) if not n.startswith("_") and n.islower() and len(n) < 20]
        names.update(f"{module}.{n}" for n in public if callable(getattr(loaded, n)))
    for kind in (str, list, dict, set, bytes, int, float):
        names.update(f"{kind.__name__}.{n}" for n in dir(kind) if not n.startswith("_"))
    return sorted(names - known)


def made_up(known: list[Fact], draw: random.Random) -> str:
    """An invented name in a real or invented module, as "os.path.foldtree"."""
    word = draw.choice(LISTING["words"]) + draw.choice(("", "_")) + draw.choice(LISTING["words"])
    kind = draw.random()
    if kind < 0.15:
        return word
    if kind < 0.35:
        return draw.choice(LISTING["words"]) + "." + word
    owner = draw.choice(known).name.rpartition(".")[0]
    return f"{owner}.{word}" if owner else word
