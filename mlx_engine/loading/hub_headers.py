"""Download the config and the weight files' headers of a model on the hub.

Weight files are sparse and have their full length, so that header readers work as usual.
"""

from collections.abc import Callable
from os import truncate
from pathlib import Path

from mlx_engine.hub.client import Hub, content, in_words, listing, piece, too_large
from mlx_engine.hub.plan import plan_from
from mlx_engine.hub.repository import HubModel
from mlx_engine.hub.weight_files import GGUF, INDEX, SAFETENSORS
from mlx_engine.loading.gguf.header import read_gguf_header
from mlx_engine.loading.gguf.metadata import LONGROPE_FACTORS, ROPE_FACTORS
from mlx_engine.values.errors import BadModelFile

_CONFIGS = ("config.json", "generation_config.json")
_LOOK, _MOST = 2**21, 2**26
"""Bytes downloaded of a GGUF at first and at most; its header's length is unknown, 12 MB for a
vocabulary of 250,000 tokens.
"""
_IN_ALL, _FACTORS_MOST = 2**28, 2**20
"""Most bytes of all headers of a model (30 MB for 200 shards), and of a tensor of RoPE factors."""

FetchRange = Callable[[int, int], bytes]
"""Function that downloads the bytes [start, end) of a file."""


def fetch_headers(hub: Hub, model: HubModel, folder: Path) -> Path:
    """Download a hub model's config and weight headers into `folder`; return the model's path.

    Raises DownloadFailed.
    """
    with in_words(model.hub_id):
        plan = plan_from(hub, model, listing(hub, model))
        asked = 0
        place = folder / f"models--{model.hub_id.replace('/', '--')}" / "snapshots" / plan.commit
        for file in plan.files:
            here = place / file.name
            here.parent.mkdir(parents=True, exist_ok=True)
            if file.name.lower().endswith((GGUF, SAFETENSORS)):

                def fetch_range(start: int, end: int, name: str = file.name) -> bytes:
                    nonlocal asked
                    asked += end - start
                    if asked > _IN_ALL:
                        raise too_large(model.hub_id, name, _IN_ALL)
                    return piece(hub, model.hub_id, name, plan.commit, start, end)

                _write_header(here, file.nbytes, fetch_range)
            elif here.name in _CONFIGS or here.name.endswith(INDEX):
                here.write_bytes(content(hub, model.hub_id, file.name, plan.commit))
    first = place / plan.files[0].name
    return first if first.suffix.lower() == GGUF else place


def _write_header(file: Path, nbytes: int, fetch_range: FetchRange) -> None:
    """Download a weight file's header; of a GGUF, ever more bytes until it can be parsed."""
    file.touch()
    truncate(file, nbytes)
    have, is_gguf = 0, file.suffix.lower() == GGUF
    end = _LOOK if is_gguf else 8 + min(int.from_bytes(fetch_range(0, 8), "little"), _MOST)
    while have < min(end, nbytes):
        _write_at(file, have, fetch_range(have, end))
        have = end
        if is_gguf and end < _MOST and not _is_readable(file):
            end *= 2
    for tensor in read_gguf_header(file).tensors.values() if is_gguf else ():
        if (
            tensor.name in (ROPE_FACTORS, *LONGROPE_FACTORS) and tensor.nbytes <= _FACTORS_MOST
        ):  # RoPE factors are tensors
            _write_at(
                file, tensor.offset, fetch_range(tensor.offset, tensor.offset + tensor.nbytes)
            )


def _write_at(file: Path, start: int, data: bytes) -> None:
    with file.open("r+b") as target:
        target.seek(start)
        target.write(data)


def _is_readable(file: Path) -> bool:
    try:
        return bool(read_gguf_header(file).tensors)
    except BadModelFile:
        return False
