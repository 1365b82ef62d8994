"""One launch of a compiled kernel: buffers in, outputs and a report out."""

import ctypes
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_emulator import faults, native
from metal_emulator.errors import EmulatorError
from metal_emulator.registers import M1, MOST_THREADS, Registers
from metal_emulator.report import Report, Traffic

MOST_BUFFERS = 31
NAN_BYTE = 0xFF


@dataclass(frozen=True, slots=True)
class Given:
    """A buffer the kernel reads."""

    name: str
    data: mx.array | np.ndarray


@dataclass(frozen=True, slots=True)
class Wanted:
    """A buffer the kernel fills; all bits set before, unless `initial` says what is in it."""

    name: str
    shape: tuple[int, ...]
    dtype: mx.Dtype
    initial: float | None = None


class Code(NamedTuple):
    """A compiled kernel: to run, and on demand the same instructions with their lines."""

    library: Path
    with_lines: Callable[[], Path]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run. shuffle: seed of the order of lanes and SIMD-groups, 0 for ascending.

    check: False runs without memory checks and counts of traffic. seconds: of wall clock before a
    launch counts as endless. arithmetic: count operations on floating point numbers; slower. lint:
    check address spaces and registers. private: find variables of a thread that are used before
    they are written; slow, without the other checks. lines: a fault is told with its line, for
    which its kernel is compiled again. unrolled: all loops are written out that ask for it; else
    few are.
    """

    shuffle: int = 0
    check: bool = True
    seconds: float = 30.0
    arithmetic: bool = False
    lint: bool = False
    private: bool = False
    lines: bool = True
    unrolled: bool = False

    @property
    def counts_traffic(self) -> bool:
        """Whether accesses to memory are checked and counted."""
        return self.check and not self.private


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Threads of the grid and of a threadgroup."""

    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]

    @property
    def group(self) -> tuple[int, int, int]:
        """Threads of a whole threadgroup, which is never larger than the grid."""
        x, y, z = (min(t, g) for t, g in zip(self.threadgroup, self.grid, strict=True))
        return x, y, z

    @property
    def threads(self) -> int:
        """Of a whole threadgroup."""
        return math.prod(self.group)


@dataclass(frozen=True, slots=True)
class Launched:
    """What came of it."""

    outputs: list[mx.array]
    report: Report


def launch(
    kernel: str,
    code: Code,
    buffers: list[Given | Wanted],
    dispatch: Dispatch,
    options: Options,
) -> Launched:
    """Runs all threads. buffers: in the order of the entry's slots. Raises EmulatorError."""
    if len(buffers) > MOST_BUFFERS:
        raise EmulatorError(kernel, "limit", f"{len(buffers)} buffers; Metal has {MOST_BUFFERS}")
    runtime = native.runtime()
    runtime.msl_clear()
    contents = _contents(buffers)
    placed = [
        _placed(kernel, buffer, content, options.counts_traffic)
        for buffer, content in zip(buffers, contents, strict=True)
    ]
    entry = _entry(code.library)
    runtime.msl_kernel_at(entry)
    pointers = (ctypes.c_void_p * len(placed))(*(p.contents.data for p in placed))
    order = _native_launch(kernel, dispatch, options)
    began = time.perf_counter()
    failed = runtime.msl_go(entry, pointers, ctypes.byref(order))
    seconds = time.perf_counter() - began
    if failed:
        raise faults.error_of(kernel, code.with_lines, [b.name for b in buffers])
    outputs = [
        _taken(buffer, place.contents)
        for buffer, place in zip(buffers, placed, strict=True)
        if isinstance(buffer, Wanted)
    ]
    counted = options.counts_traffic
    traffic = {
        buffer.name: _traffic(place.contents) if counted else Traffic(place.contents.size)
        for buffer, place in zip(buffers, placed, strict=True)
    }
    return Launched(outputs, _report(kernel, traffic, seconds, arithmetic=options.arithmetic))


@cache
def _entry(library: Path) -> ctypes.c_void_p:
    """Of a compiled kernel, loaded once."""
    return ctypes.cast(ctypes.CDLL(str(library)).msl_entry, ctypes.c_void_p)


def check_threads(kernel: str, dispatch: Dispatch, need: Registers) -> None:
    """That M1 and M2 take the threadgroup, with all in registers. Raises EmulatorError "limit"."""
    most = need.most_threads(M1)
    if dispatch.threads > most or need.in_memory:
        words = f"{dispatch.threads} threads of {need.count} registers and {need.in_memory} bytes"
        raise EmulatorError(kernel, "limit", f"{words} in memory; {most} fit before M3")


@lru_cache(maxsize=1024)
def _native_launch(kernel: str, dispatch: Dispatch, options: Options) -> native.Launch:
    if min(dispatch.grid) < 1 or min(dispatch.threadgroup) < 1:
        raise ValueError(f"{kernel}: grid and threadgroup must be positive, got {dispatch}")
    if dispatch.threads > MOST_THREADS:
        words = f"{dispatch.threads} threads a threadgroup, {MOST_THREADS} fit"
        raise EmulatorError(kernel, "limit", words)
    group = dispatch.group
    groups = [-(-g // t) for g, t in zip(dispatch.grid, group, strict=True)]
    triple = ctypes.c_uint * 3
    return native.Launch(
        triple(*dispatch.grid),
        triple(*group),
        triple(*groups),
        options.shuffle,
        options.counts_traffic,
        options.private,
        options.seconds,
    )


def _placed(
    kernel: str, buffer: Given | Wanted, content: np.ndarray, check: bool
) -> "ctypes._Pointer[native.Buffer]":
    fresh = isinstance(buffer, Wanted)
    initialised = not (isinstance(buffer, Wanted) and buffer.initial is None)
    place = native.runtime().msl_add(content.nbytes, fresh, initialised, check)
    if not place:
        raise EmulatorError(kernel, "limit", f"no room for buffer '{buffer.name}'")
    ctypes.memmove(place.contents.data, content.__array_interface__["data"][0], content.nbytes)
    return place


def _contents(buffers: list[Given | Wanted]) -> list[np.ndarray]:
    """Bytes of each, computed in one go: MLX takes longer to begin than for what is small."""
    every = [one.data if isinstance(one, Given) else _before(one) for one in buffers]
    every = [known_to_numpy(one) if isinstance(one, mx.array) else one for one in every]
    mx.eval([one for one in every if isinstance(one, mx.array)])
    return [_bytes(one) for one in every]


def _before(buffer: Wanted) -> np.ndarray:
    """What is in an output before the launch."""
    if buffer.initial is not None:
        return np.array(known_to_numpy(mx.full(buffer.shape, buffer.initial, buffer.dtype)))
    size = buffer.dtype.size * math.prod(buffer.shape)
    return np.full(size, NAN_BYTE, dtype=np.uint8)


def known_to_numpy(array: mx.array) -> mx.array:
    """The same bits."""
    return array.view(mx.uint16) if array.dtype == mx.bfloat16 else array


def _bytes(array: mx.array | np.ndarray) -> np.ndarray:
    """Its elements in row-major order, uint8."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _taken(buffer: Wanted, place: native.Buffer) -> mx.array:
    kept = np.frombuffer(ctypes.string_at(place.data, place.size), dtype=np.uint8)
    return mx.array(kept).view(buffer.dtype).reshape(buffer.shape)


def _traffic(place: native.Buffer) -> Traffic:
    return Traffic(
        size=place.size,
        loads=place.loads,
        stores=place.stores,
        bytes_loaded=place.bytes_loaded,
        bytes_stored=place.bytes_stored,
        lines_loaded=place.lines_loaded,
        lines_stored=place.lines_stored,
        lines=place.lines,
        together=place.together,
    )


def _report(
    kernel: str, traffic: dict[str, Traffic], seconds: float, *, arithmetic: bool
) -> Report:
    counts = native.runtime().msl_last_counts().contents
    done = {
        kind: {
            op: counts.arithmetic[row][column] for column, op in enumerate(native.ARITHMETIC_KINDS)
        }
        for row, kind in enumerate(native.ARITHMETIC_TYPES if arithmetic else ())
    }
    return Report(
        kernel=kernel,
        buffers=traffic,
        threads=counts.threads,
        simd_ops=counts.simd_ops,
        barriers=counts.barriers,
        threadgroup_bytes=counts.threadgroup_bytes,
        group_loads=counts.group_loads,
        group_stores=counts.group_stores,
        seconds=seconds,
        arithmetic={k: ops for k, ops in done.items() if any(ops.values())},
    )
