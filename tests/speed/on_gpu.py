"""The decoding loop on a real GPU: MLX's stock operations, Qwen3.5's shapes, random weights.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/on_gpu.py [--json FILE] [--only SECTION ...]
        [--small] [--seconds 320]

Runs with MLX's CUDA backend (this project's Metal kernels do not) and, with --small, on a CPU.
Weights are random, in 4 bits. Acceptance is dialled: logits are so flat that the noise alone
decides, which head and model share, so a head's draft is right; a drafted token is then spoilt on
the device with a set chance, which waits for nothing.

Sections, each in a table: `costs` (passes of 1 to 9 rows over a pass of one), `peer` (plain
decoding against mlx-lm's class and loop), `depths` (off, depth 1 to 4, auto, by acceptance),
`times` (what the depth policy is told of rounds of depth 0 and 4 in turn, against the time between
their outcomes, stamped by a thread that waits for nothing else), `idle` (the loop against the same
passes queued without reading an outcome), `memory` (peak over a long answer with and without
lookahead), `chats` (three at once against one after the other). A section that fails says why, and
one that would begin behind --seconds is left out.

Measured on an NVIDIA H200 (MLX 0.32.4, 4B, 150 tokens), before outcomes had a reader of their own:
rounds of depth 0 and 4 in turn took 16.8 and 27.5 ms and were told as 22.4 and 22.0. A pass of 2, 4
and 8 rows costs 1.45, 2.13 and 2.69 plain ones; the device idles 13 % of a plain and 43 % of a
drafted loop; plain decoding is at 0.81 of mlx-lm (0.9B: 0.91), three chats at 0.90 of one, and
lookahead adds 55 MB to a peak of 400. On an H100 with the reader (4B, 120 tokens): told 17.9 and
27.6, true 17.5 and 27.7 ms.

`depths` on an H100 (4B, 240 tokens in slices of a third, each answer with a policy that knows
nothing yet): the best fixed depth ran at 0.42, 0.77, 0.91 and 1.13 of the mean of both arms without
drafting, at acceptance 0, 0.5, 0.8 and 0.95, `auto` at 1.16, 0.93, 0.87 and 0.82 of it; those two
arms differed by 9 to 32 %. There the host is the bottleneck, which no pass timed alone shows: a
round of depth 1 took 33 ms, 2.4 plain ones, where its passes promise 1.5. With such costs the
simulator of tests/helpers loses 3 to 7 % of the first 240 tokens and under 2 % of 1,200.
"""

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch

import mlx.core as mx
from plain_run import CyclingDepth, TokenText, opened
from published_configs import CONFIGS

from metal_kernels.stock import computes_on_gpu
from mlx_engine.decoding.answer import Answer, open_answer
from mlx_engine.decoding.config import ModelParts
from mlx_engine.decoding.pictures import PictureEncoder
from mlx_engine.decoding.prompt import Prompt
from mlx_engine.decoding.round import Pass, Round
from mlx_engine.decoding.scheduler import BatchScheduler, outcome_reader
from mlx_engine.decoding.state import SequenceState
from mlx_engine.drafting.contract import DraftChoice, DraftRequest
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import HeadPasses, MtpDraft
from mlx_engine.drafting.output_head import SharedOutputHeads
from mlx_engine.drafting.record import PassCosts
from mlx_engine.drafting.sources import DrafterFactory, Drafting
from mlx_engine.models.decoder import Decoder, build_decoder
from mlx_engine.models.families.qwen3_5 import Qwen35
from mlx_engine.models.weights import WeightTable
from mlx_engine.sampling.sampler import Sampler
from mlx_engine.self_check.pass_costs import CostMeter
from mlx_engine.text.grammar import GrammarTokens
from mlx_engine.values.conversation import TURN_ENDS, PromptProgress, RoundFinished, Settings
from mlx_engine.values.options import CacheBits, DraftOptions, GenerationOptions, SamplingOptions

SIZES: Mapping[str, Mapping[str, object]] = {
    "0.9B": {
        **CONFIGS["Qwen3.5-4B"],
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 3584,
        "linear_num_value_heads": 16,
    },
    "4B": CONFIGS["Qwen3.5-4B"],
    "9B": CONFIGS["Qwen3.5-9B"],
    "27B": CONFIGS["Qwen3.6-27B"],
}
SMALL = {
    **CONFIGS["Qwen3.5-4B"],
    "vocab_size": 1024,
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
}
PROMPT = list(range(5, 69))
NOISE = SamplingOptions(temperature=10.0, seed=1)
FLAT = 0.01
"""Size of the output matrix: logits / temperature vary by a thousandth, noise by one."""

GROUP, BITS = 64, 4
ACCEPTED = (0.0, 0.5, 0.8, 0.95)
OFF = DraftOptions(source="none")


def random_model(config: Mapping[str, object], seed: int = 0) -> Decoder:
    """A Qwen3.5 of these sizes with a head, in 4 bits, made on the device."""
    spec = Qwen35("qwen3_5", config, "config").spec
    every = len(spec.blocks) + 1
    present = [f"layers.{n}.join.weight" for n in range(every)]
    mx.random.seed(seed)
    tables = [
        WeightTable(dict(random_arrays(shapes)), "random")
        for shapes in (spec.tensors(present), spec.head_tensors(present))
    ]
    model = build_decoder(spec, tables[0], tables[1])
    for table in tables:
        mx.eval(table.taken_arrays)
    return model


def random_arrays(
    shapes: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, mx.array]]:
    """Of a variance that keeps states as large as they are; norms are one."""
    dtype = mx.bfloat16 if computes_on_gpu() else mx.float32
    for name, shape in shapes.items():
        if len(shape) == 1:
            decays = name.endswith(("A_log", "dt_bias"))
            yield name, mx.zeros(shape, mx.float32) if decays else mx.ones(shape, dtype)
        elif "conv1d" in name or shape[-1] % GROUP:
            yield name, (mx.random.normal(shape) / 2).astype(dtype)
        else:
            is_output = name in ("lm_head.weight", "embed_tokens.weight")
            step = (FLAT if is_output else 1.0) / (4.6 * shape[-1] ** 0.5)
            groups = (*shape[:-1], shape[-1] // GROUP)
            words = (*shape[:-1], shape[-1] * BITS // 32)
            base = name.removesuffix(".weight")
            yield name, mx.random.randint(0, 2**31 - 1, words).astype(mx.uint32)
            yield f"{base}.scales", mx.full(groups, step, dtype)
            yield f"{base}.biases", mx.full(groups, -7.5 * step, dtype)


class DialledHeads(MtpDraft):
    """The model's own heads, whose tokens are then spoilt, each with the chance 1 - `accepted`."""

    accepted = 1.0
    vocabulary = 0
    _drafts = 0

    def head_passes(self, wanted: DraftRequest, sampler: Sampler) -> HeadPasses:
        """As the heads draft, spoilt on the device."""
        draft = yield from super().head_passes(wanted, sampler)
        if not draft.passes:
            return draft
        self._drafts += 1
        chances = mx.random.uniform(shape=draft.tokens.shape, key=mx.random.key(self._drafts))
        other = (draft.tokens + 1) % self.vocabulary
        return draft._replace(tokens=mx.where(chances < self.accepted, draft.tokens, other))


@dataclass(frozen=True, slots=True)
class DialledKit(DrafterFactory):
    """Makes DialledHeads."""

    accepted: float = 1.0

    def make_drafter(
        self, options: DraftOptions, bits: CacheBits = 16, *, uses_draft_model: bool
    ) -> "DialledHeads | NoDraft":
        """Heads, or nothing."""
        if not uses_draft_model:
            return NoDraft()
        made = DialledHeads(self.model.heads, options, self.outputs, bits=bits)
        made.accepted, made.vocabulary = self.accepted, self.model.vocabulary
        return made


@dataclass
class Bench:
    """A model, what its passes cost here, and how answers are made with it."""

    name: str
    model: Decoder
    tokens: int
    costs: PassCosts = field(init=False)

    def __post_init__(self) -> None:
        meter = CostMeter(self.model, lambda: None, computes_on_host=not computes_on_gpu())
        meter.use_heads()
        measured = meter.measure()
        assert measured is not None
        self.costs = measured

    def parts(
        self, accepted: float, batch: BatchScheduler, *, looks_ahead: bool = True
    ) -> ModelParts:
        """As an engine has them; nothing here reads text."""
        outputs = SharedOutputHeads(self.model, frozenset(), lambda text: [ord(c) for c in text])
        batch.looks_ahead = looks_ahead
        kit = DialledKit(self.model, None, lambda: None, None, outputs, accepted=accepted)
        return ModelParts(
            model=self.model,
            tokenizer=None,  # type: ignore[arg-type]
            template=None,  # type: ignore[arg-type]
            stop=(),
            context_length=8192,
            drafting=kit,
            prompts=None,  # type: ignore[arg-type]
            grammars=GrammarTokens(None, self.model.vocabulary),  # type: ignore[arg-type]
            pictures=PictureEncoder(None, None),
            chunk=512,
            batch=batch,
        )

    def answer(
        self,
        draft: DraftOptions,
        accepted: float,
        tokens: int,
        batch: BatchScheduler | None = None,
        *,
        looks_ahead: bool = True,
    ) -> Answer:
        """One that has not begun."""
        parts = self.parts(
            accepted, batch or BatchScheduler(reader=outcome_reader()), looks_ahead=looks_ahead
        )
        settings = Settings(NOISE, draft, GenerationOptions(tokens, ignore_eos=True))
        policy = DepthPolicy(lambda: self.costs)
        return open_answer(
            parts,
            settings,
            SequenceState(self.model, NoDraft()),
            Drafting(parts.drafting, policy),
            Prompt(tuple(PROMPT), len(PROMPT) - 1),
            TokenText(),  # type: ignore[arg-type]
        )


class Run:
    """An answer that grows a slice at a time; seconds: behind its prompt."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.tokens, self.seconds = 0, 0.0
        self._events = answer.events()
        for event in self._events:
            if isinstance(event, PromptProgress) and event.done == event.total - 1:
                break
        mx.synchronize()

    def go_on(self, to: int) -> None:
        """Until it has so many tokens or ends; what was begun ahead is waited for."""
        began = perf_counter()
        for event in self._events:
            if isinstance(event, RoundFinished):
                self.tokens += event.stats.emitted
                if self.tokens >= to:
                    break
        mx.synchronize()
        self.seconds += perf_counter() - began

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def rates(bench: Bench, arms: Mapping[str, DraftOptions], accepted: float) -> dict[str, Run]:
    """Every arm, thirds in turn: at the end of each a round that was begun ahead is waited for."""
    runs = {name: Run(bench.answer(arm, accepted, bench.tokens)) for name, arm in arms.items()}
    for end in range(bench.tokens // 3, bench.tokens + 1, bench.tokens // 3):
        for run in runs.values():
            run.go_on(end)
    return runs


def costs(bench: Bench) -> Iterator[dict[str, object]]:
    """A row for the model."""
    verify_ms = bench.costs.verify_ms
    yield {
        "ms": [round(ms, 3) for ms in verify_ms],
        "over one": [round(ms / verify_ms[0], 3) for ms in verify_ms],
        "draft ms": round(bench.costs.draft_ms, 3),
    }


def depths(bench: Bench) -> Iterator[dict[str, object]]:
    """A row for each acceptance."""
    arms = {"off": OFF, **{str(depth): DraftOptions(depth=depth) for depth in range(1, 5)}}
    arms |= {"auto": DraftOptions(), "off 2": OFF}
    for accepted in ACCEPTED:
        runs = rates(bench, arms, accepted)
        off = runs["off"].rate
        best = max(run.rate for name, run in runs.items() if name != "auto")
        stats = runs["3"].answer.tally.stats()
        right, drafted = sum(stats.accepted_by_depth[:1]), sum(stats.drafted_by_depth[:1])
        yield {
            "accepted": accepted,
            "first draft": round(right / drafted, 3),
            **{name: round(run.rate / off, 3) for name, run in runs.items()},
            "off tok/s": round(off, 1),
            "auto/best": round(runs["auto"].rate / best, 3),
        }


class Watcher:
    """Waits for outcomes one after the other and stamps each: passes -> seconds by the clock."""

    def __init__(self) -> None:
        self.ends: dict[int, float] = {}
        self._asked: queue.Queue[tuple[int, list[mx.array]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def watch(self, number: int, outcomes: list[mx.array]) -> None:
        self._asked.put((number, outcomes))

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            number, outcomes = asked
            for outcome in outcomes:
                outcome.tolist()
            self.ends[number] = perf_counter()
            del asked, outcomes


@contextmanager
def watched(watcher: Watcher) -> Iterator[list[Pass]]:
    """Within, every pass that is queued is watched; they are listed in order."""
    passes: list[Pass] = []
    queued = Pass.queue_on_device

    def watching(its: Pass) -> None:
        is_new = not its.queued_at
        queued(its)
        if is_new:
            passes.append(its)
            watcher.watch(len(passes) - 1, its._outcomes)

    with patch.object(Pass, "queue", watching):
        yield passes


def times(bench: Bench) -> Iterator[dict[str, object]]:
    """Rounds of depth 0 and 4 in turn, with and without lookahead."""
    for looks_ahead in (True, False):
        watcher = Watcher()
        heads = DialledHeads(bench.model.heads, DraftOptions())
        heads.accepted, heads.vocabulary = 0.5, bench.model.vocabulary
        answer = opened(
            bench.model,
            PROMPT,
            heads,
            CyclingDepth([0, 4]),
            options=NOISE,
            max_tokens=bench.tokens,
            chunk=512,
            looks_ahead=looks_ahead,
            batch=BatchScheduler(reader=ThreadPoolExecutor(1)),
        )
        try:
            with watched(watcher) as passes:
                told = [
                    (event.stats.drafted, event.stats.total_ms)
                    for event in answer.events()
                    if isinstance(event, RoundFinished)
                ]
                mx.synchronize()
        finally:
            watcher.close()
        ends = [watcher.ends[number] for number in range(len(passes))]
        true_ms = [1000 * (end - before) for before, end in pairwise(ends)]
        row: dict[str, object] = {"lookahead": looks_ahead}
        for depth in (0, 4):
            rows = [n for n, (drafted, _) in enumerate(told) if drafted == depth and n > 4]
            row[f"told {depth}"] = round(median(told[n][1] for n in rows), 3)
            row[f"true {depth}"] = round(
                median(true_ms[n - 1] for n in rows if n - 1 < len(true_ms)), 3
            )
        yield row


def idle(bench: Bench) -> Iterator[dict[str, object]]:
    """Depth 0 and 3, everything accepted."""
    for depth in (0, 3):
        draft = DraftOptions(depth=depth) if depth else OFF
        shares, loop_ms, queued_ms = [], [], []
        for _ in range(3):
            run = Run(bench.answer(draft, 1.0, bench.tokens))
            run.go_on(bench.tokens)
            passes = run.answer.tally.stats().passes
            loop_ms.append(1000 * run.seconds / passes)
            queued_ms.append(1000 * unread(bench, depth, passes) / passes)
            shares.append(1 - queued_ms[-1] / loop_ms[-1])
        yield {
            "depth": depth,
            "loop ms": round(median(loop_ms), 3),
            "unread ms": round(median(queued_ms), 3),
            "idle": round(median(shares), 3),
        }


def unread(bench: Bench, depth: int, passes: int) -> float:
    """Seconds of so many rounds of which every row counts and no outcome is read."""
    heads = MtpDraft(bench.model.heads, DraftOptions()) if depth else NoDraft()
    state = SequenceState(bench.model, heads)
    state.sampler = Sampler(NOISE, bench.model.vocabulary, 1)
    state.last = mx.array(PROMPT[-1:])
    hidden = bench.model.forward(mx.array([PROMPT[:-1]]), state.caches)
    state.append_prompt_rows(PROMPT[:-1], hidden)
    state.evaluate()
    began = perf_counter()
    for _ in range(passes):
        round_ = Round(state, DraftChoice(depth, None), depth)
        Pass([round_])
        state.commit(round_.rows, depth + 1)
        mx.async_eval(round_.rows.picked)
    mx.synchronize()
    return perf_counter() - began


def memory(bench: Bench) -> Iterator[dict[str, object]]:
    """A long answer at depth 3."""
    for looks_ahead in (True, False):
        mx.clear_cache()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        run = Run(
            bench.answer(DraftOptions(depth=3), 0.8, 3 * bench.tokens, looks_ahead=looks_ahead)
        )
        run.go_on(3 * bench.tokens)
        kept = run.answer.sequence.caches.nbytes
        peak = mx.get_peak_memory() - before
        yield {
            "lookahead": looks_ahead,
            "tokens": run.tokens,
            "tok/s": round(run.rate, 1),
            "peak MB": round(peak / 2**20, 1),
            "caches MB": round(kept / 2**20, 1),
        }


def chats(bench: Bench) -> Iterator[dict[str, object]]:
    """Three, drafting off and auto."""
    for name, draft in (("off", OFF), ("auto", DraftOptions())):
        one = Run(bench.answer(draft, 0.8, bench.tokens))
        one.go_on(bench.tokens)
        batch = BatchScheduler(lambda: 16, outcome_reader())
        answers = [bench.answer(draft, 0.8, bench.tokens, batch) for _ in range(3)]
        running = [answer.events() for answer in answers]
        mx.synchronize()
        began = perf_counter()
        while running:
            running = [its for its in running if any(isinstance(e, TURN_ENDS) for e in its)]
        mx.synchronize()
        took = perf_counter() - began
        total = sum(len(answer.tokens) for answer in answers)
        yield {
            "drafting": name,
            "one tok/s": round(one.rate, 1),
            "three tok/s": round(total / took, 1),
            "over one": round(total / took / one.rate, 3),
        }


def peer(bench: Bench) -> Iterator[dict[str, object]]:
    """mlx-lm's class of the same sizes and its own loop, greedy, in turn with ours."""
    from mlx_lm.generate import generate_step

    theirs = peer_model(bench.name)
    prompt = mx.array(PROMPT)
    ours_rates, peer_rates = [], []
    for _ in range(3):
        run = Run(bench.answer(OFF, 1.0, bench.tokens))
        run.go_on(bench.tokens)
        ours_rates.append(run.rate)
        steps = generate_step(prompt, theirs, max_tokens=bench.tokens)
        next(steps)
        began = perf_counter()
        count = sum(1 for _ in steps)
        mx.synchronize()
        peer_rates.append(count / (perf_counter() - began))
    yield {
        "ours tok/s": round(median(ours_rates), 1),
        "mlx-lm tok/s": round(median(peer_rates), 1),
        "ours/mlx-lm": round(median(ours_rates) / median(peer_rates), 3),
    }


def peer_model(name: str) -> object:
    """With random weights in 4 bits."""
    from mlx import nn
    from mlx_lm.models import qwen3_5

    config = SIZES.get(name, SMALL)
    text = {
        **config,
        "model_type": "qwen3_5_text",
        "rope_parameters": {
            "type": "default",
            "rope_theta": config["rope_theta"],
            "partial_rotary_factor": config["partial_rotary_factor"],
            "mrope_section": [11, 11, 10],
        },
    }
    arguments = qwen3_5.ModelArgs.from_dict({"model_type": "qwen3_5", "text_config": text})
    model = qwen3_5.Model(arguments)
    model.set_dtype(mx.bfloat16 if computes_on_gpu() else mx.float32)
    nn.quantize(
        model,
        group_size=GROUP,
        bits=BITS,
        class_predicate=lambda _, layer: (
            hasattr(layer, "to_quantized") and layer.weight.shape[-1] % GROUP == 0
        ),
    )
    mx.eval(model.parameters())
    return model


SECTIONS: dict[str, tuple[Callable[[Bench], Iterator[dict[str, object]]], Sequence[str]]] = {
    "costs": (costs, ("27B", "9B", "4B")),
    "depths": (depths, ("27B", "4B")),
    "times": (times, ("27B", "4B")),
    "idle": (idle, ("27B", "4B")),
    "peer": (peer, ("4B", "0.9B", "27B")),
    "memory": (memory, ("4B", "0.9B")),
    "chats": (chats, ("27B", "4B")),
}


def main() -> None:
    """All sections, model by model, the largest first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--only", nargs="*", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--models", nargs="*", default=["27B", "4B", "0.9B", "9B"])
    parser.add_argument("--small", action="store_true", help="one tiny model, for a CPU")
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=320)
    asked = parser.parse_args()
    began = perf_counter()
    figures: list[dict[str, object]] = [{"device": str(mx.device_info())}]
    print(figures[0], flush=True)
    for name in ["small"] if asked.small else asked.models:
        wanted = [s for s in asked.only if asked.small or name in SECTIONS[s][1]]
        if not wanted or perf_counter() - began > asked.seconds:
            continue
        started = perf_counter()
        bench = Bench(name, random_model(SIZES.get(name, SMALL)), asked.tokens)
        print(f"{name}: made and measured in {perf_counter() - started:.1f} s", flush=True)
        for section in wanted:
            if perf_counter() - began > asked.seconds:
                print(f"{name} {section}: no time left", flush=True)
                continue
            try:
                for row in SECTIONS[section][0](bench):
                    figures.append({"model": name, "section": section, **row})
                    print(
                        f"{perf_counter() - began:5.0f} s {name:>5} {section:<7} {row}", flush=True
                    )
            except Exception as error:  # the others are worth having all the same
                print(
                    f"{name} {section}: {type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
        del bench
        mx.clear_cache()
    if asked.json:
        Path(asked.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
