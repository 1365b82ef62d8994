"""Asks the sight model about pictures, and about the same scenes told in words.

`python tests/speed/sight_figures.py` from the repository, with another folder and a number of
questions if wanted; prints answers right and drafts accepted for each.
"""

import sys
from itertools import zip_longest
from pathlib import Path
from random import Random

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "sight_model" / "training")]

from scenes import ask_about, described, draw_scene, paint  # noqa: E402

import mlx_engine  # noqa: E402  (from the checkout, installed or not)
from mlx_engine.engine import Engine  # noqa: E402

DEPTH = 3


class Tally:
    """Answers and drafts of one kind of question."""

    def __init__(self) -> None:
        self.right = self.asked = self.passes = self.tokens = 0
        self.drafted, self.accepted = [0] * DEPTH, [0] * DEPTH

    def ask(self, engine: Engine, temperature: float, seed: int, text: str, images: list) -> str:
        """Ask in a chat of its own, three drafts a round; return the answer."""
        session = engine.session(
            sampling=mlx_engine.SamplingOptions(temperature=temperature, seed=seed),
            draft=mlx_engine.DraftOptions(depth=DEPTH),
            generation=mlx_engine.GenerationOptions(max_tokens=60),
        )
        for _ in session.send(text, images=images):
            pass
        stats = session.stats
        self.passes, self.tokens = self.passes + stats.passes, self.tokens + stats.generated_tokens
        for total, counts in (
            (self.drafted, stats.drafted_by_depth),
            (self.accepted, stats.accepted_by_depth),
        ):
            total[:] = [a + b for a, b in zip_longest(total, counts, fillvalue=0)]
        return session.messages[-1].text

    def __str__(self) -> str:
        shares = " ".join(f"{a / d:.3f}" for a, d in zip(self.accepted, self.drafted, strict=True))
        whole = sum(self.accepted) / sum(self.drafted)
        return (
            f"right {self.right}/{self.asked}  accepted {whole:.3f} by depth {shares}  "
            f"tokens a pass {self.tokens / self.passes:.2f}"
        )


def main() -> None:
    """Greedy, and at temperature 0.8."""
    folder = sys.argv[1] if len(sys.argv) > 1 else REPOSITORY / "tests" / "sight_model"
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with mlx_engine.load(folder) as engine:
        for temperature in (0.0, 0.8):
            draw, shown, told = Random(2026), Tally(), Tally()
            for seed in range(count):
                scene = draw_scene(draw)
                turn, image = ask_about(scene, draw), paint(scene, draw)
                words = f"A picture shows {described(scene)}. {turn.question}"
                for tally, text, images in (
                    (shown, turn.question, [image]),
                    (told, words, []),
                ):
                    said = tally.ask(engine, temperature, seed, text, images)
                    tally.right += said == turn.answer
                    tally.asked += 1
                    if said != turn.answer and not temperature and "-v" in sys.argv:
                        print(bool(images), turn, said)
            print(f"temperature {temperature}\n  pictures {shown}\n  words    {told}", flush=True)


if __name__ == "__main__":
    main()
