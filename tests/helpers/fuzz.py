"""Fuzzing: spoils JSON values and bytes, and tries thousands of them in a bounded process.

prepare() runs in that process, and makes check(random), which may raise EngineError and no more:
    lambda random: read(spoilt_json(sound, random))
"""

import multiprocessing
import resource
import traceback
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from mlx_engine.values.errors import EngineError

TEXTS = ("", " ", "\0", "x" * 400, "\ud800", "../x", "/", "NaN", "1e9", "😀<|im_end|>")
WHOLE = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**32, 2**63, 2**64 - 1, -(2**63), 10**4000)
FLOATS = (0.0, -0.5, 1.5, 1e-30, 1e308, float("inf"), float("nan"))
LISTS = ([], [[]], [None], [0], [-1], [1.5], ["a"], [2**63], [1] * 3000)
ODD = (None, True, False, {}, {"a": 1}, {"": {}}, *TEXTS, *WHOLE, *FLOATS, *LISTS)
JSON_CHANGES = ("replace", "remove", "rename", "swap", "list", "object", "triple")
BYTE_CHANGES = ("flip", "bytes", "number", "drop", "repeat", "cut")

Errors = type[Exception] | tuple[type[Exception], ...]
Check = Callable[[Random], object]


def spoilt_json(value: Any, random: Random, changes: int = 3) -> Any:
    """A copy with 1 to `changes` places replaced, removed, renamed, swapped or nested."""
    made = [deepcopy(value)]
    for _ in range(random.randint(1, changes)):
        places = list(_places(made))
        (table, key), (other, its) = random.choice(places), random.choice(places)
        change, old = random.choice(JSON_CHANGES), table[key]
        if change == "remove" and table is not made:
            del table[key]
        elif change == "rename" and isinstance(table, dict):
            table[random.choice((key + "s", "", key.upper(), "text_config"))] = table.pop(key)
        else:
            new = {"swap": deepcopy(other[its]), "list": [old], "object": {"a": old}}
            table[key] = (new | {"triple": [old] * 3}).get(change, deepcopy(random.choice(ODD)))
    return made[0]


def _places(table: Any) -> Any:
    """Every list and object, with each of its keys."""
    for key in list(table) if isinstance(table, dict) else range(len(table)):
        yield table, key
        if isinstance(table[key], dict | list):
            yield from _places(table[key])


def spoilt_bytes(data: bytes, random: Random, changes: int = 4, within: int = 2**62) -> bytes:
    """A copy with 1 to `changes` places changed; within: how far from the beginning."""
    made = bytearray(data)
    for _ in range(random.randint(1, changes)):
        place = random.randrange(max(1, min(len(made), within)))
        length, width = random.choice((1, 1, 2, 4, 8, 16, 150)), random.choice((4, 8))
        number = random.choice(WHOLE) % 2 ** (8 * width)
        end, old = place + length, made[place : place + length]
        match random.choice(BYTE_CHANGES):
            case "flip":
                made[place : place + 1] = bytes(b ^ 1 << random.randrange(8) for b in old[:1])
            case "bytes":
                made[place:end] = random.randbytes(length)
            case "number":
                made[place : place + width] = number.to_bytes(width, "little")
            case "drop":
                del made[place:end]
            case "repeat":
                made[place:place] = old * random.choice((1, 2, 50))
            case "cut" if random.random() < 0.3:
                del made[place:]
    return bytes(made)


@dataclass
class Outcome:
    """What became of the runs; failures: other errors by their place, crashes and hangs -> runs."""

    runs: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    peak_mb: int = 0
    results: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[int]] = field(default_factory=dict)

    def add(self, what: str, took_s: float = 0, peak_mb: int = 0, failed: bool = True) -> None:
        """The result of the next run."""
        if failed:
            self.failures.setdefault(what, []).append(self.runs)
        self.results["FAILED" if failed else what] += 1
        self.runs += 1
        self.slowest_s, self.peak_mb = max(self.slowest_s, took_s), max(self.peak_mb, peak_mb)

    def __str__(self) -> str:
        figures = f"{self.seconds:.0f} s, slowest {self.slowest_s:.1f} s, peak {self.peak_mb} MB"
        failed = [f"\n  {what}: {len(n)}, as {n[:3]}" for what, n in self.failures.items()]
        return f"{self.runs} runs in {figures}: {dict(self.results)}{''.join(failed)}"


def fuzz(
    prepare: Callable[[], Check],
    runs: int,
    allowed: Errors = EngineError,
    *,
    run_s: float = 10,
    memory_mb: int = 2000,
    seed: int = 0,
    total_s: float = 600,
) -> Outcome:
    """Call prepare()(Random) so often, in a forked process that begins anew after a crash, or a run
    that takes longer than run_s; a failure's number n is Random(f"{seed}/{n}").
    """
    outcome, start = Outcome(), perf_counter()
    context = multiprocessing.get_context("fork")

    def goes_on() -> bool:
        outcome.seconds = perf_counter() - start
        return outcome.runs < runs and outcome.seconds < total_s

    while goes_on():
        ours, theirs = context.Pipe(duplex=False)
        args = (prepare, range(outcome.runs, runs), seed, allowed, memory_mb, theirs)
        worker = context.Process(target=_work, args=args, daemon=True)
        worker.start()
        theirs.close()
        ours.recv()  # it is prepared; EOFError when it cannot be
        try:
            while goes_on() and ours.poll(run_s):
                outcome.add(*ours.recv())
            if goes_on():
                outcome.add(f"over {run_s} s")
        except EOFError:
            worker.join()
            outcome.add(f"the process ended ({worker.exitcode})")
        worker.kill()
        worker.join()
    return outcome


def _work(
    prepare: Callable[[], Check],
    numbers: range,
    seed: int,
    allowed: Errors,
    memory_mb: int,
    pipe: Connection,
) -> None:
    check = prepare()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory_mb * 10**6
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    pipe.send("prepared")
    for n in numbers:
        start, failed = perf_counter(), False
        try:
            check(Random(f"{seed}/{n}"))
            what = "fine"
        except allowed as error:
            what = type(error).__name__
        except BaseException as error:
            place, failed = traceback.extract_tb(error.__traceback__)[-1], True
            where = f"{Path(place.filename).name}:{place.lineno}"
            what = f"{type(error).__name__} @ {where}: {str(error)[:80]!a}"
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        pipe.send((what, perf_counter() - start, peak_mb, failed))
