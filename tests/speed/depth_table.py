"""The choice of depths by simulation: `python -m speed.depth_table` in tests/, helpers on the path.

For each machine and text: speed over drafting off of the best fixed depth, of the choice and of an
oracle that knows every chance in mean, and what the choice takes longer than the oracle. At the end
the means and the worst, and those on machines whose own speed changes while they answer.
"""

from statistics import mean

from draft_simulator import DRIFT, MACHINES, Machine, Text, auto, fixed, oracle, recordings, texts

from mlx_engine.values.options import MAX_DEPTH

SEEDS = range(8)
AHEAD = 1
"""Rounds that the engine has chosen before it knows what became of one."""


def row(machine: Machine, text: Text) -> tuple[float, int, float, float]:
    """Milliseconds of off, the best fixed depth, and milliseconds of choice and oracle."""
    pinned = [fixed(machine, text, depth).ms for depth in range(MAX_DEPTH + 1)]
    chosen = mean(auto(machine, text, seed, AHEAD).ms for seed in SEEDS)
    best = min(range(MAX_DEPTH + 1), key=lambda depth: pinned[depth])
    return pinned[0], best, chosen, min(pinned[0], oracle(machine, text).ms)


def main() -> None:
    """One line for each pair, then the means and the worst."""
    ratios, regrets = [], []
    uneven, behind = [], []
    print(
        f"{'machine':<26}{'text':<34}{'depth':>6}{'fixed':>7}{'auto':>7}{'oracle':>7}{'regret':>8}"
    )
    for name, machine in MACHINES.items():
        for title, text in {**texts(), **recordings()}.items():
            off, best, chosen, known = row(machine, text)
            slowed = mean(auto(machine, text, seed, AHEAD, drift=DRIFT).ms for seed in SEEDS)
            uneven.append(off / slowed)
            behind.append(slowed / known - 1)
            ratios.append(off / chosen)
            regrets.append(chosen / known - 1)
            pinned = fixed(machine, text, best).ms
            print(
                f"{name:<26}{title:<34}{best:>6}{off / pinned:>7.2f}{ratios[-1]:>7.2f}"
                f"{off / known:>7.2f}{100 * regrets[-1]:>7.1f}%"
            )
    for name, found, lost in (("steady", ratios, regrets), ("uneven", uneven, behind)):
        above = sum(regret > 0.05 for regret in lost)
        print(f"{name}: {above} of {len(lost)} above 5 %")
        print(f"worst ratio to off {min(found):.3f}, regret in mean {100 * mean(lost):.2f} %")


if __name__ == "__main__":
    main()
