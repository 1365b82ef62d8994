"""A Jinja environment in which a chat template can neither reach Python nor use up the machine.

Jinja's own sandbox keeps a template from Python. What a template costs is limited by three rules:
every loop round, call, filter and comparison is a step, and steps end; every text and list is paid
for by its length when it is made, and what a list unfolds to is limited, so that no operation on
values there are takes long; what can make much from little is refused before it runs.
"""

import functools
import inspect
import json
import re
import time
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Sized,
    ValuesView,
)
from types import BuiltinMethodType, CodeType, MethodType
from typing import Any, cast

from jinja2 import Environment, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace
from jinja2.visitor import NodeTransformer

ELEMENT = 16  # characters that an element of a list, or a number in it, counts as
WIDEST_NUMBER = 2048  # bits
GROWING = """
    * batch center expandtabs indent join ljust lstrip replace rfind rindex rjust round rpartition
    rsplit rstrip slice strip sum tojson translate trim urlize wordwrap zfill
"""
"""What may take or make as much as the text times an argument (a number by its value)."""
SQUARE = frozenset(("pprint", "striptags", "sum", "urlize", "wordwrap"))
"""What may take as long as the square of the text, of which a step copies so many characters:"""
COPIED = 256
MOST_NAMES_TIMES_BRANCHES = 2**20
"""Jinja's compiler looks at all variables again at each branch."""
FORMATTING = frozenset(("%", "format", "format_map"))
WIDE_FIELD = re.compile(r"\d{4}|\*|\{[^{}]*\{")
"""In a format; without it no field is wider than its value or 999 characters."""
ATTRIBUTES_OF = (str, list, tuple, dict, LoopContext, Namespace, Macro, Cycler, Joiner)
PRINTABLE = (str, int, float, type(None), list, tuple, dict, Undefined)


class GenerationTag(Extension):
    """Reads `{% generation %} ... {% endgeneration %}`, which marks what a model is trained on."""

    tags = {"generation"}  # noqa: RUF012 - declared like this by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The tag's inside, as if the tag were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Counting(NodeTransformer):
    """Wraps loops, and what makes or compares values without a call, in the sandbox's methods.

    They are reached as attributes of the environment, which no template can spell or replace.
    """

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        """The same node, or the call around it."""
        super().generic_visit(node, *args, **kwargs)
        match node:
            case nodes.For():
                node.iter = _call("rounds", node.iter)
            case nodes.Concat():
                return _call("joined", *node.nodes)
            case nodes.TemplateData():
                return _call("made", nodes.Const(node.data))
            case nodes.Compare() | nodes.Test() | nodes.List() | nodes.Dict():
                return _call("made", node)
            case nodes.Getitem(arg=nodes.Slice()) | nodes.Tuple(ctx="load"):
                return _call("made", node)
        return node


def _call(method: str, *arguments: Any) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(method), list(arguments), [], None, None)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An environment for one rendering, or for one compilation, which needs no limits.

    characters: all text that is made, and 16 for each element of a list. seconds: processor time of
    this thread, so that a busy or sleeping machine does not count. SecurityError at a limit.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, steps: int = 0, characters: int = 0, seconds: float = 0.0) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, GenerationTag],
            finalize=self._shown,
            optimized=False,
            cache_size=0,
        )
        self._steps = steps
        self._characters = characters
        self._until = time.thread_time() + seconds
        self._sizes: dict[int, tuple[object, int]] = {}
        filters = cast(dict[str, Callable[..., Any]], self.filters)
        filters |= {"tojson": self._to_json, "safe": str}
        self.filters = {name: self._limited(name, filter) for name, filter in filters.items()}
        del self.globals["lipsum"]

    def compiled(self, source: str) -> CodeType:
        """For `Template.from_code`, in this or another sandbox. Raises TemplateSyntaxError, and
        SecurityError for what takes long to compile.
        """
        tree = self.parse(source)
        names = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        branches = sum(1 for _ in tree.find_all(nodes.If))
        if len(names) * branches > MOST_NAMES_TIMES_BRANCHES:
            raise SecurityError(f"it has {len(names)} variables and {branches} branches")
        return self.compile(_Counting().visit(tree))

    def rounds(self, items: Iterable[Any]) -> Iterator[Any]:
        """The `items` of a loop, each a step."""
        for item in items:
            self._step()
            yield item

    def made(self, value: Any) -> Any:
        """A `value` that one step has made, paid for."""
        self._step()
        if isinstance(value, Iterator | KeysView | ValuesView | ItemsView):
            value = [*value]
        if isinstance(value, int) and value.bit_length() > WIDEST_NUMBER:
            raise SecurityError("it computes with numbers of thousands of digits")
        if isinstance(value, Sized):
            self._pay(min(self.size(value), ELEMENT * len(value)))
        return value

    def joined(self, *values: Any) -> str:
        """What `~` does."""
        for value in values:
            self._pay(self.size(value))
        return "".join(map(str, values))

    def size(self, value: Any) -> int:
        """Characters that `value` unfolds to; that of a list is known from its elements'."""
        if isinstance(value, str | bytes):
            return len(value)
        if isinstance(value, Namespace | LoopContext):
            raise SecurityError("it shows or compares a namespace or a loop")
        if not isinstance(value, Mapping | Sequence):
            return ELEMENT + (value.bit_length() // 3 if isinstance(value, int) else 0)
        if id(value) not in self._sizes:
            inside = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
            size = ELEMENT + sum(map(self.size, inside))
            self._refuse_beyond(size)
            self._sizes[id(value)] = value, size  # kept, so that the id stays its own
        return self._sizes[id(value)][1]

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Every call a template makes."""
        if isinstance(__obj, MethodType) and __obj.__self__ is self:
            return __obj(*args)
        self._step()
        method = inspect.unwrap(__obj)  # the sandbox wraps str.format
        if isinstance(__obj, LoopContext):
            args = (self.rounds(args[0]), *args[1:])
        elif isinstance(method, BuiltinMethodType):
            self._foresee(method.__name__, method.__self__, *args, *kwargs.values())
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Namespace | LoopContext):
                self.size(value)
        made = super().call(__context, __obj, *args, **kwargs)
        return made if isinstance(made, Namespace) else self.made(made)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Operators that can make something large from something small."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers:
            if isinstance(left, int):  # 3 * "ab"
                left, right = right, left
            self._foresee(operator, left, right)
        elif operator == "**" and max(abs(left), abs(right)) > 64:
            raise SecurityError("it computes with numbers of hundreds of digits")
        return self.made(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only the very types named above have attributes for a template."""
        return type(obj) in ATTRIBUTES_OF and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuses at once, where Jinja would wait until the value is used."""
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}")

    @pass_context
    def _shown(self, _context: Context, value: Any) -> Any:
        if not isinstance(value, PRINTABLE):
            raise SecurityError(f"it shows a {type(value).__name__}, which is not text")
        self._pay(self.size(value))
        return value

    def _limited(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter, which may be called by another filter or for a block of text."""

        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            given = [a for a in args if not isinstance(a, Context | EvalContext | Environment)]
            self._foresee(name, *given, *kwargs.values())
            return self.made(function(*args, **kwargs))

        return limited

    def _foresee(self, name: str, value: Any, *others: Any) -> None:
        """Refuses a filter, method or operator that may make more than is left to make."""
        factors = [ELEMENT]
        if name in FORMATTING:
            if not isinstance(value, str) or WIDE_FIELD.search(value):
                raise SecurityError("it formats with a width that is not a small number")
            factors.append(1000)
        if name in GROWING.split() or name in FORMATTING:
            factors += [abs(o) if isinstance(o, int) else self.size(o) for o in others]
        if name in SQUARE:
            factors.append(self.size(value) // COPIED)
        self._refuse_beyond(self.size(value) * max(factors))

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0 or time.thread_time() > self._until:
            raise SecurityError("it does not come to an end")

    def _pay(self, characters: int) -> None:
        self._refuse_beyond(characters)
        self._characters -= characters

    def _refuse_beyond(self, characters: int) -> None:
        if characters > self._characters:
            raise SecurityError("it makes more text than any prompt needs")

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """As transformers' filter: no HTML escapes."""
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return "".join(map(self.made, encoder.iterencode(value)))
