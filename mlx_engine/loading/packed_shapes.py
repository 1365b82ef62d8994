"""Unpacked shapes of packed tensors, told from their headers and the config alone."""

from collections.abc import Mapping

from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.specs import Shape

_WORDS_PER_SCALE = {2: 16, 4: 32, 8: 32}
"""uint32 words for each uint8 scale -> weights for each: nvfp4, mxfp4, mxfp8."""


def packed_shapes(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, object]
) -> dict[str, Shape]:
    """Weight name -> shape, for every weight with scales beside it.

    Widths of weight and scales leave bits and group size open between them; the config's
    `quantization` has the group size, perhaps another one for single tensors. GGUFs tell shapes.
    """
    shapes: dict[str, Shape] = {}
    for name, weight in tensors.items():
        if isinstance(weight, GgufPart):
            if weight.is_weight:
                shapes[name] = weight.unpacked_shape
            continue
        matrix = name.removesuffix(".weight")
        scales = tensors.get(f"{matrix}.scales")
        if scales is not None and name != matrix and weight.shape and scales.shape:
            size = _group_size(matrix, weight, scales, config)
            if size is not None and weight.shape[:-1] == scales.shape[:-1]:
                shapes[name] = (*weight.shape[:-1], scales.shape[-1] * size)
    return shapes


def _group_size(
    matrix: str, weight: TensorInfo, scales: TensorInfo, config: Mapping[str, object]
) -> int | None:
    if scales.dtype == "U8":
        return _WORDS_PER_SCALE.get(weight.shape[-1] // max(1, scales.shape[-1]))
    packing = config.get("quantization", config.get("quantization_config"))
    if not isinstance(packing, Mapping):
        return None
    own = packing.get(matrix)
    size = (own if isinstance(own, Mapping) else packing).get("group_size")
    return size if isinstance(size, int) and size in (16, 32, 64, 128) else None
