"""Compiles the runtime and kernels into shared libraries, once for each text."""

import getpass
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path

from metal_emulator import toolchain
from metal_emulator.errors import EmulatorError
from metal_emulator.instructions import instructions_by_depth
from metal_emulator.registers import Registers

CPP = Path(__file__).parent / "cpp"
RUNTIME_SOURCES = ("launch.cpp", "checks.cpp", "private.cpp")


@cache
def cache_folder() -> Path:
    """Outside the repository; kept between runs."""
    folder = Path(tempfile.gettempdir()) / f"metal_emulator_{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@cache
def _emulator_hash() -> str:
    digest = hashlib.sha256(version("ziglang").encode())
    for path in sorted(CPP.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def _library(key: object) -> Path:
    text = repr((key, _emulator_hash()))
    return cache_folder() / (hashlib.sha256(text.encode()).hexdigest()[:24] + ".so")


@contextmanager
def _source(text: str) -> Iterator[Path]:
    """A file of it for this build alone: another process may build the same."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        source = Path(scratch, "kernel.cpp")
        source.write_text(text, encoding="utf-8")
        yield source


def _run(command: list[str]) -> str | None:
    """What the compiler said when it failed, None when it did not."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr + done.stdout if done.returncode else None


def _build(
    target: Path, compiles: list[list[str]], link: list[str], libraries: list[str]
) -> str | None:
    """Objects, then one library moved into place whole. Returns the compiler's complaint."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        objects = []
        for number, command in enumerate(compiles):
            objects.append(f"{scratch}/{number}.o")
            said = _run([*command, "-o", objects[-1]])
            if said:
                return said
        made = f"{scratch}/library.so"
        said = _run([*link, *objects, *libraries, "-o", made])
        if not said:
            Path(made).replace(target)
        return said


@cache
def runtime_library() -> Path:
    """The scheduler and the checks. Raises NoCompilerError, RuntimeError when it does not build."""
    compiles = [[*toolchain.runtime_command(), str(CPP / s)] for s in RUNTIME_SOURCES]
    link = toolchain.link_command()
    target = _library((compiles, link))
    if not target.exists():
        is_mac = sys.platform == "darwin"
        own_name = f"-Wl,-install_name,{target}" if is_mac else f"-soname={target}"
        said = _build(target, compiles, [*link, own_name], [])
        if said:
            raise RuntimeError(f"the emulator's runtime does not compile:\n{said}")
    return target


@cache
def _precompiled(header: Path, command: tuple[str, ...]) -> Path:
    """What most texts begin with, parsed once; for the header as it lies there, which clang checks.

    Raises RuntimeError when it does not compile.
    """
    target = _library((command, [path.stat().st_mtime_ns for path in sorted(CPP.iterdir())]))
    target = target.with_suffix(".pch")
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            made = Path(scratch, "header.pch")
            said = _run([*command, "-x", "c++-header", str(header), "-o", str(made)])
            if said:
                raise RuntimeError(f"the emulator's headers do not compile:\n{said}")
            made.replace(target)
    return target


@cache
def kernel_library(name: str, text: str, command: tuple[str, ...]) -> Path:
    """The kernel's C++ text, compiled so, as a library. Raises EmulatorError "compile"."""
    command = (*command, f"-I{CPP}")
    link, runtime = toolchain.link_command(), runtime_library()
    target = _library((text, command, link))
    if target.exists():
        return target
    header = _precompiled(CPP / "msl.h", command)
    compiling = [*command, "-c", "-include-pch", str(header)]
    with _source(text) as source:
        said = _build(target, [[*compiling, str(source)]], link, [str(runtime)])
    if said:
        raise EmulatorError(name, "compile", _shortened(said))
    return target


_COUNTS = re.compile(r"^; (NumVgprs|ScratchSize): (\d+)$", re.MULTILINE)


def lint(name: str, text: str) -> Registers:
    """What a GPU needs for a text of lint.h. Raises EmulatorError "lint", NoCompilerError."""
    check, command = (
        [*one, f"-I{CPP}"] for one in (toolchain.lint_command(), toolchain.registers_command())
    )
    target = _library((text, check, command)).with_suffix(".s")
    if not target.exists():
        with _source(text) as source:
            made = source.with_suffix(".s")
            said = _run([*check, str(source)]) or _run([*command, str(source), "-o", str(made)])
            if said:
                raise EmulatorError(name, "lint", _shortened(said))
            made.replace(target)
    assembly = target.read_text(encoding="utf-8")
    found = dict(_COUNTS.findall(assembly))
    loops = instructions_by_depth(assembly)
    return Registers(int(found["NumVgprs"]), int(found["ScratchSize"]), loops)


def _shortened(said: str, most: int = 40) -> str:
    lines = said.splitlines()
    return "\n".join(lines[:most])
