"""Settings of one chat: model, system prompt, drafting, sampling, limits, tools."""

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
    """Sampling options that the user set; None stands for the model's recommendation."""

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
        """Fill in the recommended options where nothing was chosen."""
        chosen = {name: value for name, value in asdict(self).items() if value is not None}
        return replace(recommended, **chosen)


THINKING = "enable_thinking"
"""Argument of chat templates that switches thinking on or off."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """All settings of one chat.

    model_path: a file, folder or hub id, None for the built-in model. thinking: None for the chat
    template's default. template_arguments: further arguments of the chat template, known to it or
    not. preset: name of the preset that these settings began with. read_from: id of the first
    message that the model reads, since the context was full; None for all. tool_servers: names of
    the tool servers in use. allowed_tools: permissions of tools that run without asking.
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
        """All arguments of the chat template, with thinking unless that is unset."""
        thinking = {} if self.thinking is None else {THINKING: self.thinking}
        return {**self.template_arguments, **thinking}


def settings_to_json(settings: ChatSettings) -> str:
    """Convert settings to one line of JSON."""
    return json.dumps(encode(settings))


def settings_from_json(text: str) -> Reading[ChatSettings]:
    """Parse settings; a field that cannot be read has its default, and a note says so."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = text
    reading = read_fields(ChatSettings(), content, "settings")
    return replace(reading, value=without_old_defaults(reading.value))


def without_old_defaults(settings: ChatSettings) -> ChatSettings:
    """Unset sampling options where an older version stored all defaults as chosen."""
    written = asdict(SamplingOptions())
    untouched = SamplingChoice(*(written[one.name] for one in fields(SamplingChoice)))
    if settings.sampling != untouched:
        return settings
    return replace(settings, sampling=SamplingChoice())


def as_preset(settings: ChatSettings) -> ChatSettings:
    """Return the settings for a preset: without model, message id, preset and tool permissions."""
    return replace(settings, model_path=None, preset=None, read_from=None, allowed_tools=())
