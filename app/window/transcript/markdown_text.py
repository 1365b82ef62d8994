"""Renders markdown as rich text for Qt, which can fetch nothing, and as plain text to copy."""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from html import escape, unescape
from itertools import count, repeat
from typing import NamedTuple
from unicodedata import category, east_asian_width

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.parser_inline import RuleFuncInlineType as InlineRule
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_ref

from app.window.language import tr
from app.window.transcript.latex import FormulaKey, latex_html
from app.window.transcript.streaming_markdown import MATHS, WIDEST

DISPLAYED = {"$$": "$$", "\\[": "\\]"}
"""What opens maths that has a line of its own, and what closes it."""
DOLLARS = re.compile(r"\$(?![\s$])((?:\\.|[^\\$])++)(?<!\s)\$", re.DOTALL)
"""Pandoc's rule: no space inside either dollar; for what stands around them, see `_is_maths`."""
ORDINAL = re.compile(r"(?:st|nd|rd|th|s)\b")
COMMAND = re.compile(r"\\[A-Za-z]")
SCRIPT = re.compile(r"[_^](?:[{\d]|\w\b)")
OPEN_END = re.compile(r"[-+*/=<>,;:.(\[{&|'\"]$")
PROSE = re.compile(
    r"\d[^\\^]*(?:\s(?!mod\b)[^\W\d_]{2,}[,;.:?!]?\s|[，。；：、！？])"
    r"|[^\\^=]*[A-Za-z]{2,}[,;.:?!]?\s+[A-Za-z]{2,}[,;.:?!]?\s+[A-Za-z]{2,}"
)
"""An amount with words after it, or three words one after another: between two prices or names."""


def _is_maths(state: StateInline, latex: str, end: int) -> bool:
    """Whether what stands between two dollars, the second of which ends before `end`, is maths, as
    $n$th, CO$_2$ and 3$\\times$4 are, or what lies between two names or prices, as in $HOME/$USER,
    US$/A$ and $20 or 30$.
    """
    before, after = state.src[max(0, state.pos - 1) : state.pos], state.src[end : end + 1]
    has_command = COMMAND.search(latex) is not None
    is_sure = has_command or SCRIPT.search(latex) is not None
    if _is_word(before) and not (is_sure and latex[0] in "\\^_"):
        return False
    if after.isdigit() and not has_command:
        return False
    if _is_word(after) and not (is_sure or ORDINAL.match(state.src, end)):
        return False
    if (_is_word(after) or after in ("(", "{")) and OPEN_END.search(latex):
        return False
    return PROSE.match(latex) is None


def _is_word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")


def _inline_maths(state: StateInline, silent: bool) -> bool:
    opening = state.src[state.pos : state.pos + 2]
    if opening[:1] == "$" != opening[1:]:
        found = DOLLARS.match(state.src, state.pos, state.posMax)
        if found is None or not _is_maths(state, found[1], found.end()):
            return False
        latex, end = found[1], found.end()
    else:
        closing = {**DISPLAYED, "\\(": "\\)"}.get(opening)
        start = state.pos + 2
        # so that what is never closed is not looked for from each place where it opens
        if closing is None or state.html_terminator_last(closing) < start:
            return False
        at = state.src.find(closing, start, state.posMax)
        latex, end = state.src[start:at], at + 2
        if at < 0 or not latex.strip():
            return False
        if closing == "$$" and "$" in (
            state.src[start - 3 : start - 2],
            latex[0],
            state.src[end : end + 1],
        ):
            return False
    if not silent:
        token = state.push("math_display" if opening in DISPLAYED else "math_inline", "", 0)
        token.content = latex
    state.pos = end
    return True


BLOCK_OPENING = re.compile(r"\$\$|\\\[|\\begin\{(?:equation|align|gather|multline)\*?\}")
UNCLOSED = "unclosed maths"
"""In a parser's environment: what closes maths -> the line before which none is opened."""


def _block_maths(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A paragraph that begins with $$, \\[ or \\begin and has its end, maybe lines later."""
    start = state.bMarks[line] + state.tShift[line]
    opened = None if state.is_code_block(line) else BLOCK_OPENING.match(state.src, start)
    if opened is None:
        return False
    is_environment = opened[0] not in DISPLAYED
    closing = DISPLAYED.get(opened[0]) or opened[0].replace("begin", "end", 1)
    unclosed = state.env.setdefault(UNCLOSED, {})
    if line < unclosed.get(closing, 0):
        return False
    start, end = opened.end(), line
    while end < last and not state.isEmpty(end):
        text = state.src[start : state.eMarks[end]].rstrip(" \t")
        at = text.rfind(closing) if is_environment else text.find(closing)
        end += 1
        if at >= 0 and at + len(closing) == len(text):
            latex = state.getLines(line, end, state.blkIndent, False).strip()
            return _push_display(state, latex if is_environment else latex[2:-2], end, silent)
        if at >= 0 and not is_environment:
            end -= 1
            break
        start = state.eMarks[end - 1] + 1
    unclosed[closing] = end
    return False


def _push_display(state: StateBlock, latex: str, end: int, silent: bool) -> bool:
    if not latex.strip():
        return False
    if not silent:
        token = state.push("math_display", "", 0)
        token.block = True
        token.content = latex
    state.line = end
    return True


def _beside_cjk(rule: InlineRule) -> InlineRule:
    """The rule for * or ~~ by the CJK-friendly amendment of CommonMark: beside a letter or mark of
    Chinese, Japanese or Korean, with no blank on either side, markers can both open and close.
    """

    def tokenise(state: StateInline, silent: bool) -> bool:
        start, known = state.pos, len(state.delimiters)
        if not rule(state, silent):
            return False
        before, after = state.src[max(0, start - 2) : start], state.src[state.pos : state.pos + 1]
        is_inside = not (before[-1:] or " ").isspace() and not (after or " ").isspace()
        if is_inside and state.src[start] in "*~" and (_ends_in_cjk(before) or _is_cjk(after)):
            for delimiter in state.delimiters[known:]:
                delimiter.open = delimiter.close = True
        return True

    return tokenise


def _is_cjk(letter: str) -> bool:
    """Whether a character is wide, or of half width, and no emoji, or a letter of Hangul."""
    is_emoji = category(letter) in ("So", "Sk") and not "\u2e80" <= letter <= "\uffff"
    is_jamo = "\u1160" <= letter <= "\u11ff" or "\ud7b0" <= letter <= "\ud7fb"
    return is_jamo or (east_asian_width(letter) in ("W", "F", "H") and not is_emoji)


def _ends_in_cjk(text: str) -> bool:
    """The same for the last character of a text, which may select a variant of the one before."""
    last = text[-1]
    if "\ufe00" <= last <= "\ufe0e" and text[:-1]:
        return _is_cjk(text[0]) or (last == "\ufe01" and text[0] in "‘’“”")
    return _is_cjk(last) or "\U000e0100" <= last <= "\U000e01ef"


BARE_ADDRESS = re.compile(
    r"https?://(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`()])*(?:\([^\s<>\"'`()]*\)|[^\s<>\"'`()\[\]{}.,;:!?*_])"
)
RAISED_OR_LOWERED = re.compile(r"&lt;(su[bp])&gt;((?:(?!&lt;su[bp]&gt;).)*?)&lt;/\1&gt;")
LINE_BREAK = re.compile(r"&lt;br\s*/?&gt;", re.IGNORECASE)
TASK = re.compile(r"\[([ xX])\]\s")
SAFE_LINK = ("http://", "https://", "mailto:")
ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?")

FIXED = {
    "table_open": '<table border="1" cellspacing="0" cellpadding="6">',
    "softbreak": "<br>",
    "hardbreak": "<br>",
    "hr": "<hr>",
    "link_close": "</a>",
}
"""Token type -> HTML, where that is not the token's tag and nothing else."""


DEEPEST = 40
"""Lists and quotes nested deeper are text."""
DEEPEST_LINK = 8
"""Brackets in brackets, of which deeper ones are no links."""
LONGEST = 20_000
"""Characters of a paragraph; a longer one has no emphasis, links or formulas."""


class _BoundedInline(ParserInline):
    """Inline parser that takes time linear in the text: links within images stay text."""

    def __init__(self) -> None:
        super().__init__()
        self._is_parsing = False

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        if self._is_parsing or len(src) > LONGEST:
            tokens.append(Token("text", "", 0, content=src))
            return tokens
        self._is_parsing = True
        try:
            state = StateInline(src, md, env, tokens)
            state.level = DEEPEST - DEEPEST_LINK
            self.tokenize(state)
            for rule in self.ruler2.getRules(""):
                rule(state)
        finally:
            self._is_parsing = False
        return tokens


FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]")


def _footnote_ref(state: StateInline, silent: bool) -> bool:
    return FOOTNOTE.match(state.src, state.pos) is not None and footnote_ref(state, silent)


def _deepest(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Text of what is nested too deep, where the parser would leave it out."""
    if state.level < DEEPEST - 2 or silent:
        return False
    end = line + 1
    while end < last and not state.isEmpty(end) and state.sCount[end] >= state.blkIndent:
        end += 1
    state.push("paragraph_open", "p", 1)
    token = state.push("inline", "", 0)
    token.content = state.getLines(line, end, state.blkIndent, False).strip()
    token.children = []
    state.push("paragraph_close", "p", -1)
    state.line = end
    return True


SPARSE = "sparse table"
"""In a parser's environment: the line before which no table begins."""


def _table(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A table of at most WIDEST columns, most of whose cells are written: the parser makes all."""
    if line < state.env.get(SPARSE, 0) or not table(state, line, last, True):
        return False
    columns = state.src.count("|", state.bMarks[line], state.eMarks[line])
    if columns > 8:
        end = next((n for n in range(line, last) if state.isEmpty(n)), last)
        size = state.eMarks[end - 1] - state.bMarks[line]
        if columns > WIDEST or columns * (end - line) > size:
            state.env[SPARSE] = end
            return False
    return silent or table(state, line, last, False)


@cache
def parser() -> MarkdownIt:
    """A parser without raw HTML, with tables, strikethrough, footnotes where they are defined, and
    maths (as tokens math_inline and math_display with the LaTeX as content); slow to make.
    """
    markdown = MarkdownIt("commonmark")
    markdown.inline = _BoundedInline()
    markdown.configure("commonmark", {"html": False, "maxNesting": DEEPEST})
    markdown.enable(["table", "strikethrough"])
    markdown.use(footnote_plugin, inline=False, move_to_end=False)
    rules = markdown.inline.ruler
    rules.before("escape", "maths", _inline_maths)
    rules.at("footnote_ref", _footnote_ref)
    rules.at("emphasis", _beside_cjk(emphasis.tokenize))
    rules.at("strikethrough", _beside_cjk(strikethrough.tokenize))
    blocks = markdown.block.ruler
    blocks.at("table", _table, {"alt": ["paragraph", "reference"]})
    blocks.before("table", "deepest", _deepest)
    blocks.before(
        "fence", "maths", _block_maths, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return markdown


@lru_cache(maxsize=1)  # all segments of an answer share them
def _defined(definitions: str) -> EnvType:
    env: EnvType = {}
    parser().parse(definitions, env)
    return env


def markdown_html(source: str, definitions: str = "") -> str:
    """The body of a rich text document; `definitions` are link references from other segments.

    A formula is letters and signs, of which the title tells its LaTeX.
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
    """Writes tokens as HTML; remembers whether it is in a link or in a cell, what tells a formula
    from an equal one before it, and the number of a footnote that has yet to be written.
    """

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
        is_formula = kind.startswith("math") or (kind == "fence" and token.info.strip() == MATHS)
        return self._formula(token) if is_formula else _leaf(token)

    def _footnote(self, token: Token) -> str:
        """Its number where it is referred to, and before the first of its own words."""
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
        """On a line of its own it has one for each of its rows."""
        latex, is_display = token.content, token.type != "math_inline"
        rows = ROW_END.split(latex) if is_display and "matrix" not in latex else [latex]
        letters = "<br>".join(filter(None, map(latex_html, rows)))
        title = escape(FormulaKey(latex.strip(), is_display).source)
        if token.block:
            return f'<p class="display"><span title="{title}">{letters}</span></p>'
        shown = f'<span title="{title}{self._space}">{letters}</span>'
        self._space = "" if self._space else " "
        return f"<br>{shown}<br>" if is_display else shown

    def _text(self, content: str) -> str:
        """Escaped text; bare web addresses become links, <sub> and <sup> what they say, <br> in a
        cell a line break.
        """
        linked = "://" in content and not self._in_link
        shown = _with_links(content) if linked else escape(content)
        if "&lt;su" in shown:
            shown = RAISED_OR_LOWERED.sub(r"<\1>\2</\1>", shown)
        return LINE_BREAK.sub("<br>", shown) if self._in_cell else shown

    def _cell(self, token: Token) -> str:
        """A cell, aligned as the rule under the table's head says."""
        self._in_cell = token.nesting > 0
        if not self._in_cell:
            return f"</{token.tag}>"
        side = str(token.attrs.get("style", "")).rpartition(":")[2]
        return f'<{token.tag} align="{side or "left"}">'


def _without_breaks_at_formulas(tokens: list[Token]) -> list[Token]:
    """All but the breaks beside a formula that is on a line of its own anyway."""
    return [
        token
        for at, token in enumerate(tokens)
        if token.type != "softbreak"
        or not any(near.type == "math_display" for near in tokens[at - 1 : at + 2])
    ]


def _leaf(token: Token) -> str:
    """A token that opens and closes nothing."""
    kind = token.type
    if kind in ("fence", "code_block"):
        code = token.content.removesuffix("\n")
        return f"<pre>{escape(code).replace(chr(10), '<br>')}</pre>" if code.strip() else ""
    if kind == "code_inline":
        return f"<code>{escape(token.content)}</code>"
    return _image(token) if kind == "image" else escape(token.content)


def _tag(token: Token) -> str:
    """The opening or closing tag of a paragraph, list, emphasis, ..."""
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
    """Links lead to the web or to mail, nowhere else."""
    address = str(token.attrs.get("href", ""))
    return f'<a href="{escape(address)}">' if address.startswith(SAFE_LINK) else "<a>"


def _image(token: Token) -> str:
    """An image's description as a link to it: images of an answer are not loaded."""
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
    """Turn "[ ] " and "[x] " at the start of a list item into the item's box."""
    for index in range(2, len(tokens)):
        children = tokens[index].children
        if not children or tokens[index - 2].type != "list_item_open":
            continue
        found = TASK.match(children[0].content) if children[0].type == "text" else None
        if found:
            checked = "unchecked" if found[1] == " " else "checked"
            tokens[index - 2].attrs["class"] = checked
            children[0].content = children[0].content[found.end() :]


WITHIN_LINE = re.compile(r"</?(?:a|b|code|em|i|s|span|strong|su[bp])\b[^>]*>")
PREFORMATTED = re.compile(r"(<pre>.*?</pre>)")
SPACES = re.compile(r"[^\S\xa0]+")
TAGS = re.compile(r"(?:<[^>]+>)+")


def html_words(html: str) -> str:
    """What a document of Qt's shows of such HTML, each paragraph and cell on a line of its own."""
    parts = PREFORMATTED.split(WITHIN_LINE.sub("", html))
    parts[::2] = [SPACES.sub(" ", part) for part in parts[::2]]
    return unescape(TAGS.sub("\n", "".join(parts))).strip("\n")


class Copied(NamedTuple):
    """An answer's words; in the text maths stays LaTeX, and a link is followed by its address."""

    text: str
    html: str


def copied(source: str) -> Iterator[Copied | None]:
    """What is to be copied of markdown, as the last of several steps."""
    state = StateCore(source, parser(), {})
    for rule in parser().core.ruler.getRules(""):
        rule(state)
        yield None
    text = _plain(state.tokens)
    _mark_tasks(state.tokens)
    yield Copied(text, _HtmlWriter().all(state.tokens))


BULLET = "• "


def plain_text(source: str) -> str:
    """The words of an answer, as they are copied."""
    return _plain(parser().parse(source))


def _plain(tokens: Sequence[Token]) -> str:
    writer = _PlainWriter()
    for token in tokens:
        writer.add(token)
    return writer.text()


class _PlainWriter:
    """Joins blocks: a blank line between them, list items and table rows one a line."""

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
        elif kind in ("fence", "code_block", "math_display"):
            self._block(token.content.strip("\n"))

    def _block(self, text: str) -> None:
        indent = "  " * max(0, len(self._lists) - 1)
        lead = indent + (self._marker or "  " * bool(self._lists))
        lines = text.split("\n")
        rest = "\n" + " " * len(lead)
        self._parts.append(lead + rest.join(lines) + ("\n" if self._lists else "\n\n"))
        self._marker = ""


def _plain_line(tokens: Sequence[Token]) -> str:
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
        elif token.type == "footnote_ref":
            parts.append(f"[{token.meta['label']}]")
        else:
            parts.append(token.content)
    return "".join(parts)
