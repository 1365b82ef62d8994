"""Parses Markdown of chats in bounded time and depth."""

import re
from functools import cache
from unicodedata import category, east_asian_width

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.parser_inline import RuleFuncInlineType as InlineRule
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_inline import StateInline, emphasis, strikethrough
from markdown_it.token import Token
from markdown_it.utils import EnvType
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_ref

from app.window.transcript.streaming_markdown import WIDEST

DISPLAYED = {"$$": "$$", "\\[": "\\]"}
"""Opening delimiters of display maths, and their closing delimiters."""
DOLLARS = re.compile(r"\$(?![\s$])((?:\\.|[^\\$])++)(?<!\s)\$", re.DOTALL)
"""Pandoc's rule: no space inside either dollar; for text around them see `_is_maths`."""
ORDINAL = re.compile(r"(?:st|nd|rd|th|s)\b")
COMMAND = re.compile(r"\\[A-Za-z]")
SCRIPT = re.compile(r"[_^](?:[{\d]|\w\b)")
OPEN_END = re.compile(r"[-+*/=<>,;:.(\[{&|'\"]$")
PROSE = re.compile(
    r"\d[^\\^]*(?:\s(?!mod\b)[^\W\d_]{2,}[,;.:?!]?\s|[，。；：、！？])"
    r"|[^\\^=]*[A-Za-z]{2,}[,;.:?!]?\s+[A-Za-z]{2,}[,;.:?!]?\s+[A-Za-z]{2,}"
)
"""Matches an amount with words after it, or three words in a row, as between prices or names."""


def _is_maths(state: StateInline, latex: str, end: int) -> bool:
    """Whether the text between two dollars is maths, and not between prices or names.

    Maths: $n$th, CO$_2$, 3$\\times$4. No maths: $HOME/$USER, US$/A$, $20 or 30$.
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
"""Parser environment key: closing delimiter of maths, and the line before which none is opened."""


def _block_maths(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Parse a paragraph that begins with $$, \\[ or \\begin, up to its end, maybe lines later."""
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
    """Make a rule for * or ~~ by the CJK-friendly amendment of CommonMark.

    Beside a Chinese, Japanese or Korean character, without spaces, a marker can both open and
    close.
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
    """Whether a character is wide or of half width, and no emoji, or a letter of Hangul."""
    is_emoji = category(letter) in ("So", "Sk") and not "\u2e80" <= letter <= "\uffff"
    is_jamo = "\u1160" <= letter <= "\u11ff" or "\ud7b0" <= letter <= "\ud7fb"
    return is_jamo or (east_asian_width(letter) in ("W", "F", "H") and not is_emoji)


def _ends_in_cjk(text: str) -> bool:
    """Whether a text ends in a CJK character, or in a variation selector after one."""
    last = text[-1]
    if "\ufe00" <= last <= "\ufe0e" and text[:-1]:
        return _is_cjk(text[0]) or (last == "\ufe01" and text[0] in "‘’“”")
    return _is_cjk(last) or "\U000e0100" <= last <= "\U000e01ef"


DEEPEST = 40
"""Lists and quotes nested deeper are text."""
DEEPEST_LINK = 8
"""Brackets nested deeper are no links."""
LONGEST = 20_000
"""Characters of a paragraph; a longer one has no emphasis, links or formulas."""


class _BoundedInline(ParserInline):
    """An inline parser in linear time; links inside image descriptions stay text."""

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
    """Parse what is nested too deep as text, which the parser would drop."""
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
"""Parser environment key: the line before which no table begins."""


def _table(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Parse a table of at most WIDEST columns, most of whose cells are filled."""
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
    """Make a Markdown parser without raw HTML, with tables, footnotes and maths; slow.

    Maths become tokens math_inline and math_display with LaTeX as content. Footnotes count only
    where they are defined.
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
