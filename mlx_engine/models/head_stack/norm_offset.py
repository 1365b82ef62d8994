"""Norms of heads published as w and used as 1 + w, told from those stored as used."""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.models.family import CanonicalPart
from mlx_engine.values.errors import BadModelFile

_PART, _HARDLY_ANY = 0.05, 0.005
"""Shares of values at or below 0: of w many are, of 1 + w hardly any (qwen3_5_weights.py)."""


def as_used(raw: Mapping[str, mx.array], shift: int | None, origin: str) -> CanonicalPart:
    """Norms as the model uses them; shift: 0 for stored as w, 1 as used, None to tell by values."""
    found = _by_values(raw, origin) if shift is None else shift
    arrays = {
        name: array.astype(mx.float32) + (1 - found) if is_norm(name) else array
        for name, array in raw.items()
    }
    return CanonicalPart(arrays, found, ())


def is_norm(name: str) -> bool:
    """Every norm of these heads is of this kind."""
    return name.endswith("norm.weight")


def _by_values(raw: Mapping[str, mx.array], origin: str) -> int:
    norms = [array.astype(mx.float32).reshape(-1) for name, array in raw.items() if is_norm(name)]
    values = mx.concatenate(norms)
    share = float((values <= 0).mean())
    if not mx.isfinite(values).all().item():
        raise BadModelFile(
            f"{origin}: norm weights hold values that are not numbers. The file is damaged: get it "
            "again."
        )
    if _HARDLY_ANY < share < _PART:
        raise BadModelFile(
            f"{origin}: the norm weights of the heads leave open whether they are stored as w or "
            "as 1 + w. Take the heads from the original Hugging Face files, or convert model and "
            "heads together."
        )
    return 0 if share >= _PART else 1
