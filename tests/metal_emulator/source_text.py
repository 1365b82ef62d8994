"""Turns MSL text into C++ text: threadgroup declarations and comments."""

import re
from functools import cache

_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NAME = r"[A-Za-z_]\w*"
_INDEX = r"(?:\s*\[[^\[\]]*\])*"
_TYPE = rf"(?:const\s+|unsigned\s+|metal::)*{_NAME}(?:::{_NAME})*(?:\s*<[^;{{}}()]*>)?"
_DECLARATION = re.compile(
    rf"\bthreadgroup\s+(?:alignas\([^)]*\)\s*)?({_TYPE})\s+"
    rf"({_NAME}{_INDEX}(?:\s*,\s*{_NAME}{_INDEX})*)\s*;"
)
_DECLARED = re.compile(rf"({_NAME})({_INDEX})")


_LITERAL = re.compile(
    r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fFhH]?)(?![\w.])"
)


def with_typed_literals(text: str) -> str:
    """Floating point literals become `float(..)` and `half(..)`, to have counted types."""

    def typed(match: re.Match[str]) -> str:
        kind = "half" if match.group(2) in ("h", "H") else "float"
        return f"{kind}({match.group(1)}f)"

    return _LITERAL.sub(typed, text)


def without_comments(text: str) -> str:
    """The text with comments as blanks; lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    return _COMMENT.sub(blank, text)


@cache
def with_threadgroup_arrays(text: str, first_id: int = 0) -> str:
    """`threadgroup T a[N], b;` becomes references into the emulated threadgroup memory.

    first_id: the number of the first declaration; each gets its own.
    """
    number = first_id

    def one(kind: str, name: str, index: str) -> str:
        nonlocal number
        number += 1
        kind = f"{kind} {index.strip()}".strip()
        return f'auto& {name} = msl_tg<{kind}>({number - 1}, "{name}");'

    def all_of(match: re.Match[str]) -> str:
        kind, names = match.group(1), match.group(2)
        lines = "\n" * match.group().count("\n")
        found = _DECLARED.finditer(_outside_brackets(names))
        return (
            "".join(
                one(kind, m.group(1), names[m.start(2) : m.end(2)].replace("\n", " "))
                for m in found
            )
            + lines
        )

    return _DECLARATION.sub(all_of, without_comments(text))


def with_static_threadgroup_arrays(text: str) -> str:
    """`threadgroup T a[N];` becomes static and without a first value, so that clang takes it."""
    static = "static __attribute__((loader_uninitialized)) "
    return _DECLARATION.sub(lambda match: static + match.group(), without_comments(text))


def _outside_brackets(text: str) -> str:
    """The same length, with what is between brackets as zeros so that no name is found there."""
    return re.sub(r"\[[^\[\]]*\]", lambda m: "[" + "0" * (len(m.group()) - 2) + "]", text)
