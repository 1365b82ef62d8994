"""Tells weight files by names and first bytes: shards, GGUF models, MTP heads, damaged files."""

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.untrusted import (
    HEADER_BYTES,
    REFERENCE_BYTES,
    BadJsonError,
    open_regular,
    parse_json,
    read_text,
)
from mlx_engine.values.words import Words

SAFETENSORS = ".safetensors"
INDEX = ".safetensors.index.json"
GGUF = ".gguf"
UNSAFE = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
FOREIGN = {
    ".onnx": "ONNX",
    ".h5": "Keras",
    ".keras": "Keras",
    ".msgpack": "Flax",
    ".npz": "NumPy",
    ".tflite": "TensorFlow Lite",
    ".mlmodel": "Core ML",
    ".mlpackage": "Core ML",
    ".engine": "TensorRT",
    ".nemo": "NeMo",
    ".ggml": "llama.cpp before GGUF",
}
"""Suffixes of weights of other programs -> the program."""
PARTIAL = (".incomplete", ".part", ".partial", ".download", ".crdownload", ".downloading")
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf|\.safetensors)", re.IGNORECASE)
_OF_HEADS = re.compile("(?<![a-z])(mtp|nextn)(?![a-z])", re.IGNORECASE)
_DRAFTS = re.compile(
    r"(^|/)(mtp|nextn)[^/]*/|(?<![a-z])(draft(er)?|assistant|eagle-?\d*|dflash|dspark|lilicorr|"
    r"medusa|speculator)(?![a-z])|(q\d\w{0,20}|f16|f32|bf16)-(mtp|nextn)(?![a-z])",
    re.IGNORECASE,
)
"""Paths of draft models beside the models that they were made for."""
_OF_DRAFTER = re.compile(
    r"(?<![a-z])(draft(er)?|assistant|eagle-?\d*|dflash-?\d*|dspark|lilicorr|speculator)(?![a-z])",
    re.IGNORECASE,
)
"""Words in names of draft models that were made for the model that the rest of the name is of."""
_MADE_BY = re.compile(
    r"(?<![a-z0-9])(b\d+|block-?\d+|sglang|specforge|vllm|deepspec|ultrachat)(?![a-z0-9])",
    re.IGNORECASE,
)
"""Other words in names of draft models: the size of a block, a trainer, a text."""
_BESIDE = re.compile(r".*mmproj.*|(.*\.)?imatrix[^.]*\.gguf", re.IGNORECASE)
"""Names of vision parts and importance matrices beside models; a model quantised with a matrix is
called ...-imatrix, or the like."""
_STORED = re.compile(
    r"(?<![a-z0-9])(mlx|gguf|hf|mtp|nextn|ud|i1|imatrix|dwq|awq|gptq|bnb|dynamic|mixed|moe|"
    r"\d+[-_]?bits?|i?q\d(_[a-z0-9]{1,3})*|(bf|f|fp|int|mxfp|nvfp)\d+|w\d+a\d+|gs?\d+|"
    r"\d{5}-of-\d{5})(?![a-z0-9])"
)
"""Words in names that say how a model is stored, not which model it is."""
_LAYOUTS = frozenset(("hf", "mlx", "gguf", "safetensors", "model"))
"""Names of folders that say only the format of a model."""

FOLDERS_OF_HEADS = ("mtp", "nextn")
"""Names of folders of heads and draft models beside a model."""

_COMMIT = re.compile(r"\w{1,64}", re.ASCII)
_LARGEST_HEADER_OF_HEADS = 16_000_000
"""Bytes; a head with 400 experts has a tenth of that."""
_LFS_POINTER = b"version https://git-lfs"


GGUF_WITH_TOWERS = frozenset(("qwen35", "qwen35moe", "qwen3vl", "qwen3vlmoe", "gemma3", "gemma4"))
"""GGUF architectures of models whose vision towers are run."""
_OF_TOWERS = ("clip", "mmproj")


def is_tower_run(architecture: str) -> bool:
    """Return whether vision towers of this GGUF architecture run; True if it is unknown.

    architecture: "" where it is not known; the hub may take a tower's own for the model's.
    """
    return architecture in ("", *_OF_TOWERS, *GGUF_WITH_TOWERS)


def may_be_tower(name: str) -> bool:
    """Whether a file may hold a model's vision tower, by the name that llama.cpp gives it."""
    return "mmproj" in name.lower() and name.lower().endswith(GGUF)


def is_tower_of_other(tower_stem: str, model_stem: str) -> bool:
    """Return whether a tower's file name, without `mmproj`, is that of another model."""
    return not is_same_model(tower_stem.lower().replace("mmproj", ""), model_stem)


def is_folder_of_quantisation(name: str) -> bool:
    """Return whether a folder is named by a quantisation alone: Q8_0, UD-Q4_K_XL, BF16."""
    return is_same_model(name, "") and name != ""


class ShardName(NamedTuple):
    """Name of a shard, "model-00001-of-00004.safetensors", in parts; counted from 1."""

    stem: str
    number: int
    total: int
    ending: str

    def shard_name(self, shard_number: int) -> str:
        """File name of another shard of the same model, by its number from 1."""
        return f"{self.stem}-{shard_number:05}-of-{self.total:05}{self.ending}"


def parse_shard_name(name: str) -> ShardName | None:
    """Parse the name of a shard, "model-00001-of-00004.safetensors"; None for other file names."""
    found = _SHARD.fullmatch(name)
    return None if found is None else ShardName(found[1], int(found[2]), int(found[3]), found[4])


class WeightFileNames(NamedTuple):
    """Sorted names of one model's weight files; missing: its first shard that is absent."""

    names: tuple[str, ...]
    missing: str | None = None


def group_model_shards(names: Iterable[str]) -> list[WeightFileNames]:
    """Group file names into models: shards of one set together, every other file by itself.

    Takes linear time.
    """
    sets: dict[str, list[str]] = {}
    for name in sorted(names):
        shard = parse_shard_name(name)
        sets.setdefault(name if shard is None else shard.shard_name(1), []).append(name)
    return [
        WeightFileNames(tuple(files), existing_shards(first, set(files).__contains__).missing)
        for first, files in sets.items()
    ]


def select_model_weights(names: Iterable[str]) -> WeightFileNames:
    """Select the safetensors files of the model in a folder: those named model*, if there are any.

    An incomplete set of shards is ignored where the same model is there completely: as one file, or
    in other shards.
    """
    own = [name for name in names if name.endswith(SAFETENSORS) and not is_heads_name(name)]
    sets = group_model_shards([name for name in own if name.startswith("model")] or own)
    whole = {_model_stem(files.names[0]) for files in sets if files.missing is None}
    kept = [files for files in sets if not (files.missing and _model_stem(files.names[0]) in whole)]
    lost = next((files.missing for files in kept if files.missing), None)
    return WeightFileNames(tuple(name for files in kept for name in files.names), lost)


def existing_shards(name: str, file_exists: Callable[[str], object]) -> WeightFileNames:
    """Names of a weight file and its further shards, up to the first that is missing.

    file_exists: whether a file of a name exists.
    """
    shard, there = parse_shard_name(name), list[str]()
    for part in [name] if shard is None else map(shard.shard_name, range(1, shard.total + 1)):
        if not file_exists(part):
            return WeightFileNames(tuple(there), part)
        there.append(part)
    return WeightFileNames(tuple(there))


def _model_stem(name: str) -> str:
    shard = parse_shard_name(name)
    return name.removesuffix(SAFETENSORS) if shard is None else shard.stem


def is_heads_name(name: str) -> bool:
    """Whether a file holds only MTP heads, by its name: mtp*.safetensors."""
    return name.startswith("mtp") and name.endswith(SAFETENSORS)


def may_be_heads(name: str) -> bool:
    """Whether a safetensors file outside the index of shards may hold MTP heads, by its name.

    Tools that do not rewrite the index call it model-mtp.safetensors and the like.
    """
    return name.endswith(SAFETENSORS) and (is_heads_name(name) or mentions_heads(name))


def mentions_heads(name: str) -> bool:
    """Whether the name of a file or folder contains the word MTP or NextN."""
    return bool(_OF_HEADS.search(name))


def is_gguf_head(name: str) -> bool:
    """Whether a GGUF file holds only MTP heads, by its name: mtp*.gguf."""
    return name.lower().startswith("mtp") and name.lower().endswith(GGUF)


def may_be_gguf_head(name: str) -> bool:
    """Whether a GGUF file beside a model may hold MTP heads, alone or not, by its name."""
    return name.lower().endswith(GGUF) and (is_gguf_head(name) or mentions_heads(name))


def gguf_models(paths: Iterable[str]) -> list[WeightFileNames]:
    """Group paths of GGUF files into models, each with all its shards, in linear time.

    Draft models by name or folder (MTP/gemma-Q8_0-MTP.gguf, qwen-eagle3-F16.gguf) are left out,
    unless there are no other models.
    """
    ggufs = [path for path in paths if path.lower().endswith(GGUF)]
    sets = [
        WeightFileNames(tuple(f"{folder}{name}" for name in files.names), files.missing)
        for folder, names in _group_by_folder(ggufs).items()
        for files in group_model_shards(names)
        if is_gguf_model(files.names[0])
    ]
    return [files for files in sets if not _DRAFTS.search(files.names[0])] or sets


def _group_by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, name = path.rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    return folders


def is_gguf_model(name: str) -> bool:
    """Whether a GGUF file is a model or its first shard, by its name.

    MTP heads, vision parts and importance matrices are none.
    """
    shard = parse_shard_name(name)
    is_apart = is_gguf_head(name) or _BESIDE.fullmatch(name) is not None
    return name.lower().endswith(GGUF) and not is_apart and (shard is None or shard.number == 1)


def folder_name(folder: Path) -> str:
    """Name of the model in a folder: the hub id in the hub's cache, else the folder's name.

    For a folder that is named after a format ("Qwen3.5-4B/mlx") it is the name of its parent.
    """
    folder = folder.absolute()
    around = folder.parent
    if around.name == "snapshots" and around.parent.name.startswith("models--"):
        return around.parent.name.removeprefix("models--").replace("--", "/")
    return around.name if folder.name.lower() in _LAYOUTS and around.name else folder.name


def model_name(path: Path) -> str:
    """Name of the model at a path, wherever it is shown: a GGUF file's stem, or `folder_name`."""
    return path.stem if path.name.lower().endswith(GGUF) else folder_name(path)


def is_same_model(name: str, other: str) -> bool:
    """Whether two model names differ only in words that say how a model is stored.

    "Qwen3.6-27B" and "Qwen3.6-27B-MLX-4bit" do; "Qwen3.6-27B-Instruct" is another model.
    """

    def name_words(text: str) -> list[str]:
        return [word for word in re.split(r"[-_. ]+", _STORED.sub("-", text.lower())) if word]

    return name_words(name) == name_words(other)


def is_drafter_of(name: str, model: str = "") -> bool:
    """Whether a name is that of a draft model, made for `model` if that is given.

    "Qwen3.8-27B-DFlash2" is one for "Qwen3.8-27B-4bit", "EAGLE3-LLaMA3.1-Instruct-8B" for
    "Llama-3.1-8B-Instruct": words of these names stand in any order.
    """

    def split_name(text: str) -> list[str]:
        own = _STORED.sub("-", text.rpartition("/")[2].lower())
        return sorted(re.findall(r"[a-z]+|\d+", own))

    rest = _MADE_BY.sub("-", _OF_DRAFTER.sub("-", name))
    return _OF_DRAFTER.search(name) is not None and (
        not model or split_name(rest) == split_name(model)
    )


def base_name(name: str) -> str:
    """Part of a model's name before the words that say how it is stored.

    "Qwen3.6-27B" for "org/Qwen3.6-27B-MLX-4bit" and "Qwen3.6-27B-Q4_K_M.gguf".
    """
    own = name.rpartition("/")[2]
    own = own[: -len(GGUF)] if own.lower().endswith(GGUF) else own
    stored = _STORED.search(own.lower())
    return own[: stored.start()].rstrip("-_. ") or own if stored else own


def is_safe_snapshot_name(name: str) -> bool:
    """Whether a text can name a snapshot folder of the hub's cache, safe as part of a path."""
    return _COMMIT.fullmatch(name) is not None


def hub_snapshot(repository: Path) -> Path | None:
    """Path of a repository's snapshot in the hub's cache, None if absent: of main, else newest."""
    snapshots = repository / "snapshots"
    try:
        main = read_text(repository / "refs" / "main", REFERENCE_BYTES).strip()
    except BadModelFile:
        main = ""
    if is_safe_snapshot_name(main) and (snapshots / main).is_dir():
        return snapshots / main
    folders = filter(Path.is_dir, snapshots.glob("[!.]*"))
    return max(folders, key=lambda folder: folder.stat().st_mtime, default=None)


def damage_message(path: Path) -> str | None:
    """Error message for a damaged or foreign weight file, by its first bytes; None for others.

    Raises OSError.
    """
    with open_regular(path) as file:
        start = file.read(24)
    if not start:
        return Words("the file is empty: download it again")
    if start.startswith(_LFS_POINTER):
        return Words(
            "this is a pointer of Git LFS, not the weights: run git lfs pull, or download it"
        )
    if path.suffix.lower() == GGUF and not start.startswith(b"GGUF"):
        return Words("the file does not start as a GGUF does: download it again")
    if path.suffix.lower() == SAFETENSORS:
        return _header_damage(start, path.stat().st_size)
    return None


def tensor_names(path: Path) -> tuple[str, ...]:
    """Names of the tensors in a safetensors file that may hold MTP heads. Raises OSError.

    Empty when the header cannot be read, or is longer than that of any MTP heads.
    """
    with open_regular(path) as file:
        start = file.read(8)
        if _header_damage(start, path.stat().st_size) is not None:
            return ()
        (length,) = struct.unpack("<Q", start)
        if length > _LARGEST_HEADER_OF_HEADS:
            return ()
        try:
            header = parse_json(file.read(length))
        except BadJsonError:
            return ()
    return tuple(n for n in header if n != "__metadata__") if isinstance(header, dict) else ()


def holds_only_heads(path: Path) -> bool:
    """Whether a safetensors file holds MTP heads and nothing else. Raises OSError."""
    if is_heads_name(path.name):
        return True
    names = tensor_names(path)
    return bool(names) and all("mtp" in name.split(".") for name in names)


HEAD_PARTS = ("mtp", "mtp_layers", "eh_proj")
"""Parts of tensor names that occur in MTP heads only."""


def has_head_tensors(names: Iterable[str]) -> bool:
    """Whether any of these tensor names belongs to MTP heads, of whatever model family."""
    return any(part in HEAD_PARTS for name in names for part in name.split("."))


def head_shards(index: bytes) -> set[str]:
    """Names of the files that hold tensors named mtp.*, from the JSON of an index of shards.

    Empty for other content.
    """
    return {str(file) for name, file in files_by_tensor(index).items() if "mtp" in name.split(".")}


def files_by_tensor(index: bytes) -> Mapping[str, object]:
    """Tensor name -> file name, from the JSON of an index of shards; empty for other content."""
    try:
        parsed = parse_json(index)
    except BadJsonError:
        return {}
    table = parsed.get("weight_map") if isinstance(parsed, dict) else None
    return table if isinstance(table, dict) else {}


def _header_damage(start: bytes, file_size: int) -> str | None:
    if len(start) < 8:
        return Words("the file ends in its header: download it again")
    (length,) = struct.unpack("<Q", start[:8])
    if length > min(file_size - 8, HEADER_BYTES):
        return Words("the file does not start as a safetensors file does: download it again")
    return None
