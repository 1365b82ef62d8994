"""Colours the lines of a code block: at once by simple rules, by Pygments when it is complete."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app.window.look import Theme, look
from app.window.transcript.drafted_spans import Tint, in_utf16

Colour = Literal["keyword", "string", "number", "comment", "name"]


class Word(NamedTuple):
    """line[start : start + length] has this colour."""

    start: int
    length: int
    colour: Colour


@dataclass(frozen=True, slots=True)
class Language:
    """What a highlighter has to know: `line_comment` a pattern, `blocks` pairs of markers."""

    keywords: frozenset[str]
    line_comment: str = "//"
    blocks: tuple[tuple[str, str, Colour], ...] = (("/*", "*/", "comment"),)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C = _words(
    "auto break case catch class const constexpr continue default delete do else enum extern false "
    "for goto if inline namespace new nullptr operator private protected public return sizeof "
    "static struct switch template this throw true try typedef typename union using virtual void "
    "volatile while int long short char float double bool unsigned signed uint half kernel device "
    "constant threadgroup"
)
_JS = _words(
    "as async await break case catch class const continue default delete do else enum export "
    "extends false finally for from function if implements import in instanceof interface let new "
    "null of return static super switch this throw true try type typeof undefined var void while "
    "yield"
)
_JAVA = _words(
    "abstract boolean break byte case catch char class const continue default do double else enum "
    "extends false final finally float for fun if implements import in instanceof int interface "
    "internal is long new null object override package private protected public return sealed "
    "short static super switch this throw throws true try val var void when while namespace using "
    "string foreach record async await"
)
_PYTHON = _words(
    "and as assert async await break case class continue def del elif else except False finally "
    "for from global if import in is lambda match None nonlocal not or pass raise return True try "
    "while with yield self"
)
_SHELL = _words(
    "case do done elif else esac export fi for function if in local return then until while cd "
    "echo exit set source sudo"
)
_SQL = _words(
    "select from where insert into values update set delete create table index view drop alter "
    "join left right inner outer on group by order having limit offset union all distinct as and "
    "or not null is in like between case when then else end primary key references default"
)
_RUST = _words(
    "as async await break const continue crate dyn else enum extern false fn for if impl in let "
    "loop match mod move mut pub ref return self Self static struct super trait true type unsafe "
    "use where while"
)
_GO = _words(
    "break case chan const continue default defer else fallthrough for func go goto if import "
    "interface map nil package range return select struct switch true false type var string int "
    "bool error"
)
_SWIFT = _words(
    "actor as async await break case catch class continue default defer do else enum extension "
    "false for func guard if import in init inout is let nil private protocol public return self "
    "some static struct super switch throw throws true try var where while"
)
_RUBY = _words(
    "alias and begin break case class def do else elsif end ensure false for if in module next nil "
    "not or redo rescue retry return self super then true undef unless until when while yield"
)

_TRIPLE: tuple[tuple[str, str, Colour], ...] = (('"""', '"""', "string"), ("'''", "'''", "string"))
PLAIN = Language(frozenset(), line_comment=r"(?!)", blocks=())
_FAMILIES: tuple[tuple[str, Language], ...] = (
    ("python py pycon", Language(_PYTHON, "#", _TRIPLE)),
    ("javascript js jsx typescript ts tsx", Language(_JS)),
    ("c cpp c++ cc h hpp objc objective-c metal msl cuda glsl", Language(_C)),
    ("java kotlin csharp cs c# scala dart php", Language(_JAVA)),
    ("rust rs", Language(_RUST)),
    ("go golang", Language(_GO)),
    ("swift", Language(_SWIFT)),
    ("ruby rb", Language(_RUBY, "#", ())),
    ("bash sh shell zsh console fish", Language(_SHELL, r"(?:(?<=\s)|^)#", ())),
    ("sql sqlite postgresql mysql", Language(_SQL | {w.upper() for w in _SQL}, "--")),
    ("json jsonc", Language(_words("true false null"), "//")),
    ("yaml yml toml ini conf dockerfile makefile", Language(_words("true false null"), "#", ())),
    ("html xml svg", Language(frozenset(), r"(?!)", (("<!--", "-->", "comment"),))),
    ("css scss less", Language(frozenset())),
)
LANGUAGES = {name: language for names, language in _FAMILIES for name in names.split()}


class LineReader:
    """Reads the lines of one language; between lines it hands back a state, 0 outside blocks."""

    def __init__(self, language: str) -> None:
        self._language = LANGUAGES.get(language, PLAIN)
        openers = "|".join(re.escape(block[0]) for block in self._language.blocks) or r"(?!)"
        self._pattern = re.compile(
            rf"(?P<block>{openers})|(?P<comment>(?:{self._language.line_comment}).*)"
            r"|(?P<string>\"(?:\\.|[^\"\\])*\"?|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)"
            r"|(?P<number>\b\d[\w.]*\b)|(?P<word>[A-Za-z_]\w*)(?P<call>\s*\()?"
        )

    def read(self, line: str, state: int) -> tuple[list[Word], int]:
        """The coloured words of a line, and the state after it: 1 + the open block's number."""
        found: list[Word] = []
        at = 0
        while at < len(line):
            if state:
                at, state = self._inside(line, at, state, found)
                continue
            match = self._pattern.search(line, at)
            if match is None:
                break
            at = match.end("word") if match["word"] else match.end()
            if match["block"]:
                state = 1 + [b[0] for b in self._language.blocks].index(match["block"])
                at, state = self._inside(line, match.start(), state, found, len(match["block"]))
            else:
                self._colour(match, found)
        return found, state

    def _inside(
        self, line: str, at: int, state: int, found: list[Word], opener: int = 0
    ) -> tuple[int, int]:
        """Up to the end of an open block, or of the line."""
        _, closer, colour = self._language.blocks[state - 1]
        end = line.find(closer, at + opener)
        stop = len(line) if end < 0 else end + len(closer)
        found.append(Word(at, stop - at, colour))
        return stop, state if end < 0 else 0

    def _colour(self, match: re.Match[str], found: list[Word]) -> None:
        if match["comment"]:
            found.append(Word(match.start(), len(match.group()), "comment"))
        elif match["string"]:
            found.append(Word(match.start(), len(match["string"]), "string"))
        elif match["number"]:
            found.append(Word(match.start(), len(match["number"]), "number"))
        elif match["word"] in self._language.keywords:
            found.append(Word(match.start(), len(match["word"]), "keyword"))
        elif match["call"] is not None and self._language is not PLAIN:
            found.append(Word(match.start(), len(match["word"]), "name"))


LONGEST = 300
"""Lines; longer code keeps the colours of code_words, which cost a tenth."""


def pygments_words(code: str, language: str) -> list[list[Word]] | None:
    """For each line its coloured words; None for an unknown language or code that is too long.

    Pygments is imported on the first call: it takes longer than opening a chat.
    """
    if not language or code.count("\n") >= LONGEST:
        return None
    from pygments.lexer import Lexer
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        lexer: Lexer = find_lexer_class_by_name(language)(stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
    lines: list[list[Word]] = [[]]
    column = 0
    for kind, text in lexer.get_tokens(code):
        colour = _colour_of(str(kind))
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append([])
                column = 0
            if colour and part.strip():
                lines[-1].append(Word(column, len(part), colour))
            column += len(part)
    return lines


def _colour_of(kind: str) -> Colour | None:
    """Of a token type such as Token.Literal.String.Doc; the first that fits."""
    rules: tuple[tuple[str, Colour], ...] = (
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
    return next((colour for prefix, colour in rules if kind.startswith(prefix)), None)


class CodeColours(QSyntaxHighlighter):
    """Highlights one document."""

    def __init__(self, document: QTextDocument, language: str) -> None:
        super().__init__(document)
        self._language = language
        self._reader = LineReader(language)
        self._complete: list[list[Word]] | None = None

    def complete(self, code: str) -> None:
        """The code will not change any more."""
        self._complete = pygments_words(code, self._language)
        if self._complete is not None:
            self.rehighlight()

    # Qt

    def highlightBlock(self, text: str) -> None:  # noqa: N802
        """Colour one line."""
        formats = _formats(look().theme)
        for start, length, colour in self._words(text):
            if text.isascii():
                self.setFormat(start, length, formats[colour])
            else:
                ((first, last, *_),) = in_utf16(text, [Tint(start, start + length, 0)])
                self.setFormat(first, last - first, formats[colour])

    def _words(self, text: str) -> list[Word]:
        number = self.currentBlock().blockNumber()
        if self._complete is not None and number < len(self._complete):
            return self._complete[number]
        words, state = self._reader.read(text, max(0, self.previousBlockState()))
        self.setCurrentBlockState(state)
        return words


@cache
def _formats(theme: Theme) -> dict[Colour, QTextCharFormat]:
    colours: dict[Colour, str] = {
        "keyword": theme.code_keyword,
        "string": theme.code_string,
        "number": theme.code_number,
        "comment": theme.code_comment,
        "name": theme.code_name,
    }
    result: dict[Colour, QTextCharFormat] = {}
    for name, colour in colours.items():
        result[name] = QTextCharFormat()
        result[name].setForeground(QColor(colour))
    return result
