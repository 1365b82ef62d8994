"""Repositories of the hub: what a link means, and which of their files are needed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from mlx_engine.hub.weight_files import GGUF, SAFETENSORS, UNSAFE, shard_of

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


_BESIDE_WEIGHTS = (".json", ".jinja", ".txt")


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository. sha256: of files in large storage, None for small ones, whose
    git_id (SHA-1 with git's header) tells the same.
    """

    name: str
    nbytes: int
    git_id: str
    sha256: str | None

    @property
    def blob(self) -> str:
        """Its name in the hub's cache, which is also its checksum."""
        return self.sha256 or self.git_id


@dataclass(frozen=True, slots=True)
class GgufChoice:
    """One of several models in a repository. file: its first, or only, file; nbytes: of all."""

    file: str
    nbytes: int


class SeveralModelsError(Exception):
    """The repository has several GGUF models, of which one must be chosen."""

    def __init__(self, choices: tuple[GgufChoice, ...]) -> None:
        super().__init__(f"It holds {len(choices)} GGUF models: choose one.")
        self.choices = choices


class NoModelThereError(Exception):
    """The repository has no weights we can take; the message says what it has."""


def needed_files(files: Iterable[HubFile], only: str | None = None) -> tuple[HubFile, ...]:
    """The weights and what belongs to them: `only` names one file of several models.

    Raises NoModelThereError, SeveralModelsError.
    """
    everything = {file.name: file for file in files if _is_safe_name(file.name)}
    if only is not None and only.lower().endswith(GGUF):
        return _gguf_files(everything, only)
    weights = [name for name in everything if _is_weight(name)]
    if weights:
        return _folder_files(everything, weights)
    ggufs = [name for name in everything if _is_model_gguf(name)]
    if len(ggufs) == 1:
        return _gguf_files(everything, ggufs[0])
    if ggufs:
        choices = _choices(everything, ggufs)
        if len(choices) > 1:
            raise SeveralModelsError(choices)
        return _gguf_files(everything, choices[0].file if choices else ggufs[0])
    if any(name.lower().endswith(UNSAFE) for name in everything):
        raise NoModelThereError(
            "Its weights are in a format that can run code when opened: take a version with "
            ".safetensors files."
        )
    raise NoModelThereError("It holds no weights, neither .safetensors nor .gguf.")


def _choices(everything: dict[str, HubFile], ggufs: list[str]) -> tuple[GgufChoice, ...]:
    """Smallest first; shards as one, and not at all when one is missing."""
    whole = (name for name in ggufs if set(_shards(name)) <= set(everything))
    sizes = {name: sum(everything[part].nbytes for part in _shards(name)) for name in whole}
    return tuple(GgufChoice(name, sizes[name]) for name in sorted(sizes, key=lambda n: sizes[n]))


def _shards(name: str) -> list[str]:
    shard = shard_of(name)
    return [name] if shard is None else [shard.name(n) for n in range(1, shard.total + 1)]


def _folder_files(everything: dict[str, HubFile], weights: list[str]) -> tuple[HubFile, ...]:
    """Weights, and the small files at the top."""
    wanted = set(weights)
    if any(name.startswith("model") for name in weights):  # other copies of the same tensors
        wanted -= {name for name in weights if name.startswith("consolidated")}
    wanted |= {n for n in everything if "/" not in n and n.endswith(_BESIDE_WEIGHTS)}
    return tuple(everything[name] for name in sorted(wanted))


def _gguf_files(everything: dict[str, HubFile], name: str) -> tuple[HubFile, ...]:
    names = _shards(name)
    missing = next((n for n in names if n not in everything), None)
    if missing is not None:
        raise NoModelThereError(f"It has no file {missing}: take another one.")
    return tuple(everything[n] for n in names)


def _is_weight(name: str) -> bool:
    """Safetensors at the top, and heads in mtp/."""
    folder, _, file = name.rpartition("/")
    return file.endswith(SAFETENSORS) and folder in ("", "mtp")


def _is_model_gguf(name: str) -> bool:
    shard, file = shard_of(name), name.rpartition("/")[2]
    is_first = shard is None or shard.number == 1
    return name.lower().endswith(GGUF) and is_first and not file.lower().startswith("mmproj")


def _is_safe_name(name: str) -> bool:
    parts = name.split("/")
    return bool(name) and not name.startswith("/") and "\\" not in name and ".." not in parts
