"""Finds maths in markdown: $...$ by pandoc's rule, $$...$$, \\(...\\) and \\[...\\]."""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

OPENERS = {"\\(": ("\\)", "math_inline"), "\\[": ("\\]", "math_display")}


def with_maths(markdown: MarkdownIt) -> MarkdownIt:
    """Add the rules; they make tokens math_inline and math_display with the LaTeX as content."""
    markdown.inline.ruler.before("escape", "maths", _inline)
    markdown.block.ruler.before(
        "fence", "maths", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    return markdown


def _inline(state: StateInline, silent: bool) -> bool:
    source, start = state.src, state.pos
    if source.startswith("$$", start):
        return _push(state, silent, start + 2, "$$", "math_display")
    if source[start] == "$":
        return _dollars(state, silent)
    closer = OPENERS.get(source[start : start + 2])
    return closer is not None and _push(state, silent, start + 2, *closer)


def _dollars(state: StateInline, silent: bool) -> bool:
    """Pandoc: no space inside either $, and no digit right after the closing one."""
    source, start = state.src, state.pos
    if start + 1 >= state.posMax or source[start + 1].isspace():
        return False
    end = source.find("$", start + 1, state.posMax)
    while end >= 0 and _escaped(source, end):
        end = source.find("$", end + 1, state.posMax)
    if end < 0 or source[end - 1].isspace() or source[end + 1 : end + 2].isdigit():
        return False
    return _push(state, silent, start + 1, "$", "math_inline", end)


def _push(
    state: StateInline, silent: bool, start: int, closer: str, kind: str, end: int | None = None
) -> bool:
    if end is None:
        end = state.src.find(closer, start, state.posMax)
    if end <= start or not state.src[start:end].strip():
        return False
    if not silent:
        token = state.push(kind, "", 0)
        token.content = state.src[start:end]
    state.pos = end + len(closer)
    return True


def _escaped(source: str, at: int) -> bool:
    before = source[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _block(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """A paragraph that begins with $$ or \\[ and has its end, maybe lines later."""
    if state.is_code_block(line):
        return False
    start = state.bMarks[line] + state.tShift[line]
    closer = {"$$": "$$", "\\[": "\\]"}.get(state.src[start : start + 2])
    if closer is None:
        return False
    for below in range(line, last):
        first = start + 2 if below == line else state.bMarks[below]
        if below > line and state.isEmpty(below):
            return False
        end = state.src.find(closer, first, state.eMarks[below])
        if end < 0:
            continue
        if state.src[end + 2 : state.eMarks[below]].strip():
            return False
        if not silent:
            token = state.push("math_display", "", 0)
            token.block = True
            token.content = state.getLines(line, below + 1, state.blkIndent, False).strip()[2:-2]
            token.map = [line, below + 1]
        state.line = below + 1
        return True
    return False
