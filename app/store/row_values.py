"""Values of a row as what they should be, also where flipped bytes made them something else."""

import json
from typing import Any


def text_of(value: object) -> str:
    """Empty for anything but text."""
    return value if isinstance(value, str) else ""


def seconds_of(value: object) -> float:
    """Seconds since 1970 of this or the coming centuries, else 0."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e11 else 0.0


def duration_of(value: object) -> float | None:
    """Seconds something took, None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < 1e9 else None  # type: ignore[operator, arg-type]


def content_of(value: object) -> Any:
    """What a column of JSON holds, None when it cannot be read."""
    try:
        return json.loads(text_of(value) or "null")
    except (ValueError, RecursionError):
        return None
