"""Render Markdown as rich text for Qt, which loads nothing, and as plain text."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from itertools import count, repeat
from typing import NamedTuple

from markdown_it.token import Token
from markdown_it.utils import EnvType

from app.window.language import tr
from app.window.transcript.markdown_parser import parser
from app.window.transcript.streaming_markdown import MATHS

BARE_ADDRESS = re.compile(
    r"https?://(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`()])*(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`()\[\]{}.,;:!?*_])"
)
RAISED_OR_LOWERED = re.compile(r"&lt;(su[bp])&gt;((?:(?!&lt;su[bp]&gt;).)*?)&lt;/\1&gt;")
LINE_BREAK = re.compile(r"&lt;br\s*/?&gt;", re.IGNORECASE)
TASK = re.compile(r"\[([ xX])\]\s")
SAFE_LINK = ("http://", "https://", "mailto:")


class FormulaKey(NamedTuple):
    """LaTeX without its delimiters. is_display: whether it has a line of its own."""

    latex: str
    is_display: bool

    @property
    def source(self) -> str:
        """LaTeX with delimiters."""
        return f"$${self.latex}$$" if self.is_display else f"${self.latex}$"

    @classmethod
    def of(cls, source: str) -> "FormulaKey":
        """Parse LaTeX with delimiters."""
        latex = source.strip()
        is_display = latex[:2] == latex[-2:] == "$$"
        return cls(latex[2:-2] if is_display else latex[1:-1], is_display)


FIXED = {
    "table_open": '<table border="1" cellspacing="0" cellpadding="6">',
    "softbreak": "<br>",
    "hardbreak": "<br>",
    "hr": "<hr>",
    "link_close": "</a>",
}
"""HTML of token types for which it is not the token's tag."""


@lru_cache(maxsize=1)  # all segments of an answer share them
def _defined(definitions: str) -> EnvType:
    env: EnvType = {}
    parser().parse(definitions, env)
    return env


def markdown_html(source: str, definitions: str = "") -> str:
    """Render Markdown as the body of a rich text document.

    definitions: link references from other segments. A formula is its LaTeX, with its LaTeX as
    title.
    """
    known = _defined(definitions) if definitions else {}
    notes = known.get("footnotes", {}).get("refs", {})
    env = {
        "references": dict(known.get("references", {})),
        "footnotes": {"refs": dict.fromkeys(notes, -1)},
    }
    tokens = parser().parse(source, env)
    _mark_tasks(tokens)
    return _HtmlWriter().all(tokens)


class _HtmlWriter:
    """Writes tokens as HTML, with links, table cells, formulas and footnotes."""

    def __init__(self) -> None:
        self._in_link = False
        self._in_cell = False
        self._space = ""
        self._number = ""

    def all(self, tokens: Sequence[Token]) -> str:
        return "".join(
            self._footnote(token)
            if self._number or token.type.startswith("footnote")
            else self._one(token)
            for token in tokens
        )

    def _one(self, token: Token) -> str:
        kind = token.type
        if kind == "inline":
            self._space = ""
            return self.all(_without_breaks_at_formulas(token.children or []))
        if kind == "text":
            return self._text(token.content)
        if token.tag in ("td", "th"):
            return self._cell(token)
        if kind in ("link_open", "link_close"):
            self._in_link = token.nesting > 0
        if kind in FIXED:
            return FIXED[kind]
        if token.nesting:
            return _tag(token)
        return self._formula(token) if kind.startswith("math") or _is_maths(token) else _leaf(token)

    def _footnote(self, token: Token) -> str:
        """Write the number of a footnote, at its reference and before its text."""
        if token.type == "footnote_ref":
            return f"<sup>{escape(str(token.meta['label']))}</sup>"
        begins, number = token.type == "footnote_reference_open", self._number
        self._number = escape(str(token.meta["label"])) if begins else ""
        start = f'<p class="footnote"><sup>{number}</sup>' if number else ""
        if begins or token.type == "footnote_reference_close":
            return f"{start}</p>" if start else ""
        is_text = token.type == "paragraph_open" and not token.hidden
        return f"{start} " if is_text else f"{start}</p>{self._one(token)}"

    def _formula(self, token: Token) -> str:
        """Write a formula as its source, with the source as title."""
        is_display = token.type != "math_inline"
        source = escape(FormulaKey(token.content.strip(), is_display).source)
        if token.block:
            return f'<p class="display" align="center"><span title="{source}">{source}</span></p>'
        shown = f'<span title="{source}{self._space}">{source}</span>'
        self._space = "" if self._space else " "
        return f"<br>{shown}<br>" if is_display else shown

    def _text(self, content: str) -> str:
        """Write escaped text; web addresses become links; <sub>, <sup> and <br> in a cell are
        kept.
        """
        linked = "://" in content and not self._in_link
        shown = _with_links(content) if linked else escape(content)
        if "&lt;su" in shown:
            shown = RAISED_OR_LOWERED.sub(r"<\1>\2</\1>", shown)
        return LINE_BREAK.sub("<br>", shown) if self._in_cell else shown

    def _cell(self, token: Token) -> str:
        """Write a cell with the alignment of its column."""
        self._in_cell = token.nesting > 0
        if not self._in_cell:
            return f"</{token.tag}>"
        side = str(token.attrs.get("style", "")).rpartition(":")[2]
        return f'<{token.tag} align="{side or "left"}">'


def _is_maths(token: Token) -> bool:
    """Whether a token is a fence around maths."""
    return token.type == "fence" and token.info.strip() == MATHS


def _without_breaks_at_formulas(tokens: list[Token]) -> list[Token]:
    """Drop line breaks beside a display formula."""
    return [
        token
        for at, token in enumerate(tokens)
        if token.type != "softbreak"
        or not any(near.type == "math_display" for near in tokens[at - 1 : at + 2])
    ]


def _leaf(token: Token) -> str:
    """Write a token without children."""
    kind = token.type
    if kind in ("fence", "code_block"):
        code = token.content.removesuffix("\n")
        return f"<pre>{escape(code).replace(chr(10), '<br>')}</pre>" if code.strip() else ""
    if kind == "code_inline":
        return f"<code>{escape(token.content)}</code>"
    return _image(token) if kind == "image" else escape(token.content)


def _tag(token: Token) -> str:
    """Write the opening or closing tag of a paragraph, list, emphasis, ..."""
    if token.hidden:
        return ""
    if token.type in ("heading_open", "heading_close"):
        size = min(int(token.tag[1]), 3)
        return f'<p class="h{size}">' if token.nesting > 0 else "</p>"
    if token.nesting < 0:
        return f"</{token.tag}>"
    if token.type == "list_item_open" and token.attrs:
        return f'<li class="{token.attrs["class"]}">'
    if token.type == "ordered_list_open" and "start" in token.attrs:
        return f'<ol start="{token.attrs["start"]}">'
    return _link(token) if token.type == "link_open" else f"<{token.tag}>"


def _link(token: Token) -> str:
    """Write a link; only addresses of the web and of mail are kept."""
    address = str(token.attrs.get("href", ""))
    return f'<a href="{escape(address)}">' if address.startswith(SAFE_LINK) else "<a>"


def _image(token: Token) -> str:
    """Write a link instead of an image, which is not loaded."""
    address = str(token.attrs.get("src", ""))
    label = escape(tr("Image: {what}", what=token.content or address))
    return f'<a href="{escape(address)}">{label}</a>' if address.startswith(SAFE_LINK) else label


def _with_links(text: str) -> str:
    parts, at = [], 0
    for found in BARE_ADDRESS.finditer(text):
        address = escape(found.group())
        parts += [escape(text[at : found.start()]), f'<a href="{address}">{address}</a>']
        at = found.end()
    return "".join([*parts, escape(text[at:])])


def _mark_tasks(tokens: list[Token]) -> None:
    """Turn "[ ] " and "[x] " at the start of list items into boxes."""
    for index in range(2, len(tokens)):
        children = tokens[index].children
        if not children or tokens[index - 2].type != "list_item_open":
            continue
        found = TASK.match(children[0].content) if children[0].type == "text" else None
        if found:
            checked = "unchecked" if found[1] == " " else "checked"
            tokens[index - 2].attrs["class"] = checked
            children[0].content = children[0].content[found.end() :]


class Copied(NamedTuple):
    """An answer as HTML and text to copy; the text has maths as LaTeX, and addresses after
    links.
    """

    text: str
    html: str


def copied(source: str) -> Copied:
    """Render Markdown for the clipboard."""
    tokens = parser().parse(source)
    text = _plain(tokens)
    _mark_tasks(tokens)
    return Copied(text, _HtmlWriter().all(tokens))


BULLET = "• "


def plain_text(source: str) -> str:
    """Render Markdown as plain text, as it is copied."""
    return _plain(parser().parse(source))


def _plain(tokens: Sequence[Token]) -> str:
    writer = _PlainWriter()
    for token in tokens:
        writer.add(token)
    return writer.text()


class _PlainWriter:
    """Joins blocks with blank lines; list items and table rows are lines."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lists: list[Iterator[str]] = []
        self._marker = ""
        self._in_cell = False

    def text(self) -> str:
        return "".join(self._parts).strip("\n")

    def add(self, token: Token) -> None:
        kind = token.type
        if kind == "bullet_list_open":
            self._lists.append(repeat(BULLET))
        elif kind == "ordered_list_open":
            numbers = count(int(token.attrs.get("start", 1)))
            self._lists.append(f"{number}. " for number in numbers)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
            self._parts.append("" if self._lists else "\n")
        elif kind == "list_item_open":
            self._marker = next(self._lists[-1])
        elif kind == "tr_close":
            self._parts[-1] = "\n"
        elif kind == "table_close":
            self._parts.append("\n")
        elif token.tag in ("td", "th"):
            self._in_cell = token.nesting > 0
        elif kind == "footnote_reference_open":
            self._marker = f"[{token.meta['label']}] "
        elif kind == "inline" and self._in_cell:
            self._parts += [_plain_line(token.children or []), "\t"]
        elif kind == "inline":
            self._block(_plain_line(token.children or []))
        elif kind == "math_display" or _is_maths(token):
            self._block(FormulaKey(token.content.strip(), True).source)
        elif kind in ("fence", "code_block"):
            self._block(token.content.strip("\n"))

    def _block(self, text: str) -> None:
        indent = "  " * max(0, len(self._lists) - 1)
        lead = indent + (self._marker or "  " * bool(self._lists))
        lines = text.split("\n")
        rest = "\n" + " " * len(lead)
        self._parts.append(lead + rest.join(lines) + ("\n" if self._lists else "\n\n"))
        self._marker = ""


def _plain_line(tokens: Sequence[Token]) -> str:
    """Write inline tokens as text; a link is followed by its address."""
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
        elif token.type in ("math_inline", "math_display"):
            is_display = token.type == "math_display"
            parts.append(FormulaKey(token.content.strip(), is_display).source)
        elif token.type == "footnote_ref":
            parts.append(f"[{token.meta['label']}]")
        else:
            parts.append(token.content)
    return "".join(parts)
