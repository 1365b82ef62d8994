"""Weights stored in fp8 with scales: pair the tensors, and dequantise them to 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from mlx_engine.loading.assembled_tensors import AssembledTensor
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.values.errors import BadModelFile, Reason
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    import mlx.core as mx

_CODES = "F8_E4M3"
_SCALES = ("F32", "BF16", "F16")
_SCALE_ENDINGS = ("_scale_inv", "_scale")
"""Endings of the scales' names after the weight's; both are factors, despite "inv"."""

_STRAYS = ("_scale_inv", ".weight_scale")
_OF_ACTIVATIONS = (".input_scale", ".activation_scale", ".k_scale", ".v_scale")
"""Scales of activations and caches, unused where weights are unpacked."""


class Fp8Block(NamedTuple):
    """Number of rows and columns of a weight that share one fp8 scale.

    parts: equal runs of rows quantised separately, each with a short last block, as in MiMo-V2.5's
    joined projections (sglang #23808).
    """

    rows: int
    columns: int
    parts: int = 1


_USUAL = Fp8Block(128, 128)
_MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class Fp8Tensor(TensorInfo):
    """Header of an fp8 weight [..., N, K]; dtype, shape and nbytes are of the dequantised tensor.

    codes: the stored e4m3 bytes. scales: factors of the blocks, [..., ceil(N / rows), ceil(K /
    columns)]; axes with a single block may be missing.
    """

    codes: TensorInfo
    scales: TensorInfo
    block: Fp8Block


def pair_fp8_scales(
    tensors: Mapping[str, TensorInfo], config: Mapping[str, object], origin: str
) -> dict[str, TensorInfo]:
    """Join headers of fp8 weights and their scales by weight name; drop activation scales.

    config: gives the block size; origin: the config's path for messages. Raises BadModelFile naming
    a tensor whose weight or scales are missing or do not fit.
    """
    packed = [name for name, info in tensors.items() if info.dtype == _CODES]
    if not packed:
        return dict(tensors)
    block, dtype = fp8_block_size(config, origin), _half_dtype(tensors)
    kept = {name: info for name, info in tensors.items() if not name.endswith(_OF_ACTIVATIONS)}
    for name in packed:
        there = [name + ending for ending in _SCALE_ENDINGS if name + ending in kept]
        if len(there) != 1:
            found = " and ".join(there) or f"no {name}{_SCALE_ENDINGS[0]}"
            raise _bad_tensor(
                tensors[name], f"there is {found}, where one tensor of scales belongs"
            )
        kept[name] = _join_fp8_scales(tensors[name], kept.pop(there[0]), block, dtype)
    for name, info in kept.items():
        if name.endswith(_STRAYS):
            raise _bad_tensor(info, "these are the scales of a weight that is not there in fp8")
    return kept


def bytes_in_file(tensor: TensorInfo) -> int | None:
    """Bytes in the file of a tensor made from fp8 weights and scales; None for other tensors."""
    if isinstance(tensor, Fp8Tensor):
        return tensor.codes.nbytes + tensor.scales.nbytes
    if not isinstance(tensor, AssembledTensor):
        return None
    stored = [bytes_in_file(source) for source in tensor.sources]
    if all(nbytes is None for nbytes in stored):
        return None
    pairs = zip(stored, tensor.sources, strict=True)
    whole = sum(source.nbytes if nbytes is None else nbytes for nbytes, source in pairs)
    loaded = sum(source.nbytes for source in tensor.sources)
    return round(whole * tensor.nbytes / max(1, loaded))


def fp8_unpacking_reasons(tensors: Iterable[TensorInfo]) -> tuple[Reason, ...]:
    """Tell the user how much memory unpacking fp8 tensors takes; empty where there are none."""
    sizes = [(info.nbytes, bytes_in_file(info)) for info in tensors]
    ours = [(loaded, stored) for loaded, stored in sizes if stored is not None]
    if not ours:
        return ()
    loaded, stored = (sum(column) for column in zip(*ours, strict=True))
    words = Words(
        "The model's 8-bit numbers (fp8) are unpacked to 16 bits, {times:.1f} times their size in "
        "the file, because no graphics processor of a Mac computes with them. They are rounded by "
        "0.2% at most. Without Metal they take 32 bits.",
        times=loaded / max(1, stored),
    )
    return (Reason("unpacked-fp8", words),)


def dequantise_fp8(codes: mx.array, scales: mx.array, block: Fp8Block, dtype: mx.Dtype) -> mx.array:
    """Dequantise an fp8 weight [..., N, K] lazily: codes (uint8 e4m3) times their blocks' scales.

    Computed in float32 and rounded once to dtype.
    """
    import mlx.core as mx

    if block.parts > 1:
        *stack, rows, columns = codes.shape
        run = codes.reshape(*stack, block.parts, rows // block.parts, columns)
        each = scales.reshape(*stack, block.parts, -1, scales.shape[-1])
        return dequantise_fp8(run, each, block._replace(parts=1), dtype).reshape(codes.shape)
    *stack, rows, columns = codes.shape
    down, across = -(-rows // block.rows), -(-columns // block.columns)
    missing = [(0, down * block.rows - rows), (0, across * block.columns - columns)]
    whole = mx.pad(codes, [(0, 0)] * len(stack) + missing)
    values = mx.from_fp8(whole, mx.float32)
    blocks = values.reshape(*stack, down, block.rows, across, block.columns)
    factors = scales.astype(mx.float32).reshape(*stack, down, 1, across, 1)
    product = (blocks * factors).reshape(whole.shape)
    return product[..., :rows, :columns].astype(dtype)


def _join_fp8_scales(
    codes: TensorInfo, scales: TensorInfo, usual_block: Fp8Block, dtype: str
) -> Fp8Tensor:
    block = _block_of_scales(codes.shape, scales.shape, usual_block)
    if block is None or scales.dtype not in _SCALES:
        found = f"{list(codes.shape)} has {scales.dtype} scales {list(scales.shape)}"
        raise _bad_tensor(
            codes,
            f"{found}, which do not fit blocks of {usual_block.rows} by {usual_block.columns}",
        )
    nbytes = prod(codes.shape) * BYTES_OF[dtype]
    return Fp8Tensor(codes.name, dtype, codes.shape, nbytes, codes.file, codes, scales, block)


def _block_of_scales(
    weight: tuple[int, ...], scales: tuple[int, ...], usual_block: Fp8Block
) -> Fp8Block | None:
    """Derive rows and columns per fp8 scale from both shapes; None where they do not fit."""
    if len(weight) < 2 or 0 in weight:
        return None
    *stack, rows, columns = weight
    forms = {
        (*stack,): Fp8Block(rows, columns),
        (*stack, 1): Fp8Block(rows, columns),
        (*stack, 1, 1): Fp8Block(rows, columns),
        (*stack, rows): Fp8Block(1, columns),
        (*stack, rows, 1): Fp8Block(1, columns),
        (*stack, -(-rows // usual_block.rows), -(-columns // usual_block.columns)): usual_block,
    }
    return forms.get(scales) or _block_in_parts(weight, scales, usual_block)


def _block_in_parts(
    weight: tuple[int, ...], scales: tuple[int, ...], usual_block: Fp8Block
) -> Fp8Block | None:
    """Find the fewest equal runs of rows whose blocks of usual size have the stored scales."""
    *stack, rows, columns = weight
    if len(scales) != len(weight) or scales[-1] != -(-columns // usual_block.columns):
        return None
    for parts in range(2, _MOST_PARTS + 1):
        each, over = divmod(rows, parts)
        if not over and scales == (*stack, parts * -(-each // usual_block.rows), scales[-1]):
            return usual_block._replace(parts=parts)
    return None


def fp8_block_size(config: Mapping[str, object], origin: str) -> Fp8Block:
    """Read the fp8 block size from the config's `weight_block_size`, else return the usual."""
    packing = config.get("quantization_config")
    size = packing.get("weight_block_size") if isinstance(packing, Mapping) else None
    if size is None:
        return _USUAL
    if isinstance(size, list) and len(size) == 2:
        rows, columns = size
        if all(type(count) is int and 0 < count < 2**31 for count in size):
            return Fp8Block(rows, columns)
    raise BadModelFile(
        "{origin}: weight_block_size is {size}, which should be two counts above 0. "
        "Get the config again from where the weights come from.",
        origin=origin,
        size=ascii(size)[:60],
    )


def _half_dtype(tensors: Mapping[str, TensorInfo]) -> str:
    """The 16-bit dtype of weights that are not fp8, used for dequantised fp8 weights too."""
    dtypes = [info.dtype for name, info in tensors.items() if not name.endswith(_SCALE_ENDINGS)]
    return "F16" if "F16" in dtypes and "BF16" not in dtypes else "BF16"


def _bad_tensor(tensor_info: TensorInfo, damage_reason: str) -> BadModelFile:
    return BadModelFile(
        "{file}: {name} is stored in fp8, but {why}. Get the file again.",
        file=tensor_info.file,
        name=tensor_info.name,
        why=damage_reason,
    )
