"""Blocks of GGUF that MLX cannot hold as they are -> 8 bits in groups of 32, and the error."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import Bytes, Scratch
from mlx_engine.loading.gguf.blocks import RUN, RUNS, Rule, Runs
from mlx_engine.loading.gguf.header import BlockType, map_file
from mlx_engine.loading.gguf.lattice import LATTICE_RUNS
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.errors import Reason

GROUP = 32
ROUNDED_RUNS = RUNS | LATTICE_RUNS
_STEPS = np.float32(255)
_SAMPLE_BYTES = 2**17


class OutOfRangeError(ValueError):
    """A value that is not a number, or beyond the type of the scales."""


def rounded(runs: Runs, codes: Bytes, dtype: type[np.floating], scratch: Scratch) -> Rule:
    """Values, from the least to the greatest of each group of 32, in 255 steps.

    Writes a code for each; scales and biases [groups] are of `dtype`, float32 or float16, and codes
    are chosen for them. An error is at most half a step, what rounding to `dtype` takes from the
    reach of 255 steps and the bias, and a few float32 roundings (10^-6 together) of the group's
    greatest value: close to a tie either code may be chosen. Raises OutOfRangeError.
    """
    ends = [
        runs.scales * _extremes(pick, runs.codes, scratch).astype(np.float32) + runs.offsets
        for pick in (np.minimum, np.maximum)
    ]  # of a run are those of its codes
    low, high = np.minimum(*ends), np.maximum(*ends)
    low, high = np.minimum(low[::2], low[1::2]), np.maximum(high[::2], high[1::2])
    with np.errstate(over="ignore", invalid="ignore"):
        scales, biases = ((high - low) / _STEPS).astype(dtype), low.astype(dtype)
    if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
        raise OutOfRangeError
    steps = scales.astype(np.float32)
    steps = np.repeat(np.where(steps > 0, steps, np.float32(1)), 2)
    values = scratch.floats("values", runs.codes.size)
    np.copyto(values, runs.codes)
    of_runs = values.reshape(-1, RUN)
    of_runs *= (runs.scales / steps)[:, None]
    moved = (runs.offsets - np.repeat(biases.astype(np.float32), 2)) / steps + np.float32(0.5)
    of_runs += moved[:, None]
    np.clip(values, 0, _STEPS, out=values)
    np.copyto(codes, values, casting="unsafe")
    return Rule(scales, biases)


def _extremes(pick: np.ufunc, values: NDArray[np.int8], scratch: Scratch) -> NDArray[np.int8]:
    """The least or greatest of each run.

    Of so many neighbours, wherever they begin, in a few passes without gaps; then those are taken
    that begin a run. That is several times faster than going from run to run.
    """
    reach, left = 1, len(values)
    while reach < RUN:
        left -= reach
        target = scratch.bytes(f"reach {reach.bit_length() % 2}", len(values)).view(np.int8)[:left]
        pick(values[:left], values[reach : reach + left], out=target)
        values, reach = target, 2 * reach
    return values[::RUN].copy()


def relative_error(blocks: Bytes, kind: BlockType) -> float:
    """What rounding changes, RMS, relative to the values. Raises OutOfRangeError."""
    runs = ROUNDED_RUNS[kind.name](blocks, Scratch())
    values = (runs.codes.reshape(-1, RUN) * runs.scales[:, None] + runs.offsets[:, None]).ravel()
    codes = np.empty(values.size, np.uint8)
    rule = rounded(runs, codes, np.float32, Scratch())
    assert rule.biases is not None
    restored = codes.reshape(-1, GROUP) * rule.scales[:, None] + rule.biases[:, None]
    lost = restored.reshape(-1) - values
    size = float(np.vdot(values, values))
    return float(np.sqrt(np.vdot(lost, lost) / size)) if size else 0.0


def rounding_reasons(tensors: Iterable[TensorInfo]) -> tuple[Reason, ...]:
    """One for each type that is rounded, with the error measured on rows of its largest tensor."""
    by_type: dict[str, list[GgufPart]] = {}
    for part in tensors:
        if isinstance(part, GgufPart) and part.is_weight and not part.plan.exact:
            by_type.setdefault(part.stored.type.name, []).append(part)
    return tuple(_reason(name, parts) for name, parts in by_type.items())


def _reason(name: str, parts: list[GgufPart]) -> Reason:
    largest = max(parts, key=lambda part: part.stored.nbytes)
    words = f"Tensors of type {name} ({len(parts)}) become {largest.plan.words}: MLX has no exact "
    words += f"form for this type. {_measured(largest)}"
    return Reason(f"rounded-{name.lower().replace('_', '-')}", words)


def _measured(part: GgufPart) -> str:
    if part.plan.becomes == "dense":
        return "Each value is rounded to the nearest."
    stored = part.stored
    rows = stored.blocks(map_file(stored.file))
    rows = rows[: max(1, _SAMPLE_BYTES // rows.shape[1])]
    try:
        blocks = np.ascontiguousarray(rows).reshape(-1, stored.type.nbytes)
        error = relative_error(blocks, stored.type)
    except OutOfRangeError:
        return "The first rows hold values that are not numbers."
    return f"Values change by {error:.2%} (RMS, measured on {stored.name})."
