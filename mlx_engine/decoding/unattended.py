"""One answer to a raw prompt, with settings that stay as they are while it runs."""

from collections.abc import Sequence

from mlx_engine.decoding.answer import Answer
from mlx_engine.decoding.conversable import Conversable
from mlx_engine.decoding.draft_control import DraftControl
from mlx_engine.decoding.opening import Opening
from mlx_engine.decoding.stop_rules import StopRules
from mlx_engine.decoding.track import Track
from mlx_engine.sampling.sampler import fresh_seed
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.values.options import GenerationOptions, SamplingOptions


class _Unattended:
    """Settings of an answer nobody changes while it runs."""

    def __init__(self, sampling: SamplingOptions, control: DraftControl) -> None:
        self._sampling = sampling
        self.length = control.length

    def stopped(self) -> bool:
        return False

    def sampling(self) -> SamplingOptions:
        return self._sampling


def unattended_answer(
    model: Conversable,
    prompt: Sequence[int],
    sampling: SamplingOptions,
    generation: GenerationOptions,
    track: Track,
    control: DraftControl,
) -> Answer:
    """An answer that has not begun; `prompt` is not empty and fits the context.

    track: what it runs on, from `control`, which decides on the drafts.
    """
    tokenizer = model.tokenizer
    return Answer(
        track,
        Opening(tuple(prompt)),
        len(prompt) - 1,
        StopRules(
            frozenset() if generation.ignore_eos else tokenizer.end_ids,
            generation.max_tokens,
            model.context_length,
        ),
        StreamingText(tokenizer, generation.stop, split_thinking=False),
        _Unattended(sampling, control),
        fresh_seed() if sampling.seed is None else sampling.seed,
        model.chunk,
        model.noise,
    )
