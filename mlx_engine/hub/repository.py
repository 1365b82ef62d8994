"""Model repositories of the Hugging Face hub: links to them, and the files that a model needs."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote, unquote, urlsplit

from mlx_engine.hub.weight_files import (
    GGUF,
    SAFETENSORS,
    UNSAFE,
    WeightFileNames,
    existing_shards,
    gguf_models,
    is_folder_of_quantisation,
    is_tower_of_other,
    may_be_tower,
    parse_shard_name,
)
from mlx_engine.values.errors import DownloadFailed
from mlx_engine.values.words import Words, size_words

HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = r"[A-Za-z0-9][\w.-]{0,95}"
_ID = re.compile(rf"({_PART}/{_PART})(?::([\w./-]{{1,200}}))?", re.ASCII)
_QUANTISATION = re.compile(
    r"(?<![A-Za-z0-9_])((?:UD-)?(?:[IT]?Q\d\w*|BF16|F16|F32|MXFP4\w*))(?![A-Za-z0-9])",
    re.ASCII | re.IGNORECASE,
)
_REVISION = re.compile(r"(?:[\w][\w.+@-]{0,99}/){0,9}[\w][\w.+@-]{0,99}", re.ASCII)
_UNREAD_DRAFTS = re.compile("gemma-?4", re.IGNORECASE)
"""Models whose assistants (draft models) are not read from GGUFs."""
_TOWERS_BY_PREFERENCE = ("BF16", "F16", None, "Q8_0", "F32")
"""Quantisations of vision towers, best first: they are small, and computed in 16 bits."""
_MOST_LISTED = 12
"""Choices that an error message lists."""

_NO_MODELS = ("datasets", "spaces", "docs", "blog", "papers", "collections", "api", "models")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model on the Hugging Face hub, or one of the files or GGUF models of its repository.

    revision: branch, tag or commit. file: one file of the repository, None for all. quantisation:
    selects one of several GGUF models by its name ("Q4_K_M").
    """

    hub_id: str
    revision: str = "main"
    file: str | None = None
    quantisation: str | None = None

    @property
    def shortest_link(self) -> str:
        """The shortest text from which `read_hub_link` makes this HubModel."""
        chosen = self.file or self.quantisation
        short = f"{self.hub_id}:{chosen}" if chosen else self.hub_id
        if read_hub_link(short) == self:
            return short
        file = f"/{quote(self.file)}" if self.file else ""
        kind = "blob" if self.file else "tree"
        return f"https://{HOSTS[0]}/{self.hub_id}/{kind}/{quote(self.revision, safe='')}{file}"


def read_hub_link(text: str) -> HubModel | str | None:
    """Read `org/name`, `org/name:Q4_K_M`, `org/name:file.gguf` or a link to a model of the hub.

    Returns a HubModel, an error message for links to something else on the hub, None for other
    texts.
    """
    text = text.strip()
    if named := _ID.fullmatch(text):
        return _model_named(named)
    try:
        link = urlsplit(text if "//" in text else f"https://{text}")
        host = (link.hostname or "").lower()
    except ValueError:
        return None
    if host not in HOSTS:
        return None
    return _model_at([unquote(part) for part in link.path.split("/") if part])


def _model_named(link_match: re.Match[str]) -> HubModel:
    """Make a HubModel from a regular expression's match of `org/name` or `org/name:choice`."""
    hub_id, chosen = link_match[1], link_match[2]
    if chosen is not None and chosen.lower().endswith(GGUF):
        return HubModel(hub_id, file=chosen)
    return HubModel(hub_id, quantisation=chosen)


_NO_MODEL = Words("This link does not lead to a model: open the model's page and take its address.")


def is_revision(text: str) -> bool:
    """Whether a text can name a branch, tag or commit and is safe as part of a path."""
    return _REVISION.fullmatch(text) is not None


def _model_at(parts: list[str]) -> HubModel | str:
    hub_id = "/".join(parts[:2])
    named = _ID.fullmatch(hub_id)
    if named is None or parts[0] in _NO_MODELS:
        return _NO_MODEL
    kind, revision, file = parts[2:3], "/".join(parts[3:4]), "/".join(parts[4:])
    if not revision:
        return _model_named(named)
    if not is_revision(revision) or (file and not _is_safe_name(file)):
        return _NO_MODEL
    if kind in (["blob"], ["resolve"]):
        return HubModel(hub_id, revision, file or None)
    return HubModel(hub_id, revision if kind == ["tree"] else "main")


_BESIDE_WEIGHTS = (".json", ".jinja", ".txt", ".model")


@dataclass(frozen=True, slots=True)
class HubFile:
    """Name, size and checksums of a file of a repository on the hub.

    sha256: of files in large storage, None for small files; git_id: git's object id (SHA-1).
    """

    name: str
    nbytes: int
    git_id: str
    sha256: str | None

    @property
    def blob_name(self) -> str:
        """Name of the file in the cache's folder `blobs`, which is its checksum."""
        return self.sha256 or self.git_id


@dataclass(frozen=True, slots=True)
class GgufChoice:
    """One of several GGUF models in a repository, among which the user chooses.

    file: the model's first file; nbytes: of all its files. label: its quantisation where no other
    choice has that, else the file.
    """

    file: str
    nbytes: int
    label: str


class ChoiceNeededError(DownloadFailed):
    """A repository has several GGUF models (`choices`), of which the user must choose one."""

    def __init__(self, hub_id: str, choices: tuple[GgufChoice, ...]) -> None:
        super().__init__(
            f"{hub_id}: It holds {len(choices)} GGUF models: choose one, such as "
            f"{hub_id}:{choices[0].label}. There are {_list_choices(choices)}."
        )
        self.choices = choices


def needed_files(
    files: Iterable[HubFile], model: HubModel, *, heads: bool = False
) -> tuple[HubFile, ...]:
    """Select the files that a model needs: weights, config, tokenizer, MTP heads, vision tower.

    heads: select MTP heads only: files that are named so, else all weights. Raises DownloadFailed,
    and ChoiceNeededError where there are several models.
    """
    everything = {file.name: file for file in files if _is_safe_name(file.name)}
    if model.file is not None and model.file.lower().endswith(GGUF):
        return _gguf_files(everything, model, model.file, include_heads=not heads)
    named_heads = [name for name in everything if _is_head_file(name)] if heads else []
    weights = [name for name in named_heads or everything if _is_weight_file(name)]
    if weights and model.quantisation is None:
        return _folder_files(everything, weights)
    heads_alone = [WeightFileNames((name,)) for name in named_heads if name.lower().endswith(GGUF)]
    ggufs = heads_alone or gguf_models(everything)
    choices = _gguf_choices(everything, [files.names for files in ggufs if not files.missing])
    if model.quantisation is not None and choices:
        choices = _with_quantisation(choices, model)
    if len(choices) > 1:
        raise ChoiceNeededError(model.hub_id, choices)
    if choices or ggufs:
        file = choices[0].file if choices else ggufs[0].names[0]
        return _gguf_files(everything, model, file, include_heads=not heads)
    if model.quantisation is not None and weights:
        raise DownloadFailed(
            "{hub_id}: it holds no GGUF models to choose from, but .safetensors: leave out "
            ":{quantisation}.",
            hub_id=model.hub_id,
            quantisation=model.quantisation,
        )
    if any(name.lower().endswith(UNSAFE) for name in everything):
        raise DownloadFailed(
            "{hub_id}: Its weights are in a format that can run code when opened: take a "
            "version with .safetensors files.",
            hub_id=model.hub_id,
        )
    raise DownloadFailed(
        "{hub_id}: It holds no weights, neither .safetensors nor .gguf.", hub_id=model.hub_id
    )


def _gguf_choices(
    all_files: dict[str, HubFile], models: Iterable[tuple[str, ...]]
) -> tuple[GgufChoice, ...]:
    """Make a GgufChoice of each GGUF model of a repository, sorted by size.

    models: the file names of each.
    """
    sizes = {names[0]: sum(all_files[part].nbytes for part in names) for names in models}
    labels = {name: _quantisation_in_name(name) for name in sizes}
    times = Counter(labels.values())
    return tuple(
        GgufChoice(name, sizes[name], name if times[labels[name]] > 1 else labels[name] or name)
        for name in sorted(sizes, key=lambda name: (sizes[name], name))
    )


def _quantisation_in_name(name: str) -> str | None:
    """Quantisation in a file name: "Q4_K_M" of `m-Q4_K_M-00001-of-00002.gguf`; None if absent."""
    shard, plain = parse_shard_name(name), PurePosixPath(name)
    found = _QUANTISATION.findall(plain.name if shard is None else PurePosixPath(shard.stem).name)
    return str(found[-1]) if found else None


def _with_quantisation(choices: tuple[GgufChoice, ...], model: HubModel) -> tuple[GgufChoice, ...]:
    """Keep the choices that have the quantisation the model asks for.

    Raises DownloadFailed, which lists all choices, where there is none.
    """
    wanted = str(model.quantisation).lower()
    own = {
        choice: (_quantisation_in_name(choice.file) or choice.file).lower() for choice in choices
    }
    exact = tuple(choice for choice in choices if own[choice] == wanted)
    found = exact or tuple(c for c in choices if own[c].removeprefix("ud-") == wanted)
    if not found:
        raise DownloadFailed(
            "{hub_id}: it has no {quantisation}. There are {choices}.",
            hub_id=model.hub_id,
            quantisation=model.quantisation,
            choices=_list_choices(choices),
        )
    return found


def _list_choices(choices: tuple[GgufChoice, ...]) -> str:
    labels = [f"{choice.label} ({size_words(choice.nbytes)})" for choice in choices]
    more = f" and {len(labels) - _MOST_LISTED} larger ones" if len(labels) > _MOST_LISTED else ""
    return ", ".join(labels[:_MOST_LISTED]) + more


def _folder_files(all_files: dict[str, HubFile], weights: list[str]) -> tuple[HubFile, ...]:
    """Weight files, and the small files at the top of the repository: config, tokenizer."""
    wanted = set(weights)
    if any(name.startswith("model") for name in weights):  # other copies of the same tensors
        wanted -= {name for name in weights if name.startswith("consolidated")}
    wanted |= {n for n in all_files if "/" not in n and n.endswith(_BESIDE_WEIGHTS)}
    return tuple(all_files[name] for name in sorted(wanted))


def _gguf_files(
    all_files: dict[str, HubFile], model: HubModel, name: str, *, include_heads: bool
) -> tuple[HubFile, ...]:
    """All shards of a GGUF model, one GGUF of MTP heads from the same folder, a vision tower.

    Of several heads, those with the same quantisation as the model, else the largest. Raises
    DownloadFailed where a shard is missing.
    """
    parts, missing = existing_shards(name, all_files.__contains__)
    names = list(parts)
    if missing is not None:
        raise DownloadFailed(
            "{hub_id}: It has no file {missing}: take another one.",
            hub_id=model.hub_id,
            missing=missing,
        )
    folder, label = PurePosixPath(name).parent, _quantisation_in_name(name)
    head_files = [
        heads
        for heads in all_files
        if _is_head_file(heads)
        and heads.lower().endswith(GGUF)
        and PurePosixPath(heads).parent == folder
        and heads not in names
        and not _UNREAD_DRAFTS.search(heads)
    ]
    if include_heads and not may_be_tower(name):
        names += _tower_beside(all_files, name)
    if include_heads and head_files:
        names.append(
            max(
                head_files,
                key=lambda n: (_quantisation_in_name(n) == label, all_files[n].nbytes, n),
            )
        )
    return tuple(all_files[n] for n in names)


def _tower_beside(all_files: dict[str, HubFile], name: str) -> list[str]:
    """Names of the one vision tower to fetch with a GGUF model, [] where there is none.

    It lies beside the model, or above a folder of one quantisation; one with the model's name in
    its own comes first.
    """
    folder = PurePosixPath(name).parent
    folders = (folder, *([folder.parent] if is_folder_of_quantisation(folder.name) else []))
    towers = [n for n in all_files if may_be_tower(n) and PurePosixPath(n).parent in folders]

    def rank(tower: str) -> tuple[bool, int, int]:
        label, best = _quantisation_in_name(tower), _TOWERS_BY_PREFERENCE
        label = label.upper() if label else None
        place = best.index(label) if label in best else len(best)
        is_other = is_tower_of_other(PurePosixPath(tower).stem, PurePosixPath(name).stem)
        return is_other, place, -all_files[tower].nbytes

    return [min(towers, key=rank)] if towers else []


def _is_weight_file(name: str) -> bool:
    """Whether a path in a repository is a safetensors file at the top or in the folder mtp/."""
    folder, _, file = name.rpartition("/")
    return file.endswith(SAFETENSORS) and folder in ("", "mtp")


def _is_head_file(name: str) -> bool:
    """Whether a path in a repository is a file of MTP heads, by its name or its folder mtp/."""
    folder, _, file = name.rpartition("/")
    ending = file.lower().endswith((GGUF, SAFETENSORS))
    return ending and (file.lower().startswith("mtp") or folder == "mtp")


def _is_safe_name(name: str) -> bool:
    odd = {"", ".", ".."}.intersection(name.split("/"))
    return not odd and "\\" not in name and name.isprintable() and len(name) < 1000
