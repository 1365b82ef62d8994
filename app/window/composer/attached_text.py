"""Attachments as the model reads them: named, fenced blocks before the message."""

import re
from collections.abc import Sequence

from app.values.attached_text import AttachedText

PASTED = "Pasted text"
CHARACTERS_A_TOKEN = 4
"""Of English and most code, roughly."""


def pasted_text(text: str) -> AttachedText:
    """A long paste as an attachment."""
    return AttachedText(PASTED, text, len(text.encode("utf-8", "replace")))


def tokens_about(attachment: AttachedText) -> int:
    """How many tokens it may be, to two digits, until the model has counted them."""
    guess = len(fenced(attachment)) / CHARACTERS_A_TOKEN
    return round(float(f"{guess:.2g}"))


def with_attachments(text: str, attachments: Sequence[AttachedText]) -> str:
    """The attachments as named, fenced blocks, then the message: what the model reads."""
    return "\n\n".join([*(fenced(attachment) for attachment in attachments), text]).strip("\n")


def fenced(attachment: AttachedText) -> str:
    """One block; its fence is longer than any run of backticks inside."""
    longest = max(map(len, re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    name = " ".join(attachment.name.replace("`", "'").split())
    body = attachment.text.rstrip("\n")
    return f"{name}:\n\n{fence}{attachment.language}\n{body}\n{fence}"
