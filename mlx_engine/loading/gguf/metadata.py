"""Typed lookups in GGUF metadata, and config fields for RoPE and layer types made from them."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.header import map_file
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.words import Words

_MOST = 2**31 - 1
_LONGEST_NAME = 60
ROPE_FACTORS = "rope_freqs.weight"
_YARN_ATTENTION_FACTOR = "rope.scaling.yarn_attn_factor"
_LONGROPE_ATTENTION_FACTOR = "rope.scaling.attn_factor"
LONGROPE_FACTORS = ("rope_factors_long.weight", "rope_factors_short.weight")
Kind = Literal["linear", "yarn", "yarn with attention factor", "listed", "longrope"]
KINDS: tuple[Kind, ...] = ("linear", "yarn", "yarn with attention factor", "listed")


class GgufMetadata:
    """Looks up `<architecture>.<key>` in GGUF metadata; BadModelFile for values of a wrong type."""

    def __init__(self, path: Path, table: Mapping[str, object]) -> None:
        self.path = path
        self._table = table
        self.architecture = self.text("general.architecture") or ""
        if not 0 < len(self.architecture) <= _LONGEST_NAME:
            raise BadModelFile(
                "{path}: has no general.architecture, so there is no telling how to run it.",
                path=path,
            )

    def text(self, key: str) -> str | None:
        """Look up a string in GGUF metadata by its full key, None when absent."""
        value = self._table.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong_value_error(key, value, Words("a text"))
        return value

    def architecture_text(self, key: str) -> str | None:
        """Look up a string at `<architecture>.<key>` in GGUF metadata, None when absent."""
        return self.text(f"{self.architecture}.{key}")

    def has_key(self, key: str) -> bool:
        """Whether GGUF metadata has the key `<architecture>.<key>`."""
        return f"{self.architecture}.{key}" in self._table

    def flag(self, key: str) -> bool:
        """Look up a boolean at `<architecture>.<key>` in GGUF metadata, False when absent."""
        value = self._read_value(key, False)
        if not isinstance(value, bool):
            raise self.wrong_value_error(key, value, Words("yes or no"))
        return value

    def number(self, key: str, default: float) -> float:
        """Look up a number at `<architecture>.<key>` in GGUF metadata, as a float."""
        value = self._read_value(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong_value_error(key, value, Words("a number"))
        return float(value)

    def numbers(self, key: str, length: int, default: float) -> tuple[float, ...]:
        """Look up a float for each of `length` layers in GGUF metadata; a scalar counts for all."""
        value = self._read_value(key, default)
        if not isinstance(value, np.ndarray):
            return (self.number(key, default),) * length
        if value.dtype.kind not in "iuf" or value.size < length or not np.isfinite(value).all():
            raise self.wrong_value_error(key, value, f"a list of {length} numbers")
        return tuple(map(float, value[:length]))

    def count(self, key: str, default: int | None = None) -> int:
        """Look up an int of at least 0 in GGUF metadata; of a list, one per layer, the largest."""
        value = self._read_value(key, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size:
            value = int(value.max())
        if type(value) is not int or not 0 <= value <= _MOST:
            raise self.wrong_value_error(key, value, Words("a whole number"))
        return value

    def counts(self, key: str, length: int, default: int | None = None) -> tuple[int, ...]:
        """Look up an int for each of `length` layers in GGUF metadata; a scalar counts for all."""
        value = self._read_value(key, default)
        if not isinstance(value, np.ndarray):
            return (self.count(key, default),) * length
        listed = value[:length].tolist() if value.dtype.kind in "iub" else []
        if len(listed) < max(1, length) or not all(0 <= count <= _MOST for count in listed):
            raise self.wrong_value_error(key, value, f"a list of {length} whole numbers")
        return tuple(listed)

    def per_layer_count(self, key: str, layer: int, default: int | None = None) -> int:
        """Look up a layer's int in a list of GGUF metadata; beyond the list's end, its last one."""
        last = (self.list_length(key) or layer + 1) - 1
        return self.counts(key, max(0, min(layer, last)) + 1, default)[-1]

    def list_length(self, key: str) -> int:
        """Length of the list at a GGUF metadata key, 0 for scalars and missing keys."""
        value = self._read_value(key, None)
        return value.size if isinstance(value, np.ndarray) else 0

    def _read_value(self, key: str, default: object) -> object:
        return self._table.get(f"{self.architecture}.{key}", default)

    def wrong_value_error(self, key: str, value: object, expected: str) -> BadModelFile:
        """Make the error for a value in GGUF metadata; expected: what it should be."""
        return BadModelFile(
            "{path}: {key} is {value}, where {wanted} is needed. Get the file again.",
            path=self.path,
            key=key if key in self._table else f"{self.architecture}.{key}",
            value=ascii(value)[:80],
            wanted=expected,
        )


def layer_types(metadata: GgufMetadata, blocks: int, default_interval: int) -> list[str]:
    """Make config.json's `layer_types` from a GGUF file's sliding window interval or list.

    default_interval: default interval of full-attention layers; 0: no layer has a sliding window.
    """
    if not default_interval:
        return ["full_attention"] * blocks
    key = "attention.sliding_window_pattern"
    pattern = metadata.counts(key, blocks, default_interval)
    if len(set(pattern)) == 1 and pattern[0] > 1:
        pattern = tuple(int((n + 1) % pattern[0] != 0) for n in range(blocks))
    if any(flag > 1 for flag in pattern):
        wanted = Words("an interval or a list of yes and no")
        raise metadata.wrong_value_error(key, list(pattern)[:9], wanted)
    return ["sliding_attention" if flag else "full_attention" for flag in pattern]


def rope_base(
    metadata: GgufMetadata, key: str = "rope.freq_base", default: float = 10000.0
) -> float:
    """Read RoPE's base (theta) from a GGUF file's metadata."""
    return _positive_number(metadata, key, default)


def rope_scaling(
    file: GgufFile, metadata: GgufMetadata, rotary_dim: int, supported_kinds: tuple[Kind, ...]
) -> dict[str, object] | None:
    """Make config.json's `rope_scaling` from GGUF metadata; None where RoPE is not scaled.

    linear, yarn and longrope have transformers' keys; "listed" has `factors`, one for each pair of
    rotated elements, as files of Llama 3. rotary_dim: rotated elements of a head. supported_kinds:
    of scaling. Raises UnsupportedModel for other kinds, BadModelFile for impossible values.
    """
    kind = _scaling_kind(file, metadata)
    if kind == "none":
        return None
    if kind not in supported_kinds:
        raise UnsupportedModel(
            "{path}: extends its context by rope scaling {kind}, which this version does not "
            "support for this architecture. Use the model without it.",
            path=metadata.path,
            kind=ascii(kind)[:60],
        )
    if kind == "linear":
        return {"rope_type": kind, "factor": _linear_factor(metadata)}
    if kind == "listed":
        return {"rope_type": kind, "factors": rope_factors(file, ROPE_FACTORS, rotary_dim // 2)}
    if kind == "longrope":
        late, early = (rope_factors(file, name, rotary_dim // 2) for name in LONGROPE_FACTORS)
        listed: dict[str, object] = {"rope_type": kind, "short_factor": early, "long_factor": late}
        if metadata.has_key(_LONGROPE_ATTENTION_FACTOR):
            listed["attention_factor"] = _positive_number(metadata, _LONGROPE_ATTENTION_FACTOR, 1.0)
        return listed
    trained = "rope.scaling.original_context_length"
    found: dict[str, object] = {
        "rope_type": "yarn",
        "factor": _positive_number(metadata, "rope.scaling.factor", 1.0),
        "original_max_position_embeddings": round(
            _positive_number(metadata, trained, float(metadata.count("context_length")))
        ),
        "beta_fast": _positive_number(metadata, "rope.scaling.yarn_beta_fast", 32.0),
        "beta_slow": _positive_number(metadata, "rope.scaling.yarn_beta_slow", 1.0),
    }
    if metadata.has_key(_YARN_ATTENTION_FACTOR):
        found["attention_factor"] = _positive_number(metadata, _YARN_ATTENTION_FACTOR, 1.0)
    return found


def _scaling_kind(file: GgufFile, metadata: GgufMetadata) -> str:
    """Kind of a GGUF file's RoPE scaling: the file's name for it, "none", or a description."""
    kind = metadata.architecture_text("rope.scaling.type") or ""
    if any(name in file.tensors for name in LONGROPE_FACTORS):
        return "longrope"
    if kind in ("", "linear"):
        kind = "none" if _linear_factor(metadata) == 1 else "linear"
    if kind == "yarn" and metadata.number("rope.scaling.yarn_ext_factor", 1.0) != 1.0:
        return "yarn with ext_factor"
    if kind == "yarn" and metadata.has_key(_YARN_ATTENTION_FACTOR):
        kind = "yarn with attention factor"
    if ROPE_FACTORS not in file.tensors or kind not in ("none", *KINDS):
        return kind
    return "listed" if kind == "none" else f"{kind} with a list of factors"


def _linear_factor(metadata: GgufMetadata) -> float:
    """Factor of linear RoPE scaling in GGUF metadata, 1 for none; in 2023 its key differed."""
    is_linear = metadata.architecture_text("rope.scaling.type") == "linear"
    return _positive_number(
        metadata, "rope.scaling.factor" if is_linear else "rope.scale_linear", 1.0
    )


def rope_factors(file: GgufFile, factors: str, pairs: int) -> list[float]:
    """Read the RoPE factors of `pairs` rotated pairs from the GGUF tensor named `factors`."""
    tensor = file.tensor(factors)
    if tensor.type.name != "F32" or len(tensor.shape) != 1:
        raise UnsupportedModel(
            "{path}: {factors} is stored as {name} {shape}, where "
            "a list of F32 is needed. Get the file again.",
            path=file.path,
            factors=factors,
            name=tensor.type.name,
            shape=list(tensor.shape),
        )
    values = tensor.rows_as_bytes(map_file(tensor.file)).reshape(-1).view("<f4")
    if len(values) < pairs or not ((values > 0) & (values < math.inf)).all():
        raise BadModelFile(
            "{path}: {factors} does not hold {pairs} positive numbers. Get the file again.",
            path=file.path,
            factors=factors,
            pairs=pairs,
        )
    return [float(value) for value in values[:pairs]]


def _positive_number(metadata: GgufMetadata, key: str, default: float) -> float:
    value = metadata.number(key, default)
    if not 0 < value < 1e12 or (key.startswith("rope.freq_base") and value <= 1):
        raise metadata.wrong_value_error(key, value, Words("a positive number"))
    return value
