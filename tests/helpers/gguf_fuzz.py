"""A small GGUF with everything in it, and what has to hold of any mutation of it."""

from mmap import mmap
from pathlib import Path

import numpy as np
from gguf_files import RawTensor, gguf_bytes

from mlx_engine.loading.gguf.header import parse_gguf_header
from mlx_engine.values.errors import EngineError

SAMPLE = gguf_bytes(
    {
        "general.architecture": "qwen35",
        "general.alignment": 32,
        "a": np.uint64(2**40),
        "b": np.float32(0.5),
        "c": True,
        "words": ["one", "", "\u0120two"],
        "numbers": np.arange(6, dtype=np.int32),
        "flags": np.array([True, False]),
        "nested": [["x"], ["y"]],
    },
    [
        RawTensor("w.weight", 0, (2, 8), bytes(64)),
        RawTensor("q.weight", 8, (2, 64), bytes(136)),
        RawTensor("k.weight", 13, (256,), bytes(64) + bytes(112)),
    ],
)


def survives(content: bytes) -> bool:
    """Reads or refuses; True when it was read. All that is read lies inside the file."""
    path = Path("mutated.gguf")
    with mmap(-1, len(content)) as data:
        data[:] = content
        try:
            header = parse_gguf_header(path, data)
        except EngineError as error:
            assert path.name in str(error)
            return False
        ends = [tensor.offset + tensor.nbytes for tensor in header.tensors.values()]
        assert max(ends, default=0) <= len(content)
        assert sum(tensor.blocks(data).nbytes for tensor in header.tensors.values()) <= len(content)
        del header
    return True
