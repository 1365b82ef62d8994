"""Everything a chat answers with: model, system prompt, drafting, sampling, limits, numerics."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from app.values.typed_json import Reading, encode, read_fields
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
    TemplateValue,
)

THINKING = "enable_thinking"
"""The argument of chat templates that switches thinking on or off."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """model_path: a file, folder or hub id, None for the built-in model; numerics are in `load`.

    thinking: None leaves it to the model's template. template_arguments: what else the template is
    given, whether or not that of the model in use asks for it. preset: the name of the one these
    settings began with, whether or not they were changed since.
    """

    model_path: str | None = None
    system: str = ""
    draft: DraftOptions = field(default_factory=DraftOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    load: LoadOptions = field(default_factory=LoadOptions)
    thinking: bool | None = None
    template_arguments: Mapping[str, TemplateValue] = field(default_factory=dict)
    preset: str | None = None

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
    return read_fields(ChatSettings(), content, "settings")


def as_preset(settings: ChatSettings) -> ChatSettings:
    """What a preset keeps of a chat: nothing that names its model, or the preset itself."""
    load = LoadOptions(numerics=settings.load.numerics)
    return replace(settings, model_path=None, load=load, preset=None)


def for_model(settings: ChatSettings, model: ModelDescription | None) -> ChatSettings:
    """Settings of a new chat: sampling the user never touched is what the model recommends."""
    if model is None or settings.sampling != SamplingOptions():
        return settings
    return replace(settings, sampling=model.sampling)
