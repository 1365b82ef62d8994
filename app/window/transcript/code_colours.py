"""Colours code by Pygments: line by line while it arrives, as a whole once it is complete."""

import re
import time
from collections.abc import Iterator
from functools import cache, partial
from threading import Lock
from typing import Any, Literal, NamedTuple

from PySide6.QtCore import QTimer
from PySide6.QtGui import QSyntaxHighlighter, QTextDocument
from shiboken6 import isValid

from app.start.threads import TURN_MS, Beside, Turns
from app.window.look import look
from app.window.transcript.drafted_spans import Tint, in_utf16

Colour = Literal["keyword", "string", "number", "comment", "name"]


class Word(NamedTuple):
    """line[start : start + length] has this colour."""

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
"""Beginnings of token types, such as Token.Literal.String.Doc; the first that fits."""

SIMILAR = {
    **dict.fromkeys(("cc", "h", "hpp", "metal", "msl"), "c++"),
    **{"jsonc": "json", "jsonl": "json", "sqlite": "sql", "svg": "xml", "svelte": "html"},
    **{"conf": "ini", "env": "bash", "gradle": "groovy"},
}
"""Languages that Pygments does not know -> one that it does."""

PLAIN = re.compile(r"""(?<!\w)(?P<string>"[^"]*"|'[^']*'|`[^`]*`)|(?P<number>\b\d[\w.]*\b)""")
"""What has a colour where the language is not known."""


MAKING = Lock()
"""What is cached for the program is made once, whichever piece of code asks first."""


def make_lexer(language: str) -> None:
    """On any thread; pieces of code in one language that wait for it wait for one lexer."""
    with MAKING:
        _lexer(language)


@cache
def _lexer(language: str) -> Any:
    """None for an unknown language. Pygments is slow to import, and not every chat has code.

    startinline: most PHP comes without its opening tag.
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
    """Of a token type."""
    return next((colour for prefix, colour in RULES if str(kind).startswith(prefix)), None)


def coloured_lines(code: str, language: str) -> Iterator[list[Word]]:
    """The coloured words of each line, from the first."""
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


PROBE = "x*/-->`"
"""A line put after one that is read alone: its x is in a comment or string that is still open,
and what follows closes the kinds of them that a lexer only sees when they are closed.
"""
OPEN = ("string", "comment")
LONGEST = 1000
"""Characters; longer lines have no colours."""
MOST_LINES, MOST = 1000, 20_000
"""Lines and characters; longer code is read line by line: lexers may take the square of its size,
within one pattern that nothing can interrupt.
"""
SLICE_S = 0.003
"""Colouring gives way to everything else after so long."""
SOON_MS = 100
"""Code that grows is read so long after it did: not anew for each piece of a line."""


def can_be_read_whole(code: str) -> bool:
    """Whether the code is lexed whole, so that strings over several lines are recognised."""
    lines = code.split("\n") if len(code) <= MOST else ()
    return 0 < len(lines) <= MOST_LINES and len(max(lines, key=len)) <= LONGEST


class CodeColours(QSyntaxHighlighter):
    """Highlights one document, by the words of its lines as far as they were read."""

    def __init__(self, document: QTextDocument, language: str, turns: Turns) -> None:
        super().__init__(document)
        self._language, self._turns = language, turns
        self._lines: list[list[Word]] = []
        self._finished = 0
        self._opener = ""
        self._code: str | None = None
        self._has_lexer = not language
        self._turn = QTimer(self, singleShot=True)
        self._turn.timeout.connect(self._come_to_read)

    def grow(self, is_other: bool = False) -> None:
        """The code has become longer, or is another; it is read soon."""
        if is_other:
            self._lines, self._finished, self._opener = [], 0, ""
        if self._code is None and not self._turn.isActive():
            self._turn.start(SOON_MS)

    def complete(self, code: str) -> None:
        """The code is or will be this, and does not change any more."""
        if code == self._code:
            return
        if can_be_read_whole(code):
            self._code = code
            self._whole = enumerate(coloured_lines(code, self._language))
            self._turn.start(TURN_MS)
        else:
            self.grow()

    def _come_to_read(self) -> None:
        """Once there is a lexer: its making takes tens of milliseconds, beside the window when that
        has nothing else to do.
        """
        if self._has_lexer:
            self._turns.do(self._go_on)
        elif self._turns.is_busy:
            self._turn.start(SOON_MS)
        else:
            Beside(self).run(partial(make_lexer, self._language), self._take_lexer)

    def _take_lexer(self, _: object) -> None:
        self._has_lexer = True
        self._turns.do(self._go_on)

    def _go_on(self) -> None:
        """In a turn of its own, as many pieces of code may wait for one lexer."""
        if isValid(self):
            self.read()

    def read(self) -> None:
        """Colour what was not read yet, for a while."""
        end = time.monotonic() + SLICE_S
        for number, words in self._new_lines() if self._code is None else self._whole:
            if self._lines[number : number + 1] != [words]:
                self._lines[number : number + 1] = [words]
                self.rehighlightBlock(self.document().findBlockByNumber(number))
            if time.monotonic() > end:
                self._turns.do(self._go_on)
                return

    def _new_lines(self) -> Iterator[tuple[int, list[Word]]]:
        """The lines that were not finished when they were read, each with the line in which an
        open comment or string began.
        """
        block, is_finished = self.document().findBlockByNumber(self._finished), True
        while is_finished:
            number, opener, text = self._finished, self._opener, block.text()
            block = block.next()
            is_finished, words = block.isValid(), []
            if len(opener) + len(text) <= LONGEST:
                lines = coloured_lines(f"{opener}{text}\n{PROBE}", self._language)
                *_, words, probe = lines
                is_open = bool(probe) and probe[0].start == 0 and probe[0].colour in OPEN
                if is_finished:
                    self._opener = (opener or f"{text}\n") if is_open else ""
            self._finished += is_finished
            yield number, words

    # Qt

    def highlightBlock(self, text: str) -> None:
        """Colour one line."""
        number, now = self.currentBlock().blockNumber(), look()
        words = self._lines[number] if number < len(self._lines) else []
        colours = {name: now.colour(f"code_{name}") for name in {word.colour for word in words}}
        ranges = in_utf16(text, [Tint(word.start, word.start + word.length, 0) for word in words])
        for word, (start, end, *_) in zip(words, ranges, strict=True):
            self.setFormat(start, end - start, colours[word.colour])
