"""What is measured: prompts, and answers of an engine round by round, with clocks."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from mlx_engine.decoding.answer import Answer, raw_answer
from mlx_engine.decoding.opening import Settings
from mlx_engine.drafting.depth.choice import Learned
from mlx_engine.engine import Engine
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions

HELD_OUT = "held_out.json"
"""A list of objects with a "question" that the model was not trained on."""

QUESTIONS = (
    "Write a Python function that returns the n-th Fibonacci number, and explain it.",
    "What is the difference between a list and a tuple in Python?",
    "Summarise the causes of the French Revolution in five sentences.",
    "My train leaves at 9:40 and the way to the station takes 25 minutes. When should I go?",
    "Translate into German: The weather is fine and we are going for a walk.",
    "Tell a short story about a lighthouse keeper who finds a letter.",
)

FILLER = (
    "def read_lines(path):\n    with open(path, encoding='utf-8') as file:\n"
    "        return [line.rstrip() for line in file]\n\n"
    "The function opens the file, reads it line by line and drops what stands at the ends.\n\n"
)


SEED = 1
GREEDY = SamplingOptions(temperature=0, seed=SEED)
PLAIN = DraftOptions(source="none")


def questions(folder: Path, count: int) -> list[str]:
    """`count` questions at most, spread over all there are."""
    held_out = folder / HELD_OUT
    texts: Sequence[str] = QUESTIONS
    if held_out.is_file():
        texts = [row["question"] for row in json.loads(held_out.read_text(encoding="utf-8"))]
    step = max(1, len(texts) // count)
    return list(texts[::step][:count])


def chat_prompts(engine: Engine, count: int) -> list[list[int]]:
    """Questions as the model is asked them."""
    texts = questions(Path(engine.description.path), count)
    template, tokenizer = engine.parts.template, engine.parts.tokenizer
    asked = [[Message("user", text)] for text in texts]
    return [list(tokenize_chat(template, tokenizer, messages).tokens) for messages in asked]


def long_prompt(engine: Engine, length: int) -> list[int]:
    """Exactly `length` tokens of running text."""
    once = engine.tokenize(FILLER)
    return (once * (length // len(once) + 1))[:length]


def pinned(depth: int) -> DraftOptions:
    """Drafting at one depth; 0 is plain decoding."""
    return DraftOptions(depth=depth) if depth else PLAIN


class PlainRun(NamedTuple):
    """Tokens; seconds to the first of them and from there to the last; the latter's CPU seconds."""

    tokens: tuple[int, ...]
    first_s: float
    decode_s: float
    decode_cpu_s: float


def open_answer(
    engine: Engine,
    prompt: Sequence[int],
    tokens: int,
    sampling: SamplingOptions,
    draft: DraftOptions,
    *,
    ignore_eos: bool,
) -> Answer:
    """An answer of at most `tokens` tokens that has not begun, as of `Engine.generate`."""
    parts = engine.parts
    settings = Settings(sampling, draft, GenerationOptions(tokens, ignore_eos=ignore_eos))
    return raw_answer(parts, settings, prompt, learned(engine))


def learned(engine: Engine) -> Learned:
    """What is known of drafting before the first round."""
    return Learned(lambda: engine.pass_costs, engine.parts.drafting.small_share)


def plain_run(engine: Engine, prompt: Sequence[int], tokens: int) -> PlainRun:
    """Greedy plain decoding past every end of text."""
    started = first = perf_counter()
    first_cpu = process_time()
    answer = open_answer(engine, prompt, tokens, GREEDY, PLAIN, ignore_eos=True)
    rounds = 0
    for event in answer.events():
        if isinstance(event, RoundFinished):
            rounds += 1
            if rounds == 1:
                first, first_cpu = perf_counter(), process_time()
    ended = perf_counter()
    return PlainRun(
        tuple(answer.tokens), first - started, ended - first, process_time() - first_cpu
    )
