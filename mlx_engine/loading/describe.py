"""Headers of a model -> its ModelDescription, without MLX and before any weight is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from mlx_engine.hub.weight_files import folder_name
from mlx_engine.loading.find import (
    FromHub,
    ModelFiles,
    locate_heads,
    locate_model,
    read_json_object,
)
from mlx_engine.loading.fp8 import bytes_in_file
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.headers import ModelHeaders, keep_blocks, read_headers
from mlx_engine.loading.safetensors import BYTES_OF, TensorInfo
from mlx_engine.models.family import Figures
from mlx_engine.models.specs import Shape
from mlx_engine.models.tensor_names import why_skipped
from mlx_engine.values.errors import BadModelFile, BadOption, Reason
from mlx_engine.values.model_description import Footprint, ModelDescription, TensorGroup
from mlx_engine.values.options import LoadOptions, SamplingOptions
from mlx_engine.values.words import Words

_WORDS = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_ORDER = (
    "embedding",
    "linear attention",
    "attention",
    "mlp",
    "experts",
    "norms",
    "output head",
    "other",
    "MTP head",
)
_HALVES = ("F16", "BF16")
CPU_LAYOUT_LIMIT = 512 * 2**20
"""Bytes in float32 of the largest model that is unpacked where there is no Metal."""

_WORDS_PER_SCALE = {2: 16, 4: 32, 8: 32}
"""uint32 words for each uint8 scale -> weights for each: nvfp4, mxfp4, mxfp8."""


class _Weight(NamedTuple):
    """One weight with what belongs to it; storage in words.

    file_nbytes: what it takes in the file, where that is not nbytes.
    """

    storage: str
    parameters: int
    nbytes: int
    is_matrix: bool
    file_nbytes: int | None = None


def describe(
    headers: ModelHeaders, options: LoadOptions, *, metal: bool = True, packed: bool = True
) -> ModelDescription:
    """The model as its files tell; without Metal weights and caches of 16 bits take 32.

    packed: packed weights stay so; else those of a small model are unpacked, as they are where
    neither Metal nor a kernel reads them.
    """
    figures = headers.family.figures(headers.config, str(headers.files.config))
    weights = _weights_by_group(headers, wide=not metal)
    if not packed and figures.unpacks:
        weights = _unpacked_if_small(weights)
    element = element_bytes(headers.config, metal=metal)
    used = [
        weight
        for name, members in weights.items()
        for weight in members
        if name != "MTP head" or headers.heads.tensors
    ]
    recommended = _recommended(headers)
    heads = _count_heads(headers.heads.tensors)
    return ModelDescription(
        name=_name(headers.files),
        path=str(headers.files.root),
        architecture=headers.architecture,
        parameters=sum(weight.parameters for weight in used),
        quantisation=_storages(weight for weight in used if weight.is_matrix),
        nbytes=sum(weight.nbytes for weight in used),
        layers=figures.layers,
        hidden_size=figures.hidden_size,
        vocabulary=figures.vocabulary,
        context_length=_context(figures, options),
        mtp_heads=heads,
        mtp=headers.heads.why_not,
        groups=(
            *(_group(name, weights[name]) for name in _ORDER if weights.get(name)),
            *_skipped_groups(headers.parts.skipped),
        ),
        trunk_cache=figures.cache.in_bytes(element),
        head_cache=figures.of_heads(heads).in_bytes(element),
        sampling=recommended.sampling,
        numerics="fast" if options.numerics == "fast" else "exact",
        active_parameters=_active(weights, figures),
        packed_cache=figures.packed_cache,
        work=figures.work,
        declined=headers.rounded
        + headers.heads.remarks
        + (() if recommended.ignored is None else (recommended.ignored,)),
    )


def _unpacked_if_small(weights: Mapping[str, list[_Weight]]) -> dict[str, list[_Weight]]:
    """All in float32, as MLX's CPU backend multiplies fastest, where that is not too much."""
    whole = sum(weight.parameters for members in weights.values() for weight in members)
    if 4 * whole > CPU_LAYOUT_LIMIT:
        return dict(weights)
    return {name: [_unpacked(one) for one in members] for name, members in weights.items()}


def _unpacked(weight: _Weight) -> _Weight:
    stored = weight.nbytes if weight.file_nbytes is None else weight.file_nbytes
    nbytes = 4 * weight.parameters
    return weight._replace(nbytes=nbytes, file_nbytes=None if stored == nbytes else stored)


def _active(weights: Mapping[str, list[_Weight]], figures: Figures) -> int | None:
    """Of the trunk: a token leaves out the experts it is not sent to."""
    if figures.asked_experts == 1:
        return None
    trunk = [weight for name in weights if name != "MTP head" for weight in weights[name]]
    experts = sum(weight.parameters for weight in weights.get("experts", ()))
    resting = experts * (1 - figures.asked_experts)
    return sum(weight.parameters for weight in trunk) - round(resting)


def _count_heads(tensors: Iterable[str]) -> int:
    """A head is one layer, whatever the config says."""
    return len({name.split(".")[1] for name in tensors if name.startswith("layers.")})


def _weights_by_group(headers: ModelHeaders, *, wide: bool) -> dict[str, list[_Weight]]:
    """Weights of the trunk by role; usable heads, else those in the shards."""
    origin = str(headers.files.config)
    trunk = headers.parts.trunk
    wanted = headers.family.trunk_shapes(headers.config, trunk, origin)
    trunk_shapes = _packed_shapes(trunk, headers.config) | dict(wanted)
    groups: dict[str, list[_Weight]] = {}
    for name, tensor in trunk.items():
        if _is_main(name, trunk):
            weight = _weight(name, tensor, trunk, trunk_shapes, wide=wide)
            groups.setdefault(headers.family.group(name), []).append(weight)
    head = headers.heads.tensors or headers.parts.head
    head_shapes = headers.family.head_shapes(headers.config, head, origin)
    groups["MTP head"] = _weights(head, head_shapes, wide=wide)
    return groups


def _skipped_groups(skipped: Mapping[str, TensorInfo]) -> Iterator[TensorGroup]:
    """What is not loaded, a group for each reason."""
    reasons: dict[str, dict[str, TensorInfo]] = {}
    for name, tensor in skipped.items():
        reasons.setdefault(why_skipped(name), {})[name] = tensor
    for why_not, tensors in sorted(reasons.items()):
        yield replace(_group("skipped", _weights(tensors, {})), why_not=why_not)


def _packed_shapes(
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


def _weights(
    tensors: Mapping[str, TensorInfo], shapes: Mapping[str, Shape], *, wide: bool = False
) -> list[_Weight]:
    return [
        _weight(name, tensor, tensors, shapes, wide=wide)
        for name, tensor in tensors.items()
        if _is_main(name, tensors)
    ]


def _is_main(name: str, tensors: Mapping[str, TensorInfo]) -> bool:
    """False for the scales and biases that go with a packed weight."""
    matrix, _, part = name.rpartition(".")
    return part not in ("scales", "biases") or f"{matrix}.weight" not in tensors


def _weight(
    name: str,
    tensor: TensorInfo,
    tensors: Mapping[str, TensorInfo],
    shapes: Mapping[str, Shape],
    *,
    wide: bool,
) -> _Weight:
    """wide: halves become float32, as without Metal."""
    loaded = _loaded(name, tensor, tensors, shapes, wide=wide)
    if not isinstance(tensor, GgufPart):
        return loaded
    words, kind = loaded.storage, tensor.stored.type.name
    if tensor.plan.becomes == "blocks":
        words = f"kept as {kind} blocks (our kernel)"
        size = prod(tensor.unpacked_shape)
        return _Weight(words, size, tensor.nbytes, True, tensor.file_nbytes)
    if tensor.plan.becomes == "unpacked":
        words = f"{kind}, unpacked"
    elif tensor.plan.becomes != "dense":
        words = f"{kind} as {tensor.plan.words}"
    return loaded._replace(storage=words, file_nbytes=tensor.file_nbytes)


def _loaded(
    name: str,
    tensor: TensorInfo,
    tensors: Mapping[str, TensorInfo],
    shapes: Mapping[str, Shape],
    *,
    wide: bool,
) -> _Weight:
    matrix = name.removesuffix(".weight")
    scales, biases = (tensors.get(f"{matrix}.{part}") for part in ("scales", "biases"))
    parts = [tensor] if scales is None else [part for part in (tensor, scales, biases) if part]
    nbytes = sum(
        2 * part.nbytes if wide and part.dtype in _HALVES else part.nbytes for part in parts
    )
    stored = sum(part.nbytes for part in parts)
    in_file = stored if stored != nbytes else None
    if scales is None:
        in_fp8, words = bytes_in_file(tensor), _dense_words(tensor)
        if in_fp8 is not None:
            in_file, words = in_fp8, f"fp8 as {words}"
        return _Weight(words, prod(tensor.shape), nbytes, _is_matrix(tensor), in_file)
    shape = shapes.get(name)
    if shape is None or not (_is_matrix(tensor) and len(scales.shape) == len(shape)):
        return _Weight("packed", prod(tensor.shape), nbytes, True, in_file)
    words = _packed_words(tensor, scales, shape[-1], affine=biases is not None)
    return _Weight(words, prod(shape), nbytes, True, in_file)


def _is_matrix(tensor: TensorInfo) -> bool:
    """A matrix or a stack of them; a convolution by channels has an axis of length one."""
    shape = tensor.shape
    return len(shape) == 2 or (len(shape) == 3 and 1 not in shape[1:])


def _dense_words(tensor: TensorInfo) -> str:
    return _WORDS.get(tensor.dtype, f"{BYTES_OF[tensor.dtype] * 8}-bit {tensor.dtype}")


def _packed_words(weight: TensorInfo, scales: TensorInfo, inputs: int, *, affine: bool) -> str:
    """Bits and group size from the widths of a row: inputs * bits / 32 words, inputs / group."""
    bits = weight.shape[-1] * 32 // inputs
    size = inputs // max(1, scales.shape[-1])
    if affine:
        return f"{bits}-bit affine, groups of {size}"
    if size == 16:
        return "nvfp4, groups of 16"
    return f"mxfp{bits}, groups of {size}"


def _group(name: str, weights: list[_Weight]) -> TensorGroup:
    return TensorGroup(
        name=name,
        tensors=len(weights),
        storage=_storages(weights),
        parameters=sum(weight.parameters for weight in weights),
        nbytes=sum(weight.nbytes for weight in weights),
        file_nbytes=_file_bytes(weights),
    )


def _file_bytes(weights: list[_Weight]) -> int | None:
    """None where all is loaded as it lies in the file."""
    if all(weight.file_nbytes is None for weight in weights):
        return None
    return sum(
        weight.nbytes if weight.file_nbytes is None else weight.file_nbytes for weight in weights
    )


def _storages(weights: Iterable[_Weight]) -> str:
    """Every way of storing that occurs, the one with most bytes first."""
    nbytes: dict[str, int] = {}
    for weight in weights:
        nbytes[weight.storage] = nbytes.get(weight.storage, 0) + weight.nbytes
    return " + ".join(sorted(nbytes, key=lambda words: -nbytes[words]))


def _context(figures: Figures, options: LoadOptions) -> int:
    wanted = options.context_length
    return figures.context_length if wanted is None else min(wanted, figures.context_length)


def _name(files: ModelFiles) -> str:
    """That of its file or folder."""
    return files.root.stem if files.kind == "gguf" else folder_name(files.root)


def element_bytes(config: Mapping[str, object], *, metal: bool) -> int:
    """Bytes of one cached key or value: of the type activations have."""
    text = config.get("text_config", config)
    inner = text if isinstance(text, Mapping) else config
    named = (table.get(key) for table in (inner, config) for key in ("dtype", "torch_dtype"))
    stored = next((name for name in named if isinstance(name, str)), "bfloat16")
    return 2 if metal and stored in ("bfloat16", "float16") else 4


def inspect_model(
    path: str | Path | None,
    built_in: Path,
    heads: Path | None = None,
    hub: FromHub | None = None,
) -> ModelDescription:
    """What would be loaded from `path` (None: from `built_in`), with Metal and without.

    With Metal our kernels are taken to be in use: they alone read some blocks of a GGUF. heads and
    hub are as in `load_model`. Raises EngineError.
    """
    files, options = locate_model(path, built_in, hub), LoadOptions(heads=heads)
    headers = read_headers(files, locate_heads(heads, hub))
    with_metal = describe(keep_blocks(headers, _every_kernel), options)
    without = describe(headers, options, metal=False, packed=False)
    there = Footprint(without.nbytes, without.trunk_cache, without.head_cache)
    here = Footprint(with_metal.nbytes, with_metal.trunk_cache, with_metal.head_cache)
    return with_metal if here == there else replace(with_metal, without_metal=there)


def _every_kernel(kind: str, shape: tuple[int, ...]) -> bool:
    """As where all are in use."""
    del kind, shape
    return True


_GGUF_PREFIX = "general.sampling."
_GGUF_KEYS = {
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}
"""The names of SamplingOptions -> those of llama.cpp."""


class Recommendation(NamedTuple):
    """Options to start from; ignored: why the model's own are not among them, if so."""

    sampling: SamplingOptions
    ignored: Reason | None = None


def _recommended(headers: ModelHeaders) -> Recommendation:
    root = headers.files.root
    if headers.gguf is not None:
        return recommendation_from_gguf(headers.gguf.metadata, root)
    path = root / "generation_config.json"
    return _read_advice(lambda: read_json_object(path) if path.is_file() else {}, path.name)


def recommendation_from_gguf(metadata: Mapping[str, object], path: Path) -> Recommendation:
    """From the keys `general.sampling.*` of llama.cpp."""
    given = {ours: metadata.get(f"{_GGUF_PREFIX}{theirs}") for ours, theirs in _GGUF_KEYS.items()}
    return _read_advice(lambda: given, f"{path.name}: {_GGUF_PREFIX}*")


def _read_advice(read: Callable[[], Mapping[str, object]], origin: str) -> Recommendation:
    """Defaults where nothing is said. Bad advice is no reason not to run a model."""
    try:
        return Recommendation(_options(read()))
    except (BadModelFile, BadOption) as error:
        words = Words(
            "The recommended sampling was ignored: {origin}: {error}",
            origin=origin,
            error=str(error),
        )
        return Recommendation(SamplingOptions(), Reason("bad-generation-config", words))


def _options(config: Mapping[str, object]) -> SamplingOptions:
    """By the names of generation_config.json; `do_sample: false` means temperature 0."""
    usual = SamplingOptions()
    temperature = _number(config, "temperature", usual.temperature)
    return SamplingOptions(
        temperature=0.0 if config.get("do_sample") is False else temperature,
        top_k=max(0, int(_number(config, "top_k", usual.top_k))),
        top_p=_number(config, "top_p", usual.top_p),
        min_p=_number(config, "min_p", usual.min_p),
        repetition_penalty=_number(config, "repetition_penalty", usual.repetition_penalty),
    )


def _number(config: Mapping[str, object], key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e9 < value < 1e9:
        raise BadOption("{key}={value} is not a number in reach.", key=key, value=repr(value))
    return float(value)
