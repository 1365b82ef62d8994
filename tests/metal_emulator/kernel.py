"""The emulator's own metal_kernel, with the signature of mx.fast.metal_kernel."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import mlx.core as mx

from metal_emulator import build, toolchain, wrapper
from metal_emulator.inputs import Input, Scalar, Strided, as_input, with_shapes
from metal_emulator.launch import Code, Dispatch, Options, Wanted, check_threads, launch
from metal_emulator.registers import Registers
from metal_emulator.report import Report
from metal_emulator.source_text import (
    with_static_threadgroup_arrays,
    with_threadgroup_arrays,
    with_typed_literals,
)

Template = Sequence[tuple[str, wrapper.TemplateArgument]]
HEADER_ARRAYS = 32
"""Threadgroup arrays of a header are numbered from here, those of a source from 0."""
MATH_MODES = ("safe", "relaxed", "fast")


@dataclass(slots=True)
class EmulatedKernel:
    """A kernel that runs in the emulator when called as MLX's would be.

    reports: one for each call that succeeded, in order. options: of every call. codes: what was
    compiled so far, by all that its text hangs on.
    """

    name: str
    input_names: list[str]
    output_names: list[str]
    source: str
    header: str
    row_contiguous: bool
    atomic_outputs: bool
    options: Options
    reports: list[Report] = field(default_factory=list)
    codes: dict[tuple[object, ...], Code] = field(default_factory=dict)

    @property
    def last(self) -> Report:
        """Of the last call. Raises IndexError before the first."""
        return self.reports[-1]

    def __call__(
        self,
        *,
        inputs: Sequence[mx.array | Strided | Scalar],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Template | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: object = None,
    ) -> list[mx.array]:
        """MLX's arguments, its result evaluated. Raises ValueError, EmulatorError."""
        arrays = self._arrays(inputs)
        wanted = self._wanted(output_shapes, output_dtypes, init_value)
        given = with_shapes(self.input_names, arrays, self.source)
        types = list(template or [])
        if verbose:
            print(self._text(arrays, output_dtypes, types))
        need = None
        if self.options.lint:
            need = self.registers(inputs, output_dtypes, template)
            check_threads(self.name, Dispatch(grid, threadgroup), need)
        told = [(array.dtype, array.ndim == 0, array.size < 8) for array in arrays]
        key = (self.source, self.header, self.options, *told, *output_dtypes, *types)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = self._code(self._text(arrays, output_dtypes, types))
        buffers, dispatch = [*given, *wanted], Dispatch(grid, threadgroup)
        done = launch(self.name, code, buffers, dispatch, self.options)
        self.reports.append(replace(done.report, need=need))
        return done.outputs

    def registers(
        self,
        inputs: Sequence[mx.array | Strided | Scalar],
        output_dtypes: Sequence[mx.Dtype],
        template: Template | None = None,
    ) -> Registers:
        """What a thread needs, without running any. Raises ValueError, EmulatorError "lint"."""
        text = self._lint_text(self._arrays(inputs), output_dtypes, list(template or []))
        return build.lint(self.name, text)

    def with_options(self, **changes: int | bool | float) -> "EmulatedKernel":
        """The same kernel run otherwise."""
        return replace(self, options=replace(self.options, **changes), reports=[], codes={})

    def _code(self, text: str) -> Code:
        how = self.options
        command = tuple(
            toolchain.kernel_command(how.check, how.private, how.arithmetic, how.unrolled)
        )
        lines = toolchain.LINES if how.lines else ()
        return Code(
            build.kernel_library(self.name, text, command),
            lambda: build.kernel_library(self.name, text, (*command, *lines)),
        )

    def _arrays(self, inputs: Sequence[mx.array | Strided | Scalar]) -> list[Input]:
        if len(inputs) != len(self.input_names):
            raise ValueError(f"{self.name}: {len(inputs)} inputs for names {self.input_names}")
        return [as_input(value, self.row_contiguous) for value in inputs]

    def _wanted(
        self,
        shapes: Sequence[Sequence[int]],
        dtypes: Sequence[mx.Dtype],
        initial: float | None,
    ) -> list[Wanted]:
        if not len(shapes) == len(dtypes) == len(self.output_names):
            raise ValueError(f"{self.name}: a shape and a dtype for each of {self.output_names}")
        return [
            Wanted(name, tuple(shape), dtype, initial)
            for name, shape, dtype in zip(self.output_names, shapes, dtypes, strict=True)
        ]

    def _text(
        self,
        arrays: list[Input],
        dtypes: Sequence[mx.Dtype],
        template: list[tuple[str, wrapper.TemplateArgument]],
    ) -> str:
        header = self._translated(self.header, HEADER_ARRAYS) + "\n"
        body = self._translated(self.source, 0)
        return f'#include "msl.h"\n{self._assembled(header, body, arrays, dtypes, template)}'

    def _parameters(
        self, arrays: list[Input], dtypes: Sequence[mx.Dtype]
    ) -> list[wrapper.Parameter]:
        return [
            parameter
            for name, array in zip(self.input_names, arrays, strict=True)
            for parameter in wrapper.input_parameters(name, array, self.source)
        ] + [
            wrapper.output_parameter(name, dtype, self.atomic_outputs)
            for name, dtype in zip(self.output_names, dtypes, strict=True)
        ]

    def _lint_text(
        self,
        arrays: list[Input],
        dtypes: Sequence[mx.Dtype],
        template: list[tuple[str, wrapper.TemplateArgument]],
    ) -> str:
        header, body = map(with_static_threadgroup_arrays, (self.header, self.source))
        # for the entry alone, in which it is compiled: not a second time for others
        header, body = header + "\nnamespace {\n", body + "\n}"
        return f'#include "lint.h"\n{self._assembled(header, body, arrays, dtypes, template)}'

    def _assembled(
        self,
        header: str,
        body: str,
        arrays: list[Input],
        dtypes: Sequence[mx.Dtype],
        template: list[tuple[str, wrapper.TemplateArgument]],
    ) -> str:
        parameters = self._parameters(arrays, dtypes)
        attributes = wrapper.attributes_in(self.source)
        function = "custom_kernel_" + self.name
        return "".join(
            [
                f'#line 1 "{self.name}.header"\n{header}#line 1 "{self.name}.wrapper"\n',
                wrapper.signature(function, parameters, attributes, template),
                f'#line 1 "{self.name}"\n{body}\n}}\n#line 1 "{self.name}.entry"\n',
                wrapper.entry(function, parameters, attributes, template),
            ]
        )

    def _translated(self, text: str, first_id: int) -> str:
        text = with_threadgroup_arrays(text, first_id)
        return with_typed_literals(text) if self.options.arithmetic else text


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: dict[str, str] | None = None,
    **options: int | bool | float,
) -> EmulatedKernel:
    """As mx.fast.metal_kernel; options: the emulator's own, see Options. Raises ValueError."""
    if not output_names:
        raise ValueError(f"{name}: a kernel needs at least one output")
    mode = (compile_options or {}).get("math_mode", "safe")
    if mode not in MATH_MODES or set(compile_options or {}) - {"math_mode"}:
        raise ValueError(f"{name}: compile_options are math_mode = {MATH_MODES}")
    return EmulatedKernel(
        name=name,
        input_names=list(input_names),
        output_names=list(output_names),
        source=source,
        header=header,
        row_contiguous=ensure_row_contiguous,
        atomic_outputs=atomic_outputs,
        options=Options(**options),
    )
