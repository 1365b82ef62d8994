"""Whether a file stores norm weights as w, used as 1 + w, or with the 1 added.

Hugging Face stores a zero-centred w for some families; MLX conversions of them store 1 + w. What a
file holds is decided once for the trunk and once for the heads. Two things bear witness:

- how the rest of the file is stored, where that tells who wrote it (a family's `expected_norm_shift`).
  Heads in the same files are presumed alike.
- the values: the gain a trained norm applies is positive, and part of the gains lie below one. So
  with s = 0 for w, 1 for 1 + w, 2 for a shift done twice, the stored values reach down to s, and
  hardly any lie below. Means say less: the gains before a head's join are near 0.3 in real heads,
  and their w all negative (omlx #3750, MTPLX #511).

Where both speak, how the file is stored wins, unless the values lie on both sides of an s of their
own: gains that all lie above one, or all below, look like those of another s. Then the values win,
with a Reason. Where neither speaks the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlx_engine.values.errors import BadModelFile, Reason

if TYPE_CHECKING:
    import mlx.core as mx

_STORED_AS = ("as w, to be used as 1 + w", "as used, 1 + w", "with 1 added twice, as 2 + w")

# Share of values at or below s: this many are "part of them", fewer than that "hardly any".
_PART, _HARDLY_ANY = 0.05, 0.005


def has_norm_shift(name: str) -> bool:
    """Norms of the 1 + w kind; the gated norm inside linear attention is an ordinary one."""
    return name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight")


def norm_shift(raw: Mapping[str, mx.array], expected: int | None, part: str, origin: str) -> int:
    """0 where 1 is still to be added, 1 where it was, 2 where it was twice.

    presumed: what the rest of the files suggests. BadModelFile where there is no telling.
    """
    shares = _shares_below(raw, origin)
    shift = _shift_by_values(shares)
    if expected is not None and (shift is None or shares[shift] > 1 - _PART):
        shift = expected
    if shift is None:
        raise BadModelFile(
            "{origin}: the norm weights of the {part} leave open whether they are stored as w or "
            "as 1 + w, and nothing else in the file tells. Take the heads from the original "
            "Hugging Face files, or convert model and heads together.",
            origin=origin,
            part=part,
        )
    return shift


def norm_shift_reasons(expected: int | None, shift: int, part: str) -> tuple[Reason, ...]:
    """Notices for values that were read differently than the files suggest; often empty."""
    if shift == expected or (expected is None and shift != 2):
        return ()
    words = f"The norm weights of the {part} are stored {_STORED_AS[shift]}"
    if expected is not None:
        words += f", although the rest of the files is stored {_STORED_AS[expected]}"
    return (Reason(f"{part}-norms-corrected", f"{words}: put right while loading."),)


def apply_norm_shift(raw: Mapping[str, mx.array], shift: int) -> dict[str, mx.array]:
    """Norms as used, added in float32: bfloat16 would round 1 + w by up to 0.4 %."""
    import mlx.core as mx

    return {
        name: array.astype(mx.float32) + (1 - shift) if has_norm_shift(name) else array
        for name, array in raw.items()
    }


def _shares_below(raw: Mapping[str, mx.array], origin: str) -> list[float]:
    """Shares of values at or below 0, 1 and 2; BadModelFile for NaN."""
    import mlx.core as mx

    norms = [a.astype(mx.float32).reshape(-1) for name, a in raw.items() if has_norm_shift(name)]
    if not norms:
        return []
    values = mx.concatenate(norms)
    if not mx.isfinite(values).all().item():
        raise BadModelFile(
            "{origin}: norm weights hold values that are not numbers. The file is damaged: get it "
            "again.",
            origin=origin,
        )
    return [float((values <= shift).mean()) for shift in range(len(_STORED_AS))]


def _shift_by_values(shares: Sequence[float]) -> int | None:
    """The shift that the values suggest, None in doubt."""
    for shift, share in enumerate(shares):
        if share >= _PART:
            return shift
        if share > _HARDLY_ANY:
            return None
    return None
