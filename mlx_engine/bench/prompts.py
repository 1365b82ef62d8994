"""Prompts to measure with: held-out questions beside the model, else a few of our own."""

import json
from collections.abc import Sequence
from pathlib import Path

from mlx_engine.bench.subject import Subject
from mlx_engine.text.chat_template import tokenize_chat
from mlx_engine.values.conversation import Message

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


def questions(folder: Path, count: int) -> list[str]:
    """`count` questions at most, spread over all there are."""
    held_out = folder / HELD_OUT
    texts: Sequence[str] = QUESTIONS
    if held_out.is_file():
        texts = [row["question"] for row in json.loads(held_out.read_text(encoding="utf-8"))]
    step = max(1, len(texts) // count)
    return list(texts[::step][:count])


def chat_prompts(subject: Subject, count: int) -> list[list[int]]:
    """Questions as the model is asked them."""
    texts = questions(Path(subject.description.path), count)
    template, tokenizer = subject.parts.template, subject.parts.tokenizer
    asked = [[Message("user", text)] for text in texts]
    return [list(tokenize_chat(template, tokenizer, messages).tokens) for messages in asked]


def long_prompt(subject: Subject, length: int) -> list[int]:
    """Exactly `length` tokens of running text."""
    once = subject.tokenize(FILLER)
    return (once * (length // len(once) + 1))[:length]
