"""What keys and values in 8 and 4 bits cost: logits and acceptance against those of 16 bits.

    python tests/speed/cache_formats.py [MODEL]

Logits are teacher-forced over held-out text, the model's own from 16 bits as truth: the mean and
the largest difference, the mean KL divergence of the next token (nats), and how often the likeliest
token is the same. Acceptance is that of drafts at depth 3, by the model's format and the heads'.
Every drafted text is compared with the same format's without drafts.
"""

import json
import sys
from pathlib import Path

import numpy as np

import mlx_engine
from mlx_engine import CacheOptions, DraftOptions, SamplingOptions

POCKET = Path(__file__).parents[2] / "assets" / "pocket_model"
FORMATS = (16, 8, 4)
TOKENS, ANSWER = 768, 160


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))


def main() -> None:
    engine = mlx_engine.load(sys.argv[1] if sys.argv[1:] else None)
    told = engine.description
    held = json.loads((POCKET / "held_out.json").read_text(encoding="utf-8"))
    texts = [text for text in strings(held) if len(text) > 40]
    tokens = engine.tokenize("\n".join(texts))[:TOKENS]
    truth = engine.logits(tokens)
    expected = log_probabilities(truth)
    for bits in FORMATS[1:]:
        found = engine.logits(tokens, CacheOptions(bits))
        apart = np.abs(found - truth)
        divergence = (np.exp(expected) * (expected - log_probabilities(found))).sum(-1).mean()
        same = (found.argmax(-1) == truth.argmax(-1)).mean()
        print(
            f"{bits:2} bits  {told.trunk_cache.per_token(bits):6} bytes a token of "
            f"{told.trunk_cache.per_token()}  |difference| mean {apart.mean():.4f}, most "
            f"{apart.max():.3f}  KL {divergence:.5f}  likeliest the same {100 * same:.1f} %",
            flush=True,
        )
    prompts = [engine.tokenize(text)[:160] for text in texts[:6]]
    for temperature in (0.0, 0.8):
        sampling = SamplingOptions(temperature=temperature, seed=7)
        for bits in FORMATS:
            plain = [answer(engine, p, sampling, 0, CacheOptions(bits)) for p in prompts]
            for head_bits in FORMATS:
                cache = CacheOptions(bits, head_bits)
                drafted = [answer(engine, p, sampling, 3, cache) for p in prompts]
                equal = [one.tokens for one in drafted] == [one.tokens for one in plain]
                counts = [
                    (one.stats.accepted, one.stats.drafted, one.stats.passes) for one in drafted
                ]
                accepted, tried, passes = (sum(column) for column in zip(*counts, strict=True))
                print(
                    f"temperature {temperature}  {bits:2} bits, heads {head_bits:2}: accepted "
                    f"{accepted / max(1, tried):.3f}, "
                    f"{sum(len(one.tokens) for one in drafted) / passes:.2f} tokens a pass, words "
                    f"{'the same' if equal else 'DIFFER'}",
                    flush=True,
                )


def answer(engine, prompt, sampling, depth, cache):
    draft = DraftOptions("mtp" if depth else "none", depth=depth)
    return engine.generate(prompt, ANSWER, sampling, draft, ignore_eos=True, cache=cache)


def strings(content: object) -> list[str]:
    """Every text in there, in order."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, dict | list):
        return []
    parts = content.values() if isinstance(content, dict) else content
    return [text for part in parts for text in strings(part)]


if __name__ == "__main__":
    main()
