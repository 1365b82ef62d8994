"""A path, a hub id or nothing -> the files of a model; the hub's cache first, else a download."""

import re
from collections.abc import Callable
from pathlib import Path

from mlx_engine.loading.model_folder import (
    UNSAFE_ENDINGS,
    ModelFiles,
    gguf_file,
    read_folder,
    unsafe_file,
)
from mlx_engine.values.errors import EngineError, ModelNotFound, UnsupportedModel

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
