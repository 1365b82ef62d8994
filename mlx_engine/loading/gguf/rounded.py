"""Blocks of GGUF that MLX cannot hold as they are -> 8 bits in groups of 32, and the error."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.gguf.bits import Bytes, Floats, Scratch
from mlx_engine.loading.gguf.blocks import RUN, RUNS, Runs
from mlx_engine.loading.gguf.header import map_file
from mlx_engine.loading.gguf.lattice import LATTICE_RUNS
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.types import BlockType
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.reason import Reason

GROUP = 32
_STEPS = np.float32(255)
_SAMPLE_BYTES = 2**17
_RUNS = RUNS | LATTICE_RUNS
ValuesOf = Callable[[Bytes], Floats]
"""Blocks [n, bytes] -> their values [n * elements]."""


class OutOfRangeError(ValueError):
    """A value that is not a number, or beyond the type of the scales."""


class RoundedRule(NamedTuple):
    """Scales and biases [groups], in the type they will be kept in."""

    scales: NDArray[np.floating]
    biases: NDArray[np.floating]


class Rounding:
    """Values, from the least to the greatest of each group of 32, in 255 steps.

    Codes are chosen for the scales as they will be kept. An error is at most half a step, what
    rounding to `dtype` takes from the reach of 255 steps and the bias, and a few float32 roundings
    (10^-6 together) of the group's greatest value: close to a tie either code may be chosen. Not
    for two threads at once.
    """

    def __init__(self, name: str, dtype: type[np.floating]) -> None:
        """name: of the blocks' type; dtype: of the scales, float32 or float16."""
        self._runs_of = _RUNS.get(name)
        self._values_of = None if self._runs_of is not None else values_of(name)
        self._dtype = dtype
        self._scratch = Scratch()

    def __call__(self, blocks: Bytes, codes: Bytes) -> RoundedRule:
        """Writes a code for each value of the blocks. Raises OutOfRangeError."""
        if self._runs_of is not None:
            return self._round_runs(self._runs_of(blocks, self._scratch), codes)
        assert self._values_of is not None
        return self._round_values(self._values_of(blocks), codes)

    def _round_runs(self, runs: Runs, codes: Bytes) -> RoundedRule:
        """Where a run has a rule, its ends are those of its codes, and so is the way to ours."""
        ends = [
            runs.scales * self._extremes(pick, runs.codes, RUN).astype(np.float32) + runs.offsets
            for pick in (np.minimum, np.maximum)
        ]
        low, high = np.minimum(*ends), np.maximum(*ends)
        rule = self._rule(np.minimum(low[::2], low[1::2]), np.maximum(high[::2], high[1::2]))
        biases = np.repeat(rule.biases.astype(np.float32), 2)
        steps = np.repeat(_divisor(rule.scales), 2)
        values = self._scratch.floats("values", runs.codes.size)
        np.copyto(values, runs.codes)
        of_runs = values.reshape(-1, RUN)
        of_runs *= (runs.scales / steps)[:, None]
        of_runs += ((runs.offsets - biases) / steps + np.float32(0.5))[:, None]
        _cut_off(values, codes)
        return rule

    def _round_values(self, values: Floats, codes: Bytes) -> RoundedRule:
        """Eats values."""
        low, high = (self._extremes(pick, values, GROUP) for pick in (np.minimum, np.maximum))
        rule = self._rule(low, high)
        groups = values.reshape(-1, GROUP)
        groups -= rule.biases.astype(np.float32)[:, None]
        groups /= _divisor(rule.scales)[:, None]
        values += np.float32(0.5)
        _cut_off(values, codes)
        return rule

    def _rule(self, low: Floats, high: Floats) -> RoundedRule:
        with np.errstate(over="ignore", invalid="ignore"):
            scales = ((high - low) / _STEPS).astype(self._dtype)
            biases = low.astype(self._dtype)
        if not (np.isfinite(scales).all() and np.isfinite(biases).all()):
            raise OutOfRangeError
        return RoundedRule(scales, biases)

    def _extremes(self, pick: np.ufunc, values: NDArray[Any], run: int) -> NDArray[Any]:
        """The least or greatest of each run.

        Of every `run` neighbours, wherever they begin, in a few passes without gaps; then those are
        taken that begin a run. That is several times faster than going from run to run.
        """
        reach, left = 1, len(values)
        while reach < run:
            left -= reach
            kept = self._scratch.bytes(f"reach {reach.bit_length() % 2}", values.nbytes)
            target = kept.view(values.dtype)[:left]
            pick(values[:left], values[reach : reach + left], out=target)
            values, reach = target, 2 * reach
        return values[::run].copy()


def relative_error(blocks: Bytes, kind: BlockType) -> float:
    """What rounding changes, RMS, relative to the values. Raises OutOfRangeError."""
    values = values_of(kind.name)(blocks)
    codes = np.empty(values.size, np.uint8)
    rule = Rounding(kind.name, np.float32)(blocks, codes)
    restored = codes.reshape(-1, GROUP) * rule.scales[:, None] + rule.biases[:, None]
    lost = restored.reshape(-1) - values
    size = float(np.vdot(values, values))
    return float(np.sqrt(np.vdot(lost, lost) / size)) if size else 0.0


def values_of(name: str) -> ValuesOf:
    """For blocks of type `name`."""
    runs_of = _RUNS.get(name)
    return by_gguf_package(name) if runs_of is None else lambda blocks: _of_runs(runs_of, blocks)


def by_gguf_package(name: str) -> ValuesOf:
    """The gguf package's own formula for a type."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = GGMLQuantizationType[name]

    def values(blocks: Bytes) -> Floats:
        # As one row, for the package goes on by sixteen rows at a time.
        with np.errstate(all="ignore"):  # a damaged scale is found afterwards, by its value
            found: Floats = dequantize(blocks.reshape(1, -1), kind).reshape(-1)
            return found

    return values


def _of_runs(runs_of: Callable[[Bytes, Scratch], Runs], blocks: Bytes) -> Floats:
    runs = runs_of(blocks, Scratch())
    values = runs.codes.reshape(-1, RUN) * runs.scales[:, None] + runs.offsets[:, None]
    return values.reshape(-1)


def _divisor(scales: NDArray[np.floating]) -> Floats:
    """One where all values of a group are the same."""
    steps = scales.astype(np.float32)
    return np.where(steps > 0, steps, np.float32(1))


def _cut_off(values: Floats, codes: Bytes) -> None:
    """Whole numbers from 0 to 255; eats values."""
    np.clip(values, 0, _STEPS, out=values)
    np.copyto(codes, values, casting="unsafe")


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
