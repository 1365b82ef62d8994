"""The C++ compiler that builds MSL: the clang of the ziglang package, the same on every machine."""

import importlib.util
import platform
from functools import cache
from pathlib import Path

PROCESSORS = {"x86_64": "x86_64+f16c+fma", "aarch64": "generic", "arm64": "apple_m1"}
"""What code is made for; zig would take the processor it runs on, whose half floats differ."""

BASE = [
    "-std=c++17",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
]
KERNEL = [
    *("-g1", "-fno-finite-loops"),
    *("-Xclang", "-cl-single-precision-constant"),
    *("-Xclang", "-ffloat16-excess-precision=none"),
    "-Wno-unknown-pragmas",
    "-Wno-unknown-attributes",
    "-Wno-ignored-attributes",
    "-Wno-literal-range",
    "-Wno-reserved-user-defined-literal",
    "-Wno-user-defined-literals",
]
OPTIMISED = [
    *("-O1", "-ftrivial-auto-var-init=pattern"),
    *(f"-Werror={kind}uninitialized" for kind in ("", "sometimes-", "conditional-")),
    "-fno-slp-vectorize",  # it joins loads, which are counted
]
CHECKED = [
    *("-fsanitize=thread", "-fsanitize=array-bounds", "-fsanitize=alignment"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
]
WATCHED = [
    *("-O0", "-fno-sanitize=undefined", "-Xclang", "-fsanitize=memory"),
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


def _compile() -> list[str]:
    return [zig(), "c++", f"-mcpu={PROCESSORS[platform.machine()]}", *BASE, "-c"]


def kernel_command(checked: bool, watched: bool = False, counted: bool = False) -> list[str]:
    """Compiles a kernel.

    checked: with a call at every access to memory; watched: instead, at every one to a variable;
    counted: with numbers that count their arithmetic.
    """
    how = WATCHED if watched else [*OPTIMISED, *(CHECKED if checked else [])]
    return [*_compile(), *KERNEL, *how, *(["-DMSL_COUNT"] if counted else [])]


def runtime_command() -> list[str]:
    """Compiles the emulator's own runtime."""
    return [*_compile(), "-O2"]


def _clang() -> list[str]:
    """The compiler itself, for any target it knows."""
    return [zig(), "clang", "-x", "c++", "-std=c++17", "-w"]


def lint_command() -> list[str]:
    """Checks a text."""
    return [*_clang(), "-target", "x86_64-linux-gnu", "-fsyntax-only"]


def registers_command() -> list[str]:
    """Makes assembly text for another GPU, in the order of the text, whatever fits beside it.

    Arrays with an index that is not known stay in memory.
    """
    gpu = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1030", "-nogpulib", "-O2", "-S"]
    options = ("enable-misched=false", "disable-promote-alloca-to-lds")
    options += ("disable-promote-alloca-to-vector",)
    return [*_clang(), *gpu, *(part for one in options for part in ("-mllvm", f"-{one}"))]


def link_command() -> list[str]:
    """Links a shared library, without zig's C++ and sanitizer runtimes: ours answers faults."""
    return [zig(), "cc", "-shared", "-fPIC", "-fno-sanitize=undefined"]
