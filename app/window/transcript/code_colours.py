"""Highlights code with Pygments, shortly after it has grown."""

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple

from PySide6.QtCore import QTimer
from PySide6.QtGui import QSyntaxHighlighter, QTextDocument
from typing_extensions import override

from app.window.look import look
from app.window.transcript.drafted_spans import Tint, in_utf16

Colour = Literal["keyword", "string", "number", "comment", "name"]


class Word(NamedTuple):
    """The colour of line[start : start + length]."""

    start: int
    length: int
    colour: Colour


RULES: tuple[tuple[str, Colour], ...] = (
    ("Token.Comment", "comment"),
    ("Token.Literal.String", "string"),
    ("Token.Literal.Number", "number"),
    ("Token.Keyword", "keyword"),
    ("Token.Operator.Word", "keyword"),
    ("Token.Name.Tag", "keyword"),
    ("Token.Name.Function", "name"),
    ("Token.Name.Class", "name"),
    ("Token.Name.Decorator", "name"),
    ("Token.Name.Attribute", "name"),
    ("Token.Name.Builtin", "name"),
)
"""Prefixes of token types, such as Token.Literal.String.Doc; the first match counts."""

SIMILAR = {
    **dict.fromkeys(("cc", "h", "hpp", "metal", "msl"), "c++"),
    **{"jsonc": "json", "jsonl": "json", "sqlite": "sql", "svg": "xml", "svelte": "html"},
    **{"conf": "ini", "env": "bash", "gradle": "groovy"},
}
"""Languages that Pygments does not know, and similar ones that it does."""

PLAIN = re.compile(r"""(?<!\w)(?P<string>"[^"]*"|'[^']*'|`[^`]*`)|(?P<number>\b\d[\w.]*\b)""")
"""Token types that are coloured if the language is not known."""


@cache
def _lexer(language: str) -> Any:
    """Return the lexer of a language, None for an unknown one.

    Pygments is imported on first use, because that is slow. startinline: most PHP comes without its
    opening tag.
    """
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        known = find_lexer_class_by_name(SIMILAR.get(language, language))
    except ClassNotFound:
        return None
    return known(stripnl=False, startinline=True)


@cache
def _colour_of(kind: object) -> Colour | None:
    return next((colour for prefix, colour in RULES if str(kind).startswith(prefix)), None)


def coloured_lines(code: str, language: str) -> Iterator[list[Word]]:
    """Return the coloured words of each line."""
    lexer = _lexer(language) if language else None
    if lexer is None:
        for line in code.split("\n"):
            found = PLAIN.finditer(line)
            yield [Word(m.start(), len(m[0]), "string" if m["string"] else "number") for m in found]
        return
    words: list[Word] = []
    column = 0
    for kind, text in lexer.get_tokens(code):
        colour = _colour_of(kind)
        for index, part in enumerate(text.split("\n")):
            if index:
                yield words
                words, column = [], 0
            if colour and part.strip():
                words.append(Word(column, len(part), colour))
            column += len(part)


PROBE = "\n*/-->`"
"""Appended before lexing: closes comments and strings that are still open."""
LONGEST = 1000
"""Most characters of a line that is highlighted."""
MOST_LINES, MOST = 1000, 20_000
"""Most lines and characters of a block: lexers may take quadratic time."""
SOON_MS = 200
"""Milliseconds after which code that grows is highlighted again."""


class CodeColours(QSyntaxHighlighter):
    """Highlights a document in blocks; the last block is lexed again when the code grows."""

    def __init__(self, document: QTextDocument, language: str) -> None:
        super().__init__(document)
        self._language = language
        self._lines: list[list[Word]] = []
        self._first = 0
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self.read)

    def grow(self, is_whole: bool = False) -> None:
        """Highlight code that has grown soon, or in the next turn if it is complete."""
        if is_whole:
            self._soon.start(0)
        elif not self._soon.isActive():
            self._soon.start(SOON_MS)

    def begin(self) -> None:
        """Highlight another code from its beginning."""
        self._lines, self._first = [], 0

    def read(self) -> None:
        """Highlight one block, and schedule the next one."""
        block, lines, size = self.document().findBlockByNumber(self._first), list[str](), 0
        while block.isValid() and len(lines) < MOST_LINES and size < MOST:
            line = block.text()
            lines.append(line if len(line) <= LONGEST else "")
            size += len(line)
            block = block.next()
        coloured = coloured_lines("\n".join(lines) + PROBE, self._language)
        for number, words in enumerate(islice(coloured, len(lines)), self._first):
            if self._lines[number : number + 1] != [words]:
                self._lines[number : number + 1] = [words]
                self.rehighlightBlock(self.document().findBlockByNumber(number))
        if block.isValid():
            self._first += len(lines)
            self._soon.start(0)

    # Qt

    @override
    def highlightBlock(self, text: str) -> None:
        number, now = self.currentBlock().blockNumber(), look()
        words = self._lines[number] if number < len(self._lines) else []
        colours = {name: now.colour(f"code_{name}") for name in {word.colour for word in words}}
        ranges = in_utf16(text, [Tint(word.start, word.start + word.length, 0) for word in words])
        for word, (start, end, *_) in zip(words, ranges, strict=True):
            self.setFormat(start, end - start, colours[word.colour])
