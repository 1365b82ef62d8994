"""A Metal kernel as a value: its source, its launches, and the launcher that runs them.

Recording a launch must cost the host little, since a pass of a 27B model has some 500. Everything
that is the same for all passes of as many rows is computed once (Launch); a pass only adds arrays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol, cast
from zlib import crc32

import mlx.core as mx
import numpy as np

Size = tuple[int, int, int]

UNROLL = '#define UNROLL _Pragma("clang loop unroll(full)")\n'
"""Stands before a loop that walks an array in registers, over a count known when it is compiled.

An array whose index is not known then lies in memory and not in registers; verify kernels were seen
to lose most of their speed so. Compilers that do not know the pragma pass over it.
"""

SHARED = """
// WORDS neighbouring words in loads of up to 16 bytes.
template <int WORDS>
METAL_FUNC void load_words(const device uint* from, thread uint* to) {
  constexpr int WHOLE = WORDS / 4 * 4;
  UNROLL for (int i = 0; i < WHOLE; i += 4) {
    const uint4 four = *(const device packed_uint4*)(from + i);
    UNROLL for (int j = 0; j < 4; j++) {
      to[i + j] = four[j];
    }
  }
  if (WORDS % 4 == 3) {
    const uint3 three = *(const device packed_uint3*)(from + WHOLE);
    UNROLL for (int j = 0; j < 3; j++) {
      to[WHOLE + j] = three[j];
    }
  } else if (WORDS % 4 == 2) {
    const uint2 two = *(const device packed_uint2*)(from + WHOLE);
    to[WHOLE] = two.x;
    to[WHOLE + 1] = two.y;
  } else if (WORDS % 4 == 1) {
    to[WHOLE] = from[WHOLE];
  }
}

// N neighbouring values as floats, in as few loads where they fill words. Those then begin at one.
template <int N>
METAL_FUNC void load_values(const device float* from, thread float* to) {
  uint words[N];
  load_words<N>((const device uint*)from, words);
  UNROLL for (int i = 0; i < N; i++) {
    to[i] = as_type<float>(words[i]);
  }
}

METAL_FUNC float2 pair_of(uint word, half) {
  return float2(as_type<half2>(word));
}

METAL_FUNC float2 pair_of(uint word, bfloat16_t) {
  return float2(as_type<float>(word << 16), as_type<float>(word & 0xffff0000));
}

template <int N, typename H>
METAL_FUNC void load_values(const device H* from, thread float* to) {
  if (N % 2 == 0) {
    uint words[(N + 1) / 2];
    load_words<N / 2>((const device uint*)from, words);
    UNROLL for (int i = 0; i < N / 2; i++) {
      const float2 two = pair_of(words[i], H(0));
      to[2 * i] = two.x;
      to[2 * i + 1] = two.y;
    }
  } else {
    UNROLL for (int i = 0; i < N; i++) {
      to[i] = float(from[i]);
    }
  }
}

// Two integers below 1,024, in the halves of a word, less `zero`, as floats. They are made the last
// bits of float16 from 1,024 on: to convert integers takes M1 and M2 four times as long.
METAL_FUNC float2 integers(uint word, float zero) {
  const half2 two = as_type<half2>(word | 0x64006400);
  return float2(float(two.x) - (1024.0f + zero), float(two.y) - (1024.0f + zero));
}

template <int N, int BY>
METAL_FUNC void add_pairs(thread float* values, int lane) {
  const bool upper = lane & BY;
  UNROLL for (int i = 0; i < N / 2; i++) {
    const float kept = upper ? values[2 * i + 1] : values[2 * i];
    const float given = upper ? values[2 * i] : values[2 * i + 1];
    values[i] = kept + simd_shuffle_xor(given, BY);
  }
  if (N % 2 == 1) {
    values[N / 2] = values[N - 1] + simd_shuffle_xor(values[N - 1], BY);
  }
}

// Each of N numbers, up to 32, summed over all lanes, in the same tree whatever N is: lane l of N
// has the sum of number l. A lane exchanges half of what it has left at each step.
template <int N>
METAL_FUNC float sum_of_each(thread float* values, int lane) {
  add_pairs<N, 1>(values, lane);
  add_pairs<(N + 1) / 2, 2>(values, lane);
  add_pairs<(N + 3) / 4, 4>(values, lane);
  add_pairs<(N + 7) / 8, 8>(values, lane);
  add_pairs<(N + 15) / 16, 16>(values, lane);
  return values[0];
}
"""
"""MSL before every kernel: loads as wide as a GPU has, as compilers do not join those of halves,
whose addresses might not be those of words; integers as floats; sums over lanes in a known order.
"""

MATH = {"math_mode": "safe"}
"""No fast math: sums stay in their order, and infinities are what they are."""


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Source of a Metal kernel, as `mx.fast.metal_kernel` takes it.

    name: a C identifier, unique among our kernels. inputs, outputs: buffer names in order. body:
    MSL of the function, ASCII. header: MSL in front of it; both may use UNROLL. row_contiguous: MLX
    copies inputs whose rows are not contiguous; False leaves them, for bodies that use
    `<name>_strides`.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    header: str = ""
    row_contiguous: bool = True

    @property
    def msl_preamble(self) -> str:
        """MSL that stands in front of the kernel's function."""
        return UNROLL + SHARED + self.header


class Parameter(NamedTuple):
    """Type or number that a Metal kernel is compiled for; floats are rounded to float32."""

    name: str
    value: mx.Dtype | int | bool | float

    @property
    def msl_declaration(self) -> str:
        """MSL that declares the parameter, as a type or a constant."""
        if isinstance(self.value, mx.Dtype):
            return f"using {self.name} = {_TYPES[self.value]};"
        if isinstance(self.value, bool):
            return f"constexpr bool {self.name} = {str(self.value).lower()};"
        if isinstance(self.value, int):
            return f"constexpr int {self.name} = {self.value};"
        return f"constexpr float {self.name} = {float(np.float32(self.value))!r}f;"


def parameters(**values: mx.Dtype | int | bool | float) -> tuple[Parameter, ...]:
    """Make parameters of a Metal kernel by name."""
    return tuple(Parameter(name, value) for name, value in values.items())


_TYPES = {mx.float32: "float", mx.float16: "float16_t", mx.bfloat16: "bfloat16_t"}


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A kernel's source with its parameters; MLX compiles it once for each set of input dtypes.

    name: a C identifier; MLX compiles anew where two texts share one. body: begins with the
    parameters, since MLX's own template arguments would cost 1.3 us more per launch.
    """

    source: KernelSource
    parameters: tuple[Parameter, ...]
    name: str
    body: str


@cache
def pipeline(source: KernelSource, parameters: tuple[Parameter, ...] = ()) -> Pipeline:
    """Make a compilable kernel from a source and parameters, cached by these arguments."""
    body = " ".join(parameter.msl_declaration for parameter in parameters) + source.body
    mark = crc32((source.msl_preamble + body).encode())
    return Pipeline(source, parameters, f"{source.name}_{mark:08x}", body)


def pipeline_count() -> int:
    """Number of different kernels launched so far in this process; MLX compiles each at first."""
    return pipeline.cache_info().currsize


class Launch(NamedTuple):
    """Launch of a Metal kernel without its input arrays; made once for each row count.

    shapes, dtypes: of the outputs. grid: in threads, as `mx.fast.metal_kernel` takes it.
    """

    pipeline: Pipeline
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[mx.Dtype, ...]
    grid: Size
    threadgroup: Size


class Launcher(Protocol):
    """Protocol of what runs Metal kernels: a GPU, or the tests' emulator."""

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """Run a Metal kernel with input arrays in its source's order; returns the outputs."""


class MetalLauncher:
    """Launcher of kernels on the GPU, lazily; works only if `mx.metal.is_available()`."""

    def __init__(self) -> None:
        self._built: dict[Pipeline, Callable[..., list[mx.array]]] = {}

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """Run a kernel on the GPU with inputs in its source's order; returns lazy outputs."""
        wanted = launch.pipeline
        kernel = self._built.get(wanted)
        if kernel is None:
            kernel = self._built[wanted] = _metal_kernel(wanted)
        return kernel(
            inputs=inputs,
            grid=launch.grid,
            threadgroup=launch.threadgroup,
            output_shapes=launch.shapes,
            output_dtypes=launch.dtypes,
        )


def _metal_kernel(wanted: Pipeline) -> Callable[..., list[mx.array]]:
    source = wanted.source
    built = mx.fast.metal_kernel(
        name=wanted.name,
        input_names=source.inputs,
        output_names=source.outputs,
        source=wanted.body,
        header=source.msl_preamble,
        ensure_row_contiguous=source.row_contiguous,
        compile_options=MATH,
    )
    return cast(Callable[..., list[mx.array]], built)  # MLX's own stub calls it an object
