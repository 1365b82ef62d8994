"""The C++ compiler that builds MSL: the clang of the ziglang package, the same on every machine."""

import importlib.util
import platform
import sys
from functools import cache
from pathlib import Path

PROCESSORS = {
    "x86_64": ["-target", "x86_64-linux-gnu", "-march=x86-64", "-mf16c", "-mfma"],
    "aarch64": ["-target", "aarch64-linux-gnu"],
    "arm64": ["-target", "arm64-apple-macos", "-mcpu=apple-m1"],
}
"""What kernels are made for: no processor in particular, because half floats of some differ."""

BASE = [
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
]
KERNEL = [
    "-fno-finite-loops",
    *("-Xclang", "-cl-single-precision-constant"),
    *("-Xclang", "-ffloat16-excess-precision=none"),
    "-Wno-unknown-pragmas",
    "-Wno-unknown-attributes",
    "-Wno-ignored-attributes",
    "-Wno-literal-range",
    "-Wno-reserved-user-defined-literal",
    "-Wno-user-defined-literals",
]
LINES = ["-g1", "-gdwarf-4"]
"""Added where a fault asks for its line: they change no instruction, and cost a quarter more."""

OPTIMISED = [
    "-ftrivial-auto-var-init=pattern",
    *(f"-Werror={kind}uninitialized" for kind in ("", "sometimes-", "conditional-")),
    "-fno-slp-vectorize",  # it joins loads, which are counted
    *("-mllvm", "-disable-lsr"),
]

ROLLED_UP = ["-mllvm", "-pragma-unroll-threshold=0", "-mllvm", "-unroll-threshold=0"]
"""Compiled in two thirds of the time; most launches are as fast."""

QUICK = [
    *("-O1", "-fno-vectorize"),
    *("-mllvm", "-regalloc=basic", "-mllvm", "-enable-misched=false"),
]
CHECKED = [
    *("-O1", "-mllvm", "-fast-isel", "-mllvm", "-optimize-regalloc=false"),
    *("-fsanitize=thread", "-fsanitize=array-bounds", "-fsanitize=alignment"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
]
"""What an access does is counted before machine code is made, which may be slow, and never joins a
product and a sum: what it saves is more than what these run for.
"""

WATCHED = [
    *("-O0", "-Xclang", "-fsanitize=memory"),
    *("-Xclang", "-fsanitize-memory-track-origins=1", "-fno-discard-value-names"),
    *("-mllvm", "-msan-kernel=1", "-mllvm", "-msan-shadow-base=0"),
    *("-mllvm", "-msan-instrumentation-with-call-threshold=-1"),
]
"""Unoptimised, as what nobody wrote is whatever suits an optimiser. A base of shadows means nothing
to code that asks for them; without one clang looks for the system's, which not every one has."""


class NoCompilerError(RuntimeError):
    """The ziglang package is not installed."""


@cache
def zig() -> str:
    """The program, which is clang and a linker in one. Raises NoCompilerError."""
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise NoCompilerError("the Metal emulator needs ziglang: pip install -e '.[test]'")
    return str(Path(package.origin).with_name("zig"))


def _clang() -> list[str]:
    """The compiler itself, for any target it knows; it needs nothing of a system's."""
    return [zig(), "clang", "-std=c++17"]


def kernel_command(
    checked: bool, watched: bool = False, counted: bool = False, unrolled: bool = False
) -> list[str]:
    """Compiles a kernel.

    checked: with a call at every access to memory; watched: instead, at every one to a variable;
    counted: with numbers that count their arithmetic; unrolled: with loops written out.
    """
    loops = [] if unrolled else ROLLED_UP
    how = WATCHED if watched else [*OPTIMISED, *(CHECKED if checked else QUICK), *loops]
    count = ["-DMSL_COUNT"] if counted else []
    return [*_clang(), *PROCESSORS[platform.machine()], *BASE, *KERNEL, *how, *count]


def runtime_command() -> list[str]:
    """Compiles the emulator's own runtime, with zig's headers of the system."""
    return [zig(), "c++", "-mcpu=baseline", "-std=c++17", *BASE, "-O2", "-c"]


def lint_command() -> list[str]:
    """Checks a text."""
    return [*_clang(), "-w", "-target", "x86_64-linux-gnu", "-fsyntax-only"]


def registers_command() -> list[str]:
    """Makes assembly text for another GPU, in the order of the text, whatever fits beside it.

    Arrays with an index that is not known stay in memory.
    """
    gpu = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1030", "-nogpulib", "-O2", "-S"]
    options = ("enable-misched=false", "disable-promote-alloca-to-lds")
    options += ("disable-promote-alloca-to-vector",)
    return [*_clang(), "-w", *gpu, *(part for one in options for part in ("-mllvm", f"-{one}"))]


def link_command() -> list[str]:
    """Links the runtime, or a kernel to it; without zig's C++ and sanitizer runtimes.

    Ours answers faults. On Linux nothing of a system's libraries is looked for, which zig would
    build first, in six seconds: what is called is in Python's program.
    """
    if sys.platform == "linux":
        return [zig(), "ld.lld", "-shared"]
    return [zig(), "cc", "-shared", "-fno-sanitize=undefined"]
