"""Everything a chat answers with: model, system prompt, drafting, sampling, limits."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from app.values.typed_json import Reading, encode, read_fields
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    SamplingOptions,
    TemplateValue,
)


@dataclass(frozen=True, slots=True)
class SamplingChoice:
    """What the user chose of SamplingOptions; None is what the model recommends."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dry_multiplier: float | None = None

    def __post_init__(self) -> None:
        self.over(SamplingOptions())

    def over(self, recommended: SamplingOptions) -> SamplingOptions:
        """What holds where this is recommended."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(recommended, **chosen)


THINKING = "enable_thinking"
"""The argument of chat templates that switches thinking on or off."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """model_path: a file, folder or hub id, None for the built-in model.

    thinking: None leaves it to the model's template. template_arguments: what else the template is
    given, whether or not that of the model in use asks for it. preset: the name of the one these
    settings began with, whether or not they were changed since. read_from: the number of the
    message from which on this chat is read since its context was full, None for its beginning.
    tool_servers: names of those whose tools the model may ask for. allowed_tools: permissions of
    tools that run without asking.
    """

    model_path: str | None = None
    system: str = ""
    draft: DraftOptions = field(default_factory=DraftOptions)
    sampling: SamplingChoice = field(default_factory=SamplingChoice)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    thinking: bool | None = None
    template_arguments: Mapping[str, TemplateValue] = field(default_factory=dict)
    preset: str | None = None
    read_from: int | None = None
    tool_servers: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()

    @property
    def given_to_template(self) -> Mapping[str, TemplateValue]:
        """All arguments of the chat template, thinking among them unless it is left to it."""
        thinking = {} if self.thinking is None else {THINKING: self.thinking}
        return {**self.template_arguments, **thinking}


def settings_to_json(settings: ChatSettings) -> str:
    """One line of JSON."""
    return json.dumps(encode(settings))


def settings_from_json(text: str) -> Reading[ChatSettings]:
    """What can be read of it; the rest has its defaults, and a note."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = text
    reading = read_fields(ChatSettings(), content, "settings")
    return replace(reading, value=without_old_defaults(reading.value))


def without_old_defaults(settings: ChatSettings) -> ChatSettings:
    """An older Headstart wrote sampling down whole, also where nobody had chosen it."""
    written = asdict(SamplingOptions())
    untouched = SamplingChoice(*(written[one.name] for one in fields(SamplingChoice)))
    if settings.sampling != untouched:
        return settings
    return replace(settings, sampling=SamplingChoice())


def as_preset(settings: ChatSettings) -> ChatSettings:
    """What a preset keeps of a chat: nothing that names its model, a message, or itself, and no
    leave to run tools.
    """
    return replace(settings, model_path=None, preset=None, read_from=None, allowed_tools=())
