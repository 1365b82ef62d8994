"""Find a model's files in a folder or beside a file: config, shards, GGUFs, MTP heads."""

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from mlx_engine.hub.weight_files import (
    FOREIGN,
    GGUF,
    INDEX,
    PARTIAL,
    SAFETENSORS,
    UNSAFE,
    gguf_models,
    hub_snapshot,
    is_drafter_of,
    is_folder_of_quantisation,
    may_be_gguf_head,
    may_be_heads,
    may_be_tower,
    mentions_heads,
    model_name,
    parse_shard_name,
    select_model_weights,
    tensor_names,
)
from mlx_engine.loading.gguf.header import read_gguf_architecture
from mlx_engine.loading.no_model import (
    GGUF_DRAFTERS,
    adapter_error,
    are_mtp_heads,
    drafter_kind,
    has_dspark_stages,
    heads_only_error,
)
from mlx_engine.values.errors import (
    BadModelFile,
    EngineError,
    ModelNotFound,
    UnsafeModelFile,
    UnsupportedModel,
    why_not_read,
)
from mlx_engine.values.untrusted import CONFIG_BYTES, read_json
from mlx_engine.values.words import Words

_MOST_NAMED = 9
_INFINITY = {"__float__": "Infinity"}
"""Infinity in the JSON of transformers 5."""


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Paths of the files of a model: config, weights, and files that may hold MTP heads.

    root: the folder, or the file of a GGUF, which is its own config. shards: weight files of a
    folder. heads: further files that may hold MTP heads, judging by their name, their folder's name
    or their tensors. absent: tensor name -> missing file, from the index of shards. incomplete: a
    sentence on what is missing, an error only if a required tensor is. vision: GGUF files beside a
    GGUF model that may hold its vision tower.
    """

    root: Path
    kind: Literal["folder", "gguf"]
    shards: tuple[Path, ...]
    config: Path
    heads: tuple[Path, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    incomplete: str = ""
    vision: tuple[Path, ...] = ()


def read_folder(model_folder: Path) -> ModelFiles:
    """Find a model's files in a folder in Hugging Face or MLX layout, or the only GGUF in it.

    Missing shards are noted in ModelFiles.incomplete, since an index may be another model's. Raises
    BadModelFile when only incomplete weights exist, UnsafeModelFile when all weights could run
    code, UnsupportedModel for a LoRA adapter, ModelNotFound without weights.
    """
    names = _names_in_folder(model_folder)
    own, lost = select_model_weights(names)
    if own and all("adapter" in name for name in own):
        raise adapter_error(model_folder)
    listed = _read_index(model_folder, names)
    if listed.shards and not listed.problem:
        own, lost = listed.shards, None
    shards = tuple(model_folder / name for name in own)
    incomplete = listed.problem or (
        _missing_shard_words(model_folder / lost, own[0]) if lost else ""
    )
    if incomplete and not shards:
        raise BadModelFile(incomplete)
    head_files = tuple(_head_files_beside(model_folder, names, shards))
    if not shards:
        return _without_safetensors(model_folder, names, bool(head_files))
    config = model_folder / "config.json"
    return ModelFiles(model_folder, "folder", shards, config, head_files, listed.absent, incomplete)


def gguf_file(file: Path) -> ModelFiles:
    """Find the files of a GGUF model: the file, and GGUFs beside it of MTP heads and towers.

    Towers may also lie above a folder of one quantisation.
    """
    names: list[str] = []
    with suppress(ModelNotFound):  # the folder may be unreadable where the file is not
        names = _names_in_folder(file.parent)
    head_files = [name for name in names if may_be_gguf_head(name) and name != file.name]
    beside = tuple(file.parent / name for name in head_files)
    towers = [file.parent / name for name in names if may_be_tower(name)]
    if not towers and is_folder_of_quantisation(file.parent.name):
        with suppress(ModelNotFound):
            above = file.parent.parent
            towers = [above / name for name in _names_in_folder(above) if may_be_tower(name)]
    return ModelFiles(file, "gguf", (), file, beside, vision=tuple(towers))


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file such as config.json as a dict. Raises BadModelFile where it is no object."""
    if not os.path.lexists(path):
        raise BadModelFile(
            "{path}: missing. A model folder needs it: get it from where the weights come from.",
            path=path,
        )
    return read_json(
        path, CONFIG_BYTES, object_hook=lambda entry: math.inf if entry == _INFINITY else entry
    )


def safetensors_in(folder: Path) -> tuple[Path, ...]:
    """List the .safetensors files of a folder, sorted by name."""
    return tuple(
        folder / name for name in _names_in_folder(folder) if name.endswith(".safetensors")
    )


def unsafe_file_error(path: Path) -> UnsafeModelFile:
    """Make the UnsafeModelFile error for weights in a format that can run code when opened."""
    return UnsafeModelFile(
        "{path}: files of this format can run code when they are opened, so they are refused."
        " Use the .safetensors files of the model.",
        path=path,
    )


def draft_models_near(files: ModelFiles) -> tuple[Path, ...]:
    """Find draft models made for a model (EAGLE-3, DFlash, Gemma's assistant), by name.

    Folders, or GGUF files in them or alone, that lie in the model's folder, beside it, or in
    another repository of the hub's cache; first the model's own folder if it has DSpark's stages.
    """
    name, home = model_name(files.root), files.root
    own: tuple[Path, ...] = ()
    if files.kind == "folder" and has_dspark_stages(read_json_object(files.config)):
        own = (home,)
    if files.kind == "folder":
        near = _drafters_by_name(home)
    else:  # other models lie there, too
        home = home.parent
        near = _drafters_by_name(home, name)
    if home.parent.name == "snapshots":
        near += filter(None, map(hub_snapshot, _drafters_by_name(home.parents[2], name)))
    elif files.kind == "folder":
        near += _drafters_by_name(home.parent, name)
    return own + tuple(path for place in near for path in _drafters_at(place))


def _drafters_by_name(model_path: Path, model: str = "") -> list[Path]:
    """Paths in a folder, or in the hub's cache, whose names are those of draft models."""
    names: list[str] = []
    with suppress(ModelNotFound):
        names = _names_in_folder(model_path)
    return [model_path / name for name in names if is_drafter_of(name.replace("--", "/"), model)]


def _drafters_at(place: Path) -> list[Path]:
    """Draft models at a path: the folder, the GGUF file, or the GGUF files in the folder."""
    files = [place] if place.is_file() else _gguf_models(place)
    if found := [file for file in files if _is_gguf_drafter(file)]:
        return found
    try:
        names = [name for path in safetensors_in(place) for name in tensor_names(path)]
        kind = drafter_kind(read_json_object(place / "config.json"), names)
        return [] if kind is None else [place]
    except (EngineError, OSError):
        return []


def _is_gguf_drafter(file: Path) -> bool:
    try:
        return read_gguf_architecture(file) in GGUF_DRAFTERS
    except (EngineError, OSError):  # damaged, or no GGUF
        return False


def _head_files_beside(
    model_folder: Path, names: list[str], shards: tuple[Path, ...]
) -> Iterator[Path]:
    """Yield files in a model's folder whose name, folder or tensors indicate MTP heads."""
    for path in (model_folder / name for name in names if name.endswith(SAFETENSORS)):
        if path not in shards and (may_be_heads(path.name) or _holds_heads(path)):
            yield path
    for folder in (model_folder / name for name in names if mentions_heads(name)):
        inner = safetensors_in(folder) if folder.is_dir() else ()
        yield from (path for path in inner if path not in shards)
    yield from (model_folder / name for name in names if shards and may_be_gguf_head(name))


def _holds_heads(file: Path) -> bool:
    """Whether the tensors of a file are MTP heads; False for an unreadable file."""
    try:
        return are_mtp_heads(tensor_names(file))
    except OSError:
        return False


def _names_in_folder(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ModelNotFound(why_not_read(folder, error)) from error


class _IndexedShards(NamedTuple):
    """Weight files listed in a folder's model.safetensors.index.json, and those that are missing.

    absent: tensor name -> missing file. problem: a sentence on what is missing, "" if nothing is.
    """

    shards: tuple[str, ...] = ()
    absent: Mapping[str, str] = {}
    problem: str = ""


def _read_index(model_folder: Path, names: list[str]) -> _IndexedShards:
    """Read a folder's model.safetensors.index.json, else its first other index of weight files."""
    indexes = sorted(name for name in names if name.endswith(INDEX))
    if not indexes:
        return _IndexedShards()
    index = model_folder / (f"model{INDEX}" if f"model{INDEX}" in indexes else indexes[0])
    try:
        table = _weight_map(index)
    except BadModelFile as error:
        return _IndexedShards(problem=str(error))
    listed = sorted(set(table.values()))
    lost = {name for name in listed if not os.access(model_folder / name, os.F_OK)}
    if not lost:
        return _IndexedShards(tuple(listed))
    absent = {tensor: name for tensor, name in table.items() if name in lost}
    return _IndexedShards((), absent, _missing_shard_words(model_folder / min(lost), index.name))


def _weight_map(index: Path) -> dict[str, str]:
    """Read a safetensors index as tensor name -> file in its folder. Raises BadModelFile."""
    table = read_json_object(index).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise BadModelFile("{index}: lists no shards (weight_map). Get it again.", index=index)
    for name in {str(value) for value in table.values()}:
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts
        if not inside or not name.endswith(".safetensors") or not name.isprintable():
            raise BadModelFile(
                "{index}: lists the shard {name}, which cannot be one.",
                index=index,
                name=ascii(name)[:80],
            )
    return {tensor: str(name) for tensor, name in table.items()}


def _missing_shard_words(shard: Path, index_name: str) -> Words:
    return Words(
        "{shard}: missing, though {told_by} says the model has it. Download that file too.",
        shard=str(shard)[:300],
        told_by=index_name,
    )


def _gguf_models(folder: Path) -> list[Path]:
    """List the GGUF models of a folder, each by its first numbered file, else by any other."""
    names: list[str] = []
    with suppress(ModelNotFound):
        names = [name for name in _names_in_folder(folder) if name.lower().endswith(GGUF)]
    found = [files.names[0] for files in gguf_models(names)]
    return [folder / name for name in found or [*islice(filter(parse_shard_name, names), 1)]]


def _without_safetensors(model_folder: Path, names: list[str], has_heads: bool) -> ModelFiles:
    ggufs = _gguf_models(model_folder)
    if not ggufs:  # or one folder for each quantisation
        inner = (model_folder / name for name in names if (model_folder / name).is_dir())
        ggufs = [file for folder in inner for file in _gguf_models(folder)]
    if len(ggufs) == 1:
        return gguf_file(ggufs[0])
    if ggufs:
        raise ModelNotFound(
            "{root}: holds {count} GGUF files; open one of them: {names}.",
            root=model_folder,
            count=len(ggufs),
            names=", ".join(str(file.relative_to(model_folder)) for file in ggufs[:_MOST_NAMED]),
        )
    unsafe = [name for name in names if name.lower().endswith(UNSAFE)]
    if unsafe:
        raise unsafe_file_error(model_folder / unsafe[0])
    if has_heads or any(map(may_be_gguf_head, names)):
        raise heads_only_error(model_folder)
    for place in (model_folder, *(model_folder / name for name in names)):
        _refuse_other_formats(place)
    raise ModelNotFound(
        "{root}: no model in this folder. It needs config.json and .safetensors files, or a GGUF.",
        root=model_folder,
    )


def _refuse_other_formats(model_path: Path) -> None:
    """Raise an error for a path whose ending is a partial download's or another program's."""
    ending = model_path.suffix.lower()
    if ending in PARTIAL:
        raise BadModelFile(
            "{place}: the download is not complete. Continue it, or start it again.",
            place=model_path,
        )
    if ending in FOREIGN:
        raise UnsupportedModel(
            "{place}: holds weights in the format of {program}, which this version does not "
            "read. Use a GGUF of the model, or a folder with .safetensors files.",
            place=model_path,
            program=FOREIGN[ending],
        )


def model_files_at(model_path: Path) -> ModelFiles:
    """Find a model's files at a path; a repository of the hub cache means its main branch."""
    if model_path.is_dir():
        is_repository = model_path.name.startswith("models--")
        return read_folder((hub_snapshot(model_path) if is_repository else None) or model_path)
    return _single_file_model(model_path)


def _single_file_model(file: Path) -> ModelFiles:
    ending = file.suffix.lower()
    _refuse_other_formats(file)
    if ending == ".gguf":
        return gguf_file(file)
    if ending in UNSAFE:
        raise unsafe_file_error(file)
    if ending in (".safetensors", ".json"):
        return read_folder(file.parent)
    raise UnsupportedModel(
        "{file}: not a model file. Give a .gguf file, a model folder, or a .safetensors file in "
        "one.",
        file=file,
    )
