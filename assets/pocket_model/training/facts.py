"""Documented facts about standard library names, read from the running interpreter."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path

LONGEST_TEXT = 170
LONGEST_SIGNATURE = 80


@dataclass(frozen=True, slots=True)
class Fact:
    """What the interpreter says about one name."""

    name: str  # as a user writes it: "os.path.join", "str.split", "len"
    module: str  # "os.path", "builtins"
    signature: str  # "os.path.join(a, *p)"
    text: str  # first documented sentence

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]


def read_facts(listing: Path, corrections: Path) -> list[Fact]:
    """Every name of `listing` (lines "module: name name") that has usable documentation.

    `corrections` holds arguments, and sometimes a sentence, where the docstring has none.
    """
    facts: list[Fact] = []
    rows = [line.split("\t") for line in corrections.read_text(encoding="utf-8").splitlines()]
    corrected = {row[0]: row[1:] for row in rows}
    for line in listing.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        owner, _, names = line.partition(": ")
        for name in names.split():
            written = full_name(owner, name)
            row = corrected.get(written.name, [])
            fact = read_fact(owner, name) or (written if len(row) > 1 else None)
            if fact is not None:
                facts.append(correct(fact, row))
    return facts


def full_name(owner: str, name: str) -> Fact:
    """A fact with only its name and module."""
    holder, module = find_owner(owner)
    prefix = "" if owner == "builtins" else owner.removeprefix("builtins.") + "."
    for module_type in ("collections.", "datetime.", "pathlib."):
        prefix = prefix.removeprefix(module_type) if inspect.isclass(holder) else prefix
    return Fact(prefix + name, module, "", "")


def read_fact(owner: str, name: str) -> Fact | None:
    """The fact about one name, or None when its documentation has no clear sentence."""
    holder, module = find_owner(owner)
    thing = inspect.getattr_static(holder, name)
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    documented = getattr(holder, name)
    written = full_name(owner, name).name
    lines = (inspect.getdoc(documented) or "").splitlines()
    head, body = split_usage(lines, name)
    text = first_sentence(body)
    signature = written + arguments(documented, head, inspect.isclass(holder))
    if not text or len(text) > LONGEST_TEXT or not text[0].isalpha():
        return None
    return Fact(written, module, signature, text)


def correct(fact: Fact, row: list[str]) -> Fact:
    """Apply one row of corrections: arguments, then perhaps a sentence."""
    if not row:
        return fact
    text = row[1] if len(row) > 1 else fact.text
    return Fact(fact.name, fact.module, fact.name + row[0], text)


def find_owner(owner: str) -> tuple[object, str]:
    """The module or class a line of the listing names, and its module's name."""
    try:
        return importlib.import_module(owner), owner
    except ModuleNotFoundError:
        module, _, cls = owner.rpartition(".")
        return getattr(importlib.import_module(module), cls), module


def split_usage(lines: list[str], name: str) -> tuple[str, str]:
    """Separate a docstring's leading usage line, "name(a, b) -> c", from its prose."""
    usage = ""
    while lines and (not lines[0].strip() or re.match(rf"[\w.]*\b{re.escape(name)}\(", lines[0])):
        line = lines[0]
        rest = line.partition(" - ")[2] or line.partition(" -- ")[2]
        usage = usage or line.partition(" -> ")[0].partition(" - ")[0].partition(" -- ")[0]
        lines = ([rest] if rest else []) + lines[1:]
        if rest:
            break
    return usage.strip(), "\n".join(lines)


def first_sentence(body: str) -> str:
    """The first sentence of the first paragraph, on one line."""
    paragraph = " ".join(body.strip().split("\n\n")[0].split())
    paragraph = re.sub(r"\bi\.e\. ", "i.e., ", paragraph)
    paragraph = re.sub(r"\be\.g\. ", "e.g., ", paragraph)
    found = re.match(r"(.*?[.!?:])(\s+[A-Z(]|$)", paragraph)
    text = found.group(1) if found else paragraph
    text = text.rstrip(":").strip()
    return text if text.endswith((".", "!", "?")) or not text else text + "."


def arguments(thing: object, usage: str, method: bool) -> str:
    """The argument list, from inspect or else from the docstring's usage line, else "(...)"."""
    try:
        signature = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        written = re.search(r"\(.*\)", usage)
        text = written.group(0) if written else "(...)"
    else:
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        if method and plain and plain[0].name in {"self", "cls"}:
            plain = plain[1:]
        text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
        text = text.replace(", /", "").replace("(/)", "()")
    text = re.sub(r"<[^<>]*>", "...", text)
    if len(text) > LONGEST_SIGNATURE:
        text = text[:LONGEST_SIGNATURE].rpartition(", ")[0] + ", ...)"
    return text
