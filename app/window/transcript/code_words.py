"""Finds strings, comments, keywords and numbers in a line of code, one line at a time."""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

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
