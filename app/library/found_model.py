"""Looks at one folder or GGUF file and says whether it is a model, from names and sizes."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.library.weight_files import (
    GGUF,
    PARTIAL,
    SAFETENSORS,
    UNSAFE,
    damage,
    is_heads_name,
    shard_of,
)


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model on disk. path: what to load. nbytes: its weights. changed: seconds since 1970.

    problem: why it cannot be loaded; None when nothing is wrong as far as names, sizes and first
    bytes tell (mlx_engine.inspect tells the rest). unfinished: the id on the hub of a download
    that was begun, "" for none.
    """

    name: str
    path: Path
    place: str
    nbytes: int
    changed: float
    problem: str | None = None
    unfinished: str = ""


def folder_model(folder: Path, names: Iterable[str], name: str, place: str) -> FoundModel | None:
    """The MLX or Hugging Face model in a folder of these files; None when it is not one."""
    known = set(names)
    weights = sorted(n for n in known if n.endswith(SAFETENSORS) and not is_heads_name(n))
    if not weights and "config.json" not in known:
        return None
    if any(n.lower().endswith(GGUF) for n in known) and not weights:
        return None
    problem = _folder_problem(folder, known, weights)
    return _found(name, folder, place, [folder / n for n in weights], problem)


def gguf_model(file: Path, name: str, place: str) -> FoundModel | None:
    """The model in a GGUF file; None for the later shards of one and for image encoders."""
    shard = shard_of(file.name)
    if file.name.lower().startswith("mmproj") or (shard is not None and shard.number > 1):
        return None
    files = [file]
    if shard is not None:
        files = [file.with_name(shard.name(number)) for number in range(1, shard.total + 1)]
    missing = next((path.name for path in files if not path.exists()), None)
    problem = None if missing is None else _missing(missing)
    return _found(name, file, place, files, problem or _first_damage(files))


def broken_model(path: Path, name: str, place: str, problem: str) -> FoundModel:
    """Something that should be a model and is not."""
    return _found(name, path, place, [], problem)


def _folder_problem(folder: Path, known: set[str], weights: list[str]) -> str | None:
    """Why the folder cannot be loaded."""
    if not weights:
        partial = next((n for n in sorted(known) if n.lower().endswith(PARTIAL)), None)
        if partial is not None:
            return f"{partial} is not downloaded to its end: go on with the download"
        unsafe = next((n for n in sorted(known) if n.lower().endswith(UNSAFE)), None)
        if unsafe is not None:
            return f"{unsafe} could run code when opened: take a version with .safetensors files"
        return "there are no weights in this folder: download the .safetensors files"
    if "config.json" not in known:
        return "config.json is missing: download it too"
    for name in weights:
        shard = shard_of(name)
        count = 0 if shard is None else shard.total
        for number in range(1, count + 1):
            if shard is not None and shard.name(number) not in known:
                return _missing(shard.name(number))
    return _first_damage([folder / name for name in weights])


def _missing(name: str) -> str:
    return f"{name} is missing: download that file too"


def _first_damage(files: list[Path]) -> str | None:
    for file in files:
        try:
            problem = damage(file)
        except OSError as error:
            return f"{file.name} cannot be opened ({error.strerror})"
        if problem is not None:
            return f"{file.name}: {problem}"
    return None


def _found(name: str, path: Path, place: str, files: list[Path], problem: str | None) -> FoundModel:
    size, changed = 0, 0.0
    for file in files or [path]:
        try:
            facts = file.stat()
        except OSError:
            continue
        size += facts.st_size if files else 0
        changed = max(changed, facts.st_mtime)
    return FoundModel(name, path, place, size, changed, problem)
