"""A Jinja environment that limits what a chat template may reach, compute and store.

Jinja's sandbox keeps templates away from Python. A budget of characters bounds time and memory:
each loop iteration, call, filter, comparison and new value is charged, a value by its length.
Operations that could produce a large value from small ones are refused before they run.
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

STEP, ELEMENT = 32, 16
"""Budget charged for an operation, and for a list element or number, in characters."""
MOST_BITS = 2048
"""Largest size of a whole number in bits."""
GROWING = """
    * batch center expandtabs indent join ljust lstrip replace rfind rindex rjust round rpartition
    rsplit rstrip slice strip sum tojson translate trim urlize wordwrap zfill
"""
"""Operations whose result may have the value's length times the argument's length (or value)."""
FORMATTING = frozenset(("%", "format", "format_map"))
WIDE_FIELD = re.compile(r"\d{4}|\*|\{[^{}]*\{")
"""A format field that may be more than 999 characters wider than its value."""
SQUARE, COPIED_BY_STEP = frozenset(("pprint", "striptags", "sum", "urlize", "wordwrap")), 256
"""Operations of quadratic cost, which may copy the value for every COPIED_BY_STEP characters."""
MOST_NAMES_TIMES_BRANCHES = 2**20
"""Limit for compilation, where Jinja visits all variables at each branch."""
ATTRIBUTES_OF = (str, list, tuple, dict, LoopContext, Namespace, Macro, Cycler, Joiner)
PRINTABLE = (str, int, float, type(None), list, tuple, dict, Undefined)


class GenerationTag(Extension):
    """Jinja extension for `{% generation %} ... {% endgeneration %}`, used in training only."""

    tags = {"generation"}  # noqa: RUF012 - declared like this by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Parse a Jinja `generation` block as its body, as if the tags were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _ChargedNodes(NodeTransformer):
    """Jinja AST transformer that makes loops and new values count against a budget.

    It wraps nodes in calls of attributes of the environment, which a template can neither name nor
    replace.
    """

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        """Return the Jinja AST node, wrapped in a call that charges the budget where needed."""
        super().generic_visit(node, *args, **kwargs)
        match node:
            case nodes.For():
                node.iter = _method_call("iterate", node.iter)
            case nodes.Concat():
                return _method_call("concatenate", *node.nodes)
            case nodes.TemplateData():
                return _method_call("spend_budget", nodes.Const(node.data))
            case nodes.Compare() | nodes.Test() | nodes.List() | nodes.Dict():
                return _method_call("spend_budget", node)
            case nodes.Getitem(arg=nodes.Slice()) | nodes.Tuple(ctx="load"):
                return _method_call("spend_budget", node)
        return node


def _method_call(method: str, *arguments: Any) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(method), list(arguments), [], None, None)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """A Jinja environment for one rendering, or for one compilation, which needs no budget.

    budget: characters of all values a rendering makes, plus STEP for each operation. seconds:
    processor time of the thread. Raises SecurityError at either limit.
    """

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, budget: int = 0, seconds: float = 0.0) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, GenerationTag],
            finalize=self._check_printable,
            optimized=False,
            cache_size=0,
        )
        self._budget = budget
        self._until = time.thread_time() + seconds
        self._sizes: dict[int, tuple[object, int]] = {}
        filters = cast(dict[str, Callable[..., Any]], self.filters)
        filters |= {"tojson": self._to_json, "safe": str}
        self.filters = {name: self._wrap_filter(name, filter) for name, filter in filters.items()}
        del self.globals["lipsum"]

    def compile_source(self, source: str) -> CodeType:
        """Compile a Jinja template for `Template.from_code`, in this or another sandbox.

        Raises TemplateSyntaxError, and SecurityError for templates that would take long to compile.
        """
        tree = self.parse(source)
        names = {name.name for name in tree.find_all(nodes.Name) if name.ctx != "load"}
        branches = sum(1 for _ in tree.find_all(nodes.If))
        if len(names) * branches > MOST_NAMES_TIMES_BRANCHES:
            raise SecurityError(f"it has {len(names)} variables and {branches} branches")
        return self.compile(_ChargedNodes().visit(tree))

    def iterate(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items of a Jinja loop, charging STEP to the template's budget for each."""
        for item in items:
            self._charge_text_length(STEP)
            yield item

    def spend_budget(self, value: Any) -> Any:
        """Charge a Jinja operation and its result to the template's budget; return the result."""
        self._charge_text_length(STEP)
        if isinstance(value, Iterator | KeysView | ValuesView | ItemsView):
            value = [*value]
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise SecurityError("it computes with numbers of thousands of digits")
        if isinstance(value, Sized):
            self._charge_text_length(min(self.size(value), ELEMENT * len(value)))
        return value

    def concatenate(self, *values: Any) -> str:
        """Join the operands of Jinja's `~`, charging their lengths to the template's budget."""
        for value in values:
            self._charge_text_length(self.size(value))
        return "".join(map(str, values))

    def size(self, value: Any) -> int:
        """Number of characters of `value` when printed; containers are measured once and kept."""
        if isinstance(value, str | bytes):
            return len(value)
        if isinstance(value, Namespace | LoopContext):
            raise SecurityError("it shows or compares a namespace or a loop")
        if not isinstance(value, Mapping | Sequence):
            return ELEMENT + (value.bit_length() // 3 if isinstance(value, int) else 0)
        if id(value) not in self._sizes:
            inside = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value
            size = ELEMENT + sum(map(self.size, inside))
            self._check_budget(size)
            self._sizes[id(value)] = value, size  # keeps the list alive, and so its id
        return self._sizes[id(value)][1]

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a Jinja template's call of a function or method, charged to the template's budget."""
        if isinstance(__obj, MethodType) and __obj.__self__ is self:
            return __obj(*args)
        self._charge_text_length(STEP)
        method = inspect.unwrap(__obj)  # the sandbox wraps str.format
        if isinstance(__obj, LoopContext):
            args = (self.iterate(args[0]), *args[1:])
        elif isinstance(method, BuiltinMethodType):
            self._check_growth(method.__name__, method.__self__, *args, *kwargs.values())
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Namespace | LoopContext):
                self.size(value)
        made = super().call(__context, __obj, *args, **kwargs)
        return made if isinstance(made, Namespace) else self.spend_budget(made)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Run a Jinja binary operator, refused where its result would exceed the budget."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if not numbers:
            if isinstance(left, int):  # 3 * "ab"
                left, right = right, left
            self._check_growth(operator, left, right)
        elif operator == "**" and max(abs(left), abs(right)) > 64:
            raise SecurityError("it computes with numbers of hundreds of digits")
        return self.spend_budget(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a Jinja template may read this attribute: only of the types in ATTRIBUTES_OF."""
        return type(obj) in ATTRIBUTES_OF and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Raise SecurityError for a forbidden attribute at once; Jinja would wait for its use."""
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}")

    @pass_context
    def _check_printable(self, _context: Context, value: Any) -> Any:
        if not isinstance(value, PRINTABLE):
            raise SecurityError(f"it shows a {type(value).__name__}, which is not text")
        self._charge_text_length(self.size(value))
        return value

    def _wrap_filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a Jinja filter to charge its use to the template's budget; filters bypass `call`."""

        @functools.wraps(function)
        def charged(*args: Any, **kwargs: Any) -> Any:
            given = [a for a in args if not isinstance(a, Context | EvalContext | Environment)]
            self._check_growth(name, *given, *kwargs.values())
            return self.spend_budget(function(*args, **kwargs))

        return charged

    def _check_growth(self, name: str, value: Any, *others: Any) -> None:
        """Raise SecurityError for an operation whose result may exceed the budget."""
        factors = [ELEMENT]
        if name in FORMATTING:
            if not isinstance(value, str) or WIDE_FIELD.search(value):
                raise SecurityError("it formats with a width that is not a small number")
            factors.append(1000)
        if name in GROWING.split() or name in FORMATTING:
            factors += [abs(arg) if isinstance(arg, int) else self.size(arg) for arg in others]
        if name in SQUARE:
            factors.append(self.size(value) // COPIED_BY_STEP)
        self._check_budget(self.size(value) * max(factors))

    def _charge_text_length(self, characters: int) -> None:
        if time.thread_time() > self._until:
            raise SecurityError("it does not come to an end")
        self._check_budget(characters)
        self._budget -= characters

    def _check_budget(self, characters: int) -> None:
        if characters > self._budget:
            raise SecurityError("it computes more, or makes more text, than any prompt needs")

    def _to_json(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """The filter `tojson` as transformers defines it, without HTML escapes."""
        encoder = json.JSONEncoder(
            ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )
        return "".join(map(self.spend_budget, encoder.iterencode(value)))
