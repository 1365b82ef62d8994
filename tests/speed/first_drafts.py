"""How often a first draft is accepted, by the rule that makes it, along a model's own text.

    PYTHONPATH=. python tests/speed/first_drafts.py [FOLDER] [--tokens 96]

Rejection sampling reaches 1 - total variation, which no rule that draws from the head's chances
exceeds; beside it shared noise over DRAWS seeds a position, the head's likeliest token, and two
independent draws. Temperature 0.8.
"""

import argparse

import mlx.core as mx

import mlx_engine
from metal_kernels.filtered_pick import temper
from mlx_engine import SamplingOptions
from mlx_engine.bench.subject import PLAIN, chat_prompt, nine_kinds
from mlx_engine.sampling.position_noise import gumbel_noise

HOT = SamplingOptions(temperature=0.8, seed=1)
DRAWS = 16


def chances(target: mx.array, head: mx.array, first: int) -> dict[str, float]:
    """Sums over rows of logits [R, V], the first of which is for position `first`."""
    wanted, guessed = (temper(logits, HOT.temperature) for logits in (target, head))
    p, q = (mx.softmax(logits, axis=-1) for logits in (wanted, guessed))
    likeliest = mx.argmax(head, axis=-1, keepdims=True)
    same = 0.0
    for seed in range(DRAWS):
        noise = gumbel_noise(seed, range(first, first + len(target)), target.shape[1])
        picks = [mx.argmax(logits + noise, axis=-1) for logits in (wanted, guessed)]
        same += mx.sum(picks[0] == picks[1]).item() / DRAWS
    return {
        "rejection sampling (bound)": mx.sum(mx.minimum(p, q)).item(),
        "shared noise": same,
        "greedy draft": mx.sum(mx.take_along_axis(p, likeliest, axis=-1)).item(),
        "two independent draws": mx.sum(p * q).item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--tokens", type=int, default=96)
    asked = parser.parse_args()
    engine = mlx_engine.load(asked.folder)
    sums, rows = dict[str, float](), 0
    for kind in nine_kinds():
        prompt = chat_prompt(engine, kind.question)
        text = engine.generate(prompt, asked.tokens, HOT, PLAIN).tokens
        first, tokens = len(prompt) - 1, [*prompt, *text]
        target = mx.array(engine.logits(tokens)[first + 1 : -1])
        head = mx.array(engine.draft_logits(tokens)[0][first:-1])
        if len(target):
            rows += len(target)
            for rule, share in chances(target, head, first + 2).items():
                sums[rule] = sums.get(rule, 0.0) + share
    for rule, share in sums.items():
        print(f"{rule:<27} {share / rows:.3f}")


if __name__ == "__main__":
    main()
