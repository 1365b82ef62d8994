"""Files that look like models by name, size and first bytes, for the library's tests."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path

COMMIT = "a" * 40


def safetensors(path: Path, names: Iterable[str] = ("model.norm.weight",)) -> Path:
    """A sound file of empty tensors."""
    header = {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names}
    data = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(data)) + data)
    return path


def gguf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + bytes(16))
    return path


def model_folder(folder: Path, shards: int = 1) -> Path:
    """A folder in MLX layout."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    if shards == 1:
        safetensors(folder / "model.safetensors")
    else:
        for number in range(1, shards + 1):
            safetensors(folder / f"model-{number:05}-of-{shards:05}.safetensors")
    return folder


def hub_model(cache: Path, hub_id: str, files: dict[str, bytes], commit: str = COMMIT) -> Path:
    """A repository in the hub's cache: blobs, and a snapshot of links to them; the snapshot."""
    repository = cache / f"models--{hub_id.replace('/', '--')}"
    snapshot = repository / "snapshots" / commit
    for folder in (repository / "blobs", repository / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    for name, data in files.items():
        blob = repository / "blobs" / f"{commit[:4]}{name}"
        blob.write_bytes(data)
        (snapshot / name).symlink_to(Path("..") / ".." / "blobs" / blob.name)
    return snapshot
