"""Read a model's config and tensor headers, and choose its family, before any weight is read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlx_engine.hub.weight_files import has_head_tensors
from mlx_engine.loading.assembled_tensors import assemble_tensors
from mlx_engine.loading.folder import ModelFiles, read_json_object
from mlx_engine.loading.fp8 import fp8_unpacking_reasons
from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.model import read_gguf_model
from mlx_engine.loading.gguf.part import GgufPart, KernelReads, kept_in_blocks, unpacking_reasons
from mlx_engine.loading.heads import HeadTensors, find_heads, without_trunk_copies
from mlx_engine.loading.microscaled import pair_scales
from mlx_engine.loading.no_model import are_mtp_heads, heads_only_error, refuse_partial_models
from mlx_engine.loading.safetensors import Float64Tensor, TensorInfo, merge_headers
from mlx_engine.loading.vision import VisionPart, find_gguf_vision, find_vision
from mlx_engine.models.family import Family, TensorParts
from mlx_engine.models.feed_forward_specs import EXPERT_TABLE
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.registry import family_for, text_model_type
from mlx_engine.values.errors import (
    BadModelFile,
    Reason,
    UnsupportedModel,
    tensor_misshapen,
    tensor_missing,
    tensor_not_floating,
)
from mlx_engine.values.words import Words

_FLOATING = ("F32", "F16", "BF16")
_INTEGERS = ("I64", "I32", "U32")
_PUBLISHED_PACKED = (("gpt_oss", "mxfp4"),)
"""Architectures whose published packing is also MLX's."""


@dataclass(frozen=True, slots=True)
class ModelHeaders:
    """A model's family (its implementation) and tensor headers, by the engine's tensor names.

    parts.head: MTP heads in the model's own weight files. heads: MTP heads to use, from anywhere.
    vision: the vision tower, whose tensors are not among those skipped. gguf: the GGUF file, None
    for folders.
    """

    files: ModelFiles
    architecture: str
    family: Family
    parts: TensorParts[TensorInfo]
    heads: HeadTensors
    vision: VisionPart
    gguf: GgufFile | None = None

    @property
    def unpacked_reasons(self) -> tuple[Reason, ...]:
        """Tell the user which tensors take more memory than in the file, or other values."""
        tensors = (*self.parts.trunk.values(), *self.heads.tensors.values())
        reasons = (*unpacking_reasons(tensors), *fp8_unpacking_reasons(tensors))
        wide = sum(isinstance(info, Float64Tensor) for info in tensors)
        if not wide:
            return reasons
        words = Words(
            "Tensors of float64 ({count}) become float32: no GPU computes in more.", count=wide
        )
        return (*reasons, Reason("narrowed-float64", words))


def read_headers(
    files: ModelFiles, heads: Path | None = None, vision_file: Path | None = None
) -> ModelHeaders:
    """Read config and tensor headers of a model, and find its MTP heads and vision tower.

    heads, vision_file: places that the user chose for them. Raises EngineError.
    """
    origin, gguf = str(files.root), None
    if files.kind == "gguf":
        model = read_gguf_model(files.root)
        gguf, config, stored = model.file, model.config, model.tensors
        architecture, tensors = model.architecture, stored
        family = family_for(_model_type(config, files.root), config, origin)
        if not any(name.startswith("blk.0.") for name in gguf.tensors):
            raise heads_only_error(files.root, config)
    else:
        if not files.config.exists() and are_mtp_heads(merge_headers(files.shards)):
            raise heads_only_error(files.root)
        config = _with_text_config(read_json_object(files.config))
        stored = merge_headers(files.shards)
        refuse_partial_models(files.root, config, stored)
        architecture = _model_type(config, files.config)
        family = family_for(architecture, config, str(files.config))
        if not _is_packed_by_mlx(stored):
            _refuse_foreign_packing(config, architecture, files.config)
        tables = {name: info for name, info in stored.items() if family.stays_on_disk(name)}
        loaded = {name: info for name, info in stored.items() if name not in tables}
        tensors = pair_scales(loaded, config, str(files.config)) | tables
    parts = _assemble_parts(family.split_tensors(tensors, origin))
    wanted = family.trunk_shapes(parts.trunk)
    _check_complete(files, stored, parts.trunk, wanted)
    _check_trunk(parts.trunk, wanted, origin)
    found = find_heads(files, parts.head, family, heads)
    own = family.head_shapes(())
    repeats = {
        name: copied
        for name, copied in family.trunk_copies().items()
        if f"{name}.weight" not in own
    }
    needed = without_trunk_copies(found.tensors, parts.trunk, repeats)
    if gguf is None:
        vision = find_vision(files, config, parts.skipped)
    else:
        vision = find_gguf_vision(files, config, gguf.metadata, vision_file)
    skipped = {n: info for n, info in parts.skipped.items() if n not in vision.in_file}
    parts, found = replace(parts, skipped=skipped), replace(found, tensors=needed)
    return ModelHeaders(files, architecture, family, parts, found, vision, gguf)


def _with_text_config(config: dict[str, object]) -> dict[str, object]:
    """Return a config with `llm_config` (InternVL, Nemotron Omni) renamed to `text_config`."""
    if config.get("text_config") is None and isinstance(config.get("llm_config"), dict):
        config["text_config"] = config.pop("llm_config")
    return config


def _check_complete(
    files: ModelFiles, stored: Collection[str], trunk: Collection[str], wanted: Collection[str]
) -> None:
    """Raise BadModelFile naming a missing file when a tensor of the main model is missing.

    wanted: tensor names without MTP heads; where empty, the index of weight files decides.
    """
    lost = [name for name in files.absent if name not in stored and not has_head_tensors([name])]
    is_short = any(name not in trunk for name in wanted) if wanted else lost or not files.absent
    if files.incomplete and is_short:
        raise BadModelFile(files.incomplete)


def _check_trunk(trunk: Mapping[str, TensorInfo], wanted: Mapping[str, Shape], origin: str) -> None:
    """Raise BadModelFile for main model tensors that are missing, not floating or misshapen.

    wanted: shape of each tensor. Axes of length one are ignored; of matrices that MLX packed only
    rows are compared.
    """
    for name, shape in wanted.items():
        tensor = trunk.get(name)
        if tensor is None:
            raise tensor_missing(origin, name)
        packed = f"{name.removesuffix('.weight')}.scales" in trunk
        in_file, stored, needed = name, tensor.shape, shape
        if isinstance(tensor, GgufPart):
            packed, stored = tensor.plan.storage != "dense", tensor.unpacked_shape
            in_file = tensor.stored.name
        elif packed:
            stored, needed = stored[:-1], needed[:-1]
        if _long_axes(stored) != _long_axes(needed):
            raise tensor_misshapen(origin, in_file, stored, shape)
        wanted_types = _INTEGERS if name.endswith(EXPERT_TABLE) else _FLOATING
        if not packed and tensor.dtype not in wanted_types:
            raise tensor_not_floating(origin, name, tensor.dtype)


def _long_axes(shape: Shape) -> list[int]:
    return [length for length in shape if length != 1]


def keep_gguf_blocks(headers: ModelHeaders, kernel_reads: KernelReads) -> ModelHeaders:
    """Keep GGUF matrices in the file's quantised blocks where a kernel can multiply by them."""
    if not isinstance(headers.family, NativeFamily):
        return headers
    trunk = kept_in_blocks(headers.parts.trunk, kernel_reads)
    heads = kept_in_blocks(headers.heads.tensors, kernel_reads)
    return replace(
        headers,
        parts=replace(headers.parts, trunk=trunk),
        heads=replace(headers.heads, tensors=heads),
    )


def _assemble_parts(parts: TensorParts[TensorInfo]) -> TensorParts[TensorInfo]:
    return TensorParts(
        assemble_tensors(parts.trunk, parts.trunk_recipes),
        assemble_tensors(parts.head, parts.head_recipes),
        parts.skipped,
        on_disk=parts.on_disk,
    )


def _model_type(config: Mapping[str, object], origin: Path) -> str:
    chosen = text_model_type(config)
    if not isinstance(chosen, str) or not chosen:
        raise BadModelFile(
            "{origin}: has no model_type, so there is no telling how to run it.", origin=origin
        )
    return chosen


def _refuse_foreign_packing(config: Mapping[str, object], architecture: str, origin: Path) -> None:
    """Raise UnsupportedModel for quantisation that is neither MLX's nor fp8."""
    for key in ("quantization_config", "compression_config"):
        packing = config.get(key)
        if not isinstance(packing, Mapping) or _is_fp8(packing):
            continue
        method, form = packing.get("quant_method"), packing.get("format")
        if method is not None and (architecture, method) not in _PUBLISHED_PACKED:
            named = (
                ascii(method)[:40]
                if form is None
                else f"{ascii(method)[:40]} as {ascii(form)[:40]}"
            )
            raise UnsupportedModel(
                "{origin}: weights are packed by {named}, which this version does not run. "
                "Take an MLX conversion of the model, or the original in 16 bits.",
                origin=origin,
                named=named,
            )


def _is_packed_by_mlx(tensors: Mapping[str, TensorInfo]) -> bool:
    """Whether weight tensors have MLX's packed form; a config may name another quantisation."""
    scales = (name.removesuffix(".scales") for name in tensors if name.endswith(".scales"))
    weights = (tensors.get(f"{matrix}.weight") for matrix in scales)
    return any(weight is not None and weight.dtype == "U32" for weight in weights)


def _is_fp8(packing: Mapping[str, object]) -> bool:
    """Whether a quantization_config means e4m3 weights with scales (fp8, mxfp8 and the like)."""
    if packing.get("quant_method") in ("fp8", "mxfp8"):
        return packing.get("fmt") in (None, "e4m3", "e4m3fn", "float8_e4m3fn")
    return (packing.get("quant_method"), packing.get("format")) == (
        "compressed-tensors",
        "float-quantized",
    )
