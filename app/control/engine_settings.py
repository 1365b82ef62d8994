"""A chat's stored settings as the engine's thread takes them."""

from dataclasses import replace

from app.values.chat_settings import ChatSettings
from app.worker.requests import ChatSettings as EngineSettings
from app.worker.requests import LoadModel
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import SamplingOptions


def engine_settings(settings: ChatSettings) -> EngineSettings:
    """How to answer; the model itself is asked for with `load_request`."""
    return EngineSettings(
        system=settings.system.strip() or None,
        sampling=settings.sampling,
        draft=settings.draft,
        generation=settings.generation,
        thinking=settings.thinking,
    )


def load_request(settings: ChatSettings) -> LoadModel:
    """Open the chat's model the way the chat asks for."""
    heads = settings.load.heads
    return LoadModel(settings.model_path, None if heads is None else str(heads), settings.load)


def for_model(settings: ChatSettings, model: ModelDescription | None) -> ChatSettings:
    """Settings of a new chat: sampling the user never touched is what the model recommends."""
    if model is None or settings.sampling != SamplingOptions():
        return settings
    return replace(settings, sampling=model.sampling)
