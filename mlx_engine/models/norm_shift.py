"""Decides whether a file stores norm weights as w, used as 1 + w, or with the 1 already added.

Hugging Face stores a zero-centred w for some families; MLX conversions of them store 1 + w. The
shift s of a file (0 for w, 1 for 1 + w, 2 for a 1 added twice) is decided once for the trunk and
once for the MTP heads, from two kinds of evidence:

- other tensors whose layout shows which program wrote the file (`expected_norm_shift`); heads in
the same files are expected to be alike.
- the values: trained gains are positive and some are below one, so stored values reach down to s
and hardly any are below it. Means say less: the gains before a head's projection are near 0.3 in
real heads, and their w all negative (omlx #3750, MTPLX #511).

The layout wins, unless the values clearly lie around another s; then the values win, with a Reason.
Without either evidence the file is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlx_engine.values.errors import BadModelFile, Reason

if TYPE_CHECKING:
    import mlx.core as mx

_STORED_AS = ("as w, to be used as 1 + w", "as used, 1 + w", "with 1 added twice, as 2 + w")

# Share of values at or below s: this many are "part of them", fewer than that "hardly any".
_LEAST_SHARE, _HARDLY_ANY = 0.05, 0.005


def has_norm_shift(name: str) -> bool:
    """Whether a tensor is a norm weight stored around zero; not linear attention's gated norm."""
    return name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight")


def norm_shift(
    tensors: Mapping[str, mx.array], expected: int | None, tensor_scope: str, origin: str
) -> int:
    """Determine what a file has added to norm weights w: 0 for w, 1 for 1 + w, 2 for 2 + w.

    expected: the shift that the layout of other tensors suggests, or None. Raises BadModelFile
    where neither layout nor values decide.
    """
    shares = _shares_below(tensors, origin)
    shift = _guess_norm_shift(shares)
    if expected is not None and (shift is None or shares[shift] > 1 - _LEAST_SHARE):
        shift = expected
    if shift is None:
        raise BadModelFile(
            "{origin}: the norm weights of the {part} leave open whether they are stored as w or "
            "as 1 + w, and nothing else in the file tells. Take the heads from the original "
            "Hugging Face files, or convert model and heads together.",
            origin=origin,
            part=tensor_scope,
        )
    return shift


def norm_shift_reasons(expected: int | None, shift: int, tensor_scope: str) -> tuple[Reason, ...]:
    """Notices for norm weights stored with another offset than the files suggest; often none."""
    if shift == expected or (expected is None and shift != 2):
        return ()
    words = f"The norm weights of the {tensor_scope} are stored {_STORED_AS[shift]}"
    if expected is not None:
        words += f", although the rest of the files is stored {_STORED_AS[expected]}"
    return (Reason(f"{tensor_scope}-norms-corrected", f"{words}: put right while loading."),)


def apply_norm_shift(tensors: Mapping[str, mx.array], shift: int) -> dict[str, mx.array]:
    """Return weights with norm weights as 1 + w in float32; bfloat16 rounds by up to 0.4 %."""
    import mlx.core as mx

    return {
        name: array.astype(mx.float32) + (1 - shift) if has_norm_shift(name) else array
        for name, array in tensors.items()
    }


def _shares_below(tensors: Mapping[str, mx.array], origin: str) -> list[float]:
    """Shares of all norm weights that are at or below 0, 1 and 2; raises BadModelFile for NaN."""
    import mlx.core as mx

    norms = [
        a.astype(mx.float32).reshape(-1) for name, a in tensors.items() if has_norm_shift(name)
    ]
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


def _guess_norm_shift(norm_shares: Sequence[float]) -> int | None:
    for shift, share in enumerate(norm_shares):
        if share >= _LEAST_SHARE:
            return shift
        if share > _HARDLY_ANY:
            return None
    return None
