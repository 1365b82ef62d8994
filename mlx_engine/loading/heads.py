"""Find MTP heads by their tensors: in the model's files, beside them, or where the user says."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path

from mlx_engine.hub.weight_files import (
    UNSAFE,
    has_head_tensors,
    hub_snapshot,
    is_gguf_model,
    is_same_model,
    parse_shard_name,
)
from mlx_engine.loading.assembled_tensors import assemble_tensors
from mlx_engine.loading.folder import ModelFiles, safetensors_in, unsafe_file_error
from mlx_engine.loading.gguf.model import read_gguf_model
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.microscaled import pair_scales
from mlx_engine.loading.safetensors import TensorInfo, merge_headers, samples_equal
from mlx_engine.models.family import Family
from mlx_engine.models.layer_specs import Shape
from mlx_engine.values.errors import (
    BadModelFile,
    EngineError,
    ModelNotFound,
    Reason,
    UnsupportedModel,
)
from mlx_engine.values.words import Words

NO_HEADS = Reason("no-heads", Words("This model has no drafting heads."))

_REPOSITORY = "models--"
"""Prefix of the repository folders in the hub cache."""

ONLY_HEADS_HAVE = (".join.", ".enorm.", ".hnorm.")
"""Parts of canonical names that only MTP heads have."""


@dataclass(frozen=True, slots=True)
class HeadTensors:
    """Headers of the tensors of MTP heads, or the reason why there are none that can be used.

    tensors: the engine's tensor name -> header, empty without heads. inside: stored in the model's
    own weight files, hence in the form of its other tensors. remarks: notes for the user on
    heads that are used.
    """

    tensors: Mapping[str, TensorInfo]
    origin: str
    inside: bool = False
    why_not: Reason | None = None
    remarks: tuple[Reason, ...] = ()


def find_heads(
    files: ModelFiles, own_heads: Mapping[str, TensorInfo], family: Family, chosen_path: Path | None
) -> HeadTensors:
    """Find the first complete MTP heads that fit a model, or the reason why there are none.

    own_heads: heads in the model's own weight files. chosen_path: use only this file or folder, and
    raise BadModelFile when it has no heads or another model's; elsewhere such heads are skipped.
    """
    if not family.head_shapes(own_heads):
        return _unsupported_heads(files, own_heads, chosen_path)
    if chosen_path is not None:
        return _chosen_heads(chosen_path, family)
    problem: Reason | None = None
    for candidate in _head_candidates(files, own_heads, family):
        found = _check_usable(candidate, family)
        if found.why_not is None:
            return found
        problem = problem or found.why_not
    return HeadTensors({}, str(files.root), why_not=problem or _why_no_heads(family, files))


def without_trunk_copies(
    head: Mapping[str, TensorInfo], trunk: Mapping[str, TensorInfo], repeats: Mapping[str, str]
) -> dict[str, TensorInfo]:
    """Drop tensors of MTP heads that equal tensors of the main model, to save memory.

    repeats: tensor name in the head -> name in the main model. GLM-4.5 stores embedding and output
    head twice, a gigabyte each. Equality is judged by samples; a missed difference lowers
    acceptance, but changes no text.
    """
    kept = dict(head)
    for name, other in repeats.items():
        parts = [part for part in ("weight", "scales", "biases") if f"{name}.{part}" in head]
        if all(
            samples_equal(head[f"{name}.{part}"], trunk.get(f"{other}.{part}")) for part in parts
        ):
            for part in parts:
                del kept[f"{name}.{part}"]
    return kept


def _unsupported_heads(
    files: ModelFiles, own_heads: Mapping[str, TensorInfo], chosen_path: Path | None
) -> HeadTensors:
    """Tell why there are no MTP heads in a family without support. Raises UnsupportedModel."""
    if chosen_path is not None:
        raise UnsupportedModel(
            "{given}: drafting heads for a model of this family cannot be run yet. Open the model "
            "without them.",
            given=chosen_path,
        )
    if not own_heads:
        return HeadTensors({}, str(files.root), why_not=_why_heads_unread(files) or NO_HEADS)
    words = Words("The files hold drafting heads, but heads of this family cannot be run yet.")
    return HeadTensors({}, str(files.root), True, Reason("heads-not-run", words))


def _why_heads_unread(files: ModelFiles) -> Reason | None:
    """Return why MTP heads that an index or a file name promises cannot be read; None otherwise."""
    listed = (file for tensor, file in files.absent.items() if has_head_tensors([tensor]))
    if (name := next(listed, None)) is not None:
        words = Words(
            "The drafting heads are in {name}, which is missing: download it too.", name=name
        )
        return Reason("heads-missing", words)
    try:
        for path in files.heads:
            _read_tensor_headers((path,))
    except EngineError as error:
        return _unreadable_reason(str(error))
    return None


def _unreadable_reason(damage_text: str) -> Reason:
    words = Words(
        "The drafting heads beside the model cannot be read: {damage}", damage=damage_text
    )
    return Reason("heads-unreadable", words)


def _chosen_heads(place: Path, family: Family) -> HeadTensors:
    candidate = _read_heads_file(place, _head_files_at(place), family)
    if not any(part in name for name in candidate.tensors for part in ONLY_HEADS_HAVE):
        raise BadModelFile(
            "{place}: no drafting heads in there. Give the file or folder of the heads.",
            place=place,
        )
    tensors, origin = candidate.tensors, candidate.origin
    misfit = _misshapen_tensor(tensors, origin, family, family.head_shapes(tensors))
    if misfit is not None:
        raise BadModelFile("{misfit} Give the heads made for this model.", misfit=misfit)
    return _check_usable(candidate, family)


def _head_candidates(
    files: ModelFiles, own_heads: Mapping[str, TensorInfo], family: Family
) -> Iterator[HeadTensors]:
    """Yield tensor headers of files that may hold MTP heads, in the order of preference.

    The model's weight files, others beside them, folders of the model's name and "-MTP", then other
    copies of the model: a GGUF in the folder, or a sibling folder of a matching name.
    """
    if own_heads:
        yield HeadTensors(own_heads, str(files.root), inside=True)
    together: dict[Path, list[Path]] = {}
    for path in files.heads:
        shard = parse_shard_name(path.name)
        together.setdefault(path if shard is None else path.with_name(shard.stem), []).append(path)
    other_copies = []
    for paths in together.values():
        candidate = _read_or_note_damage(paths[0], tuple(paths), family)
        if is_gguf_model(paths[0].name):
            if files.kind == "folder" or is_same_model(paths[0].name, files.root.name):
                other_copies.append(candidate)
        else:
            yield candidate
    root = files.root.absolute()
    for sibling in sorted(root.parent.glob(f"{escape(root.name)}-[Mm][Tt][Pp]*")):
        if sibling.is_dir():
            yield _read_or_note_damage(sibling, safetensors_in(sibling), family)
    originals = (
        _read_or_note_damage(path, safetensors_in(path), family)
        for path in _folders_of_same_model(root)
    )
    for candidate in (*other_copies, *originals):  # whole models, perhaps without heads
        if _check_usable(candidate, family).why_not is None:
            yield candidate


def _folders_of_same_model(root: Path) -> Iterator[Path]:
    """Yield folders beside `root` with the same model: "Qwen3.6-27B" for "Qwen3.6-27B-4bit"."""
    kept_by_hub = root.parent.name == "snapshots" and root.parents[1].name.startswith(_REPOSITORY)
    home = root.parents[1] if kept_by_hub else root
    for folder in sorted(home.parent.glob(f"{_REPOSITORY}*" if kept_by_hub else "*")):
        names = [
            path.name.rpartition("--")[2] if kept_by_hub else path.name for path in (folder, home)
        ]
        if is_same_model(*names) and folder != home and folder.is_dir():
            found = hub_snapshot(folder) if kept_by_hub else folder
            yield from () if found is None else (found,)


def _read_heads_file(origin: Path, paths: tuple[Path, ...], family: Family) -> HeadTensors:
    tensors = pair_scales(_read_tensor_headers(paths), family.config, family.origin)
    parts = family.split_heads_file(tensors, str(origin))
    return HeadTensors(assemble_tensors(parts.head, parts.head_recipes), str(origin))


def _read_tensor_headers(paths: tuple[Path, ...]) -> Mapping[str, TensorInfo]:
    if paths and paths[0].suffix.lower() == ".gguf":  # reads its other parts, too
        return read_gguf_model(paths[0]).tensors
    return merge_headers(paths)


def _read_or_note_damage(origin: Path, paths: tuple[Path, ...], family: Family) -> HeadTensors:
    """Read headers of files that may hold MTP heads; an error becomes their `why_not`."""
    try:
        return _read_heads_file(origin, paths, family)
    except EngineError as error:
        return HeadTensors({}, str(origin), why_not=_unreadable_reason(str(error)))


def _head_files_at(place: Path) -> tuple[Path, ...]:
    if place.is_dir():
        inner = place / "mtp"
        return safetensors_in(place) or (safetensors_in(inner) if inner.is_dir() else ())
    if not place.is_file():
        raise ModelNotFound(
            "{place}: no such file or folder to take drafting heads from.", place=place
        )
    if place.suffix.lower() in UNSAFE:
        raise unsafe_file_error(place)
    if place.suffix.lower() not in (".safetensors", ".gguf"):
        raise UnsupportedModel(
            "{place}: heads are read from .safetensors or .gguf, or a folder.", place=place
        )
    return (place,)


def _check_usable(candidate: HeadTensors, family: Family) -> HeadTensors:
    """Return MTP heads with remarks, or without tensors and with the reason why they are not used.

    Output matrices with fewer rows than the vocabulary has tokens are left out.
    """
    rows, origin = family.compute_sizes().vocabulary, candidate.origin
    trimmed = {
        name.removesuffix(".weight")
        for name, tensor in candidate.tensors.items()
        if name.endswith(".output.weight") and tensor.shape[:1] < (rows,)
    }
    kept = {n: t for n, t in candidate.tensors.items() if n.rpartition(".")[0] not in trimmed}
    problem = candidate.why_not or _why_heads_unusable(kept, origin, family)
    if problem is not None:
        return replace(candidate, tensors={}, why_not=problem)
    remarks = []
    if trimmed:
        words = Words(
            "The drafting heads in {origin} have an output matrix for fewer tokens, which is not "
            "used: drafts use the model's own.",
            origin=origin,
        )
        remarks.append(Reason("trimmed-output-unused", words))
    promised, used = family.compute_sizes().promised_heads, head_count(kept)
    if promised > used:
        words = Words(
            "This model was made with {promised} drafting heads; this copy of it has {used}.",
            promised=promised,
            used=used,
        )
        remarks.append(Reason("fewer-heads", words))
    return replace(candidate, tensors=kept, remarks=tuple(remarks))


def _why_heads_unusable(
    tensors: Mapping[str, TensorInfo], origin: str, family: Family
) -> Reason | None:
    """Why MTP heads cannot be used: incomplete or of another model; None if they can."""
    wanted = family.head_shapes(tensors)
    if (missing := _missing_tensor(tensors, wanted)) is not None:
        words = Words(
            "The drafting heads in {origin} lack the tensor {name}, so they cannot be used.",
            origin=origin,
            name=family.published_name(missing),
        )
        return Reason("heads-incomplete", words)
    misfit = _misshapen_tensor(tensors, origin, family, wanted)
    matrices = {name.rpartition(".")[0] for name in wanted if name.endswith(".weight")}
    for name in sorted(set(tensors) - set(wanted)):
        matrix, _, part = name.rpartition(".")
        if misfit is None and (matrix not in matrices or part not in ("scales", "biases")):
            misfit = Words(
                "The drafting heads in {origin} have the tensor {tensor}, which this version has "
                "no place for.",
                origin=origin,
                tensor=family.published_name(name),
            )
    return None if misfit is None else Reason("heads-do-not-fit", misfit)


def head_count(tensors: Iterable[str]) -> int:
    """Count the MTP heads among tensor names; each head has one layer."""
    return len({name.split(".")[1] for name in tensors if name.startswith("layers.")})


def _missing_tensor(tensors: Mapping[str, TensorInfo], wanted: Mapping[str, Shape]) -> str | None:
    """Name the first missing tensor of MTP heads, packed weights' scales and biases included."""
    for name in wanted:
        if name not in tensors:
            return name
        matrix = name.removesuffix(".weight")
        scales = tensors.get(f"{matrix}.scales")
        if tensors[name].dtype == "U32" and scales is None:
            return f"{matrix}.scales"
        if scales is not None and scales.dtype != "U8" and f"{matrix}.biases" not in tensors:
            return f"{matrix}.biases"
    return None


def _misshapen_tensor(
    tensors: Mapping[str, TensorInfo], origin: str, family: Family, wanted: Mapping[str, Shape]
) -> str | None:
    """Describe the first misshapen MTP head tensor; of packed weights only rows are compared."""
    for name, tensor in tensors.items():
        if name not in wanted:
            continue
        stored, needed = tensor.shape, wanted[name]
        if isinstance(tensor, GgufPart):
            stored = tensor.unpacked_shape
        elif tensor.dtype == "U32":
            stored, needed = stored[:-1], needed[:-1]
        if stored != needed:
            return Words(
                "The drafting heads in {origin} belong to another model: {tensor} is {shape} "
                "where this one needs {needed}.",
                origin=origin,
                tensor=family.published_name(name),
                shape=list(tensor.shape),
                needed=list(wanted[name]),
            )
    return None


def _why_no_heads(family: Family, files: ModelFiles) -> Reason:
    promised = family.compute_sizes().promised_heads
    if files.absent and (reason := _why_heads_unread(files)) is not None:
        return reason
    if not promised:
        return NO_HEADS
    heads = Words("{n} drafting heads", "1 drafting head", promised)
    words = Words(
        "This model was made with {heads}, but this copy of it has none ({sign}). Get a copy with "
        "heads, or give the heads of the original.",
        heads=heads,
        sign=family.missing_heads_hint(),
    )
    if files.kind == "gguf":
        words = Words(
            "This model was made with {heads} (nextn_predict_layers in {name}), but this copy of "
            "it has none (no nextn.* tensor). Get a copy with heads, or give a file that has them.",
            name=files.root.name,
            heads=heads,
        )
    return Reason("heads-dropped", words)
