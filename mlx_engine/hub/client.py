"""Speaks to the hub through its own client: where it is, how it is asked, what its errors mean.

The client names its versions to the hub and asks it for `api/agent-harnesses` once a day, unless
HF_HUB_DISABLE_TELEMETRY is set.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from mlx_engine.hub.repository import HubFile, HubModel
from mlx_engine.values.errors import DownloadFailed, EngineError
from mlx_engine.values.untrusted import CONFIG_BYTES

LONGEST_SILENCE_S = 15
PARTIAL_CONTENT = 206
"""What a server answers that sends the bytes it was asked for, and not all."""
_NOT_SIGNED_IN, _NO_SUCH_BYTES = 401, 416

T = TypeVar("T")


@contextmanager
def in_words(hub_id: str, *, resumes: bool = False) -> Iterator[None]:
    """Whatever the hub's client or the disk raises, as DownloadFailed. resumes: trying again goes
    on with what there is.
    """
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
        SafetensorsParsingError,
    )

    try:
        yield
    except EngineError:
        raise
    except HFValidationError as error:
        raise DownloadFailed(
            "{hub_id}: no model can have this name. Check it.", hub_id=hub_id
        ) from error
    except GatedRepoError as error:
        raise DownloadFailed(
            "{hub_id}: its owners ask you to accept their terms first. Open its page on the "
            "hub, accept them, sign in here with `hf auth login`, and try again.",
            hub_id=hub_id,
        ) from error
    except RepositoryNotFoundError as error:
        raise DownloadFailed(
            "{hub_id}: there is no such model on the hub, or it is private. Check the name.",
            hub_id=hub_id,
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadFailed(
            "{hub_id}: it has no such branch, tag or commit.", hub_id=hub_id
        ) from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadFailed(
            "{hub_id}: the hub answered with error {status}. Try again in a while.",
            hub_id=hub_id,
            status=status,
        ) from error
    except OfflineModeIsEnabled as error:
        raise DownloadFailed(
            "{hub_id}: the hub is switched off here. Start again without HF_HUB_OFFLINE.",
            hub_id=hub_id,
        ) from error
    except OSError as error:
        raise DownloadFailed(
            "{hub_id}: {strerror}.", hub_id=hub_id, strerror=error.strerror or str(error)
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, SafetensorsParsingError) as error:
        raise DownloadFailed(
            "{hub_id}: the hub's answer cannot be read ({kind}). Try again in a while; in a "
            "hotel or an office, sign in to its network first.",
            hub_id=hub_id,
            kind=type(error).__name__,
        ) from error
    except Exception as error:  # the client's own errors of transport have no common name
        if resumes:
            raise DownloadFailed(
                "{hub_id}: no connection to the hub ({kind}). Check the network and try again: "
                "a download goes on where it stopped.",
                hub_id=hub_id,
                kind=type(error).__name__,
            ) from error
        raise DownloadFailed(
            "{hub_id}: no connection to the hub ({kind}). Check the network and try again.",
            hub_id=hub_id,
            kind=type(error).__name__,
        ) from error


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

    @classmethod
    def of_this_user(cls) -> "Hub":
        """The cache and address that the hub's own client has for this user."""
        from huggingface_hub import constants

        return cls(Path(constants.HF_HUB_CACHE), constants.ENDPOINT)


def ask(hub: Hub, question: Callable[[Hub], T]) -> T:
    """The answer to a question; where the hub does not take the token of this user, perhaps because
    it ran out, to the same without a token, for most models are public.
    """
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    try:
        return question(hub)
    except RepositoryNotFoundError:
        raise
    except HfHubHTTPError as error:
        if error.response.status_code != _NOT_SIGNED_IN or hub.token is False:
            raise
        try:
            return question(replace(hub, token=False))
        except RepositoryNotFoundError as hidden:  # or private, or gated
            raise DownloadFailed(
                "The hub refuses the token that is stored here, and this model needs one. "
                "Sign in again with `hf auth login`."
            ) from hidden


class Listing(NamedTuple):
    """The files of a repository at one commit."""

    commit: str
    files: tuple[HubFile, ...]


def listing(hub: Hub, model: HubModel) -> Listing:
    """Ask for all files of a model's revision and their sizes. Raises what `in_words` says."""
    from huggingface_hub import HfApi

    info = ask(
        hub,
        lambda hub: HfApi(endpoint=hub.endpoint, token=hub.token).model_info(
            model.hub_id, revision=model.revision, files_metadata=True, timeout=LONGEST_SILENCE_S
        ),
    )
    files = (
        HubFile(
            name=file.rfilename,
            nbytes=_size(file.size or 0),
            git_id=file.blob_id or "",
            sha256=file.lfs.sha256 if file.lfs else None,
        )
        for file in info.siblings or ()
    )
    return Listing(info.sha or "", tuple(files))


def _size(told: object) -> int:
    """Bytes of a file. Raises ValueError for what cannot be."""
    if not isinstance(told, int) or not 0 <= told < 2**53:
        raise ValueError(told)
    return told


class Request(NamedTuple):
    """What a file's bytes are asked for with."""

    url: str
    headers: dict[str, str]


def request_for(hub: Hub, hub_id: str, name: str, commit: str) -> Request:
    """A file's bytes as they are stored."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(hub_id, name, revision=commit, endpoint=hub.endpoint)
    return Request(url, build_hf_headers(token=hub.token) | {"Accept-Encoding": "identity"})


def content(hub: Hub, hub_id: str, name: str, commit: str) -> bytes:
    """A small file as a whole. Raises what `in_words` says, and DownloadFailed for a large one."""
    found = piece(hub, hub_id, name, commit, 0, CONFIG_BYTES + 1)
    if len(found) > CONFIG_BYTES:
        raise too_large(hub_id, name, CONFIG_BYTES)
    return found


def too_large(hub_id: str, name: str, most: int) -> DownloadFailed:
    """The error for a file that holds more than any of its kind."""
    return DownloadFailed(
        "{hub_id}: {name} has more than {most} bytes, more than such a file can need. Use "
        "another model.",
        hub_id=hub_id,
        name=name,
        most=most,
    )


def piece(hub: Hub, hub_id: str, name: str, commit: str, start: int, end: int) -> bytes:
    """Bytes [start, end) of a file, as far as it goes; no others are kept. Raises what `in_words`
    says.
    """
    from huggingface_hub import get_session, hf_raise_for_status

    def question(hub: Hub) -> bytes:
        url, headers = request_for(hub, hub_id, name, commit)
        headers["Range"] = f"bytes={start}-{end - 1}"
        asked = get_session().stream(
            "GET", url, headers=headers, follow_redirects=True, timeout=LONGEST_SILENCE_S
        )
        found = bytearray()
        with asked as answer:
            if answer.status_code == _NO_SUCH_BYTES:
                return b""
            hf_raise_for_status(answer)
            place = start if answer.status_code == PARTIAL_CONTENT else 0  # all of it is sent
            for part in answer.iter_bytes():
                found += part[max(0, start - place) : max(0, end - place)]
                place += len(part)
                if place >= end:
                    break
        return bytes(found)

    return ask(hub, question)
