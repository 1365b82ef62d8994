"""Texts and PDF files attached to a message, and why a file cannot be one."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from mlx_engine.values.picture import Picture


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text attached to a message."""

    name: str
    text: str

    @property
    def body(self) -> str:
        """The text for the model, without empty lines at the end."""
        return self.text.rstrip("\n")

    @property
    def nbytes(self) -> int:
        """Size of the body in UTF-8."""
        return len(self.body.encode("utf-8", "replace"))

    @property
    def language(self) -> str:
        """The file name's extension for the fence ("py"), "" if it is not alphanumeric."""
        ending = Path(self.name).suffix[1:].lower()
        return ending if ending.isascii() and ending.isalnum() and len(ending) <= 12 else ""


@dataclass(frozen=True, slots=True)
class AttachedPdf:
    """A PDF file of an unsent message, which goes as its text or as pictures of its pages.

    text: empty if no page has any. pages: the first ones of page_count as pictures, () until they
    are read. as_pictures: the choice; a model that sees no pictures gets the text.
    """

    path: Path
    text: AttachedText
    pages: tuple[Picture, ...] = ()
    page_count: int = 0
    as_pictures: bool = False

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.text.name

    def goes_as_pictures(self, sees: bool) -> bool:
        """Return whether pages are sent, not text. sees: whether the model sees pictures."""
        return self.as_pictures and (sees or not self.text.text)


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that cannot be attached; `words` name it and say why."""

    words: str


CHARACTERS_A_TOKEN = 4
"""Characters a token of English and most code, roughly."""


def tokens_about(attachment: AttachedText) -> int:
    """Estimate the tokens of an attachment to two digits, until the model has counted them."""
    guess = len(fenced(attachment)) / CHARACTERS_A_TOKEN
    return round(float(f"{guess:.2g}"))


def with_attachments(text: str, attachments: Sequence[AttachedText]) -> str:
    """Join a message and its attachments, as named fenced blocks, for the model."""
    return "\n\n".join([text, *(fenced(attachment) for attachment in attachments)]).strip("\n")


def fenced(attachment: AttachedText) -> str:
    """Format an attachment as a block with a fence longer than any run of backticks in it."""
    longest = max(map(len, re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    name = " ".join(attachment.name.replace("`", "'").split())
    return f"{MARK}{name}:\n\n{fence}{attachment.language}\n{attachment.body}\n{fence}"


MARK = "Attachment "
_HEAD = re.compile(rf"(?:\A|\n\n){MARK}([^\n]+):\n\n(`{{3,}})[a-z0-9]*\n")


class SaidWith(NamedTuple):
    """A user's message, split into typed text, attached texts and pictures.

    pdfs: files of which some of the texts or pictures are, as long as the message is not sent.
    """

    text: str
    attachments: tuple[AttachedText, ...] = ()
    pictures: tuple[Picture, ...] = ()
    pdfs: tuple[AttachedPdf, ...] = ()

    def with_pdf(self, pdf: AttachedPdf, sees: bool) -> "SaidWith":
        """Add a PDF as its text or as pictures. sees: whether the model sees pictures."""
        if pdf.goes_as_pictures(sees):
            said = self._replace(pictures=(*self.pictures, *pdf.pages))
        else:
            said = self._replace(attachments=(*self.attachments, pdf.text))
        return said._replace(pdfs=(*self.pdfs, pdf))


def said_with(message: str) -> SaidWith:
    """Split a text that `with_attachments` joined; any other text has no attachments."""
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
