"""Find a model's files by a path, or by a Hugging Face hub id, from where they are downloaded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import truncate
from pathlib import Path
from tempfile import TemporaryDirectory

from mlx_engine.hub.client import (
    Hub,
    fetch_byte_range,
    fetch_small_file,
    file_too_large_error,
    list_repository_files,
    translated_hub_errors,
)
from mlx_engine.hub.download import cached_path, fetch
from mlx_engine.hub.plan import plan_from_listing
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.hub.weight_files import GGUF, INDEX, SAFETENSORS, UNSAFE
from mlx_engine.loading.folder import ModelFiles, model_files_at, read_folder
from mlx_engine.loading.gguf.header import read_gguf_header
from mlx_engine.loading.gguf.metadata import LONGROPE_FACTORS, ROPE_FACTORS
from mlx_engine.values.errors import BadModelFile, DownloadFailed, ModelNotFound, UnsafeModelFile
from mlx_engine.values.options import require

_FILES = (GGUF, SAFETENSORS, *UNSAFE)
_CONFIGS = ("config.json", "generation_config.json")
_LOOK, _MOST = 2**21, 2**26
"""Bytes downloaded of a GGUF at first and at most; its header's length is unknown, 12 MB for a
vocabulary of 250,000 tokens.
"""
_IN_ALL, _FACTORS_MOST = 2**28, 2**20
"""Most bytes of all headers of a model (30 MB for 200 shards), and of a tensor of RoPE factors."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """Access to Hugging Face models by id or link, through the local hub cache.

    hub: client, None for this user's. on_progress gets bytes downloaded and in total. stop: when it
    returns True, LoadStopped is raised; the download can be resumed.
    """

    hub: Hub | None = None
    on_progress: Callable[[int, int], None] | None = None
    stop: Callable[[], bool] | None = None

    def find_model(self, name: str) -> ModelFiles:
        """Find a hub model's files; download missing ones. Raises DownloadFailed, LoadStopped."""
        model, hub = self._hub_model(name), self.hub or Hub.for_this_user()
        files: ModelFiles | None = None
        with suppress(BadModelFile, UnsafeModelFile):
            here = cached_path(hub, model)
            found = None if here is None else model_files_at(here)
            files = found if found is not None and found.config.exists() else None
            if files is not None and not files.incomplete:
                return files
        try:
            return model_files_at(fetch(hub, model, self.on_progress, self.stop))
        except DownloadFailed:
            if files is None:
                raise
            return files

    @contextmanager
    def model_headers(self, name: str) -> Iterator[ModelFiles]:
        """Context manager: a hub model's files, only their headers downloaded unless cached."""
        model, hub = self._hub_model(name), self.hub or Hub.for_this_user()
        with TemporaryDirectory() as folder:
            yield model_files_at(
                cached_path(hub, model) or _fetch_headers(hub, model, Path(folder))
            )

    def find_mtp_heads(self, name: str) -> Path:
        """Download MTP heads by hub id unless cached; return the path. Raises DownloadFailed."""
        model, hub = self._hub_model(name), self.hub or Hub.for_this_user()
        here = cached_path(hub, model, heads=True)
        return here or fetch(hub, model, self.on_progress, self.stop, heads=True)

    def _hub_model(self, name: str) -> HubModel:
        is_file = name.count("/") == 1 and ":" not in name and name.lower().endswith(_FILES)
        found = None if is_file else read_hub_link(name)
        if isinstance(found, HubModel):
            return found
        if found is not None:
            raise ModelNotFound("{name}: {found}", name=name, found=found)
        raise ModelNotFound(
            "{name}: no such file or folder. Give a model folder, a file in one, or a hub id "
            "such as Qwen/Qwen3.5-0.8B or org/model-GGUF:Q4_K_M.",
            name=name,
        )


def locate_model(
    path: str | Path | None, built_in: Path, hub: HubAccess | None = None
) -> ModelFiles:
    """Find a model's files by folder, file, hub id or link; path None: the built-in model's.

    hub: used only when the path does not exist. Raises ModelNotFound, BadModelFile,
    UnsafeModelFile.
    """
    if path is None:
        return read_folder(built_in)
    place = _existing_path(path)
    return (hub or HubAccess()).find_model(str(path)) if place is None else model_files_at(place)


@contextmanager
def locate_headers(
    path: str | Path | None, built_in: Path, hub: HubAccess | None = None
) -> Iterator[ModelFiles]:
    """Context manager: a model's files by path or hub id; from the hub only headers."""
    if path is None or _existing_path(path) is not None:
        yield locate_model(path, built_in)
    else:
        with (hub or HubAccess()).model_headers(str(path)) as files:
            yield files


def locate_heads(path_or_id: Path | None, hub: HubAccess | None = None) -> Path | None:
    """Return the path of a file or folder of MTP heads, downloaded where `path_or_id` is a hub id.

    Returns `path_or_id` unchanged when it is neither a path nor a hub id. Raises ModelNotFound for
    an impossible path.
    """
    if path_or_id is None:
        return None
    here = _existing_path(path_or_id)
    if here is None and isinstance(read_hub_link(str(path_or_id)), HubModel):
        return (hub or HubAccess()).find_mtp_heads(str(path_or_id))
    return here or path_or_id


def _existing_path(path: str | Path) -> Path | None:
    """Return `path` as a Path if it exists, else None. Raises BadOption for a wrong type."""
    kind = str | Path
    require("path", path, "a path, or an id of the hub", lambda given: isinstance(given, kind))
    if path == "":  # Path("") would be the current folder
        raise ModelNotFound("No model is named: give a path, or an id of the hub.")
    try:
        place = Path(path).expanduser()
        return place if place.exists() else None
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelNotFound(
            "{path}: cannot be opened ({error}).", path=path, error=str(error)
        ) from error


FetchRange = Callable[[int, int], bytes]
"""Function that downloads the bytes [start, end) of a file."""


def _fetch_headers(hub: Hub, model: HubModel, folder: Path) -> Path:
    """Download a hub model's config and weight headers into `folder`; return the model's path.

    Raises DownloadFailed.
    """
    with translated_hub_errors(model.hub_id):
        plan = plan_from_listing(hub, model, list_repository_files(hub, model))
        asked = 0
        place = folder / f"models--{model.hub_id.replace('/', '--')}" / "snapshots" / plan.commit
        for file in plan.files:
            here = place / file.name
            here.parent.mkdir(parents=True, exist_ok=True)
            if file.name.lower().endswith((GGUF, SAFETENSORS)):

                def fetch_range(start: int, end: int, name: str = file.name) -> bytes:
                    nonlocal asked
                    asked += end - start
                    if asked > _IN_ALL:
                        raise file_too_large_error(model.hub_id, name, _IN_ALL)
                    return fetch_byte_range(hub, model.hub_id, name, plan.commit, start, end)

                _write_header(here, file.nbytes, fetch_range)
            elif here.name in _CONFIGS or here.name.endswith(INDEX):
                here.write_bytes(fetch_small_file(hub, model.hub_id, file.name, plan.commit))
    first = place / plan.files[0].name
    return first if first.suffix.lower() == GGUF else place


def _write_header(file: Path, nbytes: int, fetch_range: FetchRange) -> None:
    """Download a weight file's header; of a GGUF, ever more bytes until it can be parsed."""
    file.touch()
    truncate(file, nbytes)  # sparse, in full length, so that header readers work as usual
    have, is_gguf = 0, file.suffix.lower() == GGUF
    end = _LOOK if is_gguf else 8 + min(int.from_bytes(fetch_range(0, 8), "little"), _MOST)
    while have < min(end, nbytes):
        _write_at(file, have, fetch_range(have, end))
        have = end
        if is_gguf and end < _MOST and not _is_readable(file):
            end *= 2
    for tensor in read_gguf_header(file).tensors.values() if is_gguf else ():
        if (
            tensor.name in (ROPE_FACTORS, *LONGROPE_FACTORS) and tensor.nbytes <= _FACTORS_MOST
        ):  # RoPE factors are tensors
            _write_at(
                file, tensor.offset, fetch_range(tensor.offset, tensor.offset + tensor.nbytes)
            )


def _write_at(file: Path, start: int, data: bytes) -> None:
    with file.open("r+b") as target:
        target.seek(start)
        target.write(data)


def _is_readable(file: Path) -> bool:
    try:
        return bool(read_gguf_header(file).tensors)
    except BadModelFile:
        return False
