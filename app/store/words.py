"""Words of a text as the search index sees them, and where they stand in it.

The index is FTS5 with the unicode61 tokenizer over text in which every character of a script
without spaces between words (Chinese, Japanese, Korean, Thai, ...) is set apart: each becomes a
word, so that any piece of such text is found as a phrase, even a single character, while other
words are found by how they begin, without accents. Measured over 10,000 messages against the
trigram tokenizer: a third of the index, a third of the time to build it, and trigram finds nothing
shorter than three characters.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import TypeVar

from app.values.chats import TextRange

T = TypeVar("T")
MAX_QUERY_CHARACTERS = 300
MAX_QUERY_WORDS = 16

_NO_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff"
    "\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_ALONE = f"[{_NO_SPACES}]"
_PIECE = f"[{_NO_SPACES}]|[^\\W_{_NO_SPACES}]+"
"""Compiled by `re` when they are first used: 9 ms that a start need not wait for."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(value: T) -> T | str:
    """A text with what SQLite cannot keep (NUL, half characters) replaced, one for one; anything
    else as it is.
    """
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return _UNSTORABLE.sub("\ufffd", value)


def index_text(text: str) -> str:
    """What the index is given; changing this needs a migration that fills the index again."""
    return text if text.isascii() else re.sub(_ALONE, r" \g<0> ", text)


def index_column(raw: bytes | None) -> str:
    """The same for a column of a file that may be damaged: the SQL function index_text."""
    return index_text((raw or b"").decode("utf-8", "replace"))


def query_words(query: str) -> list[str]:
    """The words of whatever a user typed, those without a letter or digit left out."""
    words = storable(query[:MAX_QUERY_CHARACTERS]).split()
    return [word for word in words if re.search(_PIECE, word)][:MAX_QUERY_WORDS]


def match_expression(words: list[str]) -> str:
    """FTS5 syntax: every word quoted, to be found as the beginning of a word, all of them."""
    return " ".join('"' + index_text(word).replace('"', '""') + '"*' for word in words)


class _Folded(dict[int, str]):
    """Table for str.translate: lower case without accents, one character for one."""

    def __missing__(self, code: int) -> str:
        base = unicodedata.normalize("NFD", chr(code))[0].lower()
        self[code] = base if len(base) == 1 else chr(code)
        return self[code]


class WordFinder:
    """Finds the words of one query in many texts."""

    def __init__(self, words: list[str]) -> None:
        self._folded = _Folded()
        patterns = (self._pattern(word) for word in words)
        self._search = re.compile("|".join(pattern for pattern in patterns if pattern) or "(?!)")

    def ranges(self, text: str) -> Iterator[TextRange]:
        """Where they stand, from left to right, not overlapping."""
        for match in self._search.finditer(self._fold(text)):
            yield TextRange(match.start(), match.end())

    def _fold(self, text: str) -> str:
        return text.lower() if text.isascii() else text.translate(self._folded)

    def _pattern(self, word: str) -> str:
        pieces = re.findall(_PIECE, self._fold(unicodedata.normalize("NFC", word)))
        if not pieces:
            return ""
        start = "" if re.match(_ALONE, pieces[0]) else r"(?<![^\W_])"
        return start + r"[\W_]*".join(re.escape(piece) for piece in pieces)
