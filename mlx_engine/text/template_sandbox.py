"""A Jinja environment in which a chat template can neither reach Python nor use up the machine."""

import functools
from collections.abc import Callable, Generator, Mapping
from types import BuiltinMethodType, MethodType
from typing import Any, cast

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace

from mlx_engine.text.template_budget import TemplateBudget
from mlx_engine.text.template_text import TemplateText

FILTERS = frozenset(
    """
    abs capitalize count d default dictsort e escape first float format groupby indent int items
    join last length list lower map max min reject rejectattr replace reverse safe select
    selectattr sort string title tojson trim unique upper wordcount
    """.split()  # noqa: SIM905 - one name a line would be a page
)
TEXT_METHODS = frozenset(
    """
    capitalize casefold count endswith find format format_map index isalnum isalpha isascii
    isdecimal isdigit islower isnumeric isspace istitle isupper join lower lstrip partition
    removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split splitlines
    startswith strip swapcase title upper
    """.split()  # noqa: SIM905 - one name a line would be a page
)
METHODS: Mapping[type, frozenset[str]] = {
    str: TEXT_METHODS,
    list: frozenset({"count", "index", "copy"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"get", "items", "keys", "values", "copy"}),
}
RUNTIME_OBJECTS = (LoopContext, Namespace, Macro, Cycler, Joiner)
METHOD_TYPES = (BuiltinMethodType, MethodType)
LISTED = (str, list, tuple, dict, range)
PRINTABLE = (str, int, float, type(None), list, tuple, dict, Undefined)
NOT_READING = frozenset(
    """
    count d default first items join last length list map reject rejectattr reverse select
    selectattr tojson
    """.split()  # noqa: SIM905 - one name a line would be a page
)


class GenerationTag(Extension):
    """Reads `{% generation %} ... {% endgeneration %}`, which marks what a model is trained on."""

    tags = {"generation"}  # noqa: RUF012 - declared like this by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The tag's inside, as if the tag were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An environment for one rendering (or one compilation), paid for from `budget`.

    Works for templates that went through CountingRewrite. Only filters, methods and types named in
    this file can be used: every value is paid for by size when it is made, so no single operation
    on values is long, and what multiplies sizes is paid for before it is done.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, budget: TemplateBudget) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[LoopControlExtension, GenerationTag],
            finalize=self._shown,
            optimized=False,
            cache_size=0,
        )
        self.budget = budget
        self.text = TemplateText(budget, self.getitem)
        filters = cast(dict[str, Callable[..., Any]], self.filters) | self.text.filters
        tests = cast(dict[str, Callable[..., Any]], self.tests)
        self.filters = {name: self._counted(name, filters[name]) for name in FILTERS}
        self.tests = {name: self._counted(name, test) for name, test in tests.items()}
        del self.globals["lipsum"]

    def count_items(self, items: Any) -> Any:
        """The `items` of a loop, each paid for as a step."""
        known = items if isinstance(items, LISTED) else [*items]
        self.budget.step(len(known))
        return known

    def count_made(self, value: Any) -> Any:
        """A `value` that was just made."""
        self.budget.make(value)
        return value

    def count_read(self, value: Any) -> Any:
        """A `value` that is about to be walked through."""
        self.budget.check(value)
        return value

    def join_text(self, *values: Any) -> str:
        """What `~` does."""
        for value in values:
            self.budget.characters(self.budget.check(value))
        return "".join(map(str, values))

    def call(
        self,
        __context: Context,
        __obj: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Every call a template makes is a step; what it makes is paid for."""
        self.budget.step()
        if isinstance(__obj, MethodType) and __obj.__self__ is self:
            return __obj(*args)
        for value in args:
            if isinstance(value, tuple) or isinstance(__obj, METHOD_TYPES):
                self.budget.characters(self.budget.check(value))
        if isinstance(__obj, BuiltinMethodType) and isinstance(__obj.__self__, str):
            args = self.text.pay_for_text_method(__obj.__self__, __obj.__name__, args)
        return self.count_made(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Operators that can make something large from something small."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if numbers and operator in ("*", "**"):
            _refuse_wide_numbers(operator, left, right)
        elif operator == "%" and isinstance(left, str):
            self.text.pay_for_format(left, right)
        elif operator == "*":
            count = left if isinstance(left, int) else right
            self.budget.characters(self.text.size_of_sequences(left, right) * max(1, int(count)))
        self.budget.step()
        return self.count_made(super().call_binop(context, operator, left, right))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Only the methods named in this file; no attributes of anything else but Jinja's own."""
        if not super().is_safe_attribute(obj, attr, value):
            return False
        allowed = (names for kind, names in METHODS.items() if isinstance(obj, kind))
        return attr in next(allowed, frozenset()) or isinstance(obj, RUNTIME_OBJECTS)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuses at once, where Jinja would wait until the value is used."""
        raise SecurityError(f"it asks for {attribute!r} of a {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`format` of text, paid for before it runs."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def paid(*args: Any, **kwargs: Any) -> str:
            self.text.pay_for_format(value.__self__, [args, kwargs])
            return str(wrapped(*args, **kwargs))

        return paid

    @pass_context
    def _shown(self, _context: Context, value: Any) -> Any:
        if not isinstance(value, PRINTABLE):
            raise SecurityError(f"it shows a {type(value).__name__}, which is not text")
        self.budget.characters(self.budget.check(value))
        return value

    def _counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        reads = name not in NOT_READING

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.budget.step()
            listed = [[*arg] if isinstance(arg, Generator) else arg for arg in args]
            for value in listed if reads else ():
                self.budget.check(value)
            return self.count_made(function(*listed, **kwargs))

        return counted


def _refuse_wide_numbers(operator: str, left: float, right: float) -> None:
    widths = [n.bit_length() for n in (left, right) if isinstance(n, int)]
    if max(widths, default=0) > 256 or (operator == "**" and sum(widths) > 64 + 6):
        raise SecurityError("it computes with numbers of hundreds of digits")
    if operator == "**" and isinstance(right, int) and right > 64:
        raise SecurityError("it computes with numbers of hundreds of digits")
