"""Convert frozen dataclasses to JSON and back, checked field by field.

Every dataclass read here has defaults for all its fields: a missing field keeps its default, a bad
one too, with a note. Fields may be str, bool, int, float, bytes (base64), Path, None, Any (JSON),
Literal, unions of these, tuple[X, ...], Mapping[str | int, X] and dataclasses.
"""

import base64
import json
import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from mlx_engine.values.errors import EngineError
from mlx_engine.values.words import Words

Value = TypeVar("Value")


LARGEST = 2**64
"""Largest whole number read; Qt and SQLite take no larger ones."""
_NO_PATH = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
"""Characters no path has; U+DC80 to U+DCFF stand for bytes of names that are not UTF-8."""
PLAIN = frozenset((type(None), str, bool, int, float, Path, bytes, Any))


class BadValue(ValueError):
    """A value of the wrong type or out of range."""


@dataclass(frozen=True, slots=True)
class Reading(Generic[Value]):
    """A parsed value, and a note for each part that was reset."""

    value: Value
    notes: tuple[str, ...] = ()


def encode(value: object, over: object = None) -> Any:
    """Convert a value to JSON content; unknown keys of the older content `over` are kept."""
    old: Mapping[Any, Any] = over if isinstance(over, dict) else {}
    if is_dataclass(value):
        return {**old} | {
            f.name: encode(getattr(value, f.name), old.get(f.name)) for f in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): encode(item, old.get(str(key))) for key, item in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def read_fields(default: Value, content: object, name: str) -> Reading[Value]:
    """Return `default` with all valid fields of `content`; `name` begins the notes."""
    notes: list[str] = []
    return Reading(_over(default, content, name, notes), tuple(notes))


def _over(default: Any, content: object, name: str, notes: list[str]) -> Any:
    if not isinstance(content, dict):
        words = Words(
            "{name}: {content} is not a group of settings; all of it was reset.",
            name=name,
            content=_short(content),
        )
        notes.append(words)
        return default
    sound: dict[str, Any] = {}
    for key, kind in _kinds(default.__class__).items():
        if key in content:
            old = getattr(default, key)
            try:
                sound[key] = _decode(kind, content[key], f"{name}.{key}", notes, old)
            except (BadValue, OverflowError):
                notes.append(_reset(name, key, content[key]))
    try:
        return replace(default, **sound)
    except EngineError:
        return _one_by_one(default, sound, name, notes)


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _one_by_one(default: Any, values: Mapping[str, Any], name: str, notes: list[str]) -> Any:
    """Set the fields one at a time; those out of range are reset with a note."""
    for key, value in values.items():
        try:
            default = replace(default, **{key: value})
        except EngineError:
            notes.append(_reset(name, key, encode(value)))
    return default


def _reset(name: str, key: str, content: object) -> str:
    return Words(
        "{name}: {content} is not possible; it was reset.",
        name=f"{name}.{key}",
        content=_short(content),
    )


def _short(content: object) -> str:
    words = ascii(content)
    return words if len(words) <= 60 else words[:57] + "..."


def _decode(kind: Any, content: object, name: str, notes: list[str], default: Any = None) -> Any:
    if kind in PLAIN:  # first: nearly all are, and a long chat has some thousand figures
        return _decode_plain(kind, content)
    if is_dataclass(kind):
        return _over(cast(Any, kind)() if default is None else default, content, name, notes)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(kind, content, name, notes)
    if origin is Literal:
        return _decode_literal(kind, content)
    if origin is tuple and isinstance(content, list):
        inner = get_args(kind)[0]
        return tuple(_decode(inner, item, name, notes) for item in content)
    if origin is not None and isinstance(content, dict) and issubclass(origin, Mapping):
        return _decode_mapping(kind, content, name, notes)
    raise BadValue(str(kind))


def _decode_union(kind: Any, content: object, name: str, notes: list[str]) -> Any:
    for choice in get_args(kind):
        try:
            return _decode(choice, content, name, notes)
        except BadValue:
            continue
    raise BadValue(name)


def _decode_literal(kind: Any, content: object) -> Any:
    for choice in get_args(kind):
        if type(choice) is type(content) and choice == content:
            return choice
    raise BadValue(str(kind))


def _decode_mapping(kind: Any, content: dict[str, Any], name: str, notes: list[str]) -> Any:
    """Decode a mapping; bad entries are left out, with a note."""
    key_kind, item_kind = get_args(kind)
    result = {}
    for key, item in content.items():
        try:
            real_key = _whole_number(key) if key_kind is int else key
            result[real_key] = _decode(item_kind, item, f"{name}.{key}", notes)
        except BadValue:
            words = Words(
                "{name}: {content} is not possible; it was left out.",
                name=f"{name}.{_short(key)}",
                content=_short(item),
            )
            notes.append(words)
    return result


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise BadValue(text)
    return int(text)


def _decode_plain(kind: Any, content: object) -> Any:
    if kind is Any:
        return content
    if kind is float and type(content) in (int, float):
        number = float(content)  # type: ignore[arg-type]
        if math.isfinite(number):
            return number
    elif kind in (type(None), str, bool, int) and type(content) is kind:
        if kind is not int or abs(cast(int, content)) <= LARGEST:
            return content
    elif kind is Path and isinstance(content, str) and not _NO_PATH.search(content):
        return Path(content)
    elif kind is bytes and isinstance(content, str):
        try:
            return base64.b64decode(content, validate=True)
        except ValueError:
            raise BadValue("not base64") from None
    raise BadValue(str(kind))


KEPT_WORDS = "\x1e"
"""Prefix of stored Words."""


def words_to_text(text: str) -> str:
    """Convert a text for storing; Words keep template and fields, to be translated later."""
    if not isinstance(text, Words):
        return text
    fields = {
        name: words_to_text(value) if isinstance(value, str) else value
        for name, value in text.fields.items()
    }
    content = [text.template, text.comment, text.n, fields]
    return KEPT_WORDS + json.dumps(content, default=str)


def words_from_text(text: str) -> str:
    """Restore a text from `words_to_text`; any other text is returned unchanged."""
    if not text.startswith(KEPT_WORDS):
        return text
    try:
        template, comment, n, fields = json.loads(text.removeprefix(KEPT_WORDS))
        filled_in = {
            name: words_from_text(value) if isinstance(value, str) else value
            for name, value in fields.items()
        }
        return Words(template, comment, n, **filled_in)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return ""
