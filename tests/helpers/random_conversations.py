"""Random conversations with tiny models, each with drafting and without: the words must be the same
and memory flat.

python tests/helpers/random_conversations.py [--models FIRST:END | NAME,...] [--conversations N]
[--seed S] [--list]

A conversation is a script for up to three sessions of one engine: questions, earlier ones in other
words, answers that go on where their tokens ran out, that are stopped or walked away from, several
at once, other settings (drafting in mid-answer, sampling, caches, system prompt), memory given
back, and the model loaded again with what was read in files.
"""

import argparse
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import mlx.core as mx
import tiny_nextn
from converted_gguf import ARCHITECTURES as CONVERTED
from converted_gguf import convert
from right_heads import WRITERS, write_right_heads
from tiny_gguf import write_tiny_gguf, write_tiny_gguf_experts
from tiny_published import ARCHITECTURES, publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.engine import Engine
from mlx_engine.values.conversation import TURN_ENDS, GenerationFinished, RoundFinished
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)

TEXTS = (
    "Hi",
    "Who jumps?",
    "fox " * 30,
    "Füchse 😀 你好",
    "1 + 1\n\n- a\n- b",
    "<think>no</think>",
)
FEW_WORDS = dict.fromkeys((75, 78, 110, 220, 257, 263, 270, 281), 5.0) | {297: 2.0}
GREEDY = SamplingOptions(temperature=0, logit_bias=FEW_WORDS)
OFF = DraftOptions(source="none")
CUT = ("stop", "walk")
GGUFS = ("llama", "qwen3_moe", "gemma3_text", "gpt_oss", "deepseek_v3", "granite", "lfm2")
RIGHT = ("qwen3_5", "glm4_moe", "deepseek_v3", "mimo_v2_flash")


def makers() -> dict[str, Callable[[Path], object]]:
    """Name -> what writes that model and returns its path, or leaves it at the one given."""
    made: dict[str, Callable[[Path], object]] = {"built-in": lambda _: "built-in"}
    made |= {f"heads {kind}": write for kind, write in WRITERS.items()}
    made["heads bailing"] = tiny_nextn.publish_ling
    made |= {f"right {kind}": lambda p, kind=kind: write_right_heads(p, kind, "token")
             for kind in RIGHT}  # fmt: skip
    made["none qwen3_5"] = lambda p: write_tiny_qwen3_5(p, heads="none")
    made["beside qwen3_5"] = lambda p: write_tiny_qwen3_5(p, heads="beside")
    made["gguf qwen35"] = lambda p: write_tiny_gguf(p.with_suffix(".gguf"))
    made["gguf qwen35moe"] = lambda p: write_tiny_gguf_experts(p.with_suffix(".gguf"), "qwen3_5_moe")  # fmt: skip  # noqa: E501
    made |= {f"gguf {kind}": lambda p, kind=kind: convert(
        publish(kind, p).folder, p.with_suffix(".gguf")) for kind in GGUFS if kind in CONVERTED}  # fmt: skip  # noqa: E501
    return made | {kind: lambda p, kind=kind: publish(kind, p) for kind in ARCHITECTURES}


class Step(NamedTuple):
    """What is done with a session; two or more of one group are answered by turns."""

    session: int
    does: str
    draws: tuple[float, ...]
    group: int


def script_of(random: Random) -> list[Step]:
    """Starts with a question; most steps make an answer."""
    kinds = "send send send edit continue continue regenerate stop walk sampling cache system"
    kinds += " forget load restart oldest"
    count = random.choice((1, 1, 2, 3))
    steps = [Step(n, "send", draws_of(random), n) for n in range(count)]
    for number in range(random.randint(5, 9)):
        together = random.sample(range(count), random.randint(1, count))
        does = [random.choice(kinds.split()) for _ in together]
        pairs = zip(together, does, strict=True)
        steps += [Step(n, what, draws_of(random), count + number) for n, what in pairs]
    return steps


def draws_of(random: Random) -> tuple[float, ...]:
    """What a step decides by: the same with drafting and without."""
    return tuple(random.random() for _ in range(6))


def pick(draw: float, choices: Any) -> Any:
    """One of them."""
    return choices[int(draw * len(choices))]


@dataclass
class Run:
    """One way through a script; said: what each answer was, in order."""

    load: Callable[[], Engine]
    drafts: bool
    said: list[object] = field(default_factory=list)
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0

    def go(self, steps: list[Step], random: Random) -> None:
        """All steps; random: of drafting and turns, which change no words."""
        self.random = random
        self.engine = self.load()
        count = 1 + max(step.session for step in steps)
        self.sessions = [self._session(n) for n in range(count)]
        groups: dict[int, list[Step]] = {}
        for step in steps:
            groups.setdefault(step.group, []).append(step)
        for group in groups.values():
            begun = {step: self._begin(step) for step in group}
            running = {step: events for step, events in begun.items() if events is not None}
            while running:
                step = random.choice(list(running))
                if not self._turn(step, running[step]):
                    del running[step]
        self.engine.close()

    def _session(self, number: int, like: Any = None) -> Any:
        made = self.engine.session(name=f"chat {number}", sampling=GREEDY, draft=OFF)
        if like is not None:
            made.sampling, made.system = like.sampling, like.system
            made.cache = like.cache
            made.load_messages(like.messages)
        return made

    def _begin(self, step: Step) -> Iterator[Any] | None:
        """The answer of a step, None where it makes none."""
        session, (a, b, c, *_) = self.sessions[step.session], step.draws
        asked = [n for n, m in enumerate(session.messages) if m.role == "user"]
        session.generation = GenerationOptions(max_tokens=1 + int(b * 14))
        match step.does:
            case "send":
                return session.send(pick(a, TEXTS))
            case "edit":
                return session.edit(pick(c, asked), pick(a, TEXTS))
            case "continue":
                return session.continue_answer()
            case "regenerate" | "stop" | "walk":
                return session.regenerate()
            case "sampling":
                session.sampling = SamplingOptions(
                    temperature=pick(a, (0, 0.7, 1.3)),
                    top_k=pick(b, (0, 0, 5)),
                    top_p=pick(c, (1, 1, 0.8)),
                    min_p=pick(step.draws[3], (0, 0, 0.1)),
                    frequency_penalty=pick(step.draws[4], (0, 0, 0.7)),
                    repetition_penalty=pick(step.draws[5], (1, 1, 1.3)),
                    logit_bias=FEW_WORDS,
                    seed=int(a * 2**20),
                )
            case "cache":
                with suppress(EngineError):  # not every model can
                    session.cache = CacheOptions(pick(a, (16, 8, 4)), pick(b, (16, 8)))
            case "system":
                session.system = pick(a, (None, "Be brief.", "fox " * 70))
            case "forget":
                session.forget()
            case "load":
                self.sessions[step.session] = self._session(step.session, session)
            case "oldest":
                with suppress(EngineError):  # nothing is older
                    session.drop_oldest()
            case "restart" if a < 0.3:
                before = self.sessions
                kept = [(s.sampling, s.system, s.cache, s.messages) for s in before]
                self.engine.close()
                self.engine = self.load()
                self.sessions = [self._session(n) for n in range(len(before))]
                for session, (sampling, system, bits, messages) in zip(
                    self.sessions, kept, strict=True
                ):
                    session.sampling, session.system, session.cache = sampling, system, bits
                    session.load_messages(messages)
        return None

    def _turn(self, step: Step, events: Iterator[Any]) -> bool:
        """Up to the end of a round or a part of the prompt; whether there is more."""
        session, random = self.sessions[step.session], self.random
        if self.drafts and (session.draft == OFF or random.random() < 0.1):
            session.draft = DraftOptions(
                source=random.choice(("mtp", "mtp", "prompt-lookup", "prompt-lookup+mtp", "model")),
                depth=random.choice(("auto", 0, 1, 2, 3, 5, 8)),
                rule=random.choice(("shared-noise", "greedy")),
                min_probability=random.choice((0, 0, 0.3)),
                output=random.choice(("full", "full", "4-bit", "frequent")),
                vocabulary=256,
            )
        try:
            for event in events:
                if isinstance(event, RoundFinished):
                    self.drafted += event.stats.drafted
                    self.accepted += event.stats.accepted
                    self.tokens += event.stats.emitted
                    if step.does == "stop" and random.random() < 0.5:
                        session.stop()
                    elif step.does == "walk" and random.random() < 0.5:
                        events.close()  # type: ignore[attr-defined]
                        break
                if isinstance(event, GenerationFinished) and step.does not in CUT:
                    told = (event.text, event.thinking, event.reason, session.tokens)
                    self.said.append((step.session, step.does, *told))
                elif isinstance(event, TURN_ENDS):
                    return True
        except EngineError as error:
            if step.does not in CUT:
                self.said.append((step.session, step.does, type(error).__name__))
        return self._again(step) if step.does in CUT else False

    def _again(self, step: Step) -> bool:
        """What was cut somewhere is answered anew, so that the words are the same again."""
        again = step._replace(does="regenerate")
        events = self._begin(again)
        while events is not None and self._turn(again, events):
            pass
        return False


def by_session(said: list[object]) -> dict[int, list[object]]:
    """Answers of several sessions come in any order."""
    found: dict[int, list[object]] = {}
    for number, *rest in said:  # type: ignore[misc]
        found.setdefault(number, []).append(rest)
    return found


@cache
def small_model() -> str:
    """Any, with the same tokenizer."""
    return str(publish("llama", Path(tempfile.mkdtemp()) / "small", seed=5).folder)


def talk(name: str, make: Callable[[Path], object], numbers: range, seed: int) -> str:
    """All conversations with one model; a line about them."""
    started, place = time.perf_counter(), Path(tempfile.mkdtemp())
    made = make(place / "model")
    path = None if made == "built-in" else made if isinstance(made, Path) else place / "model"
    answers = tokens = drafted = accepted = 0
    wrong: list[str] = []
    memory: list[int] = []
    for number in numbers:
        key = f"{seed}/{name}/{number}"
        steps = script_of(Random(key))
        runs = []
        for drafts in (False, True):
            options = LoadOptions(
                prompt_files=place / f"{number}-{drafts}",
                draft_model=small_model() if number % 2 and path else None,
                draft_misfit="plain",
                context_length=pick(Random(key).random(), (120, 400, 512)) if path else 700,
            )
            run = Run(lambda o=options: mlx_engine.load(path, options=o), drafts)  # type: ignore[misc]
            try:
                run.go(steps, Random(key))
            except Exception as error:
                run.said.append((0, "FAILED", type(error).__name__, str(error)[:200]))
                wrong.append(f"{number} {type(error).__name__}: {str(error)[:160]}")
            run.sessions.clear()
            runs.append(run)
        del run.engine, runs[0].engine
        gc.collect()
        mx.clear_cache()
        memory.append(mx.get_active_memory())
        plain, other = map(by_session, (run.said for run in runs))
        if plain != other:
            differ = [(n, i) for n in plain for i, one in enumerate(plain[n])
                      if other.get(n, [])[i : i + 1] != [one]]  # fmt: skip
            wrong.append(f"{number} other words at {differ[:3]}")
        answers += len(runs[0].said)
        tokens += runs[0].tokens
        drafted += runs[1].drafted
        accepted += runs[1].accepted
    growth = max(memory[1:], default=memory[0]) - memory[0]
    took = time.perf_counter() - started
    line = f"{name:24} {len(numbers):3} talks {answers:4} answers {tokens:5} tokens, drafted"
    line += f" {drafted:5}, right {accepted:5}, grew {growth / 1e6:6.2f} MB, {took:5.0f} s"
    return "\n    ".join([line, *(f"WRONG {one}" for one in wrong)])


def main() -> None:
    """Print a line by model, and the sum."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--models", default="0:60")
    asked.add_argument("--conversations", type=int, default=10)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--list", action="store_true")
    given, every = asked.parse_args(), makers()
    first, colon, end = given.models.partition(":")
    names = list(every)[int(first or 0) : int(end or len(every))] if colon else first.split(",")
    if given.list:
        print(*names, sep="\n")
        return
    lines: list[str] = []
    for name in names:
        lines.append(talk(name, every[name], range(given.conversations), given.seed))
        print(lines[-1], flush=True)
    wrong = sum(line.count("WRONG") for line in lines)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{len(names) * given.conversations} conversations, {wrong} wrong, peak {peak} MB")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
