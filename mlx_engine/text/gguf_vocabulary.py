"""The vocabulary in a GGUF's metadata and the kinds of its tokens.

Rules follow llama.cpp's llama-vocab.cpp and its converter.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mlx_engine.text.tokenizer import known_ends
from mlx_engine.values.errors import BadTokenizer
from mlx_engine.values.words import Words

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""Token kinds, as numbered in the file."""

_DEFAULT_IDS = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Usual ids in SentencePiece vocabularies, for files that name none."""
_BRACKETS, _UNTYPED = ("<", "["), (NORMAL, USER_DEFINED, UNUSED)
_MARKER = re.compile(r"[<\[].*\w.*[>\]]", re.DOTALL)
_LOOKS_SPECIAL = re.compile(r"<[|\uff5c].*[|\uff5c]>|<unused.*>|<(pad|mask)>", re.DOTALL)
_LONGEST_MARKER = 200
_ALSO_A_TAG = "</s>"
"""An end token only where the metadata name it: in Gemma it closes the HTML tag <s>."""
_NAMED = ("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id")


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """Values under `tokenizer.ggml.`, checked.

    tokens: texts by id; "" and those of kind UNUSED are in no text. kinds: by id. origin: the file,
    for messages.
    """

    table: Mapping[str, object]
    tokens: list[str]
    kinds: list[int]
    origin: str

    @classmethod
    def of(cls, table: Mapping[str, object], origin: str) -> "GgufVocabulary":
        """Read tokens and kinds. Raises BadTokenizer."""
        tokens = _texts(table, "tokenizer.ggml.tokens", origin)
        numbers = _numbers(table, "tokenizer.ggml.token_type", len(tokens), "iu", origin)
        kinds = [NORMAL] * len(tokens) if numbers is None else numbers.tolist()
        return cls(table, tokens, kinds, origin)

    def ids(self) -> dict[str, int]:
        """Text -> id of all tokens in use. Raises BadTokenizer for a repeated text."""
        used = [i for i, text in enumerate(self.tokens) if text and self.kinds[i] != UNUSED]
        found = {self.tokens[i]: i for i in used}
        if len(found) != len(used):
            raise BadTokenizer(
                "{origin}: its vocabulary has a token twice. Get the file again.",
                origin=self.origin,
            )
        return found

    def scores(self) -> NDArray[np.float64]:
        """Scores by id; without scores, or with all equal, descending by id."""
        count = len(self.tokens)
        found = _numbers(self.table, "tokenizer.ggml.scores", count, "fiu", self.origin)
        normal = np.array(self.kinds) == NORMAL
        if found is None or not normal.any() or np.ptp(found[normal]) == 0:
            return -np.arange(count, dtype=np.float64)
        return found.astype(np.float64)

    def merges(self) -> list[tuple[str, str]]:
        """Pairs, the first merged first."""
        return merge_pairs(_texts(self.table, "tokenizer.ggml.merges", self.origin), self.origin)

    def text(self, key: str) -> str | None:
        """Look up a text, None when it is not there."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, Words("a text"))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Look up a boolean."""
        value = self.table.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, Words("yes or no"))
        return value

    def token_id(self, key: str) -> int | None:
        """Look up the id of a special token, None when the file names none.

        An id out of range is ignored. SentencePiece vocabularies fall back to the usual id, if that
        token looks special.
        """
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and type(value) is not int:
            raise self._wrong(key, value, Words("a whole number"))
        if value is not None and 0 <= value < len(self.tokens):
            return value
        is_pieces = str(self.table.get("tokenizer.ggml.model")) == "llama"
        usual = _DEFAULT_IDS.get(key, -1) if is_pieces else -1
        is_there = 0 <= usual < len(self.tokens) and _MARKER.fullmatch(self.tokens[usual])
        return usual if is_there else None

    def token_ids(self, key: str) -> list[int]:
        """Look up a list of token ids; ids out of range are left out."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is None:
            return []
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            raise self._wrong(key, value, Words("a list of whole numbers"))
        return [token for token in value.tolist() if 0 <= token < len(self.tokens)]

    def with_token_kinds(self) -> "GgufVocabulary":
        """Correct the kinds of turn and control tokens that a converter typed as words.

        End tokens are control tokens, as in llama.cpp, and so are tokens that look special, as in
        its converter. Of normal tokens, also markers that the chat template spells become tokens of
        their own, unless merges make them.
        """
        kinds, ids = list(self.kinds), {text: i for i, text in enumerate(self.tokens)}
        roles = {self.token_id(key): CONTROL for key in _NAMED}
        roles[self.token_id("unknown_token_id")] = UNKNOWN
        roles |= {ids[text]: CONTROL for text in known_ends(ids) - {_ALSO_A_TAG}}
        words: dict[int, int] = {}
        for i, text in enumerate(self.tokens):
            if text[:1] not in _BRACKETS or kinds[i] not in _UNTYPED or not _is_marker(text):
                continue
            if i in roles or (kinds[i] == USER_DEFINED and _LOOKS_SPECIAL.fullmatch(text)):
                kinds[i] = roles.get(i, CONTROL)
            elif kinds[i] == NORMAL and (role := self._role(text, ids)) != NORMAL:
                words[i] = role
        for i in self._not_merged(words) if words else ():
            kinds[i] = words[i]
        return replace(self, kinds=kinds)

    def _role(self, text: str, ids: Mapping[str, int]) -> int:
        """The kind of a marker by its text; paired tags (<think>) are user-defined, so shown."""
        if _LOOKS_SPECIAL.fullmatch(text):
            return CONTROL
        template = self.table.get("tokenizer.chat_template")
        if not isinstance(template, str) or text not in template:
            return NORMAL
        opening = text.replace("/", "", 1)
        is_paired = opening in ids and f"{opening[0]}/{opening[1:]}" in ids
        return USER_DEFINED if is_paired else CONTROL

    def _not_merged(self, words: Iterable[int]) -> list[int]:
        """Ids of tokens that no merge of shorter ones makes."""
        if "tokenizer.ggml.merges" in self.table:
            made = {first + second for first, second in self.merges()}
            return [i for i in words if self.tokens[i] not in made]
        pieces = set(self.tokens)
        return [
            i
            for i in words
            if not any(
                self.tokens[i][:n] in pieces and self.tokens[i][n:] in pieces
                for n in range(1, len(self.tokens[i]))
            )
        ]

    def _wrong(self, key: str, value: object, wanted: str) -> BadTokenizer:
        return BadTokenizer(
            "{origin}: tokenizer.ggml.{key} is {value}, where {wanted} is needed."
            " Get the file again.",
            origin=self.origin,
            key=key,
            value=ascii(value)[:40],
            wanted=wanted,
        )


def merge_pairs(texts: Iterable[str], origin: str) -> list[tuple[str, str]]:
    """Split merges at their one blank; the first piece may begin with another.

    Raises BadTokenizer when one is no pair.
    """
    pairs = []
    for text in texts:
        blank = text.find(" ", 1)
        if blank < 0 or blank == len(text) - 1 or text.find(" ", blank + 1) > 0:
            raise BadTokenizer(
                "{origin}: the merge {text} is no pair. Get it again.",
                origin=origin,
                text=ascii(text)[:40],
            )
        pairs.append((text[:blank], text[blank + 1 :]))
    return pairs


def _texts(table: Mapping[str, object], key: str, origin: str) -> list[str]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTokenizer(
            "{origin}: {key} is not a list of texts. Get the file again.", origin=origin, key=key
        )
    return value


def _numbers(
    table: Mapping[str, object], key: str, count: int, dtypes: str, origin: str
) -> NDArray[np.float64] | NDArray[np.int64] | None:
    value = table.get(key)
    if value is None:
        return None
    if (
        isinstance(value, np.ndarray)
        and value.dtype.kind in dtypes
        and len(value) >= count
        and bool(np.isfinite(value).all())
    ):
        return value[:count]
    raise BadTokenizer(
        "{origin}: {key} does not go with {count} tokens. Get the file again.",
        origin=origin,
        key=key,
        count=count,
    )


def _is_marker(text: str) -> bool:
    return len(text) <= _LONGEST_MARKER and _MARKER.fullmatch(text) is not None
