"""Plans of downloads from the hub: files, sizes, bytes already here, and free disk space."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mlx_engine.hub.client import (
    Hub,
    RepositoryListing,
    fetch_small_file,
    list_repository_files,
    translated_hub_errors,
)
from mlx_engine.hub.repository import HubFile, HubModel, is_revision, needed_files
from mlx_engine.hub.weight_files import (
    INDEX,
    SAFETENSORS,
    head_shards,
    is_tower_run,
    may_be_tower,
)
from mlx_engine.values.errors import DownloadFailed
from mlx_engine.values.words import Words, size_words

_COMMIT = re.compile("[0-9a-f]{40}")

_CHECKSUM = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

SPARE_BYTES = 1_000_000_000
"""Bytes that are left free on the disk for the system."""


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """Files of a model that are to be downloaded, their sizes, and the free space on the disk.

    have_bytes: how many of total_bytes an earlier download left here.
    """

    model: HubModel
    commit: str
    files: tuple[HubFile, ...]
    total_bytes: int
    have_bytes: int
    free_bytes: int

    @property
    def missing_bytes(self) -> int:
        """Bytes of the plan's files that are still to be downloaded."""
        return self.total_bytes - self.have_bytes

    @property
    def fits_on_disk(self) -> bool:
        """Whether the disk has room for the missing bytes of the download and SPARE_BYTES."""
        return self.missing_bytes + SPARE_BYTES <= self.free_bytes

    @property
    def disk_full_message(self) -> str:
        """Error message when the download does not fit on the disk, else ""."""
        if self.fits_on_disk:
            return ""
        return Words(
            "{hub_id}: the disk has {free} free and the download needs {missing} and 1 GB to "
            "spare. Make room first.",
            hub_id=self.model.hub_id,
            free=size_words(self.free_bytes),
            missing=size_words(self.missing_bytes),
        )

    @property
    def plan_summary(self) -> str:
        """Summary for users: "5 files, 18.2 GB (4.1 GB already here); 212 GB free on the disk"."""
        have, count = size_words(self.have_bytes), len(self.files)
        return Words(
            "{count}, {total}{here}; {free} free on the disk",
            count=Words("{n} files", "1 file", count),
            total=size_words(self.total_bytes),
            here=Words(" ({size} already here)", size=have) if self.have_bytes else "",
            free=size_words(self.free_bytes),
        )


def plan_download(hub: Hub, model: HubModel, *, heads: bool = False) -> DownloadPlan:
    """Ask the hub for a model's list of files and plan its download (as `plan_from_listing`).

    Raises DownloadFailed, and ChoiceNeededError where one of several models must be chosen.
    """
    with translated_hub_errors(model.hub_id):
        return plan_from_listing(hub, model, list_repository_files(hub, model), heads=heads)


def plan_from_listing(
    hub: Hub, model: HubModel, repository_listing: RepositoryListing, *, heads: bool = False
) -> DownloadPlan:
    """Plan the download of a model from the hub's list of its files.

    heads: only files with MTP heads, where file names or an index of shards tell which have them. A
    vision tower that is not run is left out where the hub tells the model's architecture. Raises
    DownloadFailed, and ChoiceNeededError where one of several models must be chosen.
    """
    files = needed_files(repository_listing.files, model, heads=heads)
    if not is_tower_run(repository_listing.gguf_architecture):
        files = tuple(file for file in files if not may_be_tower(file.name)) or files
    _check_names(model, repository_listing.commit, files)
    if heads:
        files = _only_head_files(hub, model, repository_listing.commit, files)
    blobs = hub.repository(model.hub_id) / "blobs"
    return DownloadPlan(
        model=model,
        commit=repository_listing.commit,
        files=files,
        total_bytes=sum(file.nbytes for file in files),
        have_bytes=sum(partial_bytes(blobs, file) for file in files),
        free_bytes=shutil.disk_usage(nearest_existing_folder(hub.cache)).free,
    )


def partial_bytes(blobs_folder: Path, file: HubFile) -> int:
    """Number of bytes of a file that are in the cache's `blobs_folder`, whether complete or not."""
    for path in (blobs_folder / file.blob_name, partial_path(blobs_folder, file)):
        if path.is_file():
            return min(path.stat().st_size, file.nbytes)
    return 0


def partial_path(blobs_folder: Path, file: HubFile) -> Path:
    """Path of a file's incomplete download in the cache's folder `blobs_folder`."""
    return blobs_folder / f"{file.blob_name}.incomplete"


def _only_head_files(
    hub: Hub, model: HubModel, commit: str, files: tuple[HubFile, ...]
) -> tuple[HubFile, ...]:
    """Leave out shards that hold no MTP heads, by the repository's index of shards.

    Keeps all files where the index names no heads.
    """
    index = next((file for file in files if file.name.endswith(INDEX)), None)
    if index is None:
        return files
    holding = head_shards(fetch_small_file(hub, model.hub_id, index.name, commit))
    kept = [file for file in files if file.name in holding]
    others = [file for file in files if not file.name.endswith(SAFETENSORS)]
    return (*kept, *others) if kept else files


def _check_names(model: HubModel, commit: str, files: tuple[HubFile, ...]) -> None:
    """Raise DownloadFailed unless commit, checksums and revision are safe as parts of paths."""
    sums = all(_CHECKSUM.fullmatch(file.blob_name) for file in files)
    if not sums or not _COMMIT.fullmatch(commit) or not is_revision(model.revision):
        raise DownloadFailed(
            "{hub_id}: the hub's list of files has no checksums we can read. Try again, or "
            "download the files with another program and drop them here.",
            hub_id=model.hub_id,
        )


def nearest_existing_folder(folder: Path) -> Path:
    """A folder, or its nearest parent that exists."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())
