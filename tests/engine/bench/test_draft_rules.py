"""Acceptance of draft rules from numbers known beforehand."""

import mlx.core as mx
import numpy as np
import pytest
from speed.draft_rules import chances


def test_chances_by_rule() -> None:
    """Against numpy at temperature 0.8; noise is compared with its own bound."""
    rng = np.random.default_rng(0)
    target, head = rng.normal(0, 2, (2, 40, 30))
    head = 0.6 * target + 0.4 * head
    found = chances(mx.array(target), mx.array(head), range(40), draws=200)
    p, q = (np.exp(a / 0.8) / np.exp(a / 0.8).sum(-1, keepdims=True) for a in (target, head))
    bound = 1 - np.abs(p - q).sum(-1) / 2
    assert found.positions == 40
    assert found.bound == pytest.approx(bound.sum(), rel=1e-4)
    assert found.greedy == pytest.approx(p[range(40), head.argmax(-1)].sum(), rel=1e-4)
    assert found.independent == pytest.approx((p * q).sum(), rel=1e-4)
    # shared Gumbel noise: each pick is common with chance 1 / sum_j max(p_j / p_i, q_j / q_i)
    ratios = np.maximum(p[:, None] / p[..., None], q[:, None] / q[..., None]).sum(-1)
    assert found.shared_noise == pytest.approx((1 / ratios).sum(), rel=0.03)
    assert found.shared_noise < found.bound
