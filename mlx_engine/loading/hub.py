"""Model folders of the Hugging Face hub: the local cache first, else a download."""

from pathlib import Path

from mlx_engine.loading.model_folder import read_folder
from mlx_engine.values.errors import EngineError, ModelNotFound

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
