"""MLX's rules for the function it writes around a kernel's source."""

from dataclasses import dataclass
from functools import cache
from typing import Protocol

import mlx.core as mx

TYPES = {
    mx.bool_: "bool",
    mx.uint8: "uint8_t",
    mx.uint16: "uint16_t",
    mx.uint32: "uint32_t",
    mx.uint64: "uint64_t",
    mx.int8: "int8_t",
    mx.int16: "int16_t",
    mx.int32: "int32_t",
    mx.int64: "int64_t",
    mx.float16: "float16_t",
    mx.bfloat16: "bfloat16_t",
    mx.float32: "float",
    mx.complex64: "complex64_t",
}

_TRIPLE = "uint3(t.{0}[0], t.{0}[1], t.{0}[2])"
_LAUNCHED = "uint3(msl_run.{0}[0], msl_run.{0}[1], msl_run.{0}[2])"
ATTRIBUTES: dict[str, tuple[str, str]] = {
    "dispatch_quadgroups_per_threadgroup": ("uint", "msl_dispatched() / 4"),
    "dispatch_simdgroups_per_threadgroup": ("uint", "(msl_dispatched() + 31) / 32"),
    "dispatch_threads_per_threadgroup": ("uint3", _LAUNCHED.format("group")),
    "grid_origin": ("uint3", "uint3(0, 0, 0)"),
    "grid_size": ("uint3", _LAUNCHED.format("grid")),
    "quadgroup_index_in_threadgroup": ("uint", "t.index / 4"),
    "quadgroups_per_threadgroup": ("uint", "(msl_group_threads(t) + 3) / 4"),
    "simdgroup_index_in_threadgroup": ("uint", "t.simd"),
    "simdgroups_per_threadgroup": ("uint", "t.simds"),
    "thread_execution_width": ("uint", "32"),
    "thread_index_in_quadgroup": ("uint", "t.index % 4"),
    "thread_index_in_simdgroup": ("uint", "t.lane"),
    "thread_index_in_threadgroup": ("uint", "t.index"),
    "thread_position_in_grid": ("uint3", _TRIPLE.format("in_grid")),
    "thread_position_in_threadgroup": ("uint3", _TRIPLE.format("in_group")),
    "threadgroup_position_in_grid": ("uint3", _TRIPLE.format("group")),
    "threadgroups_per_grid": ("uint3", _LAUNCHED.format("groups")),
    "threads_per_grid": ("uint3", _LAUNCHED.format("grid")),
    "threads_per_simdgroup": ("uint", "32"),
    "threads_per_threadgroup": ("uint3", _TRIPLE.format("group_size")),
}
"""Attribute -> its MSL type and the emulator's expression for it, in MLX's order."""

TemplateArgument = mx.Dtype | int | bool


class HasShape(Protocol):
    """What the rules look at: mx.array has it."""

    @property
    def size(self) -> int:
        """Elements."""

    @property
    def ndim(self) -> int:
        """Dimensions."""

    @property
    def dtype(self) -> mx.Dtype:
        """Of the elements."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One buffer of the function: its C++ type as passed, and whether it is `&` or `*`."""

    name: str
    space: str
    type: str
    const: bool
    reference: bool

    def declaration(self, slot: int) -> str:
        """As MLX writes it."""
        const = "const " if self.const else ""
        mark = "&" if self.reference else "*"
        return f"  {const}{self.space} {self.type}{mark} {self.name} [[buffer({slot})]]"

    def passed(self, slot: int) -> str:
        """The argument, of the untyped buffer in `slot`."""
        const = "const " if self.const else ""
        return f"{'*' if self.reference else ''}({const}{self.space} {self.type}*)b[{slot}]"


ASKED = {"shape": "int", "strides": "int64_t", "ndim": "int"}
"""What a source may ask of an array, and the type it is told in."""


@cache
def asked_of(name: str, source: str) -> tuple[str, ...]:
    """What it asks of this input."""
    return tuple(what for what in ASKED if f"{name}_{what}" in source)


def input_parameters(name: str, array: HasShape, source: str) -> list[Parameter]:
    """Of one input: itself, and its shape, strides and rank where the source names them."""
    space = "constant" if array.size < 8 else "device"
    found = [Parameter(name, space, TYPES[array.dtype], True, array.ndim == 0)]
    if array.ndim > 0:
        found += [
            Parameter(f"{name}_{what}", "constant", ASKED[what], True, what == "ndim")
            for what in asked_of(name, source)
        ]
    return found


def output_parameter(name: str, dtype: mx.Dtype, atomic: bool) -> Parameter:
    """Of one output."""
    kind = f"atomic<{TYPES[dtype]}>" if atomic else TYPES[dtype]
    return Parameter(name, "device", kind, False, False)


def attributes_in(source: str) -> list[str]:
    """The attributes whose names occur anywhere in the source, comments included."""
    return [name for name in ATTRIBUTES if name in source]


def template_arguments(template: list[tuple[str, TemplateArgument]]) -> str:
    """`<bfloat16_t, 5, true>`, empty without a template."""
    if not template:
        return ""
    return "<" + ", ".join(_argument(value) for _, value in template) + ">"


def _argument(value: TemplateArgument) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else TYPES[value]


def template_line(template: list[tuple[str, TemplateArgument]]) -> str:
    """`template <typename T, int N, bool B>` and a line end, empty without a template."""
    if not template:
        return ""
    kinds = [
        "bool" if isinstance(v, bool) else "int" if isinstance(v, int) else "typename"
        for _, v in template
    ]
    names = ", ".join(f"{kind} {name}" for kind, (name, _) in zip(kinds, template, strict=True))
    return f"template <{names}>\n"


def signature(
    function: str,
    parameters: list[Parameter],
    attributes: list[str],
    template: list[tuple[str, TemplateArgument]],
) -> str:
    """The text between the header and the source."""
    declared = [p.declaration(slot) for slot, p in enumerate(parameters)]
    declared += [f"  {ATTRIBUTES[name][0]} {name} [[{name}]]" for name in attributes]
    return (
        f"{template_line(template)}[[kernel]] void {function}(\n" + ",\n".join(declared) + ") {\n"
    )


def entry(
    function: str,
    parameters: list[Parameter],
    attributes: list[str],
    template: list[tuple[str, TemplateArgument]],
) -> str:
    """The C++ function that calls the kernel for one thread."""
    passed = [p.passed(slot) for slot, p in enumerate(parameters)]
    passed += [ATTRIBUTES[name][1] for name in attributes]
    call = f"{function}{template_arguments(template)}({', '.join(passed)});"
    return f"MSL_ENTRY {{ MSL_ATTRIBUTES {call} }}\n"
