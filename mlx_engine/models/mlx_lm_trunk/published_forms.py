"""Tensors as Hugging Face publishes them -> as mlx-lm's `sanitize` expects them, where they differ.

gpt-oss with dense experts: `experts.gate_up_proj` [E, H, 2 D], gates and ups in turn along the last
axis, and `experts.down_proj` [E, D, H]; mlx-lm knows the MXFP4 form alone, whose rows are outputs.
"""

from collections.abc import Mapping

import mlx.core as mx


def published(model_type: str, arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """The arrays under the names and in the shapes that the class takes; lazy."""
    if model_type != "gpt_oss":
        return dict(arrays)
    made: dict[str, mx.array] = {}
    for name, array in arrays.items():
        base, _, last = name.rpartition(".")
        if last == "gate_up_proj":
            made[f"{base}.gate_proj.weight"] = array[..., ::2].swapaxes(-1, -2)
            made[f"{base}.up_proj.weight"] = array[..., 1::2].swapaxes(-1, -2)
        elif last == "down_proj":
            made[f"{base}.down_proj.weight"] = array.swapaxes(-1, -2)
        elif last == "gate_up_proj_bias" and f"{base}.gate_up_proj" in arrays:
            made[f"{base}.gate_proj.bias"] = array[..., ::2]
            made[f"{base}.up_proj.bias"] = array[..., 1::2]
        elif last == "down_proj_bias" and f"{base}.gate_up_proj" in arrays:
            made[f"{base}.down_proj.bias"] = array
        else:
            made[name] = array
    return made
