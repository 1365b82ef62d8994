"""Says which tensors of a GGUF cannot keep their values in MLX, and how far off they end up."""

from collections.abc import Mapping

import numpy as np

from mlx_engine.loading.gguf.header import map_file
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.rounded import OutOfRangeError, relative_error
from mlx_engine.loading.safetensors_header import TensorInfo
from mlx_engine.values.reason import Reason

_SAMPLE_BYTES = 2**17


def rounding_reasons(tensors: Mapping[str, TensorInfo]) -> tuple[Reason, ...]:
    """One for each type that is rounded, with the error measured on rows of its largest tensor."""
    by_type: dict[str, list[GgufPart]] = {}
    for part in tensors.values():
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
