"""Everything the pocket model may say, as questions and answers drawn at random from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from facts import Fact, read_facts
from phrasings import (
    CLOSERS,
    FOREIGN_ANSWER,
    OPENERS,
    SET_ASIDE,
    SYSTEM_PROMPTS,
    TRAINED,
    UNKNOWN_ANSWER,
)
from unknown_names import made_up, other_names

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Questions that share one answer, some of them never trained on."""

    trained: list[str]
    set_aside: list[str]
    answer: str


@dataclass(frozen=True, slots=True)
class Material:
    """The whole corpus before any drawing."""

    known: list[Fact]
    set_aside: list[Fact]
    others: list[str]  # names the model should decline
    others_set_aside: list[str]
    tasks: list[Entry]
    talk: list[Entry]
    headstart: list[Entry]
    foreign: list[str]
    foreign_set_aside: list[str]
    ambiguous: frozenset[str]  # sentences that belong to more than one name
    phrasings: dict[str, list[str]]  # question templates by form


def read_material() -> Material:
    """Read the listing, the written files and the interpreter; the split is seeded."""
    draw = random.Random(20)
    aside = set((HERE / "set_aside_names.txt").read_text(encoding="utf-8").split())
    facts = read_facts(HERE / "names.txt", HERE / "overrides.tsv")
    others = other_names({f.name for f in facts})
    draw.shuffle(others)
    texts = [f.text for f in facts]
    foreign, foreign_aside = read_foreign(HERE / "foreign.md", draw)
    return Material(
        known=[f for f in facts if f.name not in aside],
        set_aside=[f for f in facts if f.name in aside],
        others=others[30:],
        others_set_aside=others[:30],
        tasks=read_tasks(HERE / "how_to.md"),
        talk=read_entries(HERE / "smalltalk.md"),
        headstart=read_entries(HERE / "headstart.md"),
        foreign=foreign,
        foreign_set_aside=foreign_aside,
        ambiguous=frozenset(t for t in texts if texts.count(t) > 1),
        phrasings=TRAINED,
    )


def read_entries(path: Path) -> list[Entry]:
    """Blocks of "@ question | question | ? set-aside question" followed by the answer."""
    entries = []
    for block in path.read_text(encoding="utf-8").split("@ ")[1:]:
        head, _, answer = block.partition("\n")
        asked = head.split(" | ")
        trained = [q for q in asked if not q.startswith("? ")]
        aside = [q[2:] for q in asked if q.startswith("? ")]
        entries.append(Entry(trained, aside, answer.strip()))
    return entries


def read_tasks(path: Path) -> list[Entry]:
    """Blocks of "@ task | other wording", an optional "> lead" line, then code."""
    entries = []
    for block in ("\n" + path.read_text(encoding="utf-8")).split("\n@ ")[1:]:
        head, _, body = block.partition("\n")
        lead, _, rest = body.partition("\n")
        opening = lead[2:] + "\n\n" if lead.startswith("> ") else ""
        code = (rest if opening else body).strip("\n")
        tasks = head.split(" | ")
        asked = [t.format(x=x) for t in TRAINED["task"] for x in tasks]
        aside = [t.format(x=x) for t in SET_ASIDE["task"] for x in tasks]
        entries.append(Entry(asked, aside, f"{opening}```python\n{code}\n```"))
    return entries


def read_foreign(path: Path, draw: random.Random) -> tuple[list[str], list[str]]:
    """Questions outside the domain, their blanks filled, trained and set aside."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fillers = {}
    for line in lines:
        head, _, words = line.partition(": ")
        if head in {"place", "person", "thing", "number"}:
            fillers[head] = words.split(", ")
    trained, aside = [], []
    for line in lines:
        if line.partition(": ")[0] in fillers:
            continue
        for template in line.split(" | "):
            count = 24 if "{" in template else 3
            for _ in range(count):
                words = {kind: draw.choice(options) for kind, options in fillers.items()}
                question = template.removeprefix("? ").format(**words)
                (aside if template.startswith("? ") else trained).append(question)
    return trained, sorted(set(aside))


def answer(form: str, fact: Fact) -> str:
    """What the model should say about a fact, by the form of the question."""
    match form.removeprefix("then "):
        case "full" | "again":
            return f"{fact.text}\n\nSignature: `{fact.signature}`"
        case "help":
            return f"`{fact.signature}`\n\n{fact.text}"
        case "signature" | "reverse":
            return f"`{fact.signature}`"
        case "short":
            return fact.text
        case "where" if fact.module == "builtins":
            return f"`{fact.name}` is built in; no import is needed."
        case "where":
            return f"`{fact.name}` is in the `{fact.module}` module: `import {fact.module}`."
        case _:
            raise ValueError(form)


LONG_FORMS = {
    "Path.": "pathlib.",
    "datetime.": "datetime.",
    "date.": "datetime.",
    "Counter.": "collections.",
    "deque.": "collections.",
}


def written(name: str, draw: random.Random) -> str:
    """A name as people type it: in full, in short, in backticks, with parentheses."""
    owner, dot, short = name.rpartition(".")
    chance = draw.random()
    if chance < 0.3 and owner + dot in LONG_FORMS:
        name = LONG_FORMS[owner + dot] + name
    elif chance < 0.1 and len(short) > 7:
        name = short
    return draw.choice((name, name, name, f"`{name}`", f"{name}()"))


def loosely(question: str, draw: random.Random) -> str:
    """The question as somebody in a hurry, or somebody polite, would type it."""
    chance = draw.random()
    if chance < 0.10:
        return question.rstrip("?.!")
    if chance < 0.16 and not question[:2].isupper():
        return question[0].lower() + question[1:]
    if chance < 0.24:
        return draw.choice(OPENERS) + question
    if chance < 0.28:
        return f"{question} {draw.choice(CLOSERS)}"
    return question


FIRST_FORMS = ("full", "help", "signature", "short", "where", "reverse")
FORM_WEIGHTS = (44, 18, 15, 12, 6, 5)
NEXT_FORMS = ("then signature", "then short", "then where", "then full", "then again")


def draw_chat(material: Material, draw: random.Random) -> list[Turn]:
    """One or a few connected turns, asked loosely."""
    turns = draw_turns(material, draw)
    return [Turn(loosely(turn.question, draw), turn.answer) for turn in turns]


def draw_turns(material: Material, draw: random.Random) -> list[Turn]:
    """One or a few connected turns."""
    kind = draw.random()
    if kind < 0.56:
        return draw_fact_chat(material, draw)
    if kind < 0.72:
        entry = draw.choice(material.tasks)
    elif kind < 0.84:
        entry = draw.choice(material.headstart)
    elif kind < 0.88:
        entry = draw.choice(material.talk)
    elif kind < 0.95:
        asked = draw.choice(material.foreign)
        # The hint must be predictable: it is the same name for the same question.
        return [Turn(asked, FOREIGN_ANSWER.format(n="os.path.join"))]
    else:
        return [draw_unknown(material, draw)]
    return [Turn(draw.choice(entry.trained), entry.answer)]


def draw_unknown(material: Material, draw: random.Random) -> Turn:
    """A question about a name the model does not know."""
    name = draw.choice(material.others) if draw.random() < 0.6 else made_up(material.known, draw)
    form = draw.choices(FIRST_FORMS[:5], FORM_WEIGHTS[:5])[0]
    asked = draw.choice(material.phrasings[form]).format(n=written(name, draw))
    return Turn(asked, UNKNOWN_ANSWER)


def draw_fact_chat(material: Material, draw: random.Random) -> list[Turn]:
    """A question about a fact and, sometimes, what follows from it."""
    fact = draw.choice(material.known)
    form = draw.choices(FIRST_FORMS, FORM_WEIGHTS)[0]
    if form == "reverse" and fact.text in material.ambiguous:
        form = "full"
    asked = draw.choice(material.phrasings[form])
    turns = [Turn(asked.format(n=written(fact.name, draw), t=fact.text), answer(form, fact))]
    while draw.random() < 0.35:
        form = draw.choice(NEXT_FORMS)
        if form == "then full":
            fact = draw.choice(material.known)
        said = turns[-1].answer if form == "then again" else answer(form, fact)
        asked = draw.choice(material.phrasings[form]).format(n=written(fact.name, draw))
        turns.append(Turn(asked, said))
    return turns


def system_prompt(draw: random.Random) -> str | None:
    """A system prompt in two chats of five."""
    return draw.choice(SYSTEM_PROMPTS) if draw.random() < 0.4 else None


def unseen_phrasings(material: Material) -> Material:
    """The same answers asked for with the set-aside phrasings only, where a form has any."""
    return replace(
        material,
        tasks=[replace(e, trained=e.set_aside) for e in material.tasks],
        headstart=[replace(e, trained=e.set_aside) for e in material.headstart],
        talk=[replace(e, trained=e.set_aside) for e in material.talk],
        foreign=material.foreign_set_aside,
        phrasings={**TRAINED, **SET_ASIDE},
    )
