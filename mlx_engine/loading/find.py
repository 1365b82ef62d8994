"""Where a model is: a path, a folder of files, one GGUF or a hub id -> its files."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlx_engine.values.errors import (
    BadModelFile,
    EngineError,
    ModelNotFound,
    UnsafeModelFile,
    UnsupportedModel,
)

UNSAFE_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
_GGUF_PART = re.compile(r"-(\d{5})-of-\d{5}\.gguf", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*)\d{5}-of-(\d{5})\.safetensors")
_LARGEST_JSON = 50_000_000


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


def read_json_object(path: Path) -> dict[str, object]:
    """The object in config.json or its like; BadModelFile when it is missing or not one."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise BadModelFile(
                f"{path}: larger than {_LARGEST_JSON} bytes; this is no {path.name}."
            )
        value = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as error:
        raise BadModelFile(
            f"{path}: missing. A model folder needs it: get it from where the weights come from."
        ) from error
    except OSError as error:
        raise BadModelFile(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFile(
            f"{path}: not JSON. Get it again from where the weights come from."
        ) from error
    if not isinstance(value, dict):
        raise BadModelFile(f"{path}: not a JSON object. Get it again.")
    return value


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


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[\w.-]{1,96}")
_WANTED = ["*.safetensors", "*.json", "*.jinja", "*.txt"]


def download_from_hub(hub_id: str, cache: Path | None = None) -> Path:
    """The folder of `hub_id`, downloaded unless the cache has all of it.

    cache: another place than the hub's own for the files. ModelNotFound when neither works.
    """
    cached = cached_folder(hub_id, cache)
    return cached if cached is not None else _download(hub_id, cache)


def cached_folder(hub_id: str, cache: Path | None = None) -> Path | None:
    """The folder of `hub_id` in the cache, None when it is not there or not complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(hub_id, cache_dir=cache, local_files_only=True))
        complete = read_folder(folder).config.is_file()
    except (LocalEntryNotFoundError, HFValidationError, EngineError):
        return None
    return folder if complete else None


def _download(hub_id: str, cache: Path | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, cache_dir=cache, allow_patterns=_WANTED))
    except Exception as error:  # whatever the client raises, the remedy is the same
        first_line = str(error).strip().partition("\n")[0]
        raise ModelNotFound(
            f"{hub_id}: neither a folder here, nor in the hub's cache, nor to be downloaded "
            f"({first_line}). Check the name and the connection, or give the path of a folder."
        ) from error


def locate_model(
    path: str | Path | None,
    built_in: Path,
    download: Callable[[str], Path] = download_from_hub,
) -> ModelFiles:
    """The files of a model folder, of the folder a given file lies in, or of a hub id.

    None is the built-in model. download gets a hub id and returns a folder; it is asked only when
    there is no such path here. Raises ModelNotFound, BadModelFile, UnsafeModelFile.
    """
    if path is None:
        return read_folder(built_in)
    try:
        place = Path(path).expanduser()
        if place.is_dir():
            return read_folder(place)
        if place.is_file():
            return _folder_of(place)
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelNotFound(f"{path}: cannot be opened ({error}).") from error
    if _HUB_ID.fullmatch(str(path)):
        return read_folder(download(str(path)))
    raise ModelNotFound(
        f"{path}: no such file or folder. Give a model folder, a file in one, or a hub id "
        "such as Qwen/Qwen3.5-0.8B."
    )


def _folder_of(file: Path) -> ModelFiles:
    ending = file.suffix.lower()
    if ending == ".gguf":
        return gguf_file(file)
    if ending in UNSAFE_ENDINGS:
        raise unsafe_file(file)
    if ending in (".safetensors", ".json"):
        return read_folder(file.parent)
    raise UnsupportedModel(
        f"{file}: not a model file. Give a model folder or a .safetensors file in one."
    )
