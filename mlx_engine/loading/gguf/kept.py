"""GGUF matrices that stay in the blocks of the file, because our kernels read these."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from mlx_engine.loading.gguf.block_scales import SCALES
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.plan import BlockPlan
from mlx_engine.loading.gguf.rounding import rounding_reasons
from mlx_engine.loading.model_headers import ModelHeaders
from mlx_engine.loading.safetensors_header import TensorInfo
from mlx_engine.models.registry import OWN

KEPT = BlockPlan("blocks", 0, 0, exact=True)

IsRead = Callable[[str, int, int], bool]
"""Block type, outputs, inputs -> whether a kernel multiplies by such a matrix."""


def any_of_ours(kind: str, outputs: int, inputs: int) -> bool:
    """As where every kernel is in use."""
    del kind, outputs, inputs
    return True


def keep_blocks(headers: ModelHeaders, is_read: IsRead) -> ModelHeaders:
    """The same, with matrices kept in their blocks where kernels read them.

    Only layers of our own can use such; stacks of experts and matrices whose columns change places
    are made others of as ever.
    """
    if headers.config.get("model_type") not in OWN:
        return headers
    trunk = _kept(headers.parts.trunk, is_read)
    heads = _kept(headers.heads.tensors, is_read)
    left = rounding_reasons({**trunk, **{f"mtp.{name}": info for name, info in heads.items()}})
    return replace(
        headers,
        parts=replace(headers.parts, trunk=trunk),
        heads=replace(headers.heads, tensors=heads),
        rounded=headers.rounded if headers.gguf is None else left,
    )


def _kept(tensors: Mapping[str, TensorInfo], is_read: IsRead) -> dict[str, TensorInfo]:
    kept = {
        name: _in_blocks(info)
        for name, info in tensors.items()
        if isinstance(info, GgufPart) and _can_stay(info, is_read)
    }
    gone = {
        f"{name.removesuffix('.weight')}.{part}" for name in kept for part in ("scales", "biases")
    }
    return {name: kept.get(name, info) for name, info in tensors.items() if name not in gone}


def _can_stay(part: GgufPart, is_read: IsRead) -> bool:
    place, shape, kind = part.place, part.unpacked_shape, part.stored.type.name
    moved = place.column_heads is not None or place.change != "none"
    if moved or part.factor is not None or not part.is_weight or kind not in SCALES:
        return False
    return len(shape) == 2 and is_read(kind, shape[0], shape[1])


def _in_blocks(part: GgufPart) -> GgufPart:
    kind, (outputs, inputs) = part.stored.type, part.unpacked_shape
    shape = (outputs, inputs // kind.elements * kind.nbytes)
    return replace(part, dtype="U8", shape=shape, nbytes=prod(shape), plan=KEPT)
