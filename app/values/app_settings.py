"""Settings of the whole app, and functions that return changed copies of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from app.values.chat_settings import ChatSettings
from app.values.tools import ToolServer
from app.values.typed_json import read_fields
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import CacheOptions, LoadOptions, require

Theme = Literal["system", "light", "dark"]
Language = Literal["system", "en", "de"]
TextWidth = Literal["narrow", "usual", "wide", "full"]
SMALLEST_ZOOM, LARGEST_ZOOM = 0.5, 3.0
RECENT_MODELS = 10


BUILT_IN = "built-in"
"""Stands for the built-in model where settings are kept by a model's path."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of one model. load: how it is opened, with its draft model. keep: it stays in memory
    when idle. cache: bits of stored keys and values.
    """

    load: LoadOptions = field(default_factory=LoadOptions)
    keep: bool = False
    cache: CacheOptions = field(default_factory=CacheOptions)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the local API server. key: the API key requests must have, "" for none."""

    is_on: bool = False
    port: int = 8642
    key: str = ""

    def __post_init__(self) -> None:
        require("port", self.port, "1 to 65535", lambda port: 1 <= port <= 65535)


def load_options_in(chat: Mapping[str, Any]) -> ModelSettings:
    """Return how an older version loaded the model of a chat, from JSON of the chat's settings."""
    own = {name: chat[name] for name in ("load", "cache") if isinstance(chat.get(name), dict)}
    return read_fields(ModelSettings(), without_unset_bits(own), "").value


def without_unset_bits(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """JSON of ModelSettings without bits that an older version wrote as null for the default."""
    bits = own.get("cache")
    if not isinstance(bits, dict):
        return own
    return {**own, "cache": {name: value for name, value in bits.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class AppSettings:
    """new_chat: what a new chat starts with. presets: the same under names of the user's.

    text_width: of messages. write_titles: whether models name chats. notify: whether the system
    tells of a long answer that ends while its user is elsewhere. sidebar_width: in pixels.
    window_state: geometry and panes, as Qt made it. folded_groups: names of those of the session
    panel that are folded away. recent_models: paths or hub ids, last used first. is_new: whether
    the start page shows the first steps. model_folders: where models are looked for besides the
    usual places. load_at_start: whether the model used last is loaded before it is asked.
    idle_minutes: how long nothing is asked before a model is let go; 0 for ever. prompt_files_gb:
    what files of what models have read of chats may take; 0 for none. models: what is remembered of
    each, by its path. downloads: links to models that are not complete yet. download_folder: where
    they go, None for the hub's own cache. last_folder: of the file chosen last in a dialog.
    last_chat: the one that was open. unsent: what was typed and not sent, by chat, 0 for a new one.
    rewritten: messages that are being changed, by their number. server: of the window's server.
    tool_servers: all that chats can use.
    """

    new_chat: ChatSettings = field(default_factory=ChatSettings)
    presets: Mapping[str, ChatSettings] = field(default_factory=dict)
    language: Language = "system"
    theme: Theme = "system"
    text_zoom: float = 1.0
    text_width: TextWidth = "usual"
    notify: bool = True
    write_titles: bool = True
    show_drafted: bool = False
    folded_groups: tuple[str, ...] = (
        "Presets",
        "Advanced drafting",
        "Advanced sampling",
        "Answer format",
    )
    recent_models: tuple[str, ...] = ()
    model_folders: tuple[Path, ...] = ()
    load_at_start: bool = True
    is_new: bool = True
    idle_minutes: int = 0
    prompt_files_gb: int = 4
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)
    downloads: tuple[str, ...] = ()
    download_folder: Path | None = None
    last_folder: Path | None = None
    window_state: bytes = b""
    sidebar_width: int = 232
    last_chat: int | None = None
    unsent: Mapping[int, str] = field(default_factory=dict)
    rewritten: Mapping[int, str] = field(default_factory=dict)
    tool_servers: tuple[ToolServer, ...] = ()

    def __post_init__(self) -> None:
        if not SMALLEST_ZOOM <= self.text_zoom <= LARGEST_ZOOM:
            raise BadOption(
                "text_zoom={text_zoom} is not possible: use {smallest_zoom} to {largest_zoom}.",
                text_zoom=repr(self.text_zoom),
                smallest_zoom=SMALLEST_ZOOM,
                largest_zoom=LARGEST_ZOOM,
            )
        counts = {"idle_minutes": self.idle_minutes, "prompt_files_gb": self.prompt_files_gb}
        for name, value in counts.items():
            if value < 0:
                raise BadOption(
                    "{name}={value} is not possible: use 0 or more.", name=name, value=repr(value)
                )


def zoomed(settings: AppSettings, steps: int) -> AppSettings:
    """Change the text zoom by tenths; 0 steps resets it."""
    zoom = settings.text_zoom + steps / 10 if steps else 1.0
    zoom = min(max(round(zoom, 2), SMALLEST_ZOOM), LARGEST_ZOOM)
    return replace(settings, text_zoom=zoom)


def with_recent_model(settings: AppSettings, model: str) -> AppSettings:
    """Move a model to the front of the recent ones; the oldest is dropped."""
    others = tuple(other for other in settings.recent_models if other != model)
    return replace(settings, recent_models=(model, *others)[:RECENT_MODELS])


def without_recent_model(settings: AppSettings, model: str) -> AppSettings:
    """Remove a model from the recent ones."""
    return replace(settings, recent_models=tuple(m for m in settings.recent_models if m != model))


def with_model_folder(settings: AppSettings, folder: Path) -> AppSettings:
    """Add a folder that is searched for models, last and once."""
    others = without_model_folder(settings, folder)
    return replace(others, model_folders=(*others.model_folders, folder))


def without_model_folder(settings: AppSettings, folder: Path) -> AppSettings:
    """Remove a folder from those that are searched for models."""
    return replace(settings, model_folders=tuple(f for f in settings.model_folders if f != folder))


def settings_of(settings: AppSettings, path: str | None) -> ModelSettings:
    """Return the settings of the model at a path; None is the built-in model."""
    return settings.models.get(path or BUILT_IN, ModelSettings())


def with_settings_of(settings: AppSettings, path: str | None, own: ModelSettings) -> AppSettings:
    """Set the settings of the model at a path; the default settings are not stored."""
    models = {**settings.models, path or BUILT_IN: own}
    default = ModelSettings()
    kept = {place: model for place, model in models.items() if model != default}
    return replace(settings, models=kept)


def with_preset(settings: AppSettings, name: str, preset: ChatSettings) -> AppSettings:
    """Add a preset, or replace the one of that name."""
    return replace(settings, presets={**settings.presets, name: preset})


def with_preset_named(settings: AppSettings, name: str, new: str) -> AppSettings:
    """Rename a preset in its place, also as the one that new chats begin with."""
    presets = {new if it == name else it: preset for it, preset in settings.presets.items()}
    chat = settings.new_chat
    chat = replace(chat, preset=new) if chat.preset == name else chat
    return replace(settings, presets=presets, new_chat=chat)


def without_preset(settings: AppSettings, name: str) -> AppSettings:
    """Remove a preset."""
    presets = {other: preset for other, preset in settings.presets.items() if other != name}
    return replace(settings, presets=presets)
