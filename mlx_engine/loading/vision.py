"""Find the vision tower in a model's files, and build it; its weights are read on first use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mlx_engine.hub.weight_files import is_tower_of_other
from mlx_engine.loading.folder import ModelFiles, read_json_object
from mlx_engine.loading.gguf.vision import read_gguf_tower
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import BadModelFile, EngineError, Reason, UnsupportedModel
from mlx_engine.values.memory_plan import PictureSizes
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.vision.contract import VisionTower

_TYPES = ("qwen3_5", "qwen3_5_moe", "qwen3_8", "qwen3_8_moe")
"""Values of model_type whose tower is that of models/vision/qwen3.py."""

_TOWER = re.compile(r"(?:model\.)?(?:visual|vision_tower)\.(.+)")
_KERNEL = "patch_embed.proj.weight"
_PLACEHOLDER = "<|image_pad|>"
_MOST_PIXELS = 16777216
"""Of a picture as the tower of Qwen3.5 sees it, where its files say nothing of them."""


class VisionPart(NamedTuple):
    """The vision tower in a model's files: tensors by the tower's names, or why there is none.

    in_file: the tensors' names in the model's own files. config: fields of config.json. processing:
    fields of preprocessor_config.json. origin: file or folder of the tower, for messages.
    identity: name and size of a file of its own.
    """

    why_not: Reason | None
    tensors: Mapping[str, TensorInfo] = {}
    config: Mapping[str, object] = {}
    processing: Mapping[str, object] = {}
    origin: str = ""
    in_file: frozenset[str] = frozenset()
    identity: str = ""


def find_vision(
    files: ModelFiles, config: Mapping[str, object], skipped: Mapping[str, TensorInfo]
) -> VisionPart:
    """Find the vision tower among the tensors that text does not need. Raises no error."""
    named = {name: found[1] for name in skipped if (found := _TOWER.fullmatch(name))}
    if config.get("model_type") not in _TYPES or not isinstance(config.get("vision_config"), dict):
        code = "vision-not-run" if "vision_config" in config or named else "no-vision"
        return _no_vision(code)
    if not named:
        return _no_vision("vision-missing")
    try:
        processing = _read_image_processing(files)
    except BadModelFile as error:
        return _unusable_vision(error)
    tensors = {ours: skipped[name] for name, ours in named.items()}
    return VisionPart(None, tensors, config, processing, str(files.root), frozenset(named))


def find_gguf_vision(
    files: ModelFiles,
    config: Mapping[str, object],
    metadata: Mapping[str, object],
    chosen_file: Path | None = None,
) -> VisionPart:
    """Find the vision tower of a GGUF model in a chosen file or beside it. Raises no error.

    The first that fits counts; one with the model's name in its own comes first.
    """
    if config.get("model_type") not in _TYPES:
        return _no_vision("no-vision")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or _PLACEHOLDER not in tokens:
        return _no_vision("no-vision")
    error: EngineError | None = None

    def is_for_another_model(path: Path) -> bool:
        return is_tower_of_other(path.stem, files.root.stem)

    for path in [chosen_file] if chosen_file else sorted(files.vision, key=is_for_another_model):
        try:
            tower = read_gguf_tower(path)
        except UnsupportedModel:
            continue
        except EngineError as damaged:
            error = damaged
            continue
        if tower.config["out_hidden_size"] == config.get("hidden_size"):
            whole = {
                "vision_config": tower.config,
                "image_token_id": tokens.index(_PLACEHOLDER),
            }
            identity = f"{path.name} {sum(part.file_nbytes for part in tower.tensors.values())}"
            found = VisionPart(None, tower.tensors, whole, tower.processing, str(path))
            return found._replace(identity=identity)
    if chosen_file is not None and error is None:
        error = BadModelFile("{path}: the picture part of another model.", path=chosen_file)
    return _no_vision("no-mmproj") if error is None else _unusable_vision(error)


_WHY = {
    "no-vision": Words("This model sees no pictures: it was made for text alone."),
    "vision-not-run": Words(
        "The picture part of this model is of a kind that this version does not run; its text part "
        "runs."
    ),
    "no-mmproj": Words(
        "The picture part of this model is not beside it: put the model's mmproj file (GGUF) into "
        "its folder, then load the model again."
    ),
    "vision-missing": Words(
        "The picture part of this model is not in its files: this copy of it is for text alone."
    ),
}


def _no_vision(reason_code: str) -> VisionPart:
    return VisionPart(Reason(reason_code, _WHY[reason_code]))


def _unusable_vision(error: EngineError) -> VisionPart:
    words = Words("Pictures cannot be read. {error}", error=str(error))
    return VisionPart(Reason("vision-unusable", words))


def _read_image_processing(files: ModelFiles) -> Mapping[str, object]:
    """Read how pictures are prepared; empty without a file of it, for the tower's defaults."""
    path = files.root / "preprocessor_config.json"
    if path.exists():
        return read_json_object(path)
    path = files.root / "processor_config.json"
    inner = read_json_object(path).get("image_processor") if path.exists() else None
    return inner if isinstance(inner, dict) else {}


def picture_sizes(part: VisionPart, tower_bytes: int, element: int) -> PictureSizes | None:
    """Sizes of a vision tower from its config; None without one, or if the config lacks them.

    tower_bytes: of all weights. element: bytes of an activation.
    """
    if part.why_not is not None:
        return None
    try:
        fields = ConfigFields(part.config, part.origin).section("vision_config")
        assert fields is not None, "a part with a tower has the tower's config"
        process = ConfigFields(part.processing, part.origin)
        size = process.section("size") or process
        pixels = size.count("longest_edge", process.count("max_pixels", _MOST_PIXELS))
        merge, patch = fields.count("spatial_merge_size", 2), fields.count("patch_size")
        hidden = fields.count("hidden_size")
        return PictureSizes(
            tower=tower_bytes,
            element=element,
            hidden=hidden,
            widest=max(3 * hidden, fields.count("intermediate_size")),
            heads=fields.count("num_heads"),
            patches=merge**2,
            patch_pixels=patch**2,
            most_tokens=pixels // (patch * merge) ** 2,
        )
    except BadModelFile:
        return None


class LoadedTower(NamedTuple):
    """A vision tower, or why there is none.

    arrays: the tower's weights, lazy. origin: their file or folder.
    """

    tower: VisionTower | None
    why_not: Reason | None
    arrays: tuple[mx.array, ...] = ()
    origin: str = ""


NO_TOWER = LoadedTower(None, None)


def open_tower(part: VisionPart, hidden: int, half: mx.Dtype | None) -> LoadedTower:
    """Build the vision tower of a model on weights that are read with the first picture.

    hidden: size of the language model's hidden states. half: dtype of weights that are stored in 16
    bits. A tower that cannot be built is a reason, and the model runs without it.
    """
    if part.why_not is not None:
        return LoadedTower(None, part.why_not)
    import mlx.core as mx

    from mlx_engine.loading.arrays import cast_floats
    from mlx_engine.loading.load_tensors import load_deferred
    from mlx_engine.models.vision.qwen3 import Qwen3Tower, Qwen3VisionSpec
    from mlx_engine.models.weights import WeightTable

    origin = part.origin
    try:
        spec = Qwen3VisionSpec.read(part.config, part.processing, origin)
        if spec.out_hidden != hidden:
            raise BadModelFile(
                "{origin}: the picture part makes {made} numbers of a token, the text part reads "
                "{wanted}. They belong to different models.",
                origin=origin,
                made=spec.out_hidden,
                wanted=hidden,
            )
        half = half if half == mx.float32 else mx.bfloat16  # float16 may overflow in a tower
        arrays = load_deferred(part.tensors, half)
        if _KERNEL in arrays:
            arrays[_KERNEL] = _patch_matrix(arrays[_KERNEL], arrays.pop(f"{_KERNEL}.1", None))
        table = WeightTable(cast_floats(arrays, half), origin, compute_dtype=half)
        tower = Qwen3Tower(spec, table, part.identity)
        return LoadedTower(tower, None, table.taken_arrays, origin)
    except EngineError as error:
        return LoadedTower(None, _unusable_vision(error).why_not)


def _patch_matrix(kernel: mx.array, second_kernel: mx.array | None) -> mx.array:
    """Add up the kernels of both frames -> [H, 3 * patch^2].

    kernel: [H, 3, 2, patch, patch] as in Hugging Face's files, [H, 2, patch, patch, 3] in MLX's, or
    one frame's [H, 3, patch, patch], beside `second_kernel`, in GGUF files.
    """
    if second_kernel is not None and second_kernel.shape == kernel.shape:
        return (kernel + second_kernel).reshape(len(kernel), -1)
    if kernel.ndim != 5:
        return kernel
    if kernel.shape[-1] == 3 and kernel.shape[1] != 3:
        kernel = kernel.transpose(0, 4, 1, 2, 3)
    return kernel.sum(axis=2).reshape(len(kernel), -1)
