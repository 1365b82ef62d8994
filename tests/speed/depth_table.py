"""The depth policy by simulation: `python -m speed.depth_table` in tests/, helpers on the path.

For each machine and text: speed over drafting off of the best fixed depth, of the policy and of an
oracle that knows every chance in mean, and what the policy takes longer than the oracle. At the end
the means and the worst; those on machines whose own speed changes while they answer; and those
where a share of each round's time is told as that of the round before it.
"""

from statistics import mean

from draft_simulator import (
    DRIFT,
    MACHINES,
    MIXED,
    Machine,
    Text,
    auto,
    fixed,
    oracle,
    recordings,
    texts,
)

from mlx_engine.values.options import MAX_DEPTH

SEEDS = range(8)
MIXED_SEEDS = range(3)
AHEAD = 1
"""Rounds that the engine has chosen before it knows what became of one."""


class Arm:
    """Answers of the policy under one kind of times: speeds over off, and regret."""

    def __init__(self, name: str, seeds: range, drift: float = 0.0, mixed: float = 0.0) -> None:
        self.name, self._seeds, self._drift, self._mixed = name, seeds, drift, mixed
        self.ratios = list[float]()
        self.regrets = list[float]()

    def play(self, machine: Machine, text: Text, off: float, best: float) -> None:
        """Answer a text with every seed. off, best: milliseconds of off and of the oracle."""
        ms = mean(
            auto(machine, text, seed, AHEAD, drift=self._drift, mixed=self._mixed).ms
            for seed in self._seeds
        )
        self.ratios.append(off / ms)
        self.regrets.append(ms / best - 1)

    def tell(self) -> None:
        """The worst and the means."""
        above, below = sum(lost > 0.05 for lost in self.regrets), sum(r < 0.98 for r in self.ratios)
        print(
            f"{self.name:<20} worst ratio to off {min(self.ratios):.3f}, {below} below 0.98;"
            f" mean ratio {mean(self.ratios):.4f}, regret in mean {100 * mean(self.regrets):.2f} %,"
            f" {above} of {len(self.regrets)} above 5 %"
        )


def main() -> None:
    """One line for each pair, then the means and the worst."""
    arms = [Arm("steady", SEEDS), Arm("uneven", SEEDS, drift=DRIFT)]
    arms += [Arm(f"steady, mixed {share}", MIXED_SEEDS, mixed=share) for share in MIXED]
    print(
        f"{'machine':<26}{'text':<34}{'depth':>6}{'fixed':>7}{'auto':>7}{'oracle':>7}{'regret':>8}"
    )
    for name, machine in MACHINES.items():
        for title, text in {**texts(), **recordings()}.items():
            pinned = [fixed(machine, text, depth).ms for depth in range(MAX_DEPTH + 1)]
            off, best = pinned[0], min(range(MAX_DEPTH + 1), key=pinned.__getitem__)
            known = min(off, oracle(machine, text).ms)
            for arm in arms:
                arm.play(machine, text, off, known)
            print(
                f"{name:<26}{title:<34}{best:>6}{off / pinned[best]:>7.2f}"
                f"{arms[0].ratios[-1]:>7.2f}{off / known:>7.2f}{100 * arms[0].regrets[-1]:>7.1f}%",
                flush=True,
            )
    for arm in arms:
        arm.tell()


if __name__ == "__main__":
    main()
