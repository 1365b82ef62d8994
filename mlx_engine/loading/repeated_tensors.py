"""Head tensors that repeat the trunk's, told by samples of their bytes, so that one is kept.

GLM-4.5's files hold embedding and output head twice, a gigabyte each. A sample that misses a
difference costs acceptance, never words: the trunk is left as it is.
"""

import json
from collections.abc import Iterator, Mapping

from mlx_engine.loading.safetensors_header import TensorInfo

_SAMPLES = 256
_SAMPLE_BYTES = 4096
_PARTS = ("weight", "scales", "biases")


def without_repeats(
    head: Mapping[str, TensorInfo],
    trunk: Mapping[str, TensorInfo],
    repeats: Mapping[str, str],
) -> dict[str, TensorInfo]:
    """The head without matrices that the trunk has too; repeats: head's name -> trunk's name."""
    kept = dict(head)
    for name, other in repeats.items():
        stored = [f"{name}.{part}" for part in _PARTS if f"{name}.{part}" in head]
        twins = [trunk.get(one.replace(name, other, 1)) for one in stored]
        if all(_are_alike(head[one], twin) for one, twin in zip(stored, twins, strict=True)):
            for one in stored:
                del kept[one]
    return kept


def _are_alike(one: TensorInfo, other: TensorInfo | None) -> bool:
    """Tensors of safetensors files only: others are made while they are read."""
    if type(one) is not TensorInfo or type(other) is not TensorInfo:
        return False
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    try:
        return all(a == b for a, b in zip(_samples(one), _samples(other), strict=True))
    except OSError:
        return False


def _samples(info: TensorInfo) -> Iterator[bytes]:
    """Runs of bytes at even distances, all of them where they are few."""
    with info.file.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        begin = 8 + length + json.loads(file.read(length))[info.name]["data_offsets"][0]
        step = max(_SAMPLE_BYTES, info.nbytes // _SAMPLES)
        for start in range(0, info.nbytes, step):
            file.seek(begin + start)
            yield file.read(min(_SAMPLE_BYTES, info.nbytes - start))
