"""Asks the built-in model its held-out questions through the engine: facts right, drafts accepted.

`python tests/speed/pocket_figures.py` from the repository; prints one JSON line at the end.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

import mlx_engine  # noqa: E402  (from the checkout, installed or not)
from mlx_engine.engine import Engine  # noqa: E402

DEPTH = 3
TRAINED_QUESTIONS = 100


def words(text: str) -> str:
    """Text with every run of white space as one blank."""
    return " ".join(text.split())


def is_right(answer: str, expected: list[str]) -> bool:
    """Every documented fact stands in the answer."""
    return all(words(fact) in words(answer) for fact in expected)


def ask_all(engine: Engine, temperature: float) -> dict[str, object]:
    """Every question in a chat of its own, three drafts a round."""
    held_out = json.loads((REPOSITORY / "assets/pocket_model/held_out.json").read_text())
    right: dict[str, list[bool]] = defaultdict(list)
    drafted, accepted = [0] * DEPTH, [0] * DEPTH
    passes = tokens = 0
    for n, asked in enumerate(held_out):
        session = engine.session(
            sampling=mlx_engine.SamplingOptions(temperature=temperature, seed=n),
            draft=mlx_engine.DraftOptions(depth=DEPTH),
            generation=mlx_engine.GenerationOptions(max_tokens=120),
        )
        for _ in session.send(asked["question"]):
            pass
        right[asked["kind"]].append(is_right(session.messages[-1].text, asked["expected"]))
        if asked["trained_name"]:
            right["trained names"].append(right[asked["kind"]][-1])
        stats = session.stats
        passes, tokens = passes + stats.passes, tokens + stats.generated_tokens
        for depth, count in enumerate(stats.drafted_by_depth):
            drafted[depth] += count
        for depth, count in enumerate(stats.accepted_by_depth):
            accepted[depth] += count
    first = right["trained names"][:TRAINED_QUESTIONS]
    return {
        "temperature": temperature,
        "facts_right_of_100_trained_names": sum(first) * 100 / len(first),
        "right_by_kind": {kind: f"{sum(r)}/{len(r)}" for kind, r in right.items()},
        "acceptance_by_depth": [round(a / d, 3) for a, d in zip(accepted, drafted, strict=True)],
        "tokens_per_pass": round(tokens / passes, 2),
    }


def main() -> None:
    """Greedy, and at temperature 0.8."""
    engine = mlx_engine.load()
    print(json.dumps([ask_all(engine, temperature) for temperature in (0.0, 0.8)]))


if __name__ == "__main__":
    main()
