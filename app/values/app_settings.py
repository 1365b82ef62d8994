"""Settings of the whole app: typed, one JSON file, nothing lost that another version wrote."""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from app.values.chat_settings import ChatSettings
from app.values.errors import SettingsNotSaved
from app.values.typed_json import Reading, encode, read_fields
from mlx_engine.values.errors import BadOption

Theme = Literal["system", "light", "dark"]
SMALLEST_ZOOM, LARGEST_ZOOM = 0.5, 3.0
RECENT_MODELS = 10
LARGEST_FILE = 16 * 2**20


@dataclass(frozen=True, slots=True)
class AppSettings:
    """new_chat: what a new chat starts with. presets: the same under names of the user's.

    window_state: geometry and panes, as Qt made it. folded_groups: titles of the session panel that
    are folded away. recent_models: paths or hub ids, last used first. model_folders: where models
    are looked for besides the usual places. last_chat: the one that was open.
    """

    new_chat: ChatSettings = field(default_factory=ChatSettings)
    presets: Mapping[str, ChatSettings] = field(default_factory=dict)
    theme: Theme = "system"
    text_zoom: float = 1.0
    show_drafted: bool = False
    reduce_motion: bool = False
    folded_groups: tuple[str, ...] = ("Sampling", "Presets")
    recent_models: tuple[str, ...] = ()
    model_folders: tuple[Path, ...] = ()
    window_state: bytes = b""
    last_chat: int | None = None

    def __post_init__(self) -> None:
        if not SMALLEST_ZOOM <= self.text_zoom <= LARGEST_ZOOM:
            raise BadOption(
                f"text_zoom={self.text_zoom!r} is not possible: use {SMALLEST_ZOOM} to "
                f"{LARGEST_ZOOM}."
            )


def zoomed(settings: AppSettings, steps: int) -> AppSettings:
    """Text larger or smaller by tenths; 0 steps for its normal size."""
    zoom = settings.text_zoom + steps / 10 if steps else 1.0
    zoom = min(max(round(zoom, 2), SMALLEST_ZOOM), LARGEST_ZOOM)
    return replace(settings, text_zoom=zoom)


def with_recent_model(settings: AppSettings, model: str) -> AppSettings:
    """`model` first, the oldest forgotten."""
    others = tuple(other for other in settings.recent_models if other != model)
    return replace(settings, recent_models=(model, *others)[:RECENT_MODELS])


def without_recent_model(settings: AppSettings, model: str) -> AppSettings:
    """As it is when it was not used."""
    return replace(settings, recent_models=tuple(m for m in settings.recent_models if m != model))


def with_model_folder(settings: AppSettings, folder: Path) -> AppSettings:
    """`folder` last, once."""
    others = without_model_folder(settings, folder)
    return replace(others, model_folders=(*others.model_folders, folder))


def without_model_folder(settings: AppSettings, folder: Path) -> AppSettings:
    """As it is when models are not looked for there."""
    return replace(settings, model_folders=tuple(f for f in settings.model_folders if f != folder))


def with_preset(settings: AppSettings, name: str, preset: ChatSettings) -> AppSettings:
    """One of that name is replaced."""
    return replace(settings, presets={**settings.presets, name: preset})


def without_preset(settings: AppSettings, name: str) -> AppSettings:
    """As it is when there is none."""
    presets = {other: preset for other, preset in settings.presets.items() if other != name}
    return replace(settings, presets=presets)


def read_settings(path: Path) -> Reading[AppSettings]:
    """What can be read; the rest has its defaults, and the notes say what was reset. Never raises.

    A file that is no JSON at all is kept aside.
    """
    try:
        content = _content(path)
    except FileNotFoundError:
        return Reading(AppSettings())
    except OSError as error:
        note = f"{path} could not be read ({error.strerror}): all settings have their defaults."
        return Reading(AppSettings(), (note,))
    except (ValueError, RecursionError):
        return Reading(AppSettings(), (_kept_aside(path),))
    reading = read_fields(AppSettings(), content, "settings")
    notes = tuple(f"{path}: {note}" for note in reading.notes)
    return Reading(reading.value, notes)


def save_settings(path: Path, settings: AppSettings) -> None:
    """Replace the file as a whole; keys in it that are not ours stay. Raises SettingsNotSaved."""
    try:
        old = _content(path)
    except (OSError, ValueError, RecursionError):
        old = {}
    text = json.dumps(encode(settings, old), indent=2) + "\n"
    try:
        _write_whole(path.resolve(), text)
    except OSError as error:
        raise SettingsNotSaved(
            f"{path} could not be written ({error.strerror}): allow writing to its folder and make "
            "sure its disk has room. Until then changed settings last until you quit."
        ) from error


def _content(path: Path) -> Any:
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError("too large for settings")
    return json.loads(path.read_text(encoding="utf-8"))


def _kept_aside(path: Path) -> str:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    words = f"{path} is damaged: all settings have their defaults."
    try:
        path.rename(aside)
    except OSError as error:
        return f"{words} It could not be moved aside ({error.strerror})."
    return f"{words} The file is kept as {aside}."


def _write_whole(path: Path, text: str) -> None:
    """Either the old or the new text is there afterwards, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
