"""Load a model from its files; every tensor must be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import NO_KERNELS, Kernels, KernelWork
from metal_kernels.stock import computes_on_gpu
from mlx_engine.loading.arrays import (
    Progress,
    Stop,
    cast_floats,
    evaluate_arrays,
    gpu_architecture,
    half_dtype,
)
from mlx_engine.loading.describe import describe, read_text_parts
from mlx_engine.loading.find import HubAccess, locate_heads, locate_model
from mlx_engine.loading.folder import ModelFiles
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.headers import ModelHeaders, keep_gguf_blocks, read_headers
from mlx_engine.loading.heads import HeadTensors
from mlx_engine.loading.load_tensors import load_deferred, load_tensors
from mlx_engine.loading.repack_cache import RepackCache
from mlx_engine.loading.row_tables import map_tables
from mlx_engine.loading.stored_weights import CPU_LAYOUT_LIMIT
from mlx_engine.loading.vision import NO_TOWER, LoadedTower, open_tower
from mlx_engine.models.contract import PASSES_OF_ONE, Model
from mlx_engine.models.matrix import columns_for_cpu, unchanged_layout
from mlx_engine.models.weights import WeightTable
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadOption, Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import Activations, AskedActivations, HeadBits, LoadOptions


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model with tokenizer and chat template; without a template it cannot chat.

    head_arrays: lazy arrays of the MTP heads, read on first use. head_origin: their file or folder.
    vision: the vision tower, on weights that are read with the first picture, or why there is none.
    kernels: the Metal kernels that the layers were built with.
    """

    model: Model
    tokenizer: Tokenizer
    template: ChatTemplate | None
    description: ModelDescription
    head_arrays: tuple[mx.array, ...] = ()
    head_origin: str = ""
    kernels: Kernels = NO_KERNELS
    vision: LoadedTower = NO_TOWER

    def read_heads(self) -> None:
        """Read the model's lazy MTP heads into memory, once. Raises BadModelFile, OutOfMemory."""
        evaluate_arrays(self.head_arrays, self.head_origin, None, None)

    def read_tower(self) -> None:
        """Read the vision tower into memory, once. Raises BadModelFile, OutOfMemory."""
        evaluate_arrays(self.vision.arrays, self.vision.origin, None, None)


class _LazyWeights(NamedTuple):
    """Lazy weight arrays of a model by name: of the main model, and of its MTP heads or None."""

    trunk: dict[str, mx.array]
    head: dict[str, mx.array] | None
    reasons: tuple[Reason, ...]


def load_model(
    source: ModelFiles | str | Path | None,
    options: LoadOptions,
    built_in: Path,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
    kernels: Kernels = NO_KERNELS,
    hub: HubAccess | None = None,
    usable_bytes: int = 0,
    gpu_bytes: int = 0,
) -> LoadedModel:
    """Load a model, its weights included, by files, path or hub id; None: the model at `built_in`.

    Headers are checked before any weight is read. kernels: Metal kernels that layers may use. hub:
    access to the hub. usable_bytes: bytes of memory that may be used, 0 for no limit. gpu_bytes:
    bytes a GPU may hold, 0 without one. on_progress gets bytes done and in total. stop: when it
    returns True, LoadStopped is raised. Raises EngineError.
    """
    files = source if isinstance(source, ModelFiles) else locate_model(source, built_in, hub)
    headers = read_headers(files, locate_heads(options.heads, hub), options.vision)
    headers = _keep_readable_blocks(headers, kernels)
    metal = computes_on_gpu()
    no_kernels = not metal and kernels.launcher is None
    description = describe(headers, options, has_metal=metal, stays_packed=not no_kernels)
    if usable_bytes:
        asked = options.context_length
        description.check_fits(
            description.memory_fit(usable_bytes, requested_context=asked, gpu_bytes=gpu_bytes)
        )
    tokenizer, template = read_text_parts(headers)
    tokenizer = tokenizer.fit_to_vocabulary(description.vocabulary)
    half = _half_dtype(options.activations, headers)
    cache = None if options.repack_cache is None else RepackCache(options.repack_cache, half)
    weights = _canonical_weights(headers, half, on_progress, stop, cache)
    if options.head_bits is not None and weights.head is not None:
        weights = weights._replace(head=quantised_head(weights.head, options.head_bits))
    reasons = weights.reasons
    is_unpacked = no_kernels and 4 * description.parameters <= CPU_LAYOUT_LIMIT
    layout = columns_for_cpu if is_unpacked and half == mx.float32 else unchanged_layout
    on_disk = map_tables(headers.parts.on_disk, str(files.root))
    parts = [(weights.trunk, str(files.root))]
    if weights.head is not None:
        parts.append((weights.head, headers.heads.origin))
    tables = [
        WeightTable(
            arrays,
            origin,
            layout=layout,
            kernels=kernels,
            compute_dtype=half,
            row_tables=on_disk,
            find_token_classes=tokenizer.find_classes,
        )
        for arrays, origin in parts
    ]
    del weights, parts  # the model may have replaced them
    model = headers.family.build(tables[0], tables[1] if tables[1:] else None)
    for table in tables:
        table.check_all_used()
    trunk, head = tables[0].taken_arrays, tables[1].taken_arrays if tables[1:] else ()
    del tables
    repacked = headers.gguf is not None and not (cache and cache.was_read)
    to_come = None if repacked else on_progress  # repacked weights are in memory already
    evaluate_arrays(trunk, str(files.root), to_come, stop)
    joint = None if model.joint_forward is not None else PASSES_OF_ONE
    of_model = (model.why_no_drafts, joint, model.why_no_lookahead)
    lacks = [reason for reason in of_model if reason is not None]
    kept = cache.reasons if cache is not None else ()
    unused = () if options.draft_model else description.unused_draft_model
    seen = open_tower(headers.vision, model.hidden_size, half)
    described = replace(
        description,
        vision=seen.why_not,
        pictures=None if seen.why_not else description.pictures,
        declined=(*description.declined, *reasons, *lacks, *unused, *kept),
        repack_cache=cache.words if cache is not None else None,
        packed_cache=model.packed_cache,
        activations=_activations_name(trunk, half),
    )
    origin = headers.heads.origin
    return LoadedModel(model, tokenizer, template, described, head, origin, kernels, seen)


def _keep_readable_blocks(headers: ModelHeaders, kernels: Kernels) -> ModelHeaders:
    """Keep GGUF matrices in quantised blocks where a Metal kernel multiplies even single rows."""

    def kernel_reads(kind: str, shape: tuple[int, ...]) -> bool:
        work = KernelWork(kind.lower(), *shape[-2:])
        return 1 in kernels.row_counts_after_trial(
            "products" if len(shape) == 2 else "experts", work
        )

    return keep_gguf_blocks(headers, kernel_reads)


def _canonical_weights(
    headers: ModelHeaders,
    half: mx.Dtype | None,
    on_progress: Progress | None,
    stop: Stop | None,
    cache: RepackCache | None,
) -> _LazyWeights:
    family, heads, origin = headers.family, headers.heads, str(headers.files.root)
    # Heads first, before the trunk takes memory.
    head_read = load_deferred(heads.tensors, half, stop=stop, cache=cache)
    read = load_tensors(headers.parts.trunk, half, on_progress=on_progress, stop=stop, cache=cache)
    trunk = family.canonical_trunk(read, origin)
    arrays = cast_floats(trunk.arrays, half)
    if not heads.tensors:
        return _LazyWeights(arrays, None, trunk.reasons)
    shift = _head_norm_shift(heads, trunk.norm_shift)
    head = family.canonical_head(head_read, heads.origin, shift)
    head_arrays = cast_floats(head.arrays, half)
    return _LazyWeights(arrays, head_arrays, trunk.reasons + head.reasons)


def _half_dtype(activations: AskedActivations, headers: ModelHeaders) -> mx.Dtype | None:
    """Return the dtype in memory of floats stored in 16 bits, as `half_dtype`. Raises BadOption."""
    architecture = gpu_architecture()
    half = half_dtype(activations, architecture)
    if headers.family.can_widen:
        return half
    if activations == "auto":
        return None if half == mx.float16 else half
    if not architecture:
        raise BadOption(
            "activations={asked!r}: {path} runs in a class of mlx-lm, which needs a GPU for 16-bit "
            'floats. Use "auto".',
            asked=activations,
            path=headers.files.root,
        )
    return half


def _activations_name(arrays: Sequence[mx.array], half: mx.Dtype | None) -> Activations:
    """Name the type that a model of these weights computes in; half: as in `half_dtype`."""
    kept = {array.dtype for array in arrays} & {mx.bfloat16, mx.float16}
    dtype = half or (kept.pop() if len(kept) == 1 else mx.bfloat16)
    return "float16" if dtype == mx.float16 else "bfloat16" if dtype == mx.bfloat16 else "float32"


def _head_norm_shift(heads: HeadTensors, trunk_shift: int) -> int | None:
    """Norm shift of MTP heads: 1 in GGUF, the trunk's in one file; None if values must tell."""
    if any(isinstance(info, GgufPart) for info in heads.tensors.values()):
        return 1
    return trunk_shift if heads.inside else None


GROUP = 64
ROUTERS = (".gate.weight", ".shared_expert_gate.weight")
"""Name endings of router matrices; quantising them saves little and changes expert selection."""


def quantised_head(arrays: Mapping[str, mx.array], bits: HeadBits) -> dict[str, mx.array]:
    """Quantise the dense matrices of MTP heads lazily to `bits`, with groups of GROUP.

    Packed matrices, routers, and matrices whose rows are no multiple of GROUP stay as they are.
    """
    packed: dict[str, mx.array] = {}
    for name, array in arrays.items():
        matrix = name.removesuffix(".weight")
        is_dense = array.ndim == 2 and mx.issubdtype(array.dtype, mx.floating)
        if not is_dense or name.endswith(ROUTERS) or array.shape[1] % GROUP:
            packed[name] = array
            continue
        weight, scales, biases = mx.quantize(array, group_size=GROUP, bits=bits)
        packed |= {name: weight, f"{matrix}.scales": scales, f"{matrix}.biases": biases}
    return packed
