"""Find models on this disk: in the hub's cache, LM Studio's folders, given folders, recent ones."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.values.models import RECENT, FoundModel
from mlx_engine.hub.weight_files import (
    FOLDERS_OF_HEADS,
    GGUF,
    PARTIAL,
    UNSAFE,
    base_name,
    damage_message,
    existing_shards,
    folder_name,
    gguf_models,
    hub_snapshot,
    is_gguf_model,
    model_name,
    parse_shard_name,
    select_model_weights,
)
from mlx_engine.values.words import Words, join_words


def folder_model(folder: Path, names: Iterable[str], name: str, place: str) -> FoundModel | None:
    """Return the MLX or Hugging Face model in a folder with these files, None if it is none."""
    known = set(names)
    weights, missing = select_model_weights(known)
    if not weights and "config.json" not in known:
        return None
    if any(n.lower().endswith(GGUF) for n in known) and not weights:
        return None
    problem = _missing(missing) if missing else _folder_problem(folder, known, weights)
    return _found(name, folder, place, problem)


def gguf_model(file: Path, name: str, place: str) -> FoundModel | None:
    """Return the model in a GGUF file; None for later shards, image encoders and MTP heads."""
    if not is_gguf_model(file.name):
        return None
    names, missing = existing_shards(file.name, lambda part: file.with_name(part).exists())
    files = [file.with_name(part) for part in names]
    problem = _missing(missing) if missing else _first_damage(files)
    return _found(name, file, place, problem)


_ADAPTER = Words("it holds a LoRA adapter and no model: take a model that it was merged into")


def _folder_problem(folder: Path, known: set[str], weights: Sequence[str]) -> str | None:
    """Return why a folder cannot be loaded, None if it can."""
    if not weights:
        partial = next((n for n in sorted(known) if n.lower().endswith(PARTIAL)), None)
        if partial is not None:
            return Words(
                "{partial} is not downloaded to its end: go on with the download", partial=partial
            )
        unsafe = next((n for n in sorted(known) if n.lower().endswith(UNSAFE)), None)
        if unsafe is not None:
            return Words(
                "{unsafe} could run code when opened: take a version with .safetensors files",
                unsafe=unsafe,
            )
        return Words("there are no weights in this folder: download the .safetensors files")
    if "config.json" not in known:
        is_adapter = "adapter_config.json" in known
        return _ADAPTER if is_adapter else Words("config.json is missing: download it too")
    return _first_damage([folder / name for name in weights])


def _missing(name: str) -> str:
    return Words("{name} is missing: download that file too", name=name)


def _first_damage(files: list[Path]) -> str | None:
    for file in files:
        try:
            problem = damage_message(file)
        except OSError as error:
            return Words(
                "{name} cannot be opened ({strerror})", name=file.name, strerror=error.strerror
            )
        if problem is not None:
            return join_words((file.name, problem), ": ")
    return None


def nbytes_on_disk(path: Path) -> int:
    """Size of a model: of all files in its folder, or of a GGUF file with its shards."""
    folder = path if path.is_dir() else path.parent
    shards, _ = existing_shards(path.name, lambda part: (folder / part).exists())
    size = 0
    for name in _listing(path).files if path.is_dir() else shards:
        with suppress(OSError):
            size += (folder / name).stat().st_size
    return size


def _found(name: str, path: Path, place: str, problem: str | None) -> FoundModel:
    return FoundModel(name, path, place, nbytes_on_disk(path), problem or "", base=base_name(name))


HUGGING_FACE, LM_STUDIO = "Hugging Face", "LM Studio"
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to search, or a Hugging Face cache, which has a layout of its own."""

    name: str
    folder: Path
    layout: Literal["hub-cache", "folders"] = "folders"


def usual_places(home: Path, hub_models: Iterable[Path]) -> tuple[Place, ...]:
    """Return the hub's caches and LM Studio's folders for this home folder."""
    return (
        *(Place(HUGGING_FACE, folder, "hub-cache") for folder in hub_models),
        Place(LM_STUDIO, home / ".lmstudio" / "models"),
        Place(LM_STUDIO, home / ".cache" / "lm-studio" / "models"),
    )


@dataclass(frozen=True, slots=True)
class FoundHere:
    """Models found in one search. missing: the user's folders that do not exist."""

    models: tuple[FoundModel, ...]
    missing: tuple[Path, ...]


def look_around(places: Iterable[Place], own: Iterable[Path], recent: Iterable[str]) -> FoundHere:
    """Find recent models, then those in the user's folders, then those in the usual places."""
    folders = tuple(own)
    mine = [Place(str(folder), folder) for folder in folders]
    models = (*recall(recent), *find_models((*mine, *places)))
    return FoundHere(
        named_by_path(models), tuple(folder for folder in folders if not folder.is_dir())
    )


def find_models(
    places: Iterable[Place], deepest: int = DEEPEST, goes_on: Callable[[], bool] = lambda: True
) -> Iterator[FoundModel]:
    """Yield models as they are found, broken ones with their problem.

    Missing folders are skipped; links are followed, but to each place once. deepest: levels of
    folders that are searched, while `goes_on` returns true.
    """
    seen: set[tuple[int, int]] = set()
    for place in places:
        if not place.folder.is_dir():
            continue
        if place.layout == "hub-cache":
            yield from _in_hub_cache(place, seen)
        else:
            yield from _in_folder(place.folder, place, seen, deepest, goes_on)


def recall(recent: Iterable[str]) -> tuple[FoundModel, ...]:
    """Look up recent models; a missing one says so in its problem."""
    return named_by_path(tuple(_recalled(Path(path)) for path in recent))


def named_by_path(models: Iterable[FoundModel]) -> tuple[FoundModel, ...]:
    """Give models their names as on cards; equal names are told apart by folders."""
    by_name: dict[str, list[FoundModel]] = {}
    plain = tuple(model if model.unfinished else _plainly_named(model) for model in models)
    for model in plain:
        by_name.setdefault(model.name, []).append(model)
    return tuple(_told_apart(model, by_name[model.name]) for model in plain)


def _plainly_named(model: FoundModel) -> FoundModel:
    name = model_name(model.path)
    return replace(model, name=name, base=base_name(name))


def _told_apart(model: FoundModel, namesakes: Iterable[FoundModel]) -> FoundModel:
    """Add to the name of a model as many folders as distinguish it from others of the name."""
    parts = _shown_parts(model.path)
    others = [_shown_parts(other.path) for other in namesakes if other.path != model.path]
    if not others:
        return model
    alone = (n for n in range(1, len(parts)) if all(o[-n:] != parts[-n:] for o in others))
    tail = parts[-next(alone, len(parts)) :]
    return replace(model, name=f"{model.name} ({'/'.join(tail[:-1] or tail)})")


def _shown_parts(path: Path) -> tuple[str, ...]:
    """Split a path into its parts; one in the hub's cache into owner and name."""
    for folder in path.parents:
        if folder.parent.name == "snapshots":
            return (*folder_name(folder).split("/"), *path.relative_to(folder).parts)
    return path.parts


def _recalled(path: Path) -> FoundModel:
    gone = Words("it is no longer there: it was moved or deleted, or its disk is not connected")
    found = None
    if path.is_file():
        found = gguf_model(path, model_name(path), RECENT)
    elif path.is_dir():
        found = folder_model(path, _listing(path).files, model_name(path), RECENT)
    return found or FoundModel(model_name(path), path, RECENT, problem=gone)


@dataclass(frozen=True, slots=True)
class _Listing:
    """Names in a folder by kind, links resolved; problem: why it cannot be listed."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    problem: str | None = None


def _listing(folder: Path) -> _Listing:
    files, folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(entry.name)
                else:  # also links that lead nowhere: they tell of files that are missing
                    files.append(entry.name)
    except OSError as error:
        return _Listing(
            problem=Words("the folder cannot be opened ({strerror})", strerror=error.strerror)
        )
    return _Listing(tuple(sorted(files)), tuple(sorted(folders)))


def _in_folder(
    folder: Path,
    place: Place,
    seen: set[tuple[int, int]],
    depth: int,
    goes_on: Callable[[], bool] = lambda: True,
) -> Iterator[FoundModel]:
    """Find models in a tree of folders; a folder that is a model is not searched further."""
    if not goes_on() or not _is_new(folder, seen):
        return
    names = _listing(folder)
    label = str(folder.relative_to(place.folder)) if folder != place.folder else folder.name
    if names.problem is not None:
        yield FoundModel(label, folder, place.name, problem=names.problem)
        return
    model = folder_model(folder, names.files, label, place.name)
    if model is not None:
        yield model
        return
    for files in [] if _holds_drafters(folder) else gguf_models(names.files):
        file = folder / files.names[0]
        found = gguf_model(file, str(file.relative_to(place.folder)), place.name)
        if found is not None:
            yield found
    if depth > 0:
        for name in names.folders:
            yield from _in_folder(folder / name, place, seen, depth - 1, goes_on)


def _holds_drafters(folder: Path) -> bool:
    """Whether a folder holds drafters only, by its name and the files beside it."""
    is_called_so = folder.name.lower() in FOLDERS_OF_HEADS
    return is_called_so and bool(gguf_models(_listing(folder.parent).files))


def _in_hub_cache(place: Place, seen: set[tuple[int, int]]) -> Iterator[FoundModel]:
    """Find one model a repository: of the revision `main`, else of the newest."""
    for name in _listing(place.folder).folders:
        if not name.startswith("models--"):
            continue
        repository = place.folder / name
        label = name.removeprefix("models--").replace("--", "/")
        snapshot = hub_snapshot(repository)
        if snapshot is None:
            begun = Words("the download was not finished")
            yield FoundModel(label, repository, place.name, problem=begun, unfinished=label)
            continue
        found = list(_in_folder(snapshot, Place(place.name, snapshot), seen, 2))
        for model in found:
            yield _renamed(model, label, snapshot)


def _renamed(model: FoundModel, label: str, snapshot: Path) -> FoundModel:
    inner = "" if model.path == snapshot else f"/{model.path.relative_to(snapshot)}"
    return replace(model, name=label + inner, base=base_name(label + inner))


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    try:
        facts = folder.stat()
    except OSError:
        return False
    key = (facts.st_dev, facts.st_ino)
    is_new = key not in seen
    seen.add(key)
    return is_new


def own_files(model: Path) -> tuple[Path, ...]:
    """Return the files and folders to move to the Trash to delete a model. Raises OSError.

    A GGUF file goes with its shards. A repository in the hub's cache goes as a whole, except for
    one of several GGUF files: its data goes unless another file links to it.
    """
    parts = _parts(model)
    repository = next(filter(lambda place: _is_repository(place, model), model.parents), None)
    if repository is None:
        return parts
    links = [p for p in repository.glob("snapshots/**/*") if p.is_symlink()]
    others = {p.resolve() for p in links if p not in parts}
    if model.is_dir() or not any(other.suffix.lower() == GGUF for other in set(links) - set(parts)):
        return (repository,)
    data = {p.resolve() for p in parts} - others
    return (*parts, *sorted(path for path in data if path.exists()))


def _is_repository(place: Path, model: Path) -> bool:
    """Whether a folder is a model of the Hugging Face cache, judged by its layout."""
    is_named = place.name.startswith("models--")
    return is_named and model.relative_to(place).parts[0] == "snapshots"


def _parts(model: Path) -> tuple[Path, ...]:
    """Return the file or folder of a model, or all shards that exist."""
    shard = parse_shard_name(model.name)
    if model.is_dir() or shard is None:
        return (model,)
    mine = shard._replace(number=1)
    others = ((path, parse_shard_name(path.name)) for path in model.parent.iterdir())
    return tuple(sorted(path for path, its in others if its and its._replace(number=1) == mine))
