"""Read files and JSON from untrusted sources within fixed limits of size and depth."""

import errno
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from mlx_engine.values.errors import BadModelFile, why_not_read
from mlx_engine.values.words import ErrorInWords, Words

# Largest sizes of files in bytes, several times those of the largest published ones.
CONFIG_BYTES = 50_000_000
"""Limit for config.json and similar files, and for indexes of shards."""
TOKENIZER_BYTES = 100_000_000
"""Limit for tokenizer.json, tokenizer.model and files beside them."""
TEMPLATE_BYTES = 2_000_000
"""Limit for chat_template.jinja."""
HEADER_BYTES = 100_000_000
"""Limit for the header of a safetensors file, as in the safetensors library."""
REFERENCE_BYTES = 1000
"""Limit for refs/main in the hub's cache, which holds a commit id."""

JSON_VALUES = 6_000_000
"""Most values of a JSON text; the largest vocabularies have 2 million. A value takes 200 bytes."""
JSON_DEPTH = 100
"""Deepest nesting of lists and objects."""
_DIGITS = 20
"""Most digits of a 64-bit whole number."""
_HIGH, _LOW = r"\\u[dD][89abAB]", r"\\u[dD][c-fC-F]"
_MAYBE_HALF = re.compile(rf"{_HIGH}..(?!{_LOW})|(?<!{_HIGH}..){_LOW}")
"""The escape of half a character (surrogate) without the other, unless its backslash is escaped."""

Object = Callable[[dict[str, Any]], object]

_CONTROLS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0xD800, 0xE000)),
    "\N{REPLACEMENT CHARACTER}",
)


def without_controls(text: str) -> str:
    """Replace control characters and lone surrogates, which could control a terminal.

    Tabs and line ends stay.
    """
    return text.translate(_CONTROLS)


class BadJsonError(ValueError):
    """A text is not JSON, or exceeds the limits; the message says why, without a full stop."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; symbolic links are followed.

    Raises OSError at once for pipes, devices, folders and impossible paths.
    """
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a null, or half a surrogate
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    if not stat.S_ISREG(mode):
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(kind, os.strerror(kind), str(path))
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def read_bytes(path: Path, most_bytes: int, error: type[ErrorInWords] = BadModelFile) -> bytes:
    """Read a regular file of at most `most_bytes` bytes; raises `error` for any other."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, most_bytes))
    except OSError as problem:
        raise error(why_not_read(path, problem)) from problem
    if size > most_bytes:
        raise error(
            Words(
                "{path}: has {size} bytes, and no {name} has more than {most}. Get it again from "
                "where the model comes from.",
                path=path,
                size=size,
                name=path.name,
                most=most_bytes,
            )
        )
    return data


def read_text(path: Path, most_bytes: int, error: type[ErrorInWords] = BadModelFile) -> str:
    """Read a UTF-8 file of at most `most_bytes`, without a byte order mark; raises `error`."""
    try:
        return read_bytes(path, most_bytes, error).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(
            Words(
                "{path}: not text in UTF-8 (at byte {start}). Get it again.",
                path=path,
                start=problem.start,
            )
        ) from problem


def read_json(
    path: Path,
    most_bytes: int,
    error: type[ErrorInWords] = BadModelFile,
    object_hook: Object | None = None,
) -> dict[str, Any]:
    """Read the JSON object in a regular file of at most `most_bytes`; raises `error` if not one."""
    try:
        value = parse_json(read_text(path, most_bytes, error), object_hook=object_hook)
    except BadJsonError as problem:
        raise error(
            Words(
                "{path}: {why}. Get it again from where the model comes from.",
                path=path,
                why=problem.args[0],
            )
        ) from problem
    if not isinstance(value, dict):
        raise error(Words("{path}: not a JSON object. Get it again.", path=path))
    return value


def parse_json(text: str | bytes, *, object_hook: Object | None = None) -> Any:
    """Parse untrusted JSON; object_hook as in json.loads.

    Whole numbers of more than 64 bits become floats. Raises BadJsonError for text that is not JSON,
    has too many values, is nested too deep, or contains half a surrogate pair.
    """
    try:
        whole = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        if sum(map(whole.count, ",[{")) > JSON_VALUES:
            raise BadJsonError(Words("more than {most} values of JSON", most=JSON_VALUES))
        value = json.loads(whole, object_hook=object_hook, parse_int=_whole_number)
        if _MAYBE_HALF.search(whole):
            json.dumps(value, ensure_ascii=False).encode()
    except BadJsonError:
        raise
    except UnicodeEncodeError as error:
        raise BadJsonError(Words("a text in it is half of a character (surrogate)")) from error
    except (ValueError, RecursionError) as error:
        raise BadJsonError(Words("not JSON")) from error
    if _is_nested_deeper(value, JSON_DEPTH):
        raise BadJsonError(
            Words("lists and objects inside each other, more than {most} deep", most=JSON_DEPTH)
        )
    return value


def _whole_number(digit_text: str) -> int | float:
    return int(digit_text) if len(digit_text) <= _DIGITS else float(digit_text)


def _is_nested_deeper(value: object, most_bytes: int) -> bool:
    level: list[Any] = [[value]]
    for _ in range(most_bytes + 1):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if type(child) in (dict, list)
        ]
    return bool(level)
