"""What answers are made with: the parts of a loaded model, and the settings of one chat."""

from dataclasses import dataclass, field

from mlx_engine.drafting.sources import DraftKit
from mlx_engine.models.contract import Adapter
from mlx_engine.sampling.position_noise import NoiseOfKeys, plain_noise
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions


@dataclass(frozen=True, slots=True)
class ModelParts:
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
class Settings:
    """Of one chat; changes apply at the next round (sampling, draft) or message."""

    sampling: SamplingOptions
    draft: DraftOptions = field(default_factory=DraftOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    system: str | None = None
    thinking: bool | None = None
