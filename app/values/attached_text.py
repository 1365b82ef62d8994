"""A text beside a message, as the model reads it, or why a file cannot be one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text beside a message."""

    name: str
    text: str

    @property
    def body(self) -> str:
        """What the model reads of it: empty lines at the end are left out."""
        return self.text.rstrip("\n")

    @property
    def nbytes(self) -> int:
        """Of that in UTF-8."""
        return len(self.body.encode("utf-8", "replace"))

    @property
    def language(self) -> str:
        """The name's ending, for the fence: "py"; "" when it has none of letters and digits."""
        ending = Path(self.name).suffix[1:].lower()
        return ending if ending.isascii() and ending.isalnum() and len(ending) <= 12 else ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing we can use, such as a file that is no text; `words` name it and say why."""

    words: str


CHARACTERS_A_TOKEN = 4
"""Of English and most code, roughly."""


def tokens_about(attachment: AttachedText) -> int:
    """How many tokens it may be, to two digits, until the model has counted them."""
    guess = len(fenced(attachment)) / CHARACTERS_A_TOKEN
    return round(float(f"{guess:.2g}"))


def with_attachments(text: str, attachments: Sequence[AttachedText]) -> str:
    """The message, then the attachments as named, fenced blocks: what the model reads."""
    return "\n\n".join([text, *(fenced(attachment) for attachment in attachments)]).strip("\n")


def fenced(attachment: AttachedText) -> str:
    """One block; its fence is longer than any run of backticks inside."""
    longest = max(map(len, re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    name = " ".join(attachment.name.replace("`", "'").split())
    return f"{MARK}{name}:\n\n{fence}{attachment.language}\n{attachment.body}\n{fence}"


MARK = "Attachment "
_HEAD = re.compile(rf"(?:\A|\n\n){MARK}([^\n]+):\n\n(`{{3,}})[a-z0-9]*\n")


class SaidWith(NamedTuple):
    """A message as its user made it."""

    text: str
    attachments: tuple[AttachedText, ...] = ()


def said_with(message: str) -> SaidWith:
    """What `with_attachments` made one text of; a message that it did not make has none."""
    first = head = _HEAD.search(message) if MARK in message else None
    attachments, end = [], 0
    while head is not None:
        name, fence = head.groups()
        closing = message.find(f"\n{fence}", head.end())
        if closing < 0:
            break
        body = message[head.end() : closing]
        attachments.append(AttachedText(name, body))
        end = closing + 1 + len(fence)
        head = _HEAD.match(message, end)
    if first is None or end != len(message):
        return SaidWith(message)
    return SaidWith(message[: first.start()], tuple(attachments))
