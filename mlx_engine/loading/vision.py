"""Find the vision tower in a model's files, and build it; its weights are read on first use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mlx_engine.hub.weight_files import is_tower_of_other
from mlx_engine.loading.folder import ModelFiles, read_json_object
from mlx_engine.loading.gguf.vision import TowerKind, read_gguf_tower
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import BadModelFile, EngineError, Reason, UnsupportedModel
from mlx_engine.values.memory_plan import PictureSizes
from mlx_engine.values.words import Words

if TYPE_CHECKING:
    import mlx.core as mx

    from mlx_engine.models.vision.contract import VisionTower
    from mlx_engine.models.weights import WeightTable


class _TowerFamily(NamedTuple):
    """Names that files of models with one kind of tower, a file in models/vision/, give its parts.

    tensors: pattern of tensor names in folders, with the tower's own name as its group. kernel: the
    tower's name of the kernel that patches are multiplied by. placeholder: text of the token that
    becomes a picture's.
    """

    kind: TowerKind
    model_types: tuple[str, ...]
    tensors: re.Pattern[str]
    kernel: str
    placeholder: str


_QWEN3 = _TowerFamily(
    "qwen3",
    ("qwen3_5", "qwen3_5_moe", "qwen3_8", "qwen3_8_moe"),
    re.compile(r"(?:model\.)?(?:visual|vision_tower)\.(.+)"),
    "patch_embed.proj.weight",
    "<|image_pad|>",
)
_FAMILIES = (
    _QWEN3,
    _QWEN3._replace(kind="qwen3_vl", model_types=("qwen3_vl", "qwen3_vl_moe")),
    _TowerFamily(
        "gemma3",
        ("gemma3", "gemma3_text"),
        re.compile(
            r"(?:model\.)?(?:vision_tower\.(?:vision_model\.)?|multi_modal_projector\.)"
            r"(?!head\.|embeddings\.position_ids)(.+)"
        ),
        "embeddings.patch_embedding.weight",
        "<image_soft_token>",
    ),
    _TowerFamily(
        "gemma4",
        ("gemma4", "gemma4_text"),
        re.compile(r"(?:model\.)?(?:vision_tower\.|(?=embed_vision\.))(.+)"),
        "patch_embedder.input_proj.weight",
        "<|image|>",
    ),
    _TowerFamily(
        "gemma4_unified",
        ("gemma4_unified", "gemma4_unified_text"),
        re.compile(r"(?:model\.)?(?:vision_embedder\.|(?=embed_vision\.))(.+)"),
        "patch_dense.weight",
        "<|image|>",
    ),
)
_SAME_IN_GGUF: Mapping[TowerKind, TowerKind] = {"gemma4_unified": "gemma4"}
"""Kind of tower -> kind of the models whose GGUF architecture the text part shares."""

_BY_KIND = {family.kind: family for family in _FAMILIES}
_TRANSPOSED, _POSITIONS = "mm_input_projection.weight", "pos_embedding"
_BY_TYPE = {name: family for family in _FAMILIES for name in family.model_types}
_MOST_PIXELS = 16777216
"""Most pixels of a picture for the tower of Qwen3.5, where the model's files do not say."""


class VisionPart(NamedTuple):
    """The vision tower in a model's files: tensors by the tower's names, or why there is none.

    in_file: the tensors' names in the model's own files. config: fields of config.json. processing:
    fields of preprocessor_config.json. origin: file or folder of the tower, for messages.
    identity: name and size of a file of its own.
    """

    why_not: Reason | None
    kind: TowerKind = "qwen3"
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
    family = _BY_TYPE.get(str(config.get("model_type")))
    if family is None or not isinstance(config.get("vision_config"), dict):
        has_tower = any(each.tensors.fullmatch(name) for each in _FAMILIES for name in skipped)
        code = "vision-not-run" if "vision_config" in config or has_tower else "no-vision"
        return _no_vision(code)
    named = {name: found[1] for name in skipped if (found := family.tensors.fullmatch(name))}
    if not named:
        return _no_vision("vision-missing")
    try:
        processing = _read_image_processing(files)
    except BadModelFile as error:
        return _unusable_vision(error)
    tensors = {_tower_name(in_tower): skipped[name] for name, in_tower in named.items()}
    origin, in_file = str(files.root), frozenset(named)
    return VisionPart(None, family.kind, tensors, config, processing, origin, in_file)


def _tower_name(name: str) -> str:
    """Drop the wrapper of Gemma 4's clipped layers, name Gemma 3's projection like a matrix."""
    return name.replace(".linear.", ".").replace("projection_weight", "projection.weight")


def find_gguf_vision(
    files: ModelFiles,
    config: Mapping[str, object],
    metadata: Mapping[str, object],
    chosen_file: Path | None = None,
) -> VisionPart:
    """Find the vision tower of a GGUF model in a chosen file or beside it. Raises no error.

    The first that fits counts; one with the model's name in its own comes first.
    """
    family = _BY_TYPE.get(str(config.get("model_type")))
    tokens = metadata.get("tokenizer.ggml.tokens")
    if family is None or not isinstance(tokens, list) or family.placeholder not in tokens:
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
        kind = _SAME_IN_GGUF.get(tower.kind, tower.kind)
        if kind == family.kind and tower.out_hidden == config.get("hidden_size"):
            whole = {**tower.config, "image_token_id": tokens.index(family.placeholder)}
            identity = f"{path.name} {sum(part.file_nbytes for part in tower.tensors.values())}"
            found = VisionPart(None, tower.kind, tower.tensors, whole, tower.processing, str(path))
            return found._replace(identity=identity)
    if chosen_file is not None and error is None:
        error = BadModelFile("{path}: the picture part of another model.", path=chosen_file)
    return _no_vision("no-mmproj") if error is None else _unusable_vision(error)


_PAN_AND_SCAN = Words(
    "This model's files ask for cut-outs of long pictures beside the whole one (pan and scan); "
    "each picture is read whole here, once."
)


def vision_remarks(part: VisionPart) -> tuple[Reason, ...]:
    """Reason why a processing step that a tower's files ask for is left out; None if none is."""
    asks = part.kind == "gemma3" and part.processing.get("do_pan_and_scan") is True
    return (Reason("pan-and-scan", _PAN_AND_SCAN),) if asks else ()


_WHY = {
    "no-vision": Words("This model sees no pictures: it was made for text alone."),
    "vision-not-run": Words(
        "The picture part of this model is of a kind that this version does not run; its text part "
        "runs."
    ),
    "no-mmproj": Words(
        "The picture part of this model is not beside it: put the model's mmproj file (GGUF) into "
        "its folder and load the model again, or name it in the load options."
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
    """Read the fields of preprocessor_config.json; empty without it, for the tower's defaults."""
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
        whole, process = (
            ConfigFields(part_of, part.origin) for part_of in (part.config, part.processing)
        )
        fields = whole.section("vision_config")
        assert fields is not None, "a part with a tower has the tower's config"
        if part.kind == "gemma4_unified":  # which has no layers
            hidden = fields.count("mm_embed_dim", 3840)
            none = {"intermediate_size": 1, "num_attention_heads": 1}
            fields = fields.with_values(hidden_size=hidden, **none)
        hidden, patch = fields.count("hidden_size"), fields.count("patch_size", 16)
        is_qwen = part.kind in ("qwen3", "qwen3_vl")
        if is_qwen:
            merge, size = fields.count("spatial_merge_size", 2), process.section("size") or process
            pixels = size.count("longest_edge", process.count("max_pixels", _MOST_PIXELS))
            tokens = pixels // (patch * merge) ** 2
        elif part.kind == "gemma3":
            tokens = whole.count("mm_tokens_per_image", 256)
            merge = fields.count("image_size") // (patch * math.isqrt(tokens))
        else:
            merge = fields.count("pooling_kernel_size", 3)
            tokens = process.count("max_soft_tokens", 280)
        return PictureSizes(
            tower=tower_bytes,
            element=element,
            hidden=hidden,
            widest=max(3 * hidden, fields.count("intermediate_size")),
            heads=fields.count("num_heads" if is_qwen else "num_attention_heads"),
            patches=merge**2,
            patch_pixels=patch**2,
            most_tokens=tokens,
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
    from mlx_engine.models.weights import WeightTable

    try:
        half = half if half == mx.float32 else mx.bfloat16  # float16 may overflow in a tower
        arrays = _arranged(load_deferred(part.tensors, half), _BY_KIND[part.kind].kernel)
        table = WeightTable(cast_floats(arrays, half), part.origin, compute_dtype=half)
        tower = _build_tower(part, hidden, table)
        return LoadedTower(tower, None, table.taken_arrays, part.origin)
    except EngineError as error:
        return LoadedTower(None, _unusable_vision(error).why_not)


def _build_tower(part: VisionPart, hidden: int, table: WeightTable) -> VisionTower:
    from mlx_engine.models.vision.gemma3 import Gemma3Tower, Gemma3VisionSpec
    from mlx_engine.models.vision.gemma4 import Gemma4Tower, Gemma4VisionSpec
    from mlx_engine.models.vision.gemma4_unified import Gemma4UnifiedTower, Gemma4UnifiedVisionSpec
    from mlx_engine.models.vision.patches import VisionConfig
    from mlx_engine.models.vision.qwen3 import Qwen3Tower, Qwen3VisionSpec

    config = VisionConfig.of(part.config, part.processing, part.origin)
    match part.kind:
        case "gemma3":
            return Gemma3Tower(Gemma3VisionSpec.read(config, hidden), table, part.identity)
        case "gemma4":
            return Gemma4Tower(Gemma4VisionSpec.read(config, hidden), table, part.identity)
        case "gemma4_unified":
            unified = Gemma4UnifiedVisionSpec.read(config, hidden)
            return Gemma4UnifiedTower(unified, table, part.identity)
        case "qwen3" | "qwen3_vl":
            return Qwen3Tower(Qwen3VisionSpec.read(config, hidden), table, part.identity)


def _arranged(arrays: Mapping[str, mx.array], kernel: str) -> dict[str, mx.array]:
    """Arrange arrays as towers read them: kernels as matrices, limits as numbers.

    Gemma 3's projection, stored [inputs, outputs], becomes a matrix of outputs; Gemma 4 12B's
    positions, stored [2, positions, H] in GGUF files, become [positions, 2, H].
    """
    made = {
        name: array.reshape(()) if name.endswith(("_min", "_max")) and array.size == 1 else array
        for name, array in arrays.items()
    }
    if kernel in made:
        made[kernel] = _patch_matrix(made[kernel], made.pop(f"{kernel}.1", None))
    if _TRANSPOSED in made:
        made[_TRANSPOSED] = made[_TRANSPOSED].T
    if _POSITIONS in made and made[_POSITIONS].shape[0] == 2:
        made[_POSITIONS] = made[_POSITIONS].swapaxes(0, 1)
    return made


def _patch_matrix(kernel: mx.array, second_kernel: mx.array | None) -> mx.array:
    """Arrange a kernel of patches as a matrix [H, patch^2 * 3], colours side by side.

    kernel: [H, 3, patch, patch] or, in MLX's files, [H, patch, patch, 3]; of two frames, which are
    added up, with a further axis before the patch's, or beside `second_kernel` in GGUF files.
    """
    if second_kernel is not None and second_kernel.shape == kernel.shape:
        kernel = kernel + second_kernel
    if kernel.ndim < 4:
        return kernel
    if kernel.shape[-1] != 3 or kernel.shape[1] == 3:
        kernel = kernel.transpose(0, *range(2, kernel.ndim), 1)
    return (kernel.sum(axis=1) if kernel.ndim == 5 else kernel).reshape(len(kernel), -1)
