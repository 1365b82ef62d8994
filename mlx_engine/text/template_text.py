"""Filters and methods of text that can make much from little, paid for before they run."""

import json
import re
from collections.abc import Callable
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.filters import do_indent

from mlx_engine.text.template_budget import ELEMENT_COST, TemplateBudget

WIDEST_FIELD = 1000
WIDE_FORMAT = re.compile(r"\d{4}|\*|\{[^{}]*\{")


class TemplateText:
    """What Jinja's filters of these names and `str` do, within `budget`.

    `item_of(value, name)` looks up an item or attribute the way the sandbox allows.
    """

    def __init__(self, budget: TemplateBudget, item_of: Callable[[Any, Any], Any]) -> None:
        self._budget = budget
        self._item_of = item_of

    @property
    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name in a template -> filter."""
        return {
            "tojson": self._to_json,
            "join": self._join,
            "indent": self._indent,
            "replace": self._replace,
            "format": self._format,
            "trim": self._trim,
        }

    def pay_for_text_method(self, text: str, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pays for what `text.name(*args)` will make; returns `args`, iterators made lists."""
        if name == "join" and args:
            items = [*args[0]]
            self._budget.characters(self._budget.check(items) + len(text) * len(items))
            return (items,)
        if name == "replace" and len(args) > 1:
            self._pay_for_replace(text, args[0], args[1])
        if name in ("strip", "lstrip", "rstrip") and args:
            self._pay_for_stripping(args[0])
        if name in ("split", "rsplit", "splitlines"):
            separators = text.count(args[0]) if args and isinstance(args[0], str) else len(text) / 2
            self._budget.characters(int(ELEMENT_COST * separators))
        return args

    def _pay_for_replace(self, text: str, old: str, new: str) -> None:
        self._budget.characters(len(text) + text.count(old) * len(new))

    def _pay_for_stripping(self, unwanted: str | None) -> None:
        """Each character of the text is looked for in `unwanted`, so that must not be long."""
        self._budget.characters(len(unwanted or "") ** 2)

    def pay_for_format(self, text: str, values: Any) -> None:
        """Each field may show every value once, and be up to 999 characters wide."""
        if WIDE_FORMAT.search(text):
            raise SecurityError("it formats with a width that is not a small number")
        fields = text.count("%") + text.count("{")
        self._budget.characters(len(text) + fields * (WIDEST_FIELD + self._budget.check(values)))

    def size_of_sequences(self, *values: Any) -> int:
        """Characters in those of `values` that an operator may repeat or join."""
        sizes = [len(value) for value in values if isinstance(value, str)]
        sizes += [ELEMENT_COST * len(value) for value in values if isinstance(value, list)]
        sizes += [self._budget.check(value) for value in values if isinstance(value, tuple)]
        return sum(sizes)

    def _join(self, value: Any, d: str = "", attribute: str | int | None = None) -> str:
        items = [*value]
        if attribute is not None:
            items = [self._item_of(item, attribute) for item in items]
        self._budget.characters(self._budget.check(items) + len(d) * len(items))
        return d.join(map(str, items))

    def _replace(self, text: Any, old: Any, new: Any, count: int = -1) -> str:
        whole, before, after = str(text), str(old), str(new)
        self._pay_for_replace(whole, before, after)
        return whole.replace(before, after, count)

    def _trim(self, text: Any, chars: str | None = None) -> str:
        self._pay_for_stripping(chars)
        return str(text).strip(chars)

    def _indent(
        self, text: str, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        wide = len(width) if isinstance(width, str) else width
        self._budget.characters(len(text) + wide * (len(text.splitlines()) + 1))
        return do_indent(text, width, first, blank)

    def _format(self, text: str, *args: Any, **kwargs: Any) -> str:
        self.pay_for_format(text, [args, kwargs])
        return str(text % (kwargs or args))

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """As transformers' filter: no HTML escapes."""
        if indent is not None and (len(indent) if isinstance(indent, str) else indent) > 16:
            raise SecurityError("it indents JSON by more than 16 characters")
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        chunks: list[str] = []
        self._budget.check(value)
        for chunk in encoder.iterencode(value):
            self._budget.step()
            self._budget.characters(len(chunk) + ELEMENT_COST)
            chunks.append(chunk)
        return "".join(chunks)
