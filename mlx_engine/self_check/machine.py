"""What is here: Python and packages, what MLX computes on, and memory."""

import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import mlx.core as mx

from mlx_engine.built_in_model import built_in_model
from mlx_engine.decoding.device_memory import gpu_bytes, memory_bytes, usable_bytes
from mlx_engine.loading.describe import inspect_remote
from mlx_engine.self_check import Finding, State
from mlx_engine.values.errors import EngineError
from mlx_engine.values.memory_plan import Fit

OLDEST = (3, 11)
NEWEST = (3, 13)
NEEDED = ("mlx", "mlx-lm", "tokenizers", "jinja2", "numpy", "gguf")
WINDOW_NEEDS = "PySide6-Essentials"

SMALL_MEMORY = 8_000_000_000


def check_python(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """The versions we test."""
    here = f"{found[0]}.{found[1]} on {platform.system()} {platform.release()}"
    if OLDEST <= found <= NEWEST:
        return Finding("python", "ok", here)
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST, NEWEST))
    return Finding("python", "fail", f"{here}: install Python {oldest} to {newest}")


def check_packages() -> Iterator[Finding]:
    """What the engine needs, then what the window needs."""
    for name in NEEDED:
        yield check_package(name, "fail", "the engine needs it: install Headstart again")
    yield check_package(WINDOW_NEEDS, "warn", "there is no window without it, only the terminal")


def check_package(name: str, missing: State, why: str) -> Finding:
    """Its version; `missing` and `why` when it is not installed."""
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, missing, f"not installed: {why}")


@dataclass(frozen=True, slots=True)
class Machine:
    """chip: empty where MLX does not name it. gpu_bytes: what the GPU may hold, 0 without one."""

    backend: str
    chip: str
    memory_bytes: int
    gpu_bytes: int


def this_machine() -> Machine:
    """Ask MLX and the system."""
    if not mx.metal.is_available():
        return Machine("CPU", "", memory_bytes(), 0)
    return Machine("Metal", str(mx.device_info()["device_name"]), memory_bytes(), gpu_bytes())


def backend_words() -> str:
    """ "Metal, Apple M4 Max", or "CPU"."""
    machine = this_machine()
    return f"{machine.backend}, {machine.chip}" if machine.chip else machine.backend


def check_backend(machine: Machine) -> Finding:
    """Metal is what the engine is made for; the CPU gives the same words, slowly."""
    if machine.backend == "Metal":
        return Finding("backend", "ok", f"Metal on {machine.chip}")
    return Finding("backend", "warn", "no Metal here: MLX computes on the CPU, which is slow")


def check_memory(machine: Machine) -> Finding:
    """How much there is for a model."""
    words = f"{machine.memory_bytes / 1e9:.1f} GB"
    if machine.gpu_bytes:
        words += f", {machine.gpu_bytes / 1e9:.1f} GB of it for the GPU"
    if machine.memory_bytes < SMALL_MEMORY:
        return Finding("memory", "warn", f"{words}: only small models fit")
    return Finding("memory", "ok", words)


PLANNED: dict[Fit, State] = {"fits": "ok", "tight": "warn", "too-large": "fail"}


def check_plan(model: str) -> Finding:
    """Whether a model fits, told from its headers."""
    try:
        told = inspect_remote(model, built_in_model()).on(metal=mx.metal.is_available())
    except EngineError as error:
        return Finding("plan", "fail", str(error))
    memory = told.memory_fit(usable_bytes(), gpu_bytes=gpu_bytes())
    return Finding("plan", PLANNED[memory.fit], f"{told.name}: {memory.words}")
