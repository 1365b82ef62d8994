"""Downloads a model from the hub into its cache: sizes first, resumed, checked, cancellable."""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.library.download_errors import ChoiceNeededError, DownloadError, in_words
from app.library.fetch_file import Fetch, partial_bytes
from app.library.hub import HubFile, HubModel, NoModelThereError, SeveralModelsError, needed_files
from mlx_engine.values.words import size_words

_COMMIT = re.compile("[0-9a-f]{40}")
_CHECKSUM = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
SPARE_BYTES = 1_000_000_000
"""Left free on the disk, for a system without room stops working."""


@dataclass(frozen=True, slots=True)
class Hub:
    """Where to ask and where files go.

    cache: the hub's cache folder, shared with other programs. endpoint: None for the hub itself.
    token: None for the one saved by `hf auth login`, False for none.
    """

    cache: Path
    endpoint: str | None = None
    token: str | bool | None = None

    def repository(self, hub_id: str) -> Path:
        """The folder of a model in the cache."""
        return self.cache / f"models--{hub_id.replace('/', '--')}"


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
        return (
            f"{self.model.hub_id}: the disk has {size_words(self.free_bytes)} free and the "
            f"download needs {size_words(self.missing_bytes)} and 1 GB to spare. Make room first."
        )

    @property
    def words(self) -> str:
        """ "5 files, 18.2 GB (4.1 GB already here); 212 GB free on the disk"."""
        here = f" ({size_words(self.have_bytes)} already here)" if self.have_bytes else ""
        count = "1 file" if len(self.files) == 1 else f"{len(self.files)} files"
        free = f"{size_words(self.free_bytes)} free on the disk"
        return f"{count}, {size_words(self.total_bytes)}{here}; {free}"


def plan_download(hub: Hub, model: HubModel) -> DownloadPlan:
    """Ask the hub for the files and their sizes. Raises DownloadError, ChoiceNeededError."""
    from huggingface_hub import HfApi

    with in_words(model.hub_id):
        api = HfApi(endpoint=hub.endpoint, token=hub.token)
        info = api.model_info(model.hub_id, revision=model.revision, files_metadata=True)
        listed = [
            HubFile(
                name=file.rfilename,
                nbytes=file.size or 0,
                git_id=file.blob_id or "",
                sha256=file.lfs.sha256 if file.lfs else None,
            )
            for file in info.siblings or ()
        ]
        try:
            files = needed_files(listed, model.file)
        except NoModelThereError as error:
            raise DownloadError(f"{model.hub_id}: {error}") from error
        except SeveralModelsError as error:
            raise ChoiceNeededError(f"{model.hub_id}: {error}", error.choices) from error
        _check_names(model, info.sha or "", files)
        blobs = hub.repository(model.hub_id) / "blobs"
        return DownloadPlan(
            model=model,
            commit=info.sha or "",
            files=files,
            total_bytes=sum(file.nbytes for file in files),
            have_bytes=sum(partial_bytes(blobs, file) for file in files),
            free_bytes=shutil.disk_usage(_existing(hub.cache)).free,
        )


def download(
    hub: Hub,
    plan: DownloadPlan,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path:
    """Fetch what is missing and return the folder, or the GGUF file, to load.

    on_progress gets bytes here and in all; `stopped` is asked every megabyte or so. Every file's
    checksum is compared. The model appears in the cache only when it is complete: what came
    before a stop or an error is kept aside and used the next time. Raises DownloadError.
    """
    if plan.no_room:
        raise DownloadError(plan.no_room)
    repository = hub.repository(plan.model.hub_id)
    fetch = Fetch(hub.endpoint, hub.token, plan.model.hub_id, plan.commit, repository / "blobs")
    done = 0

    def told(here: int) -> None:
        on_progress(done + here, plan.total_bytes)

    with in_words(plan.model.hub_id):
        for file in plan.files:
            fetch.file(file, told, stopped)
            done += file.nbytes
        return _publish(repository, plan)


def _check_names(model: HubModel, commit: str, files: tuple[HubFile, ...]) -> None:
    """What the hub says becomes part of paths here, so it must look as it should."""
    sums = all(_CHECKSUM.fullmatch(file.blob) for file in files)
    if not sums or not _COMMIT.fullmatch(commit) or ".." in model.revision.split("/"):
        raise DownloadError(
            f"{model.hub_id}: the hub's list of files has no checksums we can read. Try again, or "
            "download the files with another program and drop them here."
        )


def _publish(repository: Path, plan: DownloadPlan) -> Path:
    """Link the files into a snapshot, as the hub's own client lays them out."""
    snapshot = repository / "snapshots" / plan.commit
    for file in plan.files:
        link = snapshot / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        up = Path(*[".."] * (1 + len(Path(file.name).parts)))
        link.unlink(missing_ok=True)
        link.symlink_to(up / "blobs" / file.blob)
    if plan.model.revision != plan.commit:
        reference = repository / "refs" / plan.model.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(plan.commit)
    ggufs = [file.name for file in plan.files if file.name.lower().endswith(".gguf")]
    return snapshot / ggufs[0] if ggufs else snapshot


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    return next(place for place in (folder, *folder.parents) if place.is_dir())
