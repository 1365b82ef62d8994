"""Split search queries into words and match them, ignoring case and accents.

The index is FTS5 with the trigram tokenizer, detail=none: it finds texts by any three letters in a
row, so parts of words are found, and scripts without spaces need no rule of their own. It takes 7
MB for 10,000 messages. Words of one or two letters are not in it.
"""

import re
import unicodedata
from collections.abc import Iterator

from app.values.chats import TextRange

MAX_QUERY_CHARACTERS = 300
MAX_QUERY_WORDS = 16
INDEXED = 3
"""Letters of the shortest word that the index finds."""
AROUND_WORDS = "\"'`“”„‚‘’«»*^(){}[]<>,;:!?-"
"""Punctuation that is stripped from both ends of a word of a query."""

_ACCENT = "[\u0300-\u036f]"


class _Folded(dict[int, str]):
    """Table for str.translate: lower case without accents, one character for one."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFD", chr(code))
        folded = parts[0].lower() if re.fullmatch(f".{_ACCENT}*", parts, re.DOTALL) else chr(code)
        self[code] = folded if len(folded) == 1 else chr(code)
        return self[code]


_FOLDED = _Folded()


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def index_text(text: str) -> str:
    """Fold a text for the full-text index; a change here needs a migration that rebuilds it."""
    return text if text.isascii() else re.sub(_ACCENT, "", _fold(text))


def index_column(raw: bytes | None) -> str:
    """Fold a column that may be damaged; registered as the SQL function index_text."""
    return index_text((raw or b"").decode("utf-8", "replace"))


def query_words(query: str) -> list[str]:
    """Return the words of whatever a user typed, those of punctuation alone left out."""
    words = [word.strip(AROUND_WORDS) for word in query[:MAX_QUERY_CHARACTERS].split()]
    return [word for word in words if any(map(_is_sought, word))][:MAX_QUERY_WORDS]


def _is_sought(character: str) -> bool:
    """Whether a character makes a word: a letter, a digit, or a symbol such as an emoji."""
    is_symbol = not character.isascii() and unicodedata.category(character).startswith("S")
    return is_symbol or re.match(r"[^\W_]", character) is not None


def _folded_word(word: str) -> str:
    return index_text(_fold(unicodedata.normalize("NFC", word)))


def match_expression(words: list[str]) -> str:
    """Return FTS5 syntax for texts with all trigrams of these words; "" if they have none."""
    folded = list(map(_folded_word, words))
    trigrams = [word[at : at + INDEXED] for word in folded for at in range(len(word) - INDEXED + 1)]
    return " ".join('"' + each.replace('"', '""') + '"' for each in dict.fromkeys(trigrams))


def like_patterns(word: str) -> set[str]:
    """Return LIKE patterns, escaped by \\, for a word in its usual cases.

    LIKE ignores the case of ASCII letters only.
    """
    written = {word, unicodedata.normalize("NFC", word), word.lower(), word.upper(), word.title()}
    written = {word} if word.isascii() else written
    return {"%" + re.sub(r"([\\%_])", r"\\\1", each) + "%" for each in written}


class WordFinder:
    """Finds the words of one query in many texts."""

    def __init__(self, words: list[str]) -> None:
        patterns = [f"{_ACCENT}*".join(map(re.escape, _folded_word(word))) for word in words]
        self._words = [re.compile(pattern) for pattern in patterns]
        whole = [r"\W+".join(patterns), *sorted(patterns, key=len, reverse=True)]
        self._whole = [re.compile(pattern) for pattern in whole]
        self._any = re.compile("|".join(patterns) or "(?!)")

    def has_all(self, text: str) -> bool:
        """Whether each word is in a text."""
        folded = _fold(text)
        return all(word.search(folded) for word in self._words)

    def longest(self, text: str) -> str:
        """Return the longest part of a text that matches the query, as written in the text."""
        folded = _fold(text)
        found = next(filter(None, (pattern.search(folded) for pattern in self._whole)), None)
        return text[found.start() : found.end()] if found else ""

    def ranges(self, text: str) -> Iterator[TextRange]:
        """Yield the ranges of all matches from left to right, not overlapping."""
        for match in self._any.finditer(_fold(text)):
            yield TextRange(match.start(), match.end())
