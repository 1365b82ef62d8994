"""Separate draft models: headers checked when the target model loads, weights read on first use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.loading.arrays import cast_floats, evaluate_arrays, gpu_architecture, half_dtype
from mlx_engine.loading.assembled_tensors import assemble_tensors
from mlx_engine.loading.describe import read_text_parts
from mlx_engine.loading.find import HubAccess, locate_model
from mlx_engine.loading.folder import ModelFiles, read_json_object
from mlx_engine.loading.gguf.drafters import read_gguf_drafter
from mlx_engine.loading.headers import read_headers
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.loading.load_tensors import load_deferred
from mlx_engine.loading.microscaled import pair_scales
from mlx_engine.loading.no_model import DrafterKind, drafter_kind, has_dspark_stages
from mlx_engine.loading.safetensors import TensorInfo, merge_headers
from mlx_engine.models.contract import Model
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.drafters.deepseek4_dspark import (
    StagesConfig,
    StagesDSpark,
    dspark_name,
)
from mlx_engine.models.drafters.dflash import DFlash
from mlx_engine.models.drafters.dflash_config import DFlashConfig, dflash_name
from mlx_engine.models.drafters.eagle3 import Eagle3, Eagle3Config, plain_name
from mlx_engine.models.drafters.gemma4_assistant import (
    AssistantConfig,
    Gemma4Assistant,
    assistant_name,
)
from mlx_engine.models.drafters.target import FeatureReader, SmallModel, make_draft_target
from mlx_engine.models.matrix import columns_for_cpu, unchanged_layout
from mlx_engine.models.tensor_recipes import expert_recipes
from mlx_engine.models.weights import WeightTable
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadModelFile, BadOption, EngineError, LoadStopped, Reason
from mlx_engine.values.options import AskedActivations, LoadOptions

_BUFFERS = ("t2d",)
"""Tensors of EAGLE-3 that follow from others."""

_COPIES = ("lm_head.", "embed_tokens.")
"""Names of the target's output head and embedding, which DeepSpec trains with and stores again."""

_ORDERING = "masked_embedding.token_ordering"
_NUMBERS = ("d2t", _ORDERING)
"""Names of integer tensors."""

_NAMES: Mapping[DrafterKind, Callable[[str], str]] = {
    "eagle3": plain_name,
    "gemma4-assistant": assistant_name,
    "dflash": dflash_name,
    "deepseek4-dspark": str,
}
"""Functions that turn names of the files into the draft model's."""

_MOST_UNKNOWN = 0.01
"""Largest share of token ids that only one of two compatible tokenizers knows (added tokens)."""


@dataclass(frozen=True, slots=True)
class DrafterFiles:
    """Config and tensor headers of a drafter that reads the target's hidden states or KV cache.

    d2t: of a GGUF file, int64 [rows of the output head], token of row i minus i.
    """

    kind: DrafterKind
    origin: str
    config: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]
    d2t: NDArray[np.int64] | None = None

    @property
    def nbytes(self) -> int:
        """Total bytes of the draft model's tensors."""
        return sum(info.nbytes for info in self.tensors.values())


def read_drafter(files: ModelFiles) -> DrafterFiles | None:
    """Read config and tensor headers of an EAGLE-3, DFlash or Gemma 4 drafter; None otherwise."""
    if files.kind == "gguf":
        found = read_gguf_drafter(files.root)
        if found is None:
            return None
        return DrafterFiles(found.kind, str(files.root), found.config, found.tensors, found.d2t)
    config = read_json_object(files.config)
    tensors = pair_scales(merge_headers(files.shards), config, str(files.config))
    kind = "deepseek4-dspark" if has_dspark_stages(config) else drafter_kind(config, tensors)
    if kind == "deepseek4-dspark":
        named = {dspark_name(name): info for name, info in tensors.items()}
        stages = {name: info for name, info in named.items() if name is not None}
        tensors = assemble_tensors(stages, expert_recipes(stages))
        return DrafterFiles(kind, str(files.root), config, tensors) if stages else None
    if "target_layer_ids" in config:
        tensors = {n: t for n, t in tensors.items() if not dflash_name(n).startswith(_COPIES)}
    return DrafterFiles(kind, str(files.root), config, tensors) if kind else None


def build_drafter(
    files: DrafterFiles, target: Model, requested_dtype: AskedActivations = "auto"
) -> FeatureReader:
    """Build a draft model with lazy weights for `target`. Raises BadModelFile, UnsupportedModel.

    requested_dtype: as in LoadOptions.
    """
    half = half_dtype(requested_dtype, gpu_architecture())
    stored = load_deferred(files.tensors, half)
    renamed = _NAMES[files.kind]
    arrays = cast_floats({renamed(name): array for name, array in stored.items()}, half)
    for name in _BUFFERS:
        arrays.pop(name, None)
    numbers = {name: arrays.pop(name) for name in _NUMBERS if name in arrays}
    if files.d2t is not None:
        numbers["d2t"] = mx.array(files.d2t)
    layout = columns_for_cpu if half == mx.float32 else unchanged_layout
    table = WeightTable(arrays, files.origin, layout=layout, compute_dtype=half)
    if files.kind == "gemma4-assistant":
        layers = target.spec.assistant_layers if isinstance(target, Decoder) else None
        if not isinstance(target, Decoder) or layers is None:
            raise BadModelFile(
                "{origin}: this is the assistant of a Gemma 4 model, and the model here is "
                "another. Use a draft model made for this one.",
                origin=files.origin,
            )
        sizes = AssistantConfig.read(files.config, files.origin)
        return Gemma4Assistant(sizes, table, numbers.get(_ORDERING), target, layers)
    lends = make_draft_target(target, files.origin)
    if files.kind == "deepseek4-dspark":
        numbered = {name.split(".")[1] for name in files.tensors if name.startswith("layers.")}
        config_of_stages = StagesConfig.read(files.config, len(numbered), files.origin)
        return StagesDSpark(config_of_stages, table, lends)
    if files.kind == "dflash":
        sizes_of_block = DFlashConfig.read(files.config, files.origin)
        return DFlash(sizes_of_block, table, numbers.get("d2t"), lends)
    config = Eagle3Config.read(files.config, lends.layers, files.origin)
    return Eagle3(config, table, numbers.get("d2t"), lends)


def read_arrays(drafter: FeatureReader, origin: str) -> FeatureReader:
    """Read a drafter's weights into memory and check them. Raises BadModelFile, OutOfMemory."""
    evaluate_arrays(drafter.arrays, origin, None, None)
    drafter.check_tensor_values()
    return drafter


def open_draft_model(
    path_or_id: str | Path, options: LoadOptions, target: LoadedModel, hub: HubAccess | None = None
) -> SmallModel:
    """Check a draft model at a path or hub id; return it as a SmallModel, its weights yet unread.

    One that cannot be read or does not fit the target raises EngineError; with the option
    draft_misfit "plain" the SmallModel has the reason as `why_not` instead.
    """
    try:
        return _check_draft_model(path_or_id, target, hub, options.activations)
    except LoadStopped:
        raise
    except EngineError as error:
        if options.draft_misfit == "refuse":
            raise
        misfit = Reason("draft-model-misfit", str(error))
        return SmallModel(lambda: _raise_unusable(misfit), misfit_reason=misfit)


def _raise_unusable(misfit_reason: Reason) -> Model:
    raise AssertionError(misfit_reason.words)


def _check_draft_model(
    path_or_id: str | Path,
    target: LoadedModel,
    hub: HubAccess | None,
    requested_dtype: AskedActivations,
) -> SmallModel:
    files = locate_model(path_or_id, Path(), hub)
    drafter, whole = read_drafter(files), max(1, target.description.nbytes)
    if drafter is None:
        nbytes = _check_whole_model(files, path_or_id, target)
        options = LoadOptions(numerics="fast", activations=requested_dtype)
        return SmallModel(lambda: load_model(files, options, files.root).model, nbytes / whole)
    built, origin = build_drafter(drafter, target.model, requested_dtype), drafter.origin
    return SmallModel(lambda: read_arrays(built, origin), drafter.nbytes / whole)


def _check_whole_model(files: ModelFiles, path_or_id: str | Path, target: LoadedModel) -> int:
    """Check that a draft model has the target's vocabulary; return its bytes. Raises BadOption."""
    headers = read_headers(files, None)
    tokenizer, _ = read_text_parts(headers)
    difference = _first_difference(target.tokenizer, tokenizer)
    if difference is not None:
        raise BadOption(
            "draft_model={place!r} cannot draft for this model, because their tokens differ: "
            "{difference}. Use a small model of the same family.",
            place=str(path_or_id),
            difference=difference,
        )
    return sum(info.nbytes for info in headers.parts.trunk.values())


def _first_difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """Describe the first token id whose text differs in two vocabularies; None when they agree."""
    size = max(target.vocabulary, draft.vocabulary)
    unknown = 0
    for token in range(size):
        here, there = target.token_text(token), draft.token_text(token)
        if here == there:
            continue
        if here and there:
            return f"token {token} is {here!r} in one and {there!r} in the other"
        unknown += 1
    if unknown > _MOST_UNKNOWN * size:
        return f"{unknown} of {size} tokens are known to one of them only"
    return None
