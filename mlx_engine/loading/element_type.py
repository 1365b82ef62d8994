"""In which type floating numbers are kept: as stored with Metal, float32 without."""

from collections.abc import Mapping

import mlx.core as mx


def cast_floats(arrays: Mapping[str, mx.array], *, metal: bool) -> dict[str, mx.array]:
    """The same arrays, lazily cast; packed integers stay what they are.

    Without Metal weights, scales and biases become float32: MLX's CPU backend computes in 16 bits
    slowly, and with other rounding. With Metal only float64 changes, which no GPU has.
    """
    return {name: _cast(array, metal=metal) for name, array in arrays.items()}


def element_bytes(config: Mapping[str, object], *, metal: bool) -> int:
    """Bytes of one cached key or value: of the type activations have."""
    text = config.get("text_config", config)
    inner = text if isinstance(text, Mapping) else config
    named = (table.get(key) for table in (inner, config) for key in ("dtype", "torch_dtype"))
    stored = next((name for name in named if isinstance(name, str)), "bfloat16")
    return 2 if metal and stored in ("bfloat16", "float16") else 4


def _cast(array: mx.array, *, metal: bool) -> mx.array:
    is_wide = array.dtype == mx.float64
    if mx.issubdtype(array.dtype, mx.floating) and (is_wide or not metal):
        return array.astype(mx.float32)
    return array
