"""Puts the runtime's fault record into words and finds its line in the kernel's source."""

import ctypes
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from metal_emulator import native
from metal_emulator.errors import KINDS, EmulatorError, Place
from metal_emulator.lines import Line, line_of

PRIVATE = 2
"""Of msl_memory."""

STATES = ("not yet run", "waiting at", "waiting at", "returned")


def error_of(kernel: str, with_lines: Callable[[], Path], buffers: list[str]) -> EmulatorError:
    """The last launch's fault. with_lines: the kernel's code with the lines it came from."""
    fault = native.runtime().msl_last_fault().contents
    kind = KINDS[fault.kind]
    what = fault.what.decode()
    if kind == "divergence":
        return _divergence(kernel, fault)
    if kind == "unwritten":
        name = buffers[fault.buffer]
        message = (
            f"{fault.size} bytes of output '{name}' never written, the first at {fault.offset}"
        )
        return EmulatorError(kernel, kind, message, Place(buffer=name, offset=fault.offset))
    in_source = bool(fault.file)
    at = Line(fault.file.decode(), fault.line) if in_source else _line_of(with_lines, fault.pc)
    other = _line_of(with_lines, fault.other_pc) if fault.has_other else None
    is_private = fault.memory == PRIVATE
    in_memory = is_private or (kind not in ("limit", "endless") and not in_source)
    name = _buffer_name(fault, buffers) if in_memory else None
    place = Place(
        file=at.file if at else None,
        line=at.line if at else None,
        buffer=name,
        offset=_signed(fault.offset) if name and not is_private else None,
        thread=tuple(fault.thread.in_group),
        threadgroup=tuple(fault.thread.group),
        other_line=other.line if other else None,
    )
    return EmulatorError(kernel, kind, _sentence(fault, what, place), place)


def _sentence(fault: native.Fault, what: str, place: Place) -> str:
    words = f"{what} by thread {_thread(fault.thread)}"
    if fault.memory == PRIVATE:
        words += f", private variable '{place.buffer}'"
    elif place.buffer:
        verb = "write" if fault.write else "read"
        memory = "threadgroup" if fault.memory else "buffer"
        words += (
            f", {verb} of {fault.size} bytes at byte {place.offset} of {memory} '{place.buffer}'"
        )
    elif fault.file:
        words += f", {_signed(fault.offset)}"
    if fault.kind == KINDS.index("limit"):
        words += f", {fault.size} bytes"
    if fault.has_other:
        at = f" at line {place.other_line}" if place.other_line else ""
        words += f"; the other is thread {_thread(fault.other)}{at}, no barrier between"
    return words + (f" [{place.file}:{place.line}]" if place.line else "")


def _thread(thread: native.Thread) -> str:
    place = f"{tuple(thread.in_group)} of threadgroup {tuple(thread.group)}"
    return f"{place} (SIMD-group {thread.simd} lane {thread.lane})"


def _signed(offset: int) -> int:
    return offset - (1 << 64) if offset >> 63 else offset


def _buffer_name(fault: native.Fault, buffers: list[str]) -> str:
    if fault.memory == PRIVATE:
        return ctypes.string_at(native.runtime().msl_image() + fault.buffer).decode().split(".")[0]
    if fault.buffer < 0:
        return "threadgroup memory" if fault.memory else "(none)"
    if fault.memory:
        return native.runtime().msl_array_name(fault.buffer).decode()
    return buffers[fault.buffer]


def _divergence(kernel: str, fault: native.Fault) -> EmulatorError:
    runtime = native.runtime()
    stood = []
    for index in range(runtime.msl_threads_alive()):
        op, file, line = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int()
        state = runtime.msl_stood(index, *map(ctypes.byref, (op, file, line)))
        at = f" {op.value.decode()} ({file.value.decode()}:{line.value})" if state in (1, 2) else ""
        stood.append((STATES[state] + at, index))
    lines = []
    for state in dict.fromkeys(state for state, _ in stood):
        indices = [index for other, index in stood if other == state]
        lines.append(f"  threads {_ranges(indices)} {state}")
    first = re.search(r"\(([^()]*):(\d+)\)", "\n".join(lines))
    place = Place(
        file=first.group(1) if first else None,
        line=int(first.group(2)) if first else None,
        thread=tuple(fault.thread.in_group),
        threadgroup=tuple(fault.thread.group),
    )
    head = f"not all threads of threadgroup {place.threadgroup} reach the same place"
    return EmulatorError(kernel, "divergence", "\n".join([head, *lines]), place)


def _ranges(indices: list[int]) -> str:
    runs = []
    for _, run in groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0]):
        members = [index for _, index in run]
        runs.append(f"{members[0]}-{members[-1]}" if len(members) > 1 else str(members[0]))
    return " ".join(runs)


def _line_of(with_lines: Callable[[], Path], pc: int) -> Line | None:
    image = native.runtime().msl_image()
    return line_of(with_lines(), pc - image - 1) if pc > image else None
