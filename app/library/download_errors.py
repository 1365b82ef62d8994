"""What can go wrong in a download, each in words to act on."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.library.hub import GgufChoice


class DownloadError(Exception):
    """The message names the model, says what is wrong, and what to do."""


class DownloadStoppedError(DownloadError):
    """The user stopped it; what came so far is kept for the next time."""


class ChoiceNeededError(DownloadError):
    """There are several models, of which one must be chosen."""

    def __init__(self, words: str, choices: tuple[GgufChoice, ...]) -> None:
        super().__init__(words)
        self.choices = choices


@contextmanager
def in_words(hub_id: str) -> Iterator[None]:
    """Whatever the hub's client or the disk raises, as a DownloadError."""
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except DownloadError:
        raise
    except HFValidationError as error:
        raise DownloadError(f"{hub_id}: no model can have this name. Check it.") from error
    except GatedRepoError as error:
        raise DownloadError(
            f"{hub_id}: its owners ask you to accept their terms first. Open its page on the "
            "hub, accept them, sign in here with `hf auth login`, and try again."
        ) from error
    except RepositoryNotFoundError as error:
        raise DownloadError(
            f"{hub_id}: there is no such model on the hub, or it is private. Check the name."
        ) from error
    except RevisionNotFoundError as error:
        raise DownloadError(f"{hub_id}: it has no such branch, tag or commit.") from error
    except HfHubHTTPError as error:
        status = error.response.status_code
        raise DownloadError(
            f"{hub_id}: the hub answered with error {status}. Try again in a while."
        ) from error
    except OfflineModeIsEnabled as error:
        raise DownloadError(f"{hub_id}: downloads are switched off (HF_HUB_OFFLINE).") from error
    except OSError as error:
        raise DownloadError(f"{hub_id}: {error.strerror or error}.") from error
    except Exception as error:  # the client's own errors of transport have no common name
        raise DownloadError(
            f"{hub_id}: no connection to the hub ({type(error).__name__}). Check the network and "
            "try again: the download goes on where it stopped."
        ) from error
