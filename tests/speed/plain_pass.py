"""Nodes of a pass's graph on this machine, and plain decoding against mlx-lm in float32, in turns.

    PYTHONPATH=.:tests/helpers python tests/speed/plain_pass.py [FOLDER ...] [--tokens 200]
        [--repeats 7]

Without a folder the built-in model. Nodes are all that MLX walks through, views included: of a
pass of one row, of four rows whose last block was kept in part, and of a head's draft. Tokens are
those that both agree on from the start; ratios are medians of pairs, above 1 where we are faster,
by the clock and by the processor's time, which other programs disturb less.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import mlx.core as mx
from lazy_graph import nothing_begun, primitives
from mlx.utils import tree_flatten
from mlx_lm import load
from mlx_lm.models.cache import make_prompt_cache

import mlx_engine
from mlx_engine.bench.arms import DraftSetting, draft_arm, mlx_lm_arm, questions
from mlx_engine.bench.report import AnswerFigures, BenchPlan
from mlx_engine.bench.run_bench import arms_in_turns
from mlx_engine.decoding.state import shared_prefix
from mlx_engine.engine import Engine
from mlx_engine.values.options import DraftOptions

PROMPT = list(range(5, 25))


def our_nodes(engine: Engine) -> dict[str, Counter[str]]:
    """Of passes behind a short prompt."""
    model, found = engine.parts.model, {}
    for name, rows, kept in (("1 row", 1, 4), ("4 rows", 4, 4), ("4 rows, 2 to replay", 4, 2)):
        caches = model.make_caches()
        for block, keep in ((PROMPT, len(PROMPT)), ([7, 8, 9, 10], kept)):
            hidden = model.forward(mx.array([block]), caches)
            caches.commit(keep)
            mx.eval(hidden, caches.arrays())
        with nothing_begun():
            logits = model.logits(model.forward(mx.array([[7, 8, 9, 10][:rows]]), caches))
        found[name] = primitives(mx.argmax(logits, axis=-1), *caches.arrays())
    for head in model.heads[:1]:
        caches = head.make_head_caches()
        mx.eval(head.mtp_forward(mx.array([[3, 4]]), hidden[:, :2], caches), caches.arrays())
        caches.commit(2)
        with nothing_begun():
            state = head.mtp_forward(mx.array([[3]]), hidden[:, :1], caches)
        found["1 draft"] = primitives(mx.argmax(head.mtp_logits(state), axis=-1), *caches.arrays())
    return found


def their_nodes(folder: Path) -> Counter[str]:
    """Of one decoding step of mlx-lm behind the same prompt."""
    model = load(str(folder))[0]
    model.set_dtype(mx.float32)
    cache = make_prompt_cache(model)

    def states() -> list[mx.array]:
        leaves = tree_flatten([layer.state for layer in cache])
        return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]

    model(mx.array([PROMPT]), cache=cache)
    mx.eval(model.parameters(), states())
    logits = model(mx.array([PROMPT[-1:]]), cache=cache)[:, -1]
    normal = logits - mx.logsumexp(logits, keepdims=True)
    return primitives(mx.argmax(normal, axis=-1), normal, *states())


def compare(folder: str | None, tokens: int, repeats: int) -> None:
    """Print both tables for one model."""
    engine = mlx_engine.load(folder)
    plan = BenchPlan(ignore_eos=True)
    mine = draft_arm(engine, plan, DraftSetting("off", DraftOptions("none")))
    theirs = mlx_lm_arm(Path(engine.description.path), plan.sampling)
    found = our_nodes(engine) | {theirs.name: their_nodes(Path(engine.description.path))}
    print(f"\n{engine.description.path}")
    for name, kinds in found.items():
        most = ", ".join(f"{count} {kind[:20]}" for kind, count in kinds.most_common(8))
        print(f"  {name}: {kinds.total()} nodes ({most})")
    question = questions(engine)[0]

    def ours() -> AnswerFigures:
        return mine.answer(question, tokens)

    def its() -> AnswerFigures:
        return theirs.answer(question, tokens)

    sides = [ours, its]
    runs: dict[Callable[[], AnswerFigures], list[AnswerFigures]] = {ours: [], its: []}
    for side in sides:
        side()  # warms up
    for side in arms_in_turns(sides, repeats):
        runs[side].append(side())
    equal = shared_prefix(runs[ours][0].tokens, runs[its][0].tokens)
    print(f"  {equal} of {tokens} tokens equal; {repeats} pairs")
    for name, seconds in (("clock", lambda run: run.later_s), ("processor", lambda run: run.cpu_s)):
        own, other = ([1000 * seconds(run) / run.later for run in runs[side]] for side in sides)
        ratio = median(b / a for a, b in zip(own, other, strict=True))
        print(f"  {name}: {median(own):.2f} ms a token, mlx-lm {median(other):.2f}: {ratio:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folders", nargs="*", default=[None])
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    for one in given.folders:
        compare(one, given.tokens, given.repeats)
