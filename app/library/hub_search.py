"""Search the hub for models, and describe what a download would fetch."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from app.library.machine import Machine
from app.values.models import Format, HubFind, HubOffer
from mlx_engine.hub.client import (
    LONGEST_SILENCE_S,
    Hub,
    RepositoryListing,
    ask_hub,
    fetch_small_file,
    list_repository_files,
    translated_hub_errors,
)
from mlx_engine.hub.download import cached_path
from mlx_engine.hub.plan import DownloadPlan, plan_from_listing
from mlx_engine.hub.repository import ChoiceNeededError, HubModel, needed_files
from mlx_engine.hub.weight_files import GGUF, INDEX, SAFETENSORS, files_by_tensor, has_head_tensors
from mlx_engine.values.errors import DownloadFailed
from mlx_engine.values.memory_plan import Fit, MemoryPlan
from mlx_engine.values.words import Words

MOST_FOUND = 50
TOLD = ("downloads", "gated", "gguf", "library_name", "safetensors", "siblings", "tags")
"""Fields of a model that are requested from the hub."""


def search(
    hub: Hub, words: str, machine: Machine, wanted: Format | None = None
) -> tuple[HubFind, ...]:
    """Return models by words in their names, in formats we read, most downloaded first.

    Raises DownloadFailed. huggingface_hub's `list_models` has no timeout, and waits half a minute
    without a network.
    """
    from huggingface_hub import constants, get_session, hf_raise_for_status
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    asked: dict[str, Any] = {"search": words, "sort": "downloads", "limit": MOST_FOUND}
    asked["expand"] = list(TOLD)
    if wanted is not None:
        asked["filter"] = wanted.lower()

    def question(hub: Hub) -> Any:
        answer = get_session().get(
            f"{hub.endpoint or constants.ENDPOINT}/api/models",
            params=asked,
            headers=build_hf_headers(token=hub.token),
            timeout=LONGEST_SILENCE_S,
        )
        hf_raise_for_status(answer)
        return answer.json()

    with translated_hub_errors("Hugging Face"):
        return tuple(_finds(ask_hub(hub, question), machine))


def _finds(models: Iterable[Mapping[str, Any]], machine: Machine) -> Iterator[HubFind]:
    """Yield the models that have weights in a format we read."""
    for told in models:
        names = [file["rfilename"] for file in told.get("siblings", ())]
        form = _format(names, told.get("tags", ()))
        if form is None:
            continue
        counts = (told.get("safetensors") or {}).get("parameters", {})
        nbytes = 0 if form == "GGUF" else round(sum(map(_stored, counts, counts.values())))
        # of quantised safetensors the hub counts words of 32 bits, not parameters
        sizes = {"GGUF": "gguf", "Safetensors": "safetensors"}.get(form, "")
        parameters = int((told.get(sizes) or {}).get("total", 0))
        known = nbytes or (parameters * BYTES_IN_4_BITS if form == "GGUF" else 0)
        yield HubFind(
            told["id"],
            form,
            parameters,
            nbytes,
            fit=fit_of(known, machine) if known else None,
            downloads=int(told.get("downloads", 0)),
            heads=_named_heads(told["id"], names),
            gated=bool(told.get("gated")),
        )


BYTES_IN_4_BITS = 0.6
"""Bytes of a parameter in 4 bits, with its share of the scales."""


def _stored(kind: str, count: int) -> float:
    """Return the bytes of `count` numbers of a type of safetensors ("BF16", "U32", "F8_E4M3")."""
    bits = re.search("[0-9]+", kind)
    return count * int(bits[0]) / 8 if bits else 0.0


def _format(names: Iterable[str], tags: Iterable[str]) -> Format | None:
    """Return the format of the weights; None if it is none we read."""
    endings = {PurePosixPath(name).suffix.lower() for name in names}
    if SAFETENSORS in endings:
        return "MLX" if "mlx" in tags else "Safetensors"
    return "GGUF" if GGUF in endings else None


def _named_heads(hub_id: str, names: Iterable[str]) -> bool | None:
    """Return True if a file name suggests MTP heads, else None: not known."""
    parts = (part for name in (hub_id, *names) for part in re.split("[^a-z0-9]+", name.lower()))
    return True if any(part.startswith("mtp") for part in parts) else None


def look_at(hub: Hub, model: HubModel, machine: Machine) -> tuple[HubOffer, ...]:
    """Return the downloads of a repository, smallest first: each GGUF file, or the folder.

    Reads only lists, an index or the header of a file. Raises DownloadFailed.
    """
    with translated_hub_errors(model.hub_id):
        listed = list_repository_files(hub, model)
        try:
            needed_files(listed.files, model)
        except ChoiceNeededError as error:
            alone = replace(model, quantisation=None)
            parts = {one.label: replace(alone, file=one.file) for one in error.choices}
        else:
            parts = {model.quantisation or "": model}
        return tuple(_offer(hub, part, label, listed, machine) for label, part in parts.items())


def _offer(
    hub: Hub, model: HubModel, label: str, listed: RepositoryListing, machine: Machine
) -> HubOffer:
    plan = plan_from_listing(hub, model, listed)
    first = plan.files[0].name
    is_folder = not first.lower().endswith(GGUF)
    heads = _named_heads(model.hub_id, [file.name for file in plan.files])
    if is_folder and heads is None:
        heads = _told_heads(hub, model, plan)
    return HubOffer(
        model.shortest_link,
        label or (Words("The whole model") if is_folder else first),
        plan.total_bytes,
        heads,
        fit_of(plan.total_bytes, machine),
        plan.disk_full_message or plan.plan_summary,
        plan.fits_on_disk,
        "" if plan.missing_bytes else str(cached_path(hub, plan.model) or ""),
    )


def _told_heads(hub: Hub, model: HubModel, plan: DownloadPlan) -> bool | None:
    """Whether a folder's weight index, or the header of its one file, has tensors of MTP heads."""
    from huggingface_hub import HfApi

    index = next((file.name for file in plan.files if file.name.endswith(INDEX)), None)
    if index is not None:
        named = files_by_tensor(fetch_small_file(hub, model.hub_id, index, plan.commit))
        return has_head_tensors(named) if named else None
    weights = [file.name for file in plan.files if file.name.endswith(SAFETENSORS)]
    if len(weights) != 1:
        return None
    header = ask_hub(
        hub,
        lambda hub: HfApi(endpoint=hub.endpoint, token=hub.token).parse_safetensors_file_metadata(
            model.hub_id, weights[0], revision=plan.commit
        ),
    )
    return has_head_tensors(header.tensors)


def fit_of(nbytes: float, machine: Machine) -> Fit:
    """Whether weights of this size, and their caches, fit into memory."""
    return MemoryPlan(0, int(nbytes)).fit_in_memory(machine.usable_bytes)


NOT_KNOWN = 401
"""HTTP status of the hub for an invalid token."""


def is_signed_in(hub: Hub) -> bool:
    """Whether the user is signed in to the hub; may ask the hub to renew the stored token."""
    from huggingface_hub import get_token

    return hub.token is not False and get_token() is not None


def sign_in(token: str) -> None:
    """Check a token with the hub, and store it for all programs of the user; raises
    DownloadFailed.
    """
    from huggingface_hub import login
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with translated_hub_errors("Hugging Face"):
            login(token.strip())
    except DownloadFailed as error:
        cause = error.__cause__
        is_refused = isinstance(cause, HfHubHTTPError) and cause.response.status_code == NOT_KNOWN
        if is_refused or isinstance(cause, ValueError):
            raise DownloadFailed(
                "Hugging Face does not know this token. Copy the whole of it from your account's "
                "page of access tokens."
            ) from error
        raise


def sign_out() -> None:
    """Remove the tokens that `sign_in` and `hf auth login` store; raises OSError."""
    from huggingface_hub import constants  # its `logout` calls git, which a Mac may not have

    for path in (constants.HF_TOKEN_PATH, constants.HF_STORED_TOKENS_PATH):
        Path(path).unlink(missing_ok=True)
