"""A model folder's files: weight shards in order, config, heads beside them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlx_engine.loading.json_file import read_json_object
from mlx_engine.values.errors import BadModelFile, ModelNotFound, UnsafeModelFile

UNSAFE_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_GGUF_PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*)\d{5}-of-(\d{5})\.safetensors")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's parts lie.

    root: the folder, or the file for kind "gguf", which is its own config. heads: files beside the
    shards that by their name hold MTP heads (mtp*.safetensors, mtp/*.safetensors, mtp*.gguf).
    """

    root: Path
    kind: Literal["folder", "gguf"]
    shards: tuple[Path, ...]
    config: Path
    heads: tuple[Path, ...] = ()


def read_folder(root: Path) -> ModelFiles:
    """The files of a folder in Hugging Face or MLX layout, or of the one GGUF in it.

    BadModelFile when a shard is missing, UnsafeModelFile when all weights can run code when
    opened, ModelNotFound when there are none.
    """
    names = _names(root)
    safe = [name for name in names if name.endswith(".safetensors")]
    heads = tuple(root / name for name in safe if name.startswith("mtp"))
    own = [name for name in safe if not name.startswith("mtp")]
    own = [name for name in own if name.startswith("model")] or own
    shards = _indexed_shards(root, names) or _complete(root, own)
    if not shards:
        return _without_safetensors(root, names)
    if (root / "mtp").is_dir():
        heads += safetensors_in(root / "mtp")
    beside = tuple(path for path in heads if path not in shards)
    return ModelFiles(root, "folder", shards, root / "config.json", beside)


def gguf_file(file: Path) -> ModelFiles:
    """A model in a GGUF file; its config is in there too. Heads may lie in mtp*.gguf beside it."""
    beside = [path for path in file.parent.iterdir() if _is_gguf_head(path.name)]
    heads = tuple(sorted(path for path in beside if path.name != file.name))
    return ModelFiles(file, "gguf", (), file, heads)


def safetensors_in(folder: Path) -> tuple[Path, ...]:
    """Every .safetensors file of a folder, by name."""
    return tuple(folder / name for name in _names(folder) if name.endswith(".safetensors"))


def unsafe_file(path: Path) -> UnsafeModelFile:
    """The error for weights in a format that can run code when opened."""
    return UnsafeModelFile(
        f"{path}: this format can run code on your machine when it is opened, so it is not. Take "
        "the .safetensors files of the model."
    )


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ModelNotFound(f"{folder}: cannot be opened ({error.strerror}).") from error


def _indexed_shards(root: Path, names: list[str]) -> tuple[Path, ...]:
    """Shards an index lists; none without an index, BadModelFile when one is missing."""
    indexes = [name for name in names if name.endswith(".safetensors.index.json")]
    if not indexes:
        return ()
    index = root / indexes[0]
    table = read_json_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise BadModelFile(f"{index}: lists no shards (weight_map). Get it again.")
    shards = []
    for name in sorted({str(value) for value in table.values()}):
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        if not inside or not name.endswith(".safetensors"):
            raise BadModelFile(f"{index}: lists the shard {ascii(name)[:80]}, which cannot be one.")
        shards.append(_existing(root / name, index.name))
    return tuple(shards)


def _complete(root: Path, names: list[str]) -> tuple[Path, ...]:
    """These files, and BadModelFile when they are numbered and a number is missing."""
    for name in names:
        if numbered := _NUMBERED.fullmatch(name):
            stem, count = numbered[1], numbered[2]
            for number in range(1, int(count) + 1):
                _existing(root / f"{stem}{number:05}-of-{count}.safetensors", name)
    return tuple(root / name for name in names)


def _existing(shard: Path, told_by: str) -> Path:
    if not shard.is_file():
        raise BadModelFile(
            f"{shard}: missing, though {told_by} says the model has it. Download that file too."
        )
    return shard


def _is_gguf_head(name: str) -> bool:
    return name.lower().startswith("mtp") and name.lower().endswith(".gguf")


def _is_gguf_model(name: str) -> bool:
    """Of a model in parts only the first is opened; heads and vision parts are no models."""
    part = _GGUF_PART.search(name)
    beside = name.lower().startswith(("mtp", "mmproj"))
    return name.lower().endswith(".gguf") and not beside and (part is None or int(part[1]) == 1)


def _without_safetensors(root: Path, names: list[str]) -> ModelFiles:
    ggufs = [name for name in names if _is_gguf_model(name)]
    if len(ggufs) == 1:
        return gguf_file(root / ggufs[0])
    if ggufs:
        raise ModelNotFound(f"{root}: holds {len(ggufs)} GGUF files; open one of them.")
    unsafe = [name for name in names if name.lower().endswith(UNSAFE_ENDINGS)]
    if unsafe:
        raise unsafe_file(root / unsafe[0])
    raise ModelNotFound(
        f"{root}: no model in this folder. It needs config.json and .safetensors files."
    )
