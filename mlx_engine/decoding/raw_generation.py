"""Generation without a chat template: one raw prompt, or several in shared passes."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import NamedTuple

from mlx_engine.decoding.answer import Answer, open_answer
from mlx_engine.decoding.config import ModelParts
from mlx_engine.decoding.prompt import Prompt
from mlx_engine.drafting.depth import DepthPolicy
from mlx_engine.drafting.sources import Drafting
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.values.conversation import TURN_ENDS, Event, Generation, Settings
from mlx_engine.values.errors import BadPrompt, PromptTooLong
from mlx_engine.values.options import require


def known_tokens(parts: ModelParts, tokens: Sequence[int]) -> list[int]:
    """Token ids as plain integers. Raises BadPrompt if the vocabulary lacks one."""
    vocabulary = parts.model.vocabulary
    if isinstance(tokens, bytes):  # whole numbers as well
        raise BadPrompt("A prompt is text or token ids: decode the bytes to text.")
    try:
        ids = [index(token) for token in tokens]
    except TypeError as error:
        raise BadPrompt("Token ids must be whole numbers ({error}).", error=str(error)) from error
    bad = next((token for token in ids if not 0 <= token < vocabulary), None)
    if bad is not None:
        raise BadPrompt(
            "Token {bad} is not in the vocabulary of {vocabulary}.", bad=bad, vocabulary=vocabulary
        )
    return ids


def readable_tokens(parts: ModelParts, tokens: Sequence[int]) -> list[int]:
    """Check that token ids are a prompt that leaves room for an answer.

    Raises BadPrompt, PromptTooLong.
    """
    ids, limit = known_tokens(parts, tokens), parts.context_length
    if not ids:
        raise BadPrompt("The prompt is empty: give at least one token.")
    if len(ids) >= limit:
        raise PromptTooLong(
            "The prompt has {ids:,} tokens, the context holds {limit:,}: shorten it.",
            ids=len(ids),
            limit=limit,
        )
    return ids


def raw_prompt(parts: ModelParts, prompt: str | Sequence[int]) -> list[int]:
    """Check token ids, or tokenise a text with the begin token (BOS) that the tokenizer adds.

    Raises BadPrompt, PromptTooLong.
    """
    tokens = parts.tokenizer.encode(prompt, True) if isinstance(prompt, str) else prompt
    return readable_tokens(parts, tokens)


def raw_answer(
    parts: ModelParts,
    settings: Settings,
    prompt: Sequence[int],
    depth_policy: DepthPolicy,
    stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """Prepare an answer to a raw prompt in a new conversation. Raises OutOfMemory."""
    return open_answer(
        parts,
        settings,
        parts.prompts.sequence(cache=settings.cache),
        Drafting(parts.drafting, depth_policy),
        Prompt(tuple(prompt), len(prompt) - 1),
        StreamingText(parts.tokenizer, settings.generation.stop, split_thinking=False),
        stopped,
    )


def raw_generation(
    parts: ModelParts,
    settings: Settings,
    prompt: Sequence[int],
    depth_policy: DepthPolicy,
    stopped: Callable[[], bool],
) -> Generation:
    """Generate an answer to a raw prompt to its end and return it.

    stopped: asked before every round. Raises BadOption.
    """
    require("should_stop", stopped, "a function", callable)
    answer = raw_answer(parts, settings, prompt, depth_policy, stopped)
    deque(answer.events(), maxlen=0)
    return _generation(answer)


class _Running(NamedTuple):
    """One of several running answers, with the number of its prompt."""

    number: int
    answer: Answer
    events: Generator[Event, None, None]


def raw_generations(
    parts: ModelParts,
    settings: Settings,
    prompts: Sequence[str | Sequence[int]],
    new_policy: Callable[[], DepthPolicy],
    stopped: Callable[[int], bool],
) -> list[Generation]:
    """Generate answers to several prompts, as many at once as a pass has rows.

    new_policy: called once per prompt. stopped: asked with the number of a prompt before its every
    round. Raises BadPrompt, BadOption, PromptTooLong.
    """
    require("should_stop", stopped, "a function", callable)
    if isinstance(prompts, str):
        raise BadPrompt("Several prompts are wanted: give a list of texts or of token ids.")
    asked = deque(enumerate([raw_prompt(parts, prompt) for prompt in prompts]))
    running: deque[_Running] = deque()
    found: dict[int, Generation] = {}
    try:
        while asked or running:
            while asked and len(running) < parts.batch.most_rows():
                number, prompt = asked.popleft()
                is_stopped = partial(stopped, number)
                answer = raw_answer(parts, replace(settings), prompt, new_policy(), is_stopped)
                running.append(_Running(number, answer, answer.events()))
            current = running.popleft()
            if any(isinstance(event, TURN_ENDS) for event in current.events):
                running.append(current)
            else:
                found[current.number] = _generation(current.answer)
    finally:  # after an error, which keeps them alive: their rows would stay in the passes
        for other in running:
            other.events.close()
    return [found[number] for number in sorted(found)]


def _generation(answer: Answer) -> Generation:
    """Make the result of an answer that has ended: text, tokens, statistics."""
    finished = answer.finished()
    return Generation(finished.text, tuple(answer.tokens), finished.stats, finished.reason)
