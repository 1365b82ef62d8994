"""Markdown as plain text for the clipboard: markers gone, code, lists and tables still readable."""

from collections.abc import Sequence

from markdown_it.token import Token

from app.window.transcript.rendered_html import parser

BULLET = "• "


def plain_text(source: str) -> str:
    """The words of an answer; maths stays LaTeX, a link is followed by its address."""
    writer = _Writer()
    for token in parser().parse(source):
        writer.add(token)
    return writer.text()


class _Writer:
    """Joins blocks: a blank line between them, list items and table rows one a line."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lists: list[int | None] = []
        self._marker = ""
        self._row: list[str] = []
        self._in_cell = False

    def text(self) -> str:
        return "".join(self._parts).strip("\n")

    def add(self, token: Token) -> None:
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            self._lists.append(int(token.attrs.get("start", 1)) if kind[0] == "o" else None)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
            if not self._lists:
                self._parts.append("\n")
        elif kind == "list_item_open":
            self._open_item()
        elif kind == "tr_open":
            self._row = []
        elif kind == "tr_close":
            self._parts.append("\t".join(self._row) + "\n")
        elif kind == "table_close":
            self._parts.append("\n")
        elif kind in ("td_open", "th_open"):
            self._in_cell = True
        elif kind == "inline" and self._in_cell:
            self._row.append(_inline(token.children or []))
            self._in_cell = False
        elif kind == "inline":
            self._block(_inline(token.children or []))
        elif kind in ("fence", "code_block", "math_display"):
            self._block(token.content.strip("\n"))

    def _open_item(self) -> None:
        number = self._lists[-1]
        self._marker = BULLET if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1

    def _block(self, text: str) -> None:
        indent = "  " * max(0, len(self._lists) - 1)
        lead = indent + (self._marker or "  " * bool(self._lists))
        lines = text.split("\n")
        rest = "\n" + " " * len(lead)
        self._parts.append(lead + rest.join(lines) + ("\n" if self._lists else "\n\n"))
        self._marker = ""


def _inline(tokens: Sequence[Token]) -> str:
    """The words of a line; a link whose text is not its address is followed by it."""
    parts: list[str] = []
    address, label = "", 0
    for token in tokens:
        if token.type == "link_open":
            address, label = str(token.attrs.get("href", "")), len(parts)
        elif token.type == "link_close":
            if "".join(parts[label:]) not in (address, address.removeprefix("mailto:")):
                parts.append(f" ({address})")
        elif token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif token.type == "math_inline":
            parts.append(f"${token.content}$")
        else:
            parts.append(token.content)
    return "".join(parts)
