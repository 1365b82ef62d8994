"""Typed look-ups in the metadata of a GGUF file, with errors that name file and key."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mlx_engine.values.errors import BadModelFile

_MOST = 2**31 - 1


class GgufMetadata:
    """Looks up `<architecture>.<key>`; other keys by their whole name."""

    def __init__(self, path: Path, table: Mapping[str, object]) -> None:
        self.path = path
        self._table = table
        self.architecture = self.text("general.architecture") or ""
        if not self.architecture:
            raise BadModelFile(
                f"{path}: has no general.architecture, so there is no telling how to run it."
            )

    def text(self, key: str) -> str | None:
        """A text by its whole key, None when it is not there."""
        value = self._table.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, "a text")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 on; of a list with one for each layer, the largest."""
        whole = f"{self.architecture}.{key}"
        value = self._table.get(whole, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
            value = int(value.max())
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST:
            raise self._wrong(whole, value, "a whole number")
        return value

    def counts(self, key: str, length: int, default: int | None = None) -> tuple[int, ...]:
        """One whole number from 0 on for each of `length` layers; a single one is for all."""
        whole = f"{self.architecture}.{key}"
        value = self._table.get(whole, default)
        if not isinstance(value, np.ndarray):
            return (self.count(key, default),) * length
        listed = [int(one) for one in value] if value.dtype.kind in "iub" else []
        if len(listed) < max(1, length) or not all(0 <= one <= _MOST for one in listed):
            raise self._wrong(whole, value, f"a list of {length} whole numbers")
        return tuple(listed[:length])

    def count_at(self, key: str, layer: int, default: int | None = None) -> int:
        """The number for one layer, for layers behind the list's end the last."""
        last = (self.length(key) or layer + 1) - 1
        return self.counts(key, max(0, min(layer, last)) + 1, default)[-1]

    def length(self, key: str) -> int:
        """How many values a list has; 0 for what is none."""
        value = self._table.get(f"{self.architecture}.{key}")
        return value.size if isinstance(value, np.ndarray) else 0

    def numbers(self, key: str, length: int, default: float) -> tuple[float, ...]:
        """One number for each of `length` layers; a single one is for all."""
        whole = f"{self.architecture}.{key}"
        value = self._table.get(whole, default)
        if not isinstance(value, np.ndarray):
            return (self.number(key, default),) * length
        if value.dtype.kind not in "iuf" or value.size < length or not np.isfinite(value).all():
            raise self._wrong(whole, value, f"a list of {length} numbers")
        return tuple(float(one) for one in value[:length])

    def has(self, key: str) -> bool:
        """Whether a key of this architecture is there."""
        return f"{self.architecture}.{key}" in self._table

    def number(self, key: str, default: float) -> float:
        """A number."""
        whole = f"{self.architecture}.{key}"
        value = self._table.get(whole, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(whole, value, "a number")
        return float(value)

    def flag(self, key: str) -> bool:
        """Yes or no, no when it is not there."""
        whole = f"{self.architecture}.{key}"
        value = self._table.get(whole, False)
        if not isinstance(value, bool):
            raise self._wrong(whole, value, "yes or no")
        return value

    def flags(self, key: str) -> list[bool] | None:
        """A list of yes and no, None when it is not there."""
        value = self._table.get(f"{self.architecture}.{key}")
        if value is None:
            return None
        if not isinstance(value, np.ndarray):
            raise self._wrong(key, value, "a list of yes and no")
        return [bool(one) for one in value]

    def option(self, key: str) -> str | None:
        """A text of this architecture."""
        return self.text(f"{self.architecture}.{key}")

    def _wrong(self, key: str, value: object, wanted: str) -> BadModelFile:
        return BadModelFile(
            f"{self.path}: {key} is {ascii(value)[:80]}, where {wanted} is needed. Get the file "
            "again."
        )
