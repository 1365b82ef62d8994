"""Values of Qwen3.5 dense files as the model uses them: norms, convolutions, decay rates.

Hugging Face stores a norm's weight as w and uses 1 + w; MLX conversions store 1 + w. Which of them
a file holds is decided once for the trunk and once for the heads. Two things bear witness:

- the convolution's layout: [C, 1, K] is how Hugging Face writes it, [C, K, 1] MLX, and converters
  change both together (mlx-lm #1442). Trunk only; heads in the same files are presumed alike.
- the values: the gain a trained norm applies is positive, and part of the gains lie below one. So
  with s = 0 for w, 1 for 1 + w, 2 for a shift done twice, the stored values reach down to s, and
  hardly any lie below. Means say less: the gains before `fc` are near 0.3 in real heads, and their
  w all negative (omlx #3750, MTPLX #511).

Where the two disagree the values win, with a Reason; where neither speaks the file is refused.
The last step is done in float32: bfloat16 would round 1 + w.
"""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.models.family import CanonicalPart
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.reason import Reason

_LAYER_NORMS = (
    ".input_layernorm.weight",
    ".post_attention_layernorm.weight",
    ".q_norm.weight",
    ".k_norm.weight",
)
_OTHER_NORMS = ("norm.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight")
_CONVOLUTION = ".linear_attn.conv1d.weight"
_STORED_AS = ("as w, to be used as 1 + w", "as used, 1 + w", "with 1 added twice, as 2 + w")

# Share of values at or below s: this many are "part of them", fewer than that "hardly any".
_PART, _HARDLY_ANY = 0.05, 0.005


def canonical_trunk(raw: Mapping[str, mx.array], origin: str) -> CanonicalPart:
    """Trunk by canonical names, as stored -> as used."""
    return _canonical(raw, _shift_by_layout(raw), "model", origin)


def canonical_head(
    raw: Mapping[str, mx.array], origin: str, trunk_shift: int | None
) -> CanonicalPart:
    """Head by canonical names, as stored -> as used; trunk_shift None: from other files."""
    return _canonical(raw, trunk_shift, "heads", origin)


def _canonical(
    raw: Mapping[str, mx.array], presumed: int | None, part: str, origin: str
) -> CanonicalPart:
    shift = _decide(presumed, _shift_by_values(raw, origin), part, origin)
    return CanonicalPart(_as_used(raw, shift), shift, _reasons(presumed, shift, part))


def _shift_by_layout(raw: Mapping[str, mx.array]) -> int | None:
    """0 for the layout of Hugging Face, 1 for MLX's, None where there is no telling."""
    for name, array in raw.items():
        if name.endswith(_CONVOLUTION) and array.ndim == 3 and array.shape[1] != array.shape[2]:
            return 0 if array.shape[1] == 1 else 1
    return None


def _shift_by_values(raw: Mapping[str, mx.array], origin: str) -> int | None:
    """The shift the values speak for, None in doubt; BadModelFile for what is not a number."""
    norms = [array.astype(mx.float32).reshape(-1) for name, array in raw.items() if _is_norm(name)]
    if not norms:
        return None
    values = mx.concatenate(norms)
    if not mx.isfinite(values).all().item():
        raise BadModelFile(
            f"{origin}: norm weights hold values that are not numbers. The file is damaged: get it "
            "again."
        )
    for shift in range(len(_STORED_AS)):
        share = float((values <= shift).mean())
        if share >= _PART:
            return shift
        if share > _HARDLY_ANY:
            return None
    return None


def _decide(presumed: int | None, by_values: int | None, part: str, origin: str) -> int:
    shift = presumed if by_values is None else by_values
    if shift is None:
        raise BadModelFile(
            f"{origin}: the norm weights of the {part} leave open whether they are stored as w or "
            "as 1 + w, and nothing else in the file tells. Take the heads from the original "
            "Hugging Face files, or convert model and heads together."
        )
    return shift


def _reasons(presumed: int | None, shift: int, part: str) -> tuple[Reason, ...]:
    """Why the values were read otherwise than the files suggest; nothing when they were not."""
    if shift == presumed or (presumed is None and shift != 2):
        return ()
    words = f"The norm weights of the {part} are stored {_STORED_AS[shift]}"
    if presumed is not None:
        words += f", although the rest of the files is stored {_STORED_AS[presumed]}"
    return (Reason(f"{part}-norms-corrected", f"{words}: put right while loading."),)


def _as_used(raw: Mapping[str, mx.array], shift: int) -> dict[str, mx.array]:
    return {name: _value_as_used(name, array, shift) for name, array in raw.items()}


def _value_as_used(name: str, array: mx.array, shift: int) -> mx.array:
    if _is_norm(name):
        return array.astype(mx.float32) + (1 - shift)
    if name.endswith(_CONVOLUTION) and array.ndim == 3 and array.shape[1] == 1:
        return array.swapaxes(1, 2)
    return array.astype(mx.float32) if name.endswith(".A_log") else array


def _is_norm(name: str) -> bool:
    """Norms of the 1 + w kind; the gated norm inside linear_attn is an ordinary one."""
    return name in _OTHER_NORMS or name.endswith(_LAYER_NORMS)
