"""Where the meaning is the same, our filters do what transformers' processors do."""

import mlx.core as mx
import numpy as np
import pytest

from metal_kernels.filtered_pick import SamplingFilters, apply_temperature, filter_tempered
from mlx_engine.sampling.sampler import Sampler, repetition_penalty
from mlx_engine.values.options import SamplingOptions

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


@pytest.mark.parametrize("temperature", [0, 1])
def test_suppressed_tokens(temperature: float) -> None:
    """At the position behind the prompt, and at the next."""
    size, prompt = SIZES[-1], [1, 2, 3]
    logits = np.repeat(logits_of(size)[:1], 2, axis=0)
    best = np.argsort(-logits[0])
    never, first = best[:3].tolist(), best[3:5].tolist()
    processed = theirs(processors.SuppressTokensLogitsProcessor(never), logits[:1], prompt)
    begins = processors.SuppressTokensAtBeginLogitsProcessor(first, len(prompt))
    at_first = theirs(begins, processed, prompt)
    options = SamplingOptions(temperature=temperature, top_k=1)
    sampler = Sampler(options, size, 7, suppressed=never, first_suppressed=first)
    sampler.begin(prompt)
    picked = sampler.pick(mx.array(logits), len(prompt), mx.array([0], dtype=mx.int32))
    assert picked.tolist() == [at_first.argmax(), processed.argmax()] == best[[5, 3]].tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("name", "processor", "values"),
    [
        ("top_k", processors.TopKLogitsWarper, (1, 4, 100)),
        ("top_p", processors.TopPLogitsWarper, (0.0, 0.05, 0.5, 0.93)),
        ("min_p", processors.MinPLogitsWarper, (0.02, 0.3, 0.9, 1.0)),
    ],
)
def test_filters(size: int, name: str, processor: type, values: tuple[float, ...]) -> None:
    for value in values:
        tempered = apply_temperature(mx.array(logits_of(size)), 1.0)
        ours = filter_tempered(tempered, SamplingFilters(1.0, **{name: value}))
        assert same_kept(ours, theirs(processor(value), logits_of(size), [0])), value
