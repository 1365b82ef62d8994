"""How a GGUF's model rotates keys by position: base, and how its frequencies are stretched."""

import math
from typing import NamedTuple

from mlx_engine.loading.gguf.header import map_file
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.split_file import GgufFile
from mlx_engine.models.mlx_lm_trunk.stretched_periods import Yarn, listed
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_LISTED = "rope_freqs.weight"
_TWO_LISTS = ("rope_factors_long.weight", "rope_factors_short.weight")


class Stretch(NamedTuple):
    """kind linear or yarn; the rest of yarn's as in its paper (arXiv 2309.00071).

    trained: tokens it was trained on. magnitude: what rotated elements are multiplied by, None for
    what the paper says.
    """

    kind: str
    factor: float
    trained: float
    fast: float
    slow: float
    magnitude: float | None


def base_of(metadata: GgufMetadata, key: str = "rope.freq_base", default: float = 10000.0) -> float:
    """The base of the periods."""
    return _positive(metadata, key, default)


def stretch_of(file: GgufFile, metadata: GgufMetadata) -> Stretch | None:
    """None where nothing is stretched; UnsupportedModel names a kind that is not run."""
    kind = metadata.option("rope.scaling.type")
    for name in _TWO_LISTS:
        if name in file.tensors:
            raise _unknown(metadata, "longrope")
    if kind in (None, "") and metadata.has("rope.scale_linear"):  # as files of 2023 have it
        return _linear(metadata, "rope.scale_linear")
    if kind in (None, "", "none"):
        return None
    if kind == "linear":
        return _linear(metadata, "rope.scaling.factor")
    if kind != "yarn" or metadata.number("rope.scaling.yarn_ext_factor", 1.0) != 1.0:
        raise _unknown(metadata, kind)
    given = "rope.scaling.yarn_attn_factor"
    return Stretch(
        "yarn",
        _positive(metadata, "rope.scaling.factor", 1.0),
        _positive(
            metadata,
            "rope.scaling.original_context_length",
            float(metadata.count("context_length")),
        ),
        _positive(metadata, "rope.scaling.yarn_beta_fast", 32.0),
        _positive(metadata, "rope.scaling.yarn_beta_slow", 1.0),
        _positive(metadata, given, 1.0) if metadata.has(given) else None,
    )


def listed_rotation(file: GgufFile, metadata: GgufMetadata, rotated: int) -> dict[str, object]:
    """Base and factors of all periods as a config has them for us (models, listed_rotation.py).

    rotated: elements of a head that are rotated. A list in the file (Llama 3's) is taken as it is.
    """
    stretch, base = stretch_of(file, metadata), base_of(metadata)
    given = listed_factors(file)
    if stretch is not None and given is not None:
        raise _unknown(metadata, f"{stretch.kind} with a list of factors")
    found: dict[str, object] = {"rope_theta": base, "rope_scaling": None}
    if given is not None:
        if len(given) < rotated // 2:
            raise BadModelFile(
                f"{file.path}: {_LISTED} has {len(given)} factors where {rotated // 2} are "
                "needed. Get the file again."
            )
        return found | {"rope_scaling": listed(base, given[: rotated // 2])}
    if stretch is None:
        return found
    if stretch.kind == "linear":
        return found | {"rope_scaling": listed(base, [stretch.factor] * (rotated // 2))}
    yarn = Yarn(base, rotated, stretch.factor, stretch.trained, stretch.fast, stretch.slow)
    magnitude = yarn.magnitude if stretch.magnitude is None else stretch.magnitude
    return found | {"rope_scaling": listed(base, yarn.factors, magnitude)}


def listed_factors(file: GgufFile) -> list[float] | None:
    """Llama 3's factors of the periods, one for each pair of elements; BadModelFile."""
    tensor = file.tensors.get(_LISTED)
    if tensor is None:
        return None
    if tensor.type.name != "F32" or len(tensor.shape) != 1:
        raise UnsupportedModel(
            f"{file.path}: {_LISTED} is stored as {tensor.type.name} {list(tensor.shape)}, where a "
            "list of F32 is needed. Get the file again."
        )
    values = tensor.blocks(map_file(tensor.file)).reshape(-1).view("<f4")
    if not ((values > 0) & (values < math.inf)).all():
        raise BadModelFile(
            f"{file.path}: {_LISTED} holds values that cannot be factors. Get the file again."
        )
    return [float(value) for value in values]


def _linear(metadata: GgufMetadata, key: str) -> Stretch | None:
    factor = _positive(metadata, key, 1.0)
    return None if factor == 1 else Stretch("linear", factor, 0.0, 0.0, 0.0, None)


def _positive(metadata: GgufMetadata, key: str, default: float) -> float:
    value = metadata.number(key, default)
    if not 0 < value < 1e12 or (key.startswith("rope.freq_base") and value <= 1):
        raise BadModelFile(
            f"{metadata.path}: {metadata.architecture}.{key} is {value}, which cannot be. Get the "
            "file again."
        )
    return value


def _unknown(metadata: GgufMetadata, kind: str | None) -> UnsupportedModel:
    return UnsupportedModel(
        f"{metadata.path}: stretches its context by rope scaling {ascii(kind)[:60]}, which this "
        "version does not. Take the model without it."
    )
