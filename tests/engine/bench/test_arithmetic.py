"""Figures of rounds, memory and acceptance from numbers known beforehand."""

import mlx.core as mx
import numpy as np
import pytest

from mlx_engine.bench.drafting import Played, arm_of, chances, common_beginning
from mlx_engine.bench.footprint import count_nodes, growth
from mlx_engine.bench.report import MemorySample
from mlx_engine.values.errors import Reason
from mlx_engine.values.stats import RoundStats

PARKED = Reason("parked-cost", "Too dear here.")


def played(drafted: int, accepted: int, why: Reason | None = None) -> RoundStats:
    """2 ms a draft, 5 ms a pass, 1 ms of the host."""
    return RoundStats(0, drafted, drafted, accepted, accepted + 1, 2.0 * drafted, 5.0, 1.0, why=why)


def test_an_arm_sums_its_rounds() -> None:
    rounds = [played(2, 2), played(2, 0), played(0, 0, PARKED), played(2, 1)]
    arm = arm_of(0.8, "auto", Played(rounds, 0.02, 4), plain_per_second=100.0)
    assert (arm.tokens, arm.passes, arm.tokens_per_pass) == (7, 4, 1.75)
    assert arm.acceptance == (2 / 3, 1 / 3)
    assert arm.tokens_per_second == pytest.approx(1000 * 7 / (3 * 10 + 6))
    assert arm.ratio == pytest.approx(arm.tokens_per_second / 100)
    assert (arm.draft_ms, arm.verify_ms, arm.host_ms) == (3.0, 5.0, 1.0)
    assert arm.cpu_ms == 5.0
    assert arm.depths == {0: 1, 2: 3}
    assert arm.why == PARKED


def test_growth_leaves_out_what_the_conversation_gained() -> None:
    start = MemorySample(tokens=1, active_bytes=0, track_bytes=999)
    samples = [start, MemorySample(10, 1000, 400), MemorySample(90, 1700, 1000)]
    assert growth(samples) == 100
    assert growth(samples[:1]) == 0


def test_common_beginning() -> None:
    assert common_beginning([1, 2, 3], [1, 2, 4]) == 2
    assert common_beginning([1, 2], [1, 2, 4]) == 2


def test_nodes_are_counted_until_they_are_computed() -> None:
    x = mx.array([1.0, 2.0])
    mx.eval(x)
    y = mx.exp(x) * x
    assert count_nodes([y]) == 2
    mx.eval(y)
    assert count_nodes([y]) == 0


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
