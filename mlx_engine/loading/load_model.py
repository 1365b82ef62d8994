"""Files to a model that is ready to run, with every tensor accounted for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.loading.describe_model import describe
from mlx_engine.loading.element_type import cast_floats, element_bytes
from mlx_engine.loading.evaluate_arrays import Progress, Stop, evaluate_arrays
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_folder import ModelFiles
from mlx_engine.loading.model_headers import ModelHeaders, read_headers
from mlx_engine.loading.safetensors_weights import load_arrays
from mlx_engine.models.contract import Adapter
from mlx_engine.models.weight_table import WeightTable
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import LoadOptions
from mlx_engine.values.reason import Reason


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """All that a conversation needs, weights in memory; a model without a template cannot chat."""

    adapter: Adapter
    tokenizer: Tokenizer
    template: ChatTemplate | None
    description: ModelDescription


class _Weights(NamedTuple):
    """Lazy canonical arrays; head None when there are no usable heads."""

    trunk: dict[str, mx.array]
    head: dict[str, mx.array] | None
    reasons: tuple[Reason, ...]


def load_model(
    source: ModelFiles | str | Path | None,
    options: LoadOptions,
    built_in: Path,
    on_progress: Progress | None = None,
    stop: Stop | None = None,
) -> LoadedModel:
    """Load from files, a path or a hub id; None for the model at `built_in`.

    on_progress gets bytes done and in all; when stop() is true the load ends with LoadStopped.
    What cannot be right is found before the first weight is read. Raises EngineError.
    """
    files = source if isinstance(source, ModelFiles) else locate_model(source, built_in)
    headers = read_headers(files, options.heads)
    metal = mx.metal.is_available()
    description = describe(headers, options, element_bytes(headers.config, metal=metal))
    tokenizer = Tokenizer.from_folder(files.root)
    tokenizer.check_fits(description.vocabulary)
    template = ChatTemplate.from_folder(files.root)
    weights = _canonical_weights(headers, metal=metal)
    adapter = _build(headers, weights)
    arrays = [*weights.trunk.values(), *(weights.head or {}).values()]
    evaluate_arrays(arrays, str(files.root), on_progress, stop)
    declined = (*description.declined, *weights.reasons)
    return LoadedModel(adapter, tokenizer, template, replace(description, declined=declined))


def _canonical_weights(headers: ModelHeaders, *, metal: bool) -> _Weights:
    family, heads, origin = headers.family, headers.heads, str(headers.files.root)
    trunk = family.canonical_trunk(load_arrays(headers.parts.trunk), origin)
    arrays = cast_floats(trunk.arrays, metal=metal)
    if not heads.tensors:
        return _Weights(arrays, None, trunk.reasons)
    shift = trunk.norm_shift if heads.inside else None
    head = family.canonical_head(load_arrays(heads.tensors), heads.origin, shift)
    head_arrays = cast_floats(head.arrays, metal=metal)
    return _Weights(arrays, head_arrays, trunk.reasons + head.reasons)


def _build(headers: ModelHeaders, weights: _Weights) -> Adapter:
    trunk = WeightTable(weights.trunk, str(headers.files.root))
    head = None if weights.head is None else WeightTable(weights.head, headers.heads.origin)
    adapter = headers.family.build(headers.config, trunk, head)
    trunk.check_all_used()
    if head is not None:
        head.check_all_used()
    return adapter
