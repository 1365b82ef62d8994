"""What a download from the hub will fetch: files, sizes, what is here already, room on the disk."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from mlx_engine.hub.client import (
    Hub,
    Listing,
    content,
    in_words,
    listing,
)
from mlx_engine.hub.repository import HubFile, HubModel, is_revision, needed_files
from mlx_engine.hub.weight_files import INDEX, SAFETENSORS, head_shards
from mlx_engine.values.errors import DownloadFailed
from mlx_engine.values.words import Words, size_words

_COMMIT = re.compile("[0-9a-f]{40}")

_CHECKSUM = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")

SPARE_BYTES = 1_000_000_000
"""Left free on the disk, for a system without room stops working."""


@dataclass(frozen=True, slots=True)
class DownloadPlan:
    """What a download will fetch. have_bytes: of total_bytes, those here from an earlier try."""

    model: HubModel
    commit: str
    files: tuple[HubFile, ...]
    total_bytes: int
    have_bytes: int
    free_bytes: int

    @property
    def missing_bytes(self) -> int:
        """Still to be fetched."""
        return self.total_bytes - self.have_bytes

    @property
    def fits(self) -> bool:
        """Whether the disk has room for it, and some to spare."""
        return self.missing_bytes + SPARE_BYTES <= self.free_bytes

    @property
    def no_room(self) -> str:
        """What to do when it does not fit on the disk, "" when it does."""
        if self.fits:
            return ""
        return Words(
            "{hub_id}: the disk has {free} free and the download needs {missing} and 1 GB to "
            "spare. Make room first.",
            hub_id=self.model.hub_id,
            free=size_words(self.free_bytes),
            missing=size_words(self.missing_bytes),
        )

    @property
    def words(self) -> str:
        """ "5 files, 18.2 GB (4.1 GB already here); 212 GB free on the disk"."""
        have, count = size_words(self.have_bytes), len(self.files)
        return Words(
            "{count}, {total}{here}; {free} free on the disk",
            count=Words("{n} files", "1 file", count),
            total=size_words(self.total_bytes),
            here=Words(" ({size} already here)", size=have) if self.have_bytes else "",
            free=size_words(self.free_bytes),
        )


def plan_download(hub: Hub, model: HubModel, *, heads: bool = False) -> DownloadPlan:
    """Ask the hub for the files and their sizes; heads and errors as in `plan_from`."""
    with in_words(model.hub_id):
        return plan_from(hub, model, listing(hub, model), heads=heads)


def plan_from(hub: Hub, model: HubModel, listed: Listing, *, heads: bool = False) -> DownloadPlan:
    """What of the files of a repository is needed.

    heads: of its MTP heads alone, where they lie in files of their own, or an index of shards says
    where they lie. Raises DownloadFailed, and ChoiceNeededError where one of several models must be
    chosen.
    """
    files = needed_files(listed.files, model, heads=heads)
    _check_names(model, listed.commit, files)
    if heads:
        files = _only_heads(hub, model, listed.commit, files)
    blobs = hub.repository(model.hub_id) / "blobs"
    return DownloadPlan(
        model=model,
        commit=listed.commit,
        files=files,
        total_bytes=sum(file.nbytes for file in files),
        have_bytes=sum(partial_bytes(blobs, file) for file in files),
        free_bytes=shutil.disk_usage(_existing(hub.cache)).free,
    )


def partial_bytes(blobs: Path, file: HubFile) -> int:
    """How much of a file is here, whole or in part."""
    for path in (blobs / file.blob, partial_path(blobs, file)):
        if path.is_file():
            return min(path.stat().st_size, file.nbytes)
    return 0


def partial_path(blobs: Path, file: HubFile) -> Path:
    """Where what came of a file waits for the rest."""
    return blobs / f"{file.blob}.incomplete"


def _only_heads(
    hub: Hub, model: HubModel, commit: str, files: tuple[HubFile, ...]
) -> tuple[HubFile, ...]:
    """Without shards that hold no heads by the repository's index; all where it tells of none."""
    index = next((file for file in files if file.name.endswith(INDEX)), None)
    if index is None:
        return files
    holding = head_shards(content(hub, model.hub_id, index.name, commit))
    kept = [file for file in files if file.name in holding]
    beside = [file for file in files if not file.name.endswith(SAFETENSORS)]
    return (*kept, *beside) if kept else files


def _check_names(model: HubModel, commit: str, files: tuple[HubFile, ...]) -> None:
    """What the hub says becomes part of paths here, so it must look as it should."""
    sums = all(_CHECKSUM.fullmatch(file.blob) for file in files)
    if not sums or not _COMMIT.fullmatch(commit) or not is_revision(model.revision):
        raise DownloadFailed(
            "{hub_id}: the hub's list of files has no checksums we can read. Try again, or "
            "download the files with another program and drop them here.",
            hub_id=model.hub_id,
        )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())
