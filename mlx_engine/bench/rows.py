"""Rows of figures from the answers of several arms, and whether their texts are equal."""

from collections import Counter
from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from statistics import fmean, median
from typing import TypeVar

from mlx_engine.bench.report import OFF, Agreement, KindRows, PromptRow, Row, Speed
from mlx_engine.bench.workload import Run
from mlx_engine.decoding.sequence import shared_prefix
from mlx_engine.values.stats import count_by_depth

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers to one prompt: `runs` by arm, turn by turn.

    reference: the text of drafting off. peers: names of arms that are other programs.
    """

    kind: str
    prompt_tokens: int
    reference: tuple[int, ...]
    peers: frozenset[str]
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def rows(self) -> KindRows:
        """A row for each arm that has answered."""
        off = self.runs.get(OFF, [])
        rows = [
            _row(arm, runs, off, self.reference, is_peer=arm in self.peers)
            for arm, runs in self.runs.items()
            if runs
        ]
        return KindRows(self.kind, self.prompt_tokens, tuple(rows))

    def prompt_rows(self) -> tuple[PromptRow, ...]:
        """Prompt speeds; ratios are to the first arm."""
        first = next(iter(self.runs.values()))
        return tuple(
            PromptRow(
                arm,
                self.prompt_tokens,
                median(self.prompt_tokens / run.first_s for run in runs),
                median(a.first_s / b.first_s for a, b in zip(first, runs, strict=False)),
            )
            for arm, runs in self.runs.items()
        )


def total_rows(answers: Sequence[Answers]) -> tuple[Row, ...]:
    """Sums over the prompts that every arm has answered in every turn."""
    arms = list(answers[0].runs) if answers else []
    turns = max((len(each.runs[OFF]) for each in answers), default=0)
    done = [a for a in answers if all(len(a.runs.get(arm, ())) == turns for arm in arms)]
    if not done:
        return ()
    runs = {
        arm: [reduce(add, (each.runs[arm][turn] for each in done)) for turn in range(turns)]
        for arm in arms
    }
    reference = reduce(add, (each.reference for each in done))
    equal = Counter[str]()
    for each in done:
        equal.update({row.arm: row.equal_tokens for row in each.rows().rows})
    rows = Answers("", 0, reference, done[0].peers, runs).rows().rows
    return tuple(replace(row, equal_tokens=equal[row.arm]) for row in rows)


def agreement(kinds: Iterable[KindRows]) -> Agreement:
    """Compare the texts of all arms of ours that draft with the plain ones."""
    texts = tokens = 0
    for kind in kinds:
        for row in kind.rows:
            if row.is_peer or row.arm == OFF:
                continue
            texts += 1
            tokens += row.tokens
            if not row.is_same:
                where = f"{kind.kind}, {row.arm}: token {row.equal_tokens} differs"
                return Agreement(texts, tokens, where)
    return Agreement(texts, tokens)


def in_turn(arms: MutableSequence[T], repeats: int, *, is_backwards: bool = False) -> Iterator[T]:
    """Arms in the order A B C C B A; an arm removed from `arms` is not in later turns."""
    for _ in range(repeats):
        yield from arms[:: -1 if is_backwards else 1]
        is_backwards = not is_backwards


def shares(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float, ...]:
    """accepted[d] / drafted[d] for every depth; `accepted` may be shorter."""
    padded = [*accepted, *([0] * (len(drafted) - len(accepted)))]
    return tuple(a / d for a, d in zip(padded, drafted, strict=True))


def _row(
    arm: str, runs: Sequence[Run], off: Sequence[Run], reference: Sequence[int], *, is_peer: bool
) -> Row:
    last = runs[-1]
    is_same = all(run.tokens == tuple(reference) for run in runs)
    whys = Counter(r.why for r in last.rounds if r.why is not None)
    return Row(
        arm=arm,
        is_peer=is_peer,
        is_same=is_same,
        equal_tokens=min(shared_prefix(run.tokens, reference) for run in runs),
        reference_tokens=len(reference),
        tokens=last.generated,
        drafted=last.drafted,
        accepted=last.accepted,
        rate=last.accepted / last.drafted if last.drafted else None,
        passes=last.passes,
        tokens_per_pass=last.generated / last.passes,
        drafted_by_depth=count_by_depth(r.drafted for r in last.rounds),
        accepted_by_depth=count_by_depth(r.accepted for r in last.rounds),
        depths=dict(sorted(Counter(r.drafted for r in last.rounds).items())),
        why=whys.most_common(1)[0][0] if whys else None,
        speed=_speed(runs, off) if is_same or is_peer else None,
    )


def _speed(runs: Sequence[Run], off: Sequence[Run]) -> Speed:
    rounds = [r for run in runs for r in run.rounds]
    pairs = [
        (run.tokens_per_second, plain.tokens_per_second)
        for run, plain in zip(runs, off, strict=False)
    ]
    return Speed(
        tokens_per_second=_median(run.tokens_per_second for run in runs),
        ratio=_median(a / b for a, b in pairs if a and b),
        wall_s=median(run.wall_s for run in runs),
        cpu_ms=_median(1000 * run.cpu_s / run.later for run in runs if run.later and run.cpu_s),
        draft_ms=_mean(r.draft_ms for r in rounds),
        verify_ms=_mean(r.verify_ms for r in rounds),
        host_ms=_mean(r.accept_ms + r.host_ms for r in rounds),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _mean(values: Iterable[float]) -> float | None:
    return fmean(known) if (known := list(values)) else None
