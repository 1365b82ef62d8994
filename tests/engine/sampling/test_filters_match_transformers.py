"""Where the meaning is the same, our filters do what transformers' processors do."""

import mlx.core as mx
import numpy as np
import pytest

from metal_kernels.filtered_pick import Filters, filter_tempered, temper
from mlx_engine.sampling.sampler import repetition_penalty

torch = pytest.importorskip("torch")
processors = pytest.importorskip("transformers.generation.logits_process")

SIZES = [2, 5, 257]


def logits_of(size: int) -> np.ndarray:
    """Four rows without ties."""
    return np.random.default_rng(size).normal(size=(4, size)).astype(np.float32) * 3


def theirs(processor: object, logits: np.ndarray, tokens: list[int]) -> np.ndarray:
    ids = torch.tensor([tokens] * len(logits))
    return processor(ids, torch.from_numpy(logits.copy())).numpy()


def same_kept(ours: mx.array, their: np.ndarray) -> bool:
    kept = np.isfinite(np.array(ours))
    return bool((kept == np.isfinite(their)).all()) and kept.any()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("penalty", [0.7, 1.2])
def test_repetition_penalty(size: int, penalty: float) -> None:
    logits, tokens = logits_of(size), [0, size - 1, 0, size // 2]
    seen = mx.array(np.isin(np.arange(size), tokens))
    ours = np.array(repetition_penalty(mx.array(logits), seen, penalty))
    their = theirs(processors.RepetitionPenaltyLogitsProcessor(penalty), logits, tokens)
    np.testing.assert_allclose(ours, their, rtol=1e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("top_k", [1, 4, 100])
def test_top_k(size: int, top_k: int) -> None:
    ours = filter_tempered(temper(mx.array(logits_of(size)), 1.0), Filters(1.0, top_k=top_k))
    assert same_kept(ours, theirs(processors.TopKLogitsWarper(top_k), logits_of(size), [0]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.93])
def test_top_p(size: int, top_p: float) -> None:
    ours = filter_tempered(temper(mx.array(logits_of(size)), 1.0), Filters(1.0, top_p=top_p))
    assert same_kept(ours, theirs(processors.TopPLogitsWarper(top_p), logits_of(size), [0]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("min_p", [0.02, 0.3, 0.9])
def test_min_p(size: int, min_p: float) -> None:
    ours = filter_tempered(temper(mx.array(logits_of(size)), 1.0), Filters(1.0, min_p=min_p))
    assert same_kept(ours, theirs(processors.MinPLogitsWarper(min_p), logits_of(size), [0]))
