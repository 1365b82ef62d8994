"""Downloads of models into the hub's cache: resumable, and with checksums compared.

Downloads of `huggingface_hub` 2.x delete an incomplete file when they are stopped, so files are
streamed through its session into `blobs/<checksum>.incomplete`, and continued from there. Files
over 50 GB are served by Xet alone (hf_xet), which starts a file over and can be stopped only with
its process.
"""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from os import SEEK_END
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import BinaryIO

from mlx_engine.hub.client import PARTIAL_CONTENT, Hub, ask_hub, stream_file, translated_hub_errors
from mlx_engine.hub.plan import DownloadPlan, partial_bytes, partial_path, plan_download
from mlx_engine.hub.repository import (
    ChoiceNeededError,
    HubFile,
    HubModel,
    is_revision,
    needed_files,
)
from mlx_engine.hub.weight_files import is_safe_snapshot_name
from mlx_engine.values.errors import BadModelFile, DownloadFailed, LoadStopped
from mlx_engine.values.untrusted import REFERENCE_BYTES, read_text

LARGEST_BY_HTTP = 50_000_000_000
PIECE = 2**16
LOOK_S = 0.1
"""Seconds between two calls of `stop` while nothing arrives."""


def download(
    hub: Hub,
    plan: DownloadPlan,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Path:
    """Download a plan's missing files; return the path of the folder, or of the GGUF file, to load.

    on_progress: gets the bytes done and the bytes in all. Every file's checksum is compared. The
    model appears in the cache only when it is complete; incomplete files are kept and continued by
    a later call. Raises DownloadFailed.
    """
    if plan.disk_full_message:
        raise DownloadFailed(plan.disk_full_message)
    done = 0

    def report_bytes(nbytes: int) -> None:
        on_progress(done + nbytes, plan.total_bytes)

    with translated_hub_errors(plan.model.hub_id, is_resumable=True):
        for file in plan.files:
            _ensure_downloaded(hub, plan, file, report_bytes)
            done += file.nbytes
        return _link_snapshot(hub.repository(plan.model.hub_id), plan)


def fetch(
    hub: Hub,
    model: HubModel,
    on_progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    *,
    heads: bool = False,
) -> Path:
    """Plan and download a model on another thread, and return the path to load.

    The thread lets `stop` work while the server is silent. Raises LoadStopped once stop() is true;
    the thread writes nothing after that.
    """
    stopped = LoadStopped(
        "{hub_id}: the download was stopped; what was downloaded is kept.", hub_id=model.hub_id
    )
    path, is_given_up = Future[Path](), Event()
    steps = SimpleQueue[tuple[int, int] | None]()

    def report_total(bytes_done: int, total_bytes: int) -> None:
        if is_given_up.is_set():
            raise stopped
        steps.put((bytes_done, total_bytes))

    def fetch_model() -> None:
        try:
            path.set_result(download(hub, plan_download(hub, model, heads=heads), report_total))
        except BaseException as error:  # raised again by the waiting thread
            path.set_exception(error)
        steps.put(None)

    Thread(target=fetch_model, name=f"download of {model.hub_id}", daemon=True).start()
    try:
        while not path.done() or not steps.empty():
            try:
                step = steps.get(timeout=LOOK_S)
            except Empty:
                step = None
            if stop is not None and stop():
                raise stopped
            if step is not None and on_progress is not None:
                on_progress(*step)
        return path.result()
    finally:
        is_given_up.set()


def _ensure_downloaded(
    hub: Hub, plan: DownloadPlan, file: HubFile, on_bytes: Callable[[int], None]
) -> None:
    """Download a file of a plan unless the cache has it.

    on_bytes: gets how many bytes of the file are there.
    """
    blobs = hub.repository(plan.model.hub_id) / "blobs"
    whole = blobs / file.blob_name

    def is_file_complete() -> bool:
        return whole.is_file() and whole.stat().st_size == file.nbytes

    if not is_file_complete():
        blobs.mkdir(parents=True, exist_ok=True)
        with _file_lock(hub, plan, file, lambda: on_bytes(partial_bytes(blobs, file))):
            if not is_file_complete():  # another process may have downloaded it meanwhile
                _download_rest_of_file(hub, plan, file, on_bytes)
    on_bytes(file.nbytes)


@contextmanager
def _file_lock(
    hub: Hub, plan: DownloadPlan, file: HubFile, on_wait: Callable[[], None]
) -> Iterator[None]:
    """Context manager that holds huggingface_hub's lock of a file in the cache.

    on_wait: called again and again while another process holds the lock.
    """
    from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

    lock = hub.cache / ".locks" / hub.repository(plan.model.hub_id).name / f"{file.blob_name}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        while True:
            with suppress(TimeoutError):
                held.enter_context(WeakFileLock(lock, timeout=LOOK_S))
                break
            on_wait()
        yield


def _download_rest_of_file(
    hub: Hub, plan: DownloadPlan, file: HubFile, on_bytes: Callable[[int], None]
) -> None:
    """Download a file's missing part, compare its checksum, and move it into the cache."""
    blobs = hub.repository(plan.model.hub_id) / "blobs"
    partial = partial_path(blobs, file)
    if file.nbytes > LARGEST_BY_HTTP and partial_bytes(blobs, file) < file.nbytes:
        _fetch_through_xet(hub, plan, file, partial)
    with partial.open("a+b") as opened:
        target = _IncompleteFile(opened, file, on_bytes)
        _fetch_rest(hub, plan, file, target)
    if target.checksum.hexdigest() != file.blob_name:
        partial.unlink()
        raise DownloadFailed(
            "{hub_id}: {name} arrived damaged (its checksum differs), so it was thrown "
            "away. Start the download again.",
            hub_id=plan.model.hub_id,
            name=file.name,
        )
    partial.replace(blobs / file.blob_name)


def _fetch_rest(hub: Hub, plan: DownloadPlan, file: HubFile, target: "_IncompleteFile") -> None:
    """Append a file's missing bytes over HTTP; a server without ranges sends the whole file."""
    from huggingface_hub import hf_raise_for_status

    if target.incomplete_size == file.nbytes:
        return
    hub_id = plan.model.hub_id

    def request_file(hub: Hub) -> None:
        byte_range = f"bytes={target.incomplete_size}-" if target.incomplete_size else ""
        with stream_file(hub, hub_id, file.name, plan.commit, byte_range) as answer:
            hf_raise_for_status(answer)
            if answer.status_code != PARTIAL_CONTENT:
                target.begin_checksum()
            for piece in answer.iter_bytes(PIECE):
                target.append_bytes(piece)

    ask_hub(hub, request_file)
    if target.incomplete_size < file.nbytes:
        raise DownloadFailed(
            "{hub_id}: the connection ended in the middle of {name}. Try again: the "
            "download goes on where it stopped.",
            hub_id=hub_id,
            name=file.name,
        )


def _fetch_through_xet(hub: Hub, plan: DownloadPlan, file: HubFile, incomplete_path: Path) -> None:
    """Download a whole file with hf_xet, in a separate cache until it is complete."""
    from huggingface_hub import hf_hub_download

    place = incomplete_path.with_name("xet")
    shutil.rmtree(place, ignore_errors=True)
    path = ask_hub(
        hub,
        lambda hub: hf_hub_download(
            plan.model.hub_id,
            file.name,
            revision=plan.commit,
            cache_dir=place,
            endpoint=hub.endpoint,
            token=hub.token,
        ),
    )
    Path(path).resolve().replace(incomplete_path)
    shutil.rmtree(place)


class _IncompleteFile:
    """An incomplete download that bytes are appended to, and the running checksum of all its bytes.

    checksum: SHA-256 for large files; for small files git's object id, SHA-1 over "blob <size>", a
    zero byte and the data.
    """

    def __init__(self, open_file: BinaryIO, file: HubFile, on_bytes: Callable[[int], None]) -> None:
        """Hash what an earlier download left in the open file; one that is too long is emptied."""
        self._opened, self._file, self._on_bytes = open_file, file, on_bytes
        self.checksum = self._new_hash()
        if self.incomplete_size > file.nbytes:
            self.begin_checksum()
        open_file.seek(0)
        while piece := open_file.read(PIECE):
            self.checksum.update(piece)

    def _new_hash(self) -> "hashlib._Hash":
        if self._file.sha256 is not None:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self._file.nbytes, usedforsecurity=False)

    @property
    def incomplete_size(self) -> int:
        """Bytes that the incomplete file has now."""
        return self._opened.seek(0, SEEK_END)

    def begin_checksum(self) -> None:
        """Empty the incomplete file and begin a new checksum."""
        self._opened.truncate(0)
        self.checksum = self._new_hash()

    def append_bytes(self, piece: bytes) -> None:
        """Append bytes to the file and to its checksum.

        on_bytes is called first, as it may raise to stop the download.
        """
        self._on_bytes(min(self.incomplete_size + len(piece), self._file.nbytes))
        self._opened.write(piece)
        self.checksum.update(piece)


def _link_snapshot(repository: Path, plan: DownloadPlan) -> Path:
    """Link downloaded files into the cache's snapshot folder, as huggingface_hub does.

    Returns the path of the folder, or of the GGUF file, to load.
    """
    snapshot = repository / "snapshots" / plan.commit
    for file in plan.files:
        link = snapshot / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        up = Path(*[".."] * (1 + len(Path(file.name).parts)))
        link.unlink(missing_ok=True)
        link.symlink_to(up / "blobs" / file.blob_name)
    if plan.model.revision != plan.commit:
        reference = repository / "refs" / plan.model.revision
        reference.parent.mkdir(parents=True, exist_ok=True)
        reference.write_text(plan.commit)
    return _path_to_load(snapshot, plan.files)


def cached_path(hub: Hub, model: HubModel, *, heads: bool = False) -> Path | None:
    """Path of a model's folder or GGUF file in the hub's cache; None when it is not there.

    Shards of a folder are not checked for completeness. Raises ChoiceNeededError where the cache
    holds several models of the repository.
    """
    if not is_revision(model.revision):
        return None
    repository = hub.repository(model.hub_id)
    reference, commit = repository / "refs" / model.revision, model.revision
    with suppress(BadModelFile):
        commit = read_text(reference, REFERENCE_BYTES).strip()
    if not is_safe_snapshot_name(commit):
        return None
    snapshot = repository / "snapshots" / commit
    listed = [
        HubFile(path.relative_to(snapshot).as_posix(), path.stat().st_size, "", None)
        for path in snapshot.rglob("*")
        if path.is_file()
    ]
    try:
        return _path_to_load(snapshot, needed_files(listed, model, heads=heads))
    except ChoiceNeededError:
        raise
    except DownloadFailed:
        return None


def _path_to_load(snapshot: Path, files: tuple[HubFile, ...]) -> Path:
    """Path to load from a snapshot folder: its first file where that is a GGUF, else the folder."""
    first = files[0].name
    return snapshot / first if first.lower().endswith(".gguf") else snapshot
