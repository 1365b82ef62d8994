"""Storage format and bytes of a model's weights, derived from tensor headers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple

from mlx_engine.loading.fp8 import bytes_in_file
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.headers import ModelHeaders
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.tensor_names import why_tensor_skipped
from mlx_engine.values.model_description import TensorGroup
from mlx_engine.values.words import Words

_WORDS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}

_HALVES = ("F16", "BF16")

CPU_LAYOUT_LIMIT = 512 * 2**20
"""Largest model, in bytes of float32 weights, that is unpacked without Metal."""

_WORDS_PER_SCALE = {2: 16, 4: 32, 8: 32}
"""uint32 words per uint8 scale -> weights per scale, of nvfp4, mxfp4 and mxfp8."""


class StoredWeight(NamedTuple):
    """Storage form and size of a weight tensor together with its scales and biases.

    storage: a description such as "4-bit affine, groups of 64". nbytes: bytes in memory.
    file_nbytes: bytes in the file, None where equal. column_layout: bytes in the packed layout for
    CPUs, None without one. group_sums: partial sums of a row's product in that layout.
    """

    storage: str
    parameters: int
    nbytes: int
    is_matrix: bool
    file_nbytes: int | None = None
    column_layout: int | None = None
    group_sums: int = 0

    @property
    def nbytes_in_file(self) -> int:
        """Bytes that the weight with its scales and biases takes in the model's file."""
        return self.nbytes if self.file_nbytes is None else self.file_nbytes


def weights_by_group(headers: ModelHeaders, *, is_wide: bool) -> dict[str, list[StoredWeight]]:
    """Group a model's weights by role: "attention", "mlp", ... -> list of Weight.

    "MTP head" holds the usable heads, else those in the model's weight files. is_wide: 16-bit
    floats become float32, as without Metal.
    """
    family, trunk = headers.family, headers.parts.trunk
    trunk_shapes = _packed_shapes(trunk, family.config) | dict(family.trunk_shapes(trunk))
    groups: dict[str, list[StoredWeight]] = {}
    for name, weight in _stored_weights_by_name(trunk, trunk_shapes, is_wide=is_wide).items():
        groups.setdefault(family.size_group(name), []).append(weight)
    head = headers.heads.tensors or headers.parts.head
    groups["MTP head"] = [
        *_stored_weights_by_name(head, family.head_shapes(head), is_wide=is_wide).values()
    ]
    return groups


def skipped_tensor_groups(skipped: Mapping[str, TensorInfo]) -> Iterator[TensorGroup]:
    """Yield a TensorGroup for each reason why tensors of a model file are not loaded."""
    reasons: dict[str, dict[str, TensorInfo]] = {}
    for name, tensor in skipped.items():
        reasons.setdefault(why_tensor_skipped(name, skipped), {})[name] = tensor
    for why_not, tensors in sorted(reasons.items()):
        weights = [*_stored_weights_by_name(tensors, {}).values()]
        yield replace(sum_weight_sizes(Words("skipped"), weights), why_not=why_not)


def vision_group(tensors: Mapping[str, TensorInfo], *, is_wide: bool) -> Iterator[TensorGroup]:
    """Yield a TensorGroup of a vision tower, if there is one. is_wide: as in weights_by_group."""
    if tensors:
        weights = _stored_weights_by_name(tensors, {}, is_wide=is_wide)
        words = Words("for pictures, read with the first one")
        yield replace(sum_weight_sizes(Words("vision"), [*weights.values()]), why_not=words)


def on_disk_groups(headers: ModelHeaders) -> Iterator[TensorGroup]:
    """Yield a TensorGroup of the embedding tables that stay on disk, if there are any."""
    tensors = headers.parts.on_disk
    weights = [
        *_stored_weights_by_name(tensors, _packed_shapes(tensors, headers.family.config)).values()
    ]
    if weights:
        why_not = Words("single rows are read from the disk when a text needs them")
        yield replace(sum_weight_sizes(Words("tables on disk"), weights), why_not=why_not)


def unpack_small_model(weights: Mapping[str, list[StoredWeight]]) -> dict[str, list[StoredWeight]]:
    """Describe the weights of a small model as unpacked, which a CPU multiplies fastest."""
    whole = sum(weight.parameters for members in weights.values() for weight in members)
    if 4 * whole > CPU_LAYOUT_LIMIT:
        return dict(weights)
    return {name: [_as_unpacked(weight) for weight in members] for name, members in weights.items()}


def _columns_nbytes(shape: Shape, scales: int) -> int:
    """Bytes of an affine matrix [N, K] in the column layout of models/matrix.py."""
    outputs, inputs = shape
    return -(-outputs // 32) * 32 * inputs + 8 * scales


def _as_unpacked(weight: StoredWeight) -> StoredWeight:
    nbytes, stored = weight.column_layout or 4 * weight.parameters, weight.nbytes_in_file
    return weight._replace(nbytes=nbytes, file_nbytes=None if stored == nbytes else stored)


def sum_weight_sizes(name: str, weights: list[StoredWeight]) -> TensorGroup:
    """Sum the bytes and parameters of weights to a TensorGroup of the given name."""
    is_as_stored = all(weight.file_nbytes is None for weight in weights)
    return TensorGroup(
        name=name,
        tensors=len(weights),
        storage=join_storage_words(weights),
        parameters=sum(weight.parameters for weight in weights),
        nbytes=sum(weight.nbytes for weight in weights),
        file_nbytes=None if is_as_stored else sum(weight.nbytes_in_file for weight in weights),
    )


def join_storage_words(weights: Iterable[StoredWeight]) -> str:
    """Join descriptions such as "4-bit affine, groups of 64" of weights, most bytes first."""
    nbytes: dict[str, int] = {}
    for weight in weights:
        nbytes[weight.storage] = nbytes.get(weight.storage, 0) + weight.nbytes
    return " + ".join(sorted(nbytes, key=lambda words: -nbytes[words]))


def _packed_shapes(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, object]
) -> dict[str, Shape]:
    """Map names of weights with scales to their unpacked shapes.

    The group size is read from the config (`quantization`, perhaps for each tensor), since the
    widths of weight and scales leave bits and group size open.
    """
    shapes: dict[str, Shape] = {}
    for name, weight in tensors.items():
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
    tables = (config.get(key) for key in ("quantization", "quantization_config"))
    for packing in (table for table in tables if isinstance(table, Mapping)):
        own = packing.get(matrix)
        size = (own if isinstance(own, Mapping) else packing).get("group_size")
        if type(size) is int and size in (16, 32, 64, 128):
            return size
    return None


def _stored_weights_by_name(
    tensors: Mapping[str, TensorInfo], shapes: Mapping[str, Shape], *, is_wide: bool = False
) -> dict[str, StoredWeight]:
    """Make the Weight of each stored tensor but the scales and biases of quantised ones, by name.

    shapes: of unpacked weights. is_wide: 16-bit floats become float32, as without Metal.
    """
    found = {}
    for name, tensor in tensors.items():
        owner, _, part = name.rpartition(".")
        if part in ("scales", "biases") and f"{owner}.weight" in tensors:
            continue
        matrix = name.removesuffix(".weight")
        parts = {part: tensors.get(f"{matrix}.{part}") for part in ("scales", "biases")}
        if isinstance(tensor, GgufPart):
            weight = _make_stored_weight(
                tensor, **parts, shape=tensor.unpacked_shape, is_wide=is_wide
            )
            found[name] = _gguf_weight(tensor, weight)
        else:
            found[name] = _make_stored_weight(
                tensor, **parts, shape=shapes.get(name), is_wide=is_wide
            )
    return found


def _gguf_weight(tensor: GgufPart, unpacked_weight: StoredWeight) -> StoredWeight:
    """Return the Weight of a GGUF tensor; unpacked_weight: that of the arrays that it becomes."""
    kind, plan = tensor.stored.type.name, tensor.plan
    if plan.storage == "blocks":
        size = prod(tensor.unpacked_shape)
        words = f"kept as {kind} blocks (our kernel)"
        return StoredWeight(words, size, tensor.nbytes, True, tensor.file_nbytes)
    forms = {"dense": unpacked_weight.storage, "unpacked": f"{kind}, unpacked"}
    words = forms.get(plan.storage, f"{kind} as {unpacked_weight.storage}")
    return unpacked_weight._replace(storage=words, file_nbytes=tensor.file_nbytes)


def _make_stored_weight(
    tensor: TensorInfo,
    scales: TensorInfo | None,
    biases: TensorInfo | None,
    shape: Shape | None,
    *,
    is_wide: bool,
) -> StoredWeight:
    parts = [part for part in (tensor, scales, scales and biases) if part]
    nbytes = sum(
        2 * part.nbytes if is_wide and part.dtype in _HALVES else part.nbytes for part in parts
    )
    stored = sum(part.nbytes for part in parts)
    in_file = stored if stored != nbytes else None
    if scales is None:
        in_fp8, kind = bytes_in_file(tensor), tensor.dtype
        words = _WORDS.get(kind, f"{BYTES_OF[kind] * 8}-bit {kind}")
        if in_fp8 is not None:
            in_file, words = in_fp8, f"fp8 as {words}"
        return StoredWeight(words, prod(tensor.shape), nbytes, _is_matrix(tensor), in_file)
    if shape is None or not (_is_matrix(tensor) and len(scales.shape) == len(shape)):
        return StoredWeight("packed", prod(tensor.shape), nbytes, True, in_file)
    words = _packed_words(tensor, scales, shape[-1], is_affine=biases is not None)
    weight = StoredWeight(words, prod(shape), nbytes, True, in_file)
    if biases is None or len(shape) != 2:
        return weight
    sums = prod(scales.shape)
    return weight._replace(column_layout=_columns_nbytes(shape, sums), group_sums=sums)


def _is_matrix(tensor: TensorInfo) -> bool:
    """Whether a tensor is a matrix or a stack of matrices; not a depthwise convolution."""
    shape = tensor.shape
    return len(shape) == 2 or (len(shape) == 3 and 1 not in shape[1:])


def _packed_words(weight: TensorInfo, scales: TensorInfo, inputs: int, *, is_affine: bool) -> str:
    """Describe a packed matrix, as "4-bit affine, groups of 64"; inputs: weights in a row."""
    bits = weight.shape[-1] * 32 // inputs
    size = inputs // max(1, scales.shape[-1])
    if is_affine:
        return f"{bits}-bit affine, groups of {size}"
    if size == 16:
        return "nvfp4, groups of 16"
    return f"mxfp{bits}, groups of {size}"
