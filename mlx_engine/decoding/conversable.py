"""What a conversation needs of a loaded model, and what its user may set."""

from dataclasses import dataclass

from mlx_engine.drafting.sources import DraftKit
from mlx_engine.models.contract import Adapter
from mlx_engine.sampling.position_noise import NoiseOfKeys, plain_noise
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.options import GenerationOptions, SamplingOptions


@dataclass(frozen=True, slots=True)
class Conversable:
    """What a conversation needs of a loaded model.

    stop: strings that end an answer in this template's format. drafting: what there is to draft
    with. chunk: prompt tokens read between two looks at the stop flag. noise: makes what is added
    to logits.
    """

    adapter: Adapter
    tokenizer: Tokenizer
    template: ChatTemplate
    stop: tuple[str, ...]
    context_length: int
    drafting: DraftKit
    chunk: int
    noise: NoiseOfKeys = plain_noise


@dataclass(slots=True)
class SessionSettings:
    """Settings of one chat; changes apply at the next round (sampling, draft) or message."""

    system: str | None
    sampling: SamplingOptions
    generation: GenerationOptions
    thinking: bool | None = None
