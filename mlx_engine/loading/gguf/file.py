"""A GGUF model in one file or in numbered parts: one table of tensors, one of metadata."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlx_engine.loading.gguf.header import GgufHeader, GgufTensor, read_gguf_header
from mlx_engine.values.errors import BadModelFile

_NUMBERED = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE)
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class GgufFile:
    """path: the file that was asked for; metadata: of the first part."""

    path: Path
    parts: tuple[Path, ...]
    metadata: Mapping[str, object]
    tensors: Mapping[str, GgufTensor]


def read_gguf(path: Path) -> GgufFile:
    """The header of the file and of the parts that belong with it.

    BadModelFile when one is damaged, missing, or a copy of another; UnsupportedModel for what is
    sound but not read here.
    """
    opened = read_gguf_header(path)
    count = _number(opened, "split.count", 1)
    if count <= 1:
        return GgufFile(path, (path,), opened.metadata, opened.tensors)
    paths = _part_paths(path, count)
    headers = [opened if part == path else read_gguf_header(part) for part in paths]
    tensors: dict[str, GgufTensor] = {}
    for place, header in enumerate(headers):
        _check_place(header, place, count)
        for name, tensor in header.tensors.items():
            if name in tensors:
                raise BadModelFile(
                    f"{header.path}: {name} is also in {tensors[name].file.name}: these parts do "
                    "not belong together. Download them again."
                )
            tensors[name] = tensor
    _check_total(headers[0], len(tensors))
    return GgufFile(path, paths, headers[0].metadata, tensors)


def _part_paths(path: Path, count: int) -> tuple[Path, ...]:
    """All parts by the number in their names; BadModelFile names the first that is missing."""
    named = _NUMBERED.fullmatch(path.name)
    if named is None or int(named[3]) != count:
        raise BadModelFile(
            f"{path}: is one of {count} parts, but is not named so (...-00001-of-{count:05}.gguf), "
            "so the others cannot be found. Give the parts their own names again."
        )
    ending = path.name[-len(".gguf") :]
    paths = []
    for number in range(1, count + 1):
        part = path.with_name(f"{named[1]}-{number:05}-of-{named[3]}{ending}")
        if not part.is_file():
            raise BadModelFile(
                f"{part}: missing, though {path.name} is one of {count} parts. Download that part "
                "too."
            )
        paths.append(part)
    return tuple(paths)


def _check_place(header: GgufHeader, place: int, count: int) -> None:
    number, total = _number(header, "split.no", 0), _number(header, "split.count", 1)
    if number != place or total != count:
        raise BadModelFile(
            f"{header.path}: says it is part {number + 1} of {total}, its name says part "
            f"{place + 1} of {count}. Download it again."
        )


def _check_total(first: GgufHeader, found: int) -> None:
    wanted = _number(first, "split.tensors.count", found)
    if wanted != found:
        raise BadModelFile(
            f"{first.path}: its parts hold {found} tensors where {wanted} are promised. Download "
            "them again."
        )


def _number(header: GgufHeader, key: str, default: int) -> int:
    value = header.metadata.get(key, default)
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise BadModelFile(
            f"{header.path}: {key} is {ascii(value)[:80]}, not a count. Download it again."
        )
    return value


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
        listed = value[:length].tolist() if value.dtype.kind in "iub" else []
        if value.size < max(1, length) or not all(0 <= one <= _MOST for one in listed):
            raise self._wrong(whole, value, f"a list of {length} whole numbers")
        return tuple(listed)

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
