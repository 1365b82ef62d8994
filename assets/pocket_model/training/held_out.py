"""Evaluation questions: set-aside phrasings and names, with what each answer must contain."""

from __future__ import annotations

import argparse
import json
import random
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from corpus import Entry, Material, answer, read_material
from phrasings import SET_ASIDE, UNKNOWN_ANSWER

FORMS = {"full": 45, "help": 15, "signature": 20, "short": 12, "where": 8}


@dataclass(frozen=True, slots=True)
class Question:
    """One question; every string of `expected` must appear in the answer."""

    question: str
    kind: str
    name: str
    trained_name: bool
    expected: list[str]


def questions(material: Material) -> list[Question]:
    """About 160 questions, drawn with a fixed seed."""
    draw = random.Random(11)
    facts = draw.sample(material.known, sum(FORMS.values()))
    out: list[Question] = []
    for form, count in FORMS.items():
        for fact in facts[len(out) : len(out) + count]:
            asked = draw.choice(SET_ASIDE[form]).format(n=fact.name)
            # Asked what a name does, the sentence is the answer; the signature is an extra.
            parts = [fact.text] if form == "full" else answer(form, fact).split("\n\n")
            out.append(Question(asked, form, fact.name, True, parts))
    for fact in material.set_aside:
        asked = draw.choice(SET_ASIDE["full"]).format(n=fact.name)
        out.append(Question(asked, "set-aside name", fact.name, False, [fact.text]))
    for name in draw.sample(material.others_set_aside, 10):
        asked = draw.choice(SET_ASIDE["full"]).format(n=name)
        out.append(Question(asked, "unknown name", name, False, [UNKNOWN_ANSWER]))
    out += written(material.tasks, "task", 15, draw)
    out += written(material.headstart, "headstart", 12, draw)
    out += written(material.talk, "talk", 4, draw)
    for asked in draw.sample(material.foreign_set_aside, 6):
        out.append(Question(asked, "foreign", "", True, ["I only know Python's standard library"]))
    return out


def written(entries: list[Entry], kind: str, count: int, draw: random.Random) -> list[Question]:
    """Set-aside phrasings of written answers."""
    chosen = draw.sample(entries, count)
    return [Question(draw.choice(e.set_aside), kind, "", True, [e.answer]) for e in chosen]


def main() -> None:
    """Write held_out.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    warnings.simplefilter("ignore", DeprecationWarning)
    rows = ",\n".join(json.dumps(asdict(q)) for q in questions(read_material()))
    parser.parse_args().out.write_text(f"[\n{rows}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
