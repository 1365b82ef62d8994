"""Tokens, their kinds, scores and merges as a GGUF's metadata list them, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mlx_engine.values.errors import BadTokenizer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """Everything under `tokenizer.ggml.`; origin names the file in messages.

    tokens: by id, "" and those of kind UNUSED belong to no text. kinds: by id, one of the numbers
    above.
    """

    table: Mapping[str, object]
    tokens: list[str]
    kinds: list[int]
    origin: str

    @classmethod
    def of(cls, table: Mapping[str, object], origin: str) -> "GgufVocabulary":
        """Raises BadTokenizer when tokens are no texts, or kinds do not go with them."""
        tokens = _texts(table, "tokenizer.ggml.tokens", origin)
        numbers = _numbers(table, "tokenizer.ggml.token_type", len(tokens), "iu", origin)
        kinds = [NORMAL] * len(tokens) if numbers is None else numbers.tolist()
        return cls(table, tokens, kinds, origin)

    def ids(self) -> dict[str, int]:
        """Text -> id of all tokens in use; BadTokenizer when two have one text."""
        used = [i for i, text in enumerate(self.tokens) if text and self.kinds[i] != UNUSED]
        found = {self.tokens[i]: i for i in used}
        if len(found) != len(used):
            raise BadTokenizer(
                f"{self.origin}: its vocabulary has a token twice. Get the file again."
            )
        return found

    def scores(self) -> NDArray[np.float64]:
        """By id; when the file tells no two tokens apart, the earlier token has the higher one."""
        count = len(self.tokens)
        found = _numbers(self.table, "tokenizer.ggml.scores", count, "fiu", self.origin)
        normal = np.array(self.kinds) == NORMAL
        if found is None or not normal.any() or np.ptp(found[normal]) == 0:
            return -np.arange(count, dtype=np.float64)
        return found.astype(np.float64)

    def merges(self) -> list[tuple[str, str]]:
        """Pairs, the first merged first; a blank parts them, and the first piece is never empty."""
        pairs = []
        for text in _texts(self.table, "tokenizer.ggml.merges", self.origin):
            blank = text.find(" ", 1)
            if blank < 0 or blank == len(text) - 1:
                raise BadTokenizer(
                    f"{self.origin}: the merge {ascii(text)[:40]} is no pair. Get it again."
                )
            pairs.append((text[:blank], text[blank + 1 :]))
        return pairs

    def text(self, key: str) -> str | None:
        """A text of the metadata, None when there is none."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Yes or no."""
        value = self.table.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "yes or no")
        return value

    def token_id(self, key: str) -> int | None:
        """The id of a token that has a part to play, None when the file names none."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is None:
            return None
        count = len(self.tokens)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise BadTokenizer(
                f"{self.origin}: tokenizer.ggml.{key} is {ascii(value)[:40]} in a vocabulary of"
                f" {count}. Get the file again."
            )
        return value

    def _wrong(self, key: str, value: object, wanted: str) -> BadTokenizer:
        return BadTokenizer(
            f"{self.origin}: tokenizer.ggml.{key} is {ascii(value)[:40]}, where {wanted} is needed."
            " Get the file again."
        )


def _texts(table: Mapping[str, object], key: str, origin: str) -> list[str]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTokenizer(f"{origin}: {key} is not a list of texts. Get the file again.")
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
        and len(value) == count
        and bool(np.isfinite(value).all())
    ):
        return value
    raise BadTokenizer(f"{origin}: {key} does not go with {count} tokens. Get the file again.")
