"""Model ids and links of the Hugging Face hub, as people paste them."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = r"[A-Za-z0-9][\w.-]{0,95}"
_ID = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_NO_MODELS = ("datasets", "spaces", "docs", "blog", "papers", "collections", "api", "models")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model on the hub. revision: branch, tag or commit. file: one file of it, None for all."""

    hub_id: str
    revision: str = "main"
    file: str | None = None


def read_hub_link(text: str) -> HubModel | str | None:
    """The model that `org/name` or a link names; a sentence when the link leads to something
    else on the hub; None when the text is neither.
    """
    text = text.strip()
    if _ID.fullmatch(text):
        return HubModel(text)
    try:
        link = urlsplit(text if "//" in text else f"https://{text}")
        host = (link.hostname or "").lower()
    except ValueError:
        return None
    if host not in HOSTS:
        return None
    return _of_path([unquote(part) for part in link.path.split("/") if part])


def _of_path(parts: list[str]) -> HubModel | str:
    hub_id = "/".join(parts[:2])
    if len(parts) < 2 or parts[0] in _NO_MODELS or not _ID.fullmatch(hub_id):
        return "This link does not lead to a model: open the model's page and take its address."
    kind, revision, file = parts[2:3], "/".join(parts[3:4]), "/".join(parts[4:])
    if not revision or ".." in parts:
        return HubModel(hub_id)
    if kind in (["blob"], ["resolve"]):
        return HubModel(hub_id, revision, file or None)
    return HubModel(hub_id, revision if kind == ["tree"] else "main")
