"""What files and folders are by name and first bytes: weights, shards, heads, damaged downloads."""

import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
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
"""Endings of weights that other programs read -> whose."""
PARTIAL = (".incomplete", ".part", ".partial", ".download", ".crdownload", ".downloading")
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf|\.safetensors)", re.IGNORECASE)
_OF_HEADS = re.compile("(?<![a-z])(mtp|nextn)(?![a-z])", re.IGNORECASE)
_DRAFTS = re.compile(
    r"(^|/)(mtp|nextn)[^/]*/|(?<![a-z])(draft(er)?|assistant|eagle-?\d*|dflash|dspark|medusa|"
    r"speculator)(?![a-z])|(q\d\w{0,20}|f16|f32|bf16)-(mtp|nextn)(?![a-z])",
    re.IGNORECASE,
)
"""Paths of draft models beside the models that they were made for."""
_BESIDE = re.compile(r".*mmproj.*|(.*\.)?imatrix[^.]*\.gguf", re.IGNORECASE)
"""Names of eyes and of importance matrices, which lie beside models; a model made with one is
called ...-imatrix, or the like."""
_STORED = re.compile(
    r"(?<![a-z0-9])(mlx|gguf|hf|mtp|nextn|ud|i1|imatrix|dwq|awq|gptq|bnb|dynamic|mixed|moe|"
    r"\d+[-_]?bits?|i?q\d(_[a-z0-9]{1,3})*|(bf|f|fp|int|mxfp|nvfp)\d+|w\d+a\d+|gs?\d+|"
    r"\d{5}-of-\d{5})(?![a-z0-9])"
)
"""Words of a name that say how a model is stored, and nothing of which it is."""
_LAYOUTS = frozenset(("hf", "mlx", "gguf", "safetensors", "model"))
"""What folders of a model are called by the form it has in them."""

FOLDERS_OF_HEADS = ("mtp", "nextn")
"""What folders of heads and draft models beside a model are called."""

_COMMIT = re.compile(r"\w{1,64}", re.ASCII)
_LARGEST_HEADER_OF_HEADS = 16_000_000
"""Bytes; a head with 400 experts has a tenth of that."""
_LFS_POINTER = b"version https://git-lfs"


class Shard(NamedTuple):
    """One of `total` numbered files of a model, counted from 1."""

    stem: str
    number: int
    total: int
    ending: str

    def name(self, number: int) -> str:
        """The file name of shard `number`."""
        return f"{self.stem}-{number:05}-of-{self.total:05}{self.ending}"


def shard_of(name: str) -> Shard | None:
    """How a file name is numbered, None when it is not."""
    found = _SHARD.fullmatch(name)
    return None if found is None else Shard(found[1], int(found[2]), int(found[3]), found[4])


class Weights(NamedTuple):
    """Files of one model by their names, sorted; missing: the first that their numbers promise."""

    names: tuple[str, ...]
    missing: str | None = None


def models_among(names: Iterable[str]) -> list[Weights]:
    """Files that are numbered alike together, each other one by itself; in linear time."""
    sets: dict[Shard | str, list[str]] = {}
    for name in sorted(names):
        shard = shard_of(name)
        sets.setdefault(name if shard is None else shard._replace(number=1), []).append(name)
    return [Weights(tuple(files), _lost(kind, files)) for kind, files in sets.items()]


def _lost(kind: Shard | str, files: Collection[str]) -> str | None:
    if isinstance(kind, str):
        return None
    there = set(files)
    every = (kind.name(number) for number in range(1, kind.total + 1))
    return next((name for name in every if name not in there), None)


def weights_among(names: Iterable[str]) -> Weights:
    """The safetensors of a folder that hold its model, those named model* where any is.

    Numbered ones that are not all there are left over where the same model is there whole: as one
    file, or by other numbers.
    """
    own = [name for name in names if name.endswith(SAFETENSORS) and not is_heads_name(name)]
    sets = models_among([name for name in own if name.startswith("model")] or own)
    whole = {_stem(files.names[0]) for files in sets if files.missing is None}
    kept = [files for files in sets if not (files.missing and _stem(files.names[0]) in whole)]
    lost = next((files.missing for files in kept if files.missing), None)
    return Weights(tuple(name for files in kept for name in files.names), lost)


def parts_there(name: str, is_there: Callable[[str], object]) -> Weights:
    """The file of this name, or all parts where it is one of several, up to one that is missing."""
    shard, there = shard_of(name), list[str]()
    for part in [name] if shard is None else map(shard.name, range(1, shard.total + 1)):
        if not is_there(part):
            return Weights(tuple(there), part)
        there.append(part)
    return Weights(tuple(there))


def _stem(name: str) -> str:
    shard = shard_of(name)
    return name.removesuffix(SAFETENSORS) if shard is None else shard.stem


def is_heads_name(name: str) -> bool:
    """Whether a file by its name holds only MTP heads, as the engine looks for beside a model."""
    return name.startswith("mtp") and name.endswith(SAFETENSORS)


def may_be_heads(name: str) -> bool:
    """Whether a file that is none of a model's shards may by its name hold its MTP heads.

    As tools call them that leave the index of shards as it was: model-mtp.safetensors and the like.
    """
    return name.endswith(SAFETENSORS) and (is_heads_name(name) or tells_of_heads(name))


def tells_of_heads(name: str) -> bool:
    """Whether the name of a file or a folder has MTP or NextN in it as a word."""
    return bool(_OF_HEADS.search(name))


def is_gguf_head(name: str) -> bool:
    """Whether a GGUF by its name holds only MTP heads."""
    return name.lower().startswith("mtp") and name.lower().endswith(GGUF)


def may_be_gguf_head(name: str) -> bool:
    """Whether a GGUF beside a model may by its name hold MTP heads, alone or with a trunk."""
    return name.lower().endswith(GGUF) and (is_gguf_head(name) or tells_of_heads(name))


def gguf_models(paths: Iterable[str]) -> list[Weights]:
    """Models in GGUF files among these, each with its parts, in linear time.

    What is called like a draft model, or lies in a folder of such, is one only where nothing else
    is: MTP/gemma-Q8_0-MTP.gguf, qwen-eagle3-F16.gguf.
    """
    ggufs = [path for path in paths if path.lower().endswith(GGUF)]
    sets = [
        Weights(tuple(f"{folder}{name}" for name in files.names), files.missing)
        for folder, names in _by_folder(ggufs).items()
        for files in models_among(names)
        if is_gguf_model(files.names[0])
    ]
    return [files for files in sets if not _DRAFTS.search(files.names[0])] or sets


def _by_folder(paths: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for path in paths:
        folder, slash, name = path.rpartition("/")
        folders.setdefault(folder + slash, []).append(name)
    return folders


def is_gguf_model(name: str) -> bool:
    """Of a model in parts only the first is opened; heads, eyes and matrices are no models."""
    shard = shard_of(name)
    beside = is_gguf_head(name) or _BESIDE.fullmatch(name) is not None
    return name.lower().endswith(GGUF) and not beside and (shard is None or shard.number == 1)


def folder_name(folder: Path) -> str:
    """What the model in a folder is called: the hub id in the hub's cache; where the folder says
    only what form the model has ("Qwen3.5-4B/mlx"), the folder around it.
    """
    folder = folder.absolute()
    around = folder.parent
    if around.name == "snapshots" and around.parent.name.startswith("models--"):
        return around.parent.name.removeprefix("models--").replace("--", "/")
    return around.name if folder.name.lower() in _LAYOUTS and around.name else folder.name


def is_same_model(name: str, other: str) -> bool:
    """Whether names of folders or files tell one model apart by how it is stored alone.

    "Qwen3.6-27B" and "Qwen3.6-27B-MLX-4bit" do; "Qwen3.6-27B-Instruct" is trained further.
    """
    told = (re.split(r"[-_. ]+", _STORED.sub("-", one.lower())) for one in (name, other))
    own, its = (list(filter(None, words)) for words in told)
    return own == its


def is_commit(name: str) -> bool:
    """Whether a folder of the hub's cache may be called so, and no path out of it is."""
    return _COMMIT.fullmatch(name) is not None


def hub_snapshot(repository: Path) -> Path | None:
    """The folder of files of a repository in the hub's cache, None when there is none."""
    snapshots = repository / "snapshots"
    try:
        main = read_text(repository / "refs" / "main", REFERENCE_BYTES).strip()
    except BadModelFile:
        main = ""
    if is_commit(main) and (snapshots / main).is_dir():
        return snapshots / main
    folders = filter(Path.is_dir, snapshots.glob("[!.]*"))
    return max(folders, key=lambda folder: folder.stat().st_mtime, default=None)


def damage(path: Path) -> str | None:
    """What is plainly wrong with a weight file, None when it looks right. Raises OSError."""
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
    """Names in a safetensors file that may be of heads; empty when its header cannot be read or is
    longer than any of heads. Raises OSError.
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
    """Whether a safetensors file has MTP heads and nothing else. Raises OSError."""
    if is_heads_name(path.name):
        return True
    names = tensor_names(path)
    return bool(names) and all("mtp" in name.split(".") for name in names)


HEAD_PARTS = ("mtp", "mtp_layers", "eh_proj")
"""Parts of tensor names that only MTP heads have."""


def names_heads(names: Iterable[str]) -> bool:
    """Whether one of these tensors is of MTP heads, by its name in any family."""
    return any(part in HEAD_PARTS for name in names for part in name.split("."))


def head_shards(index: bytes) -> set[str]:
    """Files in which MTP heads lie by an index of shards, where their names say so (mtp.*); none
    for what is no such index.
    """
    return {str(file) for name, file in indexed(index).items() if "mtp" in name.split(".")}


def indexed(index: bytes) -> Mapping[str, object]:
    """Tensor name -> file of an index of shards; nothing for what is no such index."""
    try:
        told = parse_json(index)
    except BadJsonError:
        return {}
    table = told.get("weight_map") if isinstance(told, dict) else None
    return table if isinstance(table, dict) else {}


def _header_damage(start: bytes, size: int) -> str | None:
    if len(start) < 8:
        return Words("the file ends in its header: download it again")
    (length,) = struct.unpack("<Q", start[:8])
    if length > min(size - 8, HEADER_BYTES):
        return Words("the file does not start as a safetensors file does: download it again")
    return None
