"""What one rendering of a chat template may spend: steps, processor time and characters."""

import time
from collections.abc import Mapping

from jinja2.exceptions import TemplateRuntimeError
from jinja2.utils import Namespace

ELEMENT_COST = 16
WIDEST_NUMBER = 2048  # bits
TOO_MUCH_TEXT = "it makes more text than any prompt needs"


class TemplateBudget:
    """Counts down; `TemplateRuntimeError` when a limit is passed.

    steps: loop rounds, calls, filters, tests, comparisons and outputs. characters: all text that is
    made, and 16 for each element of a list. seconds: processor time of this thread, so a
    busy or sleeping machine does not count.
    """

    def __init__(self, steps: int, characters: int, seconds: float) -> None:
        self._steps = steps
        self._characters = characters
        self._until = time.thread_time() + seconds

    def step(self, count: int = 1) -> None:
        """Pays for `count` steps."""
        self._steps -= count
        if self._steps < 0 or time.thread_time() > self._until:
            raise TemplateRuntimeError("it does not come to an end")

    def characters(self, count: int) -> None:
        """Pays for `count` characters."""
        self._characters -= max(0, count)
        if self._characters < 0:
            raise TemplateRuntimeError(TOO_MUCH_TEXT)

    def make(self, value: object) -> None:
        """Pays for a value that was just made from existing ones.

        Text by its length, lists and dicts by their number of elements, tuples by all they hold:
        a tuple can be hashed, which takes as long as it unfolds. Very wide integers are refused.
        """
        if isinstance(value, str):
            self.characters(len(value))
        elif isinstance(value, tuple):
            self.characters(self.check(value))
        elif isinstance(value, list | Mapping):
            self.characters(ELEMENT_COST * len(value))
        elif isinstance(value, int) and value.bit_length() > WIDEST_NUMBER:
            raise TemplateRuntimeError("it computes with numbers of thousands of digits")

    def check(self, value: object) -> int:
        """Characters in `value` with all it holds; what is left must suffice for that many.

        To be asked before anything that walks through a value (printing, comparing). Stops at the
        limit, so a small value that unfolds into a huge one is found out cheaply.
        """
        total = 0
        waiting = [value]
        while waiting:
            item = waiting.pop()
            total += len(item) if isinstance(item, str) else ELEMENT_COST
            if total > self._characters:
                raise TemplateRuntimeError(TOO_MUCH_TEXT)
            if isinstance(item, Mapping):
                waiting.extend(item.keys())
                waiting.extend(item.values())
            elif isinstance(item, list | tuple):
                waiting.extend(item)
            elif isinstance(item, Namespace):
                raise TemplateRuntimeError("it shows or compares a namespace")
        return total
