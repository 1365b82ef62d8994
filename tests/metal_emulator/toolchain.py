"""Finds a C++ compiler that can build MSL: MSL_CXX, clang++ 16, g++ 12 or ziglang."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

BASE = [
    "-std=c++17",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wno-attributes",
    "-Wno-unknown-pragmas",
]
KERNEL = ["-O1", "-g1", "-ftrivial-auto-var-init=pattern", "-fno-finite-loops"]
CLANG_KERNEL = [
    "-fno-slp-vectorize",  # it joins loads, which are counted
    *("-Xclang", "-cl-single-precision-constant"),
    *("-Xclang", "-ffloat16-excess-precision=none"),
    "-Wno-unknown-attributes",
    "-Wno-ignored-attributes",
    "-Wno-literal-range",
    "-Wno-reserved-user-defined-literal",
    "-Wno-user-defined-literals",
    "-Wno-unknown-warning-option",
]
GCC_KERNEL = ["-fsingle-precision-constant", "-Wno-literal-suffix"]
CHECKED = ["-fsanitize=thread", "-fsanitize=bounds", "-fsanitize=alignment"]
CLANG_CHECKED = [
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
]
GCC_CHECKED = ["--param=tsan-instrument-func-entry-exit=0"]
OLDEST = {"clang": 16, "gcc": 12}


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that was seen to work. command: what starts it. kind: "clang" or "gcc"."""

    command: tuple[str, ...]
    kind: str
    version: str

    def kernel_flags(self, checked: bool) -> list[str]:
        """Of a kernel's translation unit."""
        clang = self.kind == "clang"
        flags = [*self.command, *BASE, *KERNEL, *(CLANG_KERNEL if clang else GCC_KERNEL)]
        if os.uname().machine == "x86_64":
            flags.append("-mf16c")
        return flags + (CHECKED + (CLANG_CHECKED if clang else GCC_CHECKED) if checked else [])

    def runtime_flags(self) -> list[str]:
        """Of the emulator's own runtime."""
        return [*self.command, *BASE, "-O2"]

    def lint_flags(self) -> list[str]:
        """Of a check. It makes an object nobody needs, as zig's clang knows no -fsyntax-only."""
        return [*self.command, "-std=c++17", "-w", "-c"]

    def link_flags(self) -> list[str]:
        """Of any shared library. It needs no C++ runtime; zig's c++ would build one first."""
        command = list(self.command)
        if "ziglang" in command and command[-1] == "c++":
            command[-1] = "cc"
        return [*command, "-shared", "-fPIC"]


class NoCompilerError(RuntimeError):
    """None of the compilers is here."""


def _candidates() -> list[tuple[str, ...]]:
    """The order of choice. The one place of the tests that reads the environment."""
    named = os.environ.get("MSL_CXX")
    if named:
        return [tuple(named.split())]
    versions = [f"clang++-{n}" for n in range(30, 15, -1)] + ["clang++"]
    versions += ["g++", *(f"g++-{n}" for n in range(20, 11, -1))]
    found: list[tuple[str, ...]] = [(name,) for name in versions if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found


@cache
def find_compiler() -> Compiler:
    """The first that fits. Raises NoCompilerError, naming what was tried."""
    tried = []
    for command in _candidates():
        compiler = _probe(command)
        if compiler:
            return compiler
        tried.append(" ".join(command))
    raise NoCompilerError(
        f"the Metal emulator needs clang++ >= 16, g++ >= 12 or the ziglang package; tried {tried}"
    )


@cache
def find_linter() -> Compiler:
    """The first clang >= 16, zig's too; gcc knows no address spaces. Raises NoCompilerError."""
    for command in _candidates():
        compiler = _probe(command)
        if compiler and compiler.kind == "clang":
            return compiler
    raise NoCompilerError("the Metal emulator's lint needs clang++ >= 16 or the ziglang package")


def _probe(command: tuple[str, ...]) -> Compiler | None:
    asked = subprocess.run(
        [*command, "-dM", "-E", "-x", "c++", "-"],
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    macros = dict(re.findall(r"#define (\w+) (.*)", asked.stdout))
    kind = "clang" if "__clang__" in macros else "gcc"
    major = macros.get("__clang_major__" if kind == "clang" else "__GNUC__")
    if asked.returncode or not major or int(major) < OLDEST[kind]:
        return None
    return Compiler(command, kind, macros.get("__VERSION__", major))


def must_not_skip() -> bool:
    """Whether this is a CI run, where a missing compiler is a failure."""
    return os.environ.get("CI", "").lower() in ("1", "true")
