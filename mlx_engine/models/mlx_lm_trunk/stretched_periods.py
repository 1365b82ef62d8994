"""Factors that stretch the periods of a rotation, linearly or by YaRN, listed one by one."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.values.errors import UnsupportedModel

UNAWARE = ("glm4_moe",)
"""Types whose classes rotate plainly, whatever their config says."""


class Yarn(NamedTuple):
    """YaRN (arXiv 2309.00071) of rotated elements with periods on `base`.

    trained: tokens it was trained on; fast, slow: rotations within them that bound the ramp.
    """

    base: float
    rotated: int
    factor: float
    trained: float
    fast: float
    slow: float

    @property
    def factors(self) -> list[float]:
        """One for each pair of elements; the ramp begins and ends at whole pairs."""
        low = max(0, math.floor(self._turning(self.fast)))
        high = min(self.rotated - 1, math.ceil(self._turning(self.slow)))
        width = max(high - low, 0.001)
        shares = (min(1.0, max(0.0, (n - low) / width)) for n in range(self.rotated // 2))
        return [1 / ((1 - share) + share / self.factor) for share in shares]

    @property
    def magnitude(self) -> float:
        """What rotated elements are multiplied by."""
        return 0.1 * math.log(self.factor) + 1.0 if self.factor > 1 else 1.0

    def _turning(self, rotations: float) -> float:
        """The pair that turns so often within the trained length."""
        turns = self.trained / (rotations * 2 * math.pi)
        return self.rotated * math.log(turns) / (2 * math.log(self.base))


def listed(base: float, factors: list[float], magnitude: float = 1.0) -> dict[str, object]:
    """As a config asks for it (listed_rotation.py)."""
    return {"rope_type": "listed", "base": base, "factors": factors, "magnitude": magnitude}


def listed_for_unaware(flat: Mapping[str, object], origin: str) -> dict[str, object] | None:
    """rope_scaling of a flat config of an UNAWARE type in listed form; None for none.

    UnsupportedModel names a kind that is not run.
    """
    scaling = flat.get("rope_scaling")
    if not isinstance(scaling, Mapping):
        return None
    if scaling.get("rope_type") == "listed":
        return dict(scaling)
    fields, inner = ConfigFields(flat, origin), ConfigFields(scaling, origin)
    share = fields.number("partial_rotary_factor", 1.0)
    rotated = int(fields.count("head_dim") * share)
    base, factor = fields.number("rope_theta", 10000.0), inner.number("factor", 1.0)
    kind = scaling.get("rope_type")
    if kind == "linear":
        return listed(base, [factor] * (rotated // 2))
    if kind != "yarn" or scaling.get("truncate") is False or inner.has("mscale"):
        raise UnsupportedModel(
            f"{origin}: stretches its context by rope scaling {ascii(kind)[:40]} in a way this "
            "version does not for this architecture. Take the model without it."
        )
    length = inner.number(
        "original_max_position_embeddings", fields.count("max_position_embeddings")
    )
    fast, slow = inner.number("beta_fast", 32.0), inner.number("beta_slow", 1.0)
    yarn = Yarn(base, rotated, factor, length, fast, slow)
    return listed(base, yarn.factors, inner.number("attention_factor", yarn.magnitude))
