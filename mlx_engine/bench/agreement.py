"""No green, no number: drafted text must equal plain text before anything is timed."""

from collections.abc import Sequence

from mlx_engine.bench.report import Agreement
from mlx_engine.bench.subject import PLAIN, Subject, pinned
from mlx_engine.values.options import SamplingOptions

TEMPERATURES = (0.0, 0.8)
DEPTHS = (1, 3)
SEED = 1


def check_agreement(subject: Subject, prompts: Sequence[Sequence[int]], tokens: int) -> Agreement:
    """Compare texts of `tokens` tokens at every temperature and depth."""
    texts = compared = 0
    for prompt in prompts:
        for temperature in TEMPERATURES:
            sampling = SamplingOptions(temperature=temperature, seed=SEED)
            plain = subject.generate(prompt, tokens, sampling, PLAIN, ignore_eos=True).tokens
            for depth in DEPTHS:
                draft = pinned(depth)
                drafted = subject.generate(prompt, tokens, sampling, draft, ignore_eos=True).tokens
                texts += 1
                compared += len(plain)
                if drafted != plain:
                    at = common_beginning(plain, drafted)
                    words = f"token {at} differs at temperature {temperature:g}, depth {depth}"
                    return Agreement(texts, compared, words)
    return Agreement(texts, compared, None)


def common_beginning(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two texts share before they part."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
