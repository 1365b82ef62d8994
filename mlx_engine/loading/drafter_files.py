"""Draft models that read their target: recognised by config and tensors, built, not yet read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import mlx.core as mx

from mlx_engine.loading.element_type import cast_floats
from mlx_engine.loading.evaluate_arrays import evaluate_arrays
from mlx_engine.loading.json_file import read_json_object
from mlx_engine.loading.load_tensors import load_tensors
from mlx_engine.loading.model_folder import ModelFiles
from mlx_engine.loading.safetensors_header import TensorInfo, merge_headers
from mlx_engine.models.contract import Adapter
from mlx_engine.models.drafters.eagle3 import Eagle3
from mlx_engine.models.drafters.eagle3_config import Eagle3Config, is_eagle3, plain_name
from mlx_engine.models.drafters.target import draft_target
from mlx_engine.models.weight_table import WeightTable

DrafterKind = Literal["eagle3"]
_BUFFERS = ("t2d",)
"""Tensors that say again what others say."""


@dataclass(frozen=True, slots=True)
class DrafterFiles:
    """Config and tensor headers of a draft model of a kind that reads its target."""

    kind: DrafterKind
    origin: str
    config: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]

    @property
    def nbytes(self) -> int:
        """Of all its tensors."""
        return sum(info.nbytes for info in self.tensors.values())


def read_drafter(files: ModelFiles) -> DrafterFiles | None:
    """The headers, if the files are of such a kind; None for models that run by themselves."""
    if files.kind == "gguf":
        return None
    config, tensors = read_json_object(files.config), merge_headers(files.shards)
    if is_eagle3(tensors):
        return DrafterFiles("eagle3", str(files.root), config, tensors)
    return None


def build_drafter(files: DrafterFiles, target: Adapter) -> Eagle3:
    """The drafter, its arrays lazy; raises BadModelFile, UnsupportedModel for what does not fit."""
    origin, metal = files.origin, mx.metal.is_available()
    lends = draft_target(target, origin)
    stored = load_tensors(files.tensors, metal=metal)
    arrays = cast_floats({plain_name(name): array for name, array in stored.items()}, metal=metal)
    for name in _BUFFERS:
        arrays.pop(name, None)
    d2t = arrays.pop("d2t", None)
    table = WeightTable(arrays, origin, for_cpu=not metal)
    return Eagle3(Eagle3Config.read(files.config, lends.layers, origin), table, d2t, lends)


def bring_in(drafter: Eagle3, origin: str) -> None:
    """Read its arrays and check what only values tell. Raises BadModelFile, OutOfMemory."""
    evaluate_arrays(drafter.arrays, origin, None, None)
    drafter.check_values()
