"""Which tokens are frequent, counted in prose and code that come with every Python."""

import argparse
import ast
import http.client
import json.decoder
import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from inspect import getsource
from pydoc_data.topics import topics

MOST_CHARACTERS = 1_000_000
"""Counted at most: a second or less of a tokenizer's time."""

_SOURCES = (argparse, ast, statistics, textwrap, json.decoder, http.client)


def count_tokens(encode: Callable[[str], list[int]]) -> tuple[int, ...]:
    """The tokens of these texts, the most frequent first; of equals the lower number.

    encode: a text -> its tokens.
    """
    counted, room = Counter[int](), MOST_CHARACTERS
    for text in _texts():
        counted.update(encode(text[:room]))
        room -= min(room, len(text))
    return tuple(sorted(counted, key=lambda token: (-counted[token], token)))


def _texts() -> Iterator[str]:
    """The language reference, then modules whose source is at hand: a packed app has none."""
    yield from topics.values()
    for module in _SOURCES:
        try:
            yield getsource(module)
        except OSError:
            continue
