"""Fetches one file of a model: goes on where it stopped, and compares its checksum."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from app.library.download_errors import DownloadError, DownloadStoppedError
from app.library.hub import HubFile

PIECE = 2**20
PARTIAL_CONTENT = 206


class Checksum(Protocol):
    """A hash of hashlib."""

    def update(self, data: bytes, /) -> None:
        """Take in more."""

    def hexdigest(self) -> str:
        """The sum of all that was taken in."""


def partial_bytes(blobs: Path, file: HubFile) -> int:
    """How much of a file is here, whole or in part."""
    for path in (blobs / file.blob, _partial(blobs, file)):
        if path.is_file():
            return min(path.stat().st_size, file.nbytes)
    return 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """Files of one commit of a repository, into its folder of blobs."""

    endpoint: str | None
    token: str | bool | None
    hub_id: str
    commit: str
    blobs: Path

    def file(
        self, file: HubFile, on_bytes: Callable[[int], None], stopped: Callable[[], bool]
    ) -> None:
        """Have the whole file, checked; on_bytes gets how much of it is here.

        Raises DownloadError, and whatever the client and the disk raise.
        """
        whole, partial = self.blobs / file.blob, _partial(self.blobs, file)
        if whole.is_file() and whole.stat().st_size == file.nbytes:
            on_bytes(file.nbytes)
            return
        self.blobs.mkdir(parents=True, exist_ok=True)
        with partial.open("a+b") as target:
            checksum = _take_up(target, file, stopped)
            if target.tell() < file.nbytes:
                checksum = self._rest(file, target, checksum, on_bytes, stopped)
        if checksum.hexdigest() != file.blob:
            partial.unlink()
            raise DownloadError(
                f"{self.hub_id}: {file.name} arrived damaged (its checksum differs), so it was "
                "thrown away. Start the download again."
            )
        partial.replace(whole)
        on_bytes(file.nbytes)

    def _rest(
        self,
        file: HubFile,
        target: BinaryIO,
        checksum: Checksum,
        on_bytes: Callable[[int], None],
        stopped: Callable[[], bool],
    ) -> Checksum:
        """Append what is missing; a server that cannot resume sends all of it."""
        from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        url = hf_hub_url(self.hub_id, file.name, revision=self.commit, endpoint=self.endpoint)
        headers = build_hf_headers(token=self.token) | {"Accept-Encoding": "identity"}
        if target.tell() > 0:
            headers["Range"] = f"bytes={target.tell()}-"
        with get_session().stream("GET", url, headers=headers, follow_redirects=True) as answer:
            hf_raise_for_status(answer)
            if answer.status_code != PARTIAL_CONTENT:
                target.truncate(0)
                checksum = _new_checksum(file)
            for piece in answer.iter_bytes(PIECE):
                _raise_if(stopped, self.hub_id)
                target.write(piece)
                checksum.update(piece)
                on_bytes(min(target.tell(), file.nbytes))
        if target.tell() < file.nbytes:
            raise DownloadError(
                f"{self.hub_id}: the connection ended in the middle of {file.name}. Try again: "
                "the download goes on where it stopped."
            )
        return checksum


def _take_up(target: BinaryIO, file: HubFile, stopped: Callable[[], bool]) -> Checksum:
    """The checksum of what an earlier try left; too much of it is thrown away."""
    if target.seek(0, 2) > file.nbytes:
        target.truncate(0)
    checksum = _new_checksum(file)
    target.seek(0)
    while piece := target.read(PIECE):
        _raise_if(stopped, file.name)
        checksum.update(piece)
    return checksum


def _new_checksum(file: HubFile) -> Checksum:
    """SHA-256 for large storage; git's own id is SHA-1 over "blob <size>", a zero and the data."""
    if file.sha256 is not None:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.nbytes, usedforsecurity=False)


def _raise_if(stopped: Callable[[], bool], what: str) -> None:
    if stopped():
        raise DownloadStoppedError(f"{what}: stopped; the next try goes on from here.")


def _partial(blobs: Path, file: HubFile) -> Path:
    return blobs / f"{file.blob}.incomplete"
