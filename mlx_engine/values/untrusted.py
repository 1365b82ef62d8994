"""Reads files and JSON that others wrote, within the limits that are listed here."""

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

# Bytes of a file, each several times what the largest published one has.
CONFIG_BYTES = 50_000_000
"""config.json and its like, and indexes of shards."""
TOKENIZER_BYTES = 100_000_000
"""tokenizer.json, tokenizer.model and what lies beside them."""
TEMPLATE_BYTES = 2_000_000
"""chat_template.jinja."""
HEADER_BYTES = 100_000_000
"""What stands before the data of a safetensors file: the limit of the format's own library."""
REFERENCE_BYTES = 1000
"""refs/main in the hub's cache, which holds the name of a commit."""

JSON_VALUES = 6_000_000
"""Of one JSON text; the largest vocabularies have 2 million. One takes 200 bytes at most."""
JSON_DEPTH = 100
"""Lists and objects inside each other."""
_DIGITS = 20
"""Of a whole number of 64 bits."""
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
    """A text that is not JSON or not within the limits; its message says why, without an end."""


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, through links.

    Raises OSError for everything else at once, for a pipe, a device, a folder, a path that cannot
    be one.
    """
    try:
        mode = path.stat().st_mode
    except ValueError as error:  # a null, or half a surrogate
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error
    if not stat.S_ISREG(mode):
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
        raise OSError(kind, os.strerror(kind), str(path))
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def read_bytes(path: Path, most: int, error: type[ErrorInWords] = BadModelFile) -> bytes:
    """Read a regular file of at most so many bytes; error: what is raised for any other."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, most))
    except OSError as problem:
        raise error(why_not_read(path, problem)) from problem
    if size > most:
        raise error(
            Words(
                "{path}: has {size} bytes, and no {name} has more than {most}. Get it again from "
                "where the model comes from.",
                path=path,
                size=size,
                name=path.name,
                most=most,
            )
        )
    return data


def read_text(path: Path, most: int, error: type[ErrorInWords] = BadModelFile) -> str:
    """The same of a text in UTF-8, without its byte order mark."""
    try:
        return read_bytes(path, most, error).decode("utf-8-sig")
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
    most: int,
    error: type[ErrorInWords] = BadModelFile,
    object_hook: Object | None = None,
) -> dict[str, Any]:
    """The JSON object in a regular file; error: what is raised for everything else."""
    try:
        value = parse_json(read_text(path, most, error), object_hook=object_hook)
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
    """The value of a JSON text of any origin; object_hook as json.loads has it.

    A whole number of more than 64 bits becomes a float. Raises BadJsonError, also for too many
    values, too deep ones, and half surrogates, which no file or tokenizer takes.
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
    if _is_deeper(value, JSON_DEPTH):
        raise BadJsonError(
            Words("lists and objects inside each other, more than {most} deep", most=JSON_DEPTH)
        )
    return value


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def _is_deeper(value: object, most: int) -> bool:
    level: list[Any] = [[value]]
    for _ in range(most + 1):
        level = [
            child
            for one in level
            for child in (one.values() if isinstance(one, dict) else one)
            if type(child) in (dict, list)
        ]
    return bool(level)
