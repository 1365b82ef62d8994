"""Whether files hold MTP heads, told from the names of tensors in their first bytes."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal

import mlx_engine
from mlx_engine.hub.weight_files import (
    INDEX,
    has_head_tensors,
    indexed,
    is_gguf_head,
    is_heads_name,
    may_be_heads,
    tensor_names,
)
from mlx_engine.values.errors import EngineError, HeadsOnly
from mlx_engine.values.untrusted import open_regular

LOOK, LOOKS = 2**20, 64
"""Bytes of a file that are read at once, and how often: what comes before the data of a GGUF's
tensors is a fifth of that.
"""
FIRST_LAYER = b"blk.0."
"""Prefix of a model's first tensors, which no file of heads has."""
IN_GGUF = b".nextn.eh_proj."
"""Part of the names of MTP tensors in GGUF files."""
LARGEST_INDEX = 64 * 2**20
"""Bytes of an index of shards."""
OVERLAP = 16
"""Bytes of the previous piece, in which a name may begin."""

Kind = Literal["model", "model with heads", "heads", "unknown"]


def gguf_of_heads(file: Path) -> bool:
    """Whether a GGUF file holds MTP heads and no model, by name or tensors. Never raises."""
    return is_gguf_head(file.name) or _kind_of(file) == "heads"


def _kind_of(file: Path) -> Kind:
    try:
        facts = file.stat()
        return _look_into(file, facts.st_size, facts.st_mtime_ns)
    except OSError:
        return "unknown"


@lru_cache(maxsize=4096)
def _look_into(file: Path, size: int, changed_ns: int) -> Kind:
    """Tell what a GGUF file holds; cached until the file changes. Files that are no models are
    inspected whole. Raises OSError.
    """
    del size, changed_ns
    is_model = has_heads = False
    with open_regular(file) as opened:
        if opened.read(4) != b"GGUF":
            return "unknown"
        for piece in _pieces(opened, LOOKS * LOOK):
            has_heads = has_heads or IN_GGUF in piece
            if is_model:
                break  # the names of tensors lie together: a look behind the first is enough
            is_model = FIRST_LAYER in piece
    if is_model:
        return "model with heads" if has_heads else "model"
    try:
        mlx_engine.inspect(file)
    except EngineError as error:
        return "heads" if isinstance(error, HeadsOnly) else "unknown"
    return "unknown"


def _pieces(opened: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the next bytes of a file in pieces, each with the end of the previous one."""
    end = b""
    while most > 0 and (new := opened.read(min(LOOK, most))):
        most -= len(new)
        yield end + new
        end = new[-OVERLAP:]


def gguf_has_heads(files: list[Path]) -> bool | None:
    """Whether the shards of a GGUF model hold MTP heads, None if unknown. Tensor names stand at the
    beginning of each later shard.
    """
    first, *others = files
    kind = _kind_of(first)
    if kind == "unknown":
        return None
    return kind == "model with heads" or any(IN_GGUF in _beginning(file, LOOK) for file in others)


def _beginning(file: Path, most: int) -> bytes:
    with open_regular(file) as opened:
        return opened.read(most)


def folder_has_heads(folder: Path, known: set[str], weights: list[Path]) -> bool | None:
    """Whether MTP heads are in or beside the weights of a folder, None if unknown."""
    if any(is_heads_name(name) for name in known):
        return True
    indexes = [folder / name for name in known if name.endswith(INDEX)]
    try:
        return any(
            has_head_tensors(indexed(_beginning(index, LARGEST_INDEX))) for index in indexes
        ) or any(
            has_head_tensors(tensor_names(file))
            for file in weights
            if not indexes or may_be_heads(file.name)
        )
    except OSError:
        return None
