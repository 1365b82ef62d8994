"""Requests to the Hugging Face hub through huggingface_hub, whose errors become messages for users.

huggingface_hub sends its version to the hub and asks it for `api/agent-harnesses` once a day,
unless HF_HUB_DISABLE_TELEMETRY is set.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mlx_engine.hub.repository import HubFile, HubModel
from mlx_engine.values.errors import DownloadFailed, EngineError, SignInNeeded
from mlx_engine.values.untrusted import CONFIG_BYTES
from mlx_engine.values.words import Words

LONGEST_SILENCE_S = 15
PARTIAL_CONTENT = 206
"""HTTP status of an answer with the requested range of bytes."""
_NOT_SIGNED_IN, _NO_SUCH_BYTES = 401, 416

T = TypeVar("T")


_SENTENCES = {
    "HFValidationError": Words("{hub_id}: no model can have this name. Check it."),
    "GatedRepoError": Words(
        "{hub_id}: its owners ask you to accept their terms first. Open its page on the hub, "
        "accept them, sign in here with `hf auth login`, and try again."
    ),
    "RepositoryNotFoundError": Words(
        "{hub_id}: there is no such model on the hub, or it is private. Check the name."
    ),
    "RevisionNotFoundError": Words("{hub_id}: it has no such branch, tag or commit."),
    "HfHubHTTPError": Words(
        "{hub_id}: the hub answered with error {status}. Try again in a while."
    ),
    "OfflineModeIsEnabled": Words(
        "{hub_id}: the hub is switched off here. Start again without HF_HUB_OFFLINE."
    ),
    "OSError": Words("{hub_id}: {strerror}."),
    **dict.fromkeys(
        ("ValueError", "TypeError", "KeyError", "AttributeError", "SafetensorsParsingError"),
        Words(
            "{hub_id}: the hub's answer cannot be read. Try again in a while; in a hotel "
            "or an office, sign in to its network first."
        ),
    ),
}
"""Messages by an error's class or its nearest base."""

_DISK_FULL = Words(
    "{hub_id}: the disk is full. Make room on it, then resume: a download goes on where it stopped."
)
_NO_CONNECTION = {
    False: Words("{hub_id}: no connection to the hub. Check the network and try again."),
    True: Words(
        "{hub_id}: no connection to the hub. Check the network and try again: a download "
        "goes on where it stopped."
    ),
}
"""Of the errors that are left, which have no common base; by whether a download can go on."""


@contextmanager
def translated_hub_errors(hub_id: str, *, is_resumable: bool = False) -> Iterator[None]:
    """Context manager that raises errors of huggingface_hub and of the disk as DownloadFailed.

    is_resumable: whether the message may promise that a later try continues an incomplete download.
    """
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

        bases = (kind.__name__ for kind in type(error).__mro__)
        sentence = next(
            (_SENTENCES[base] for base in bases if base in _SENTENCES), _NO_CONNECTION[is_resumable]
        )
        number, said = (error.errno, error.strerror) if isinstance(error, OSError) else (None, None)
        if number in (errno.ENOSPC, errno.EDQUOT):
            sentence = _DISK_FULL
        kind = SignInNeeded if isinstance(error, GatedRepoError) else DownloadFailed
        raise kind(
            sentence.template,
            hub_id=hub_id,
            status=error.response.status_code if isinstance(error, HfHubHTTPError) else 0,
            strerror=said or str(error),
        ) from error


@dataclass(frozen=True, slots=True)
class Hub:
    """Address of a Hugging Face hub, the user's token, and the cache folder of models.

    The cache is shared with other programs. endpoint: None for huggingface.co. token: None for the
    one saved by `hf auth login`, False for none.
    """

    cache: Path
    endpoint: str | None = None
    token: str | bool | None = None

    def repository(self, hub_id: str) -> Path:
        """Path of a model's folder in the hub's cache, `models--org--name`."""
        return self.cache / f"models--{hub_id.replace('/', '--')}"

    @classmethod
    def for_this_user(cls) -> "Hub":
        """A Hub with the cache folder and address that huggingface_hub uses for this user."""
        from huggingface_hub import constants

        return cls(Path(constants.HF_HUB_CACHE), constants.ENDPOINT)


def ask_hub(hub: Hub, hub_request: Callable[[Hub], T]) -> T:
    """Call a function that sends a request to the hub, again without the token if that is refused.

    hub_request: takes the Hub to ask, with or without the token; its result is returned. An expired
    token would else keep users from models, most of which are public.
    """
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        return hub_request(hub)
    except RepositoryNotFoundError:
        raise
    except HfHubHTTPError as error:
        if error.response.status_code != _NOT_SIGNED_IN or hub.token is False:
            raise
        try:
            return hub_request(replace(hub, token=False))
        except RepositoryNotFoundError as hidden:  # or private, or gated
            raise SignInNeeded(
                "The hub refuses the token that is stored here, and this model needs one. "
                "Sign in again with `hf auth login`."
            ) from hidden


class RepositoryListing(NamedTuple):
    """All files of a model repository on the hub at one commit.

    gguf_architecture: `general.architecture` as the hub read it, "" where it is not known.
    """

    commit: str
    files: tuple[HubFile, ...]
    gguf_architecture: str = ""


def list_repository_files(hub: Hub, model: HubModel) -> RepositoryListing:
    """Ask the hub for all files of a model's revision, with sizes and checksums.

    Raises errors of huggingface_hub.
    """
    from huggingface_hub import HfApi

    info = ask_hub(
        hub,
        lambda hub: HfApi(endpoint=hub.endpoint, token=hub.token).model_info(
            model.hub_id, revision=model.revision, files_metadata=True, timeout=LONGEST_SILENCE_S
        ),
    )
    files = (
        HubFile(
            name=file.rfilename,
            nbytes=_read_file_size(file.size or 0),
            git_id=file.blob_id or "",
            sha256=file.lfs.sha256 if file.lfs else None,
        )
        for file in info.siblings or ()
    )
    architecture = str((info.gguf or {}).get("architecture") or "")
    return RepositoryListing(info.sha or "", tuple(files), architecture)


def _read_file_size(size: object) -> int:
    """Return a file size in bytes from the hub's answer; raises ValueError for nonsense."""
    if not isinstance(size, int) or not 0 <= size < 2**53:
        raise ValueError(size)
    return size


def stream_file(
    hub: Hub, hub_id: str, name: str, commit: str, byte_range: str = ""
) -> AbstractContextManager[Any]:
    """Ask for a file of a model at a commit, uncompressed; returns the answer to be read.

    byte_range: value of the HTTP header Range, "" for the whole file.
    """
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(hub_id, name, revision=commit, endpoint=hub.endpoint)
    headers = build_hf_headers(token=hub.token) | {"Accept-Encoding": "identity"}
    headers |= {"Range": byte_range} if byte_range else {}
    return get_session().stream(
        "GET", url, headers=headers, follow_redirects=True, timeout=LONGEST_SILENCE_S
    )


def fetch_small_file(hub: Hub, hub_id: str, name: str, commit: str) -> bytes:
    """Fetch a small file of a model on the hub, such as a config, as bytes.

    Raises errors of huggingface_hub, and DownloadFailed for a file of more than CONFIG_BYTES.
    """
    found = fetch_byte_range(hub, hub_id, name, commit, 0, CONFIG_BYTES + 1)
    if len(found) > CONFIG_BYTES:
        raise file_too_large_error(hub_id, name, CONFIG_BYTES)
    return found


def file_too_large_error(hub_id: str, name: str, most_bytes: int) -> DownloadFailed:
    """Make the DownloadFailed for a file of a model that has more than `most_bytes` bytes."""
    return DownloadFailed(
        "{hub_id}: {name} has more than {most} bytes, more than such a file can need. Use "
        "another model.",
        hub_id=hub_id,
        name=name,
        most=most_bytes,
    )


def fetch_byte_range(hub: Hub, hub_id: str, name: str, commit: str, start: int, end: int) -> bytes:
    """Fetch bytes [start, end) of a model's file on the hub, fewer where the file ends before.

    Raises errors of huggingface_hub.
    """
    from huggingface_hub import hf_raise_for_status

    def request_file(hub: Hub) -> bytes:
        found = bytearray()
        with stream_file(hub, hub_id, name, commit, f"bytes={start}-{end - 1}") as answer:
            if answer.status_code == _NO_SUCH_BYTES:
                return b""
            hf_raise_for_status(answer)
            is_range = answer.status_code == PARTIAL_CONTENT  # else ranges are not supported
            place = start if is_range else 0
            for part in answer.iter_bytes():
                found += part[max(0, start - place) : max(0, end - place)]
                place += len(part)
                if place >= end:
                    break
        return bytes(found)

    return ask_hub(hub, request_file)
