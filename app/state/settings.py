"""The app's settings, held in memory and stored in a file."""

import json
import os
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from PySide6.QtCore import QObject

from app.start.threads import LatestTask
from app.state.state import State
from app.values.app_settings import (
    BUILT_IN,
    AppSettings,
    ModelSettings,
    load_options_in,
    without_unset_bits,
)
from app.values.chat_settings import without_old_defaults
from app.values.errors import SettingsNotSaved
from app.values.typed_json import Reading, encode, read_fields
from mlx_engine.values.private_files import make_private, make_private_folder
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words

LARGEST_FILE = 16 * 2**20


def read_settings(path: Path) -> Reading[AppSettings]:
    """Read the settings; bad fields have defaults, and notes say which. Never raises.

    A file that is no JSON is kept under another name.
    """
    try:
        content = _content(path)
    except FileNotFoundError:
        return Reading(AppSettings())
    except OSError as error:
        note = Words(
            "{path} could not be read ({strerror}): all settings have their defaults.",
            path=path,
            strerror=error.strerror,
        )
        return Reading(AppSettings(), (note,))
    except (ValueError, RecursionError):
        return Reading(AppSettings(), (_kept_aside(path),))
    reading = read_fields(AppSettings(), content, "settings")
    notes = tuple(Words("{path}: {note}", path=path, note=note) for note in reading.notes)
    new_chat = without_old_defaults(reading.value.new_chat)
    return Reading(replace(reading.value, new_chat=new_chat), notes)


def save_settings(path: Path, settings: AppSettings) -> None:
    """Replace the settings file; unknown keys in it stay. Raises SettingsNotSaved."""
    try:
        old = _content(path)
    except (OSError, ValueError, RecursionError):
        old = {}
    try:
        text = json.dumps(encode(settings, old), indent=2) + "\n"
    except (ValueError, RecursionError):  # of what is not ours in the old file
        text = json.dumps(encode(settings), indent=2) + "\n"
    try:
        _write_whole(path.resolve(), text)
    except OSError as error:
        raise SettingsNotSaved(
            "{path} could not be written ({strerror}): allow writing to its folder and make "
            "sure its disk has room. Until then changed settings last until you quit.",
            path=path,
            strerror=error.strerror,
        ) from error


def _content(path: Path) -> Any:
    make_private(path)
    with open_regular(path) as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise ValueError("too large for settings")
    return _with_load_options_by_model(json.loads(content.decode("utf-8")))


def _with_load_options_by_model(content: Any) -> Any:
    """Migrate an older settings file: load options become those of recent models."""
    if not isinstance(content, dict):
        return content
    parts = {name: content.get(name) for name in ("new_chat", "models", "presets")}
    new_chat, models, presets = (p if isinstance(p, dict) else {} for p in parts.values())
    sound = {
        path: without_unset_bits(own) if isinstance(own, dict) else own
        for path, own in models.items()
    }
    own = load_options_in(new_chat)
    if own != ModelSettings():
        recent = content.get("recent_models")
        paths = [BUILT_IN, *(recent if isinstance(recent, list) else ())]
        sound = {path: encode(own) for path in paths if isinstance(path, str)} | sound
    for chat in (new_chat, *presets.values()):
        for name in ("load", "cache"):
            if isinstance(chat, dict):
                chat.pop(name, None)
    return {**content, "models": sound} if sound else content


def _kept_aside(path: Path) -> str:
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}-damaged-{stamp}{path.suffix}")
    words = Words("{path} is damaged: all settings have their defaults.", path=path)
    try:
        path.rename(aside)
    except OSError as error:
        return Words(
            "{words} It could not be moved aside ({strerror}).",
            words=words,
            strerror=error.strerror,
        )
    return Words("{words} The file is kept as {aside}.", words=words, aside=aside)


def _write_whole(path: Path, text: str) -> None:
    """Replace a file atomically: after a power failure it has the old or the new text."""
    make_private_folder(path.parent)
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


class KeptSettings(State):
    """The present settings, in `value`.

    Signals:
        changed: there are other settings.
        failed: they could not be stored, in words; once until they are.
    """

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        reading = read_settings(path)
        self.notes = reading.notes
        self._value = self._saved = reading.value
        self._task, self._lock = LatestTask(self), Lock()

    @property
    def value(self) -> AppSettings:
        """The present settings."""
        return self._value

    def change(self, settings: AppSettings) -> None:
        """Set other settings, and store them in a background thread."""
        if settings == self._value:
            return
        self._value = settings
        self._task.run_each(self._save, self.report)
        self.changed.emit()

    def close(self) -> None:
        """Wait until the settings are stored."""
        self.report(self._save())

    def _save(self) -> str:
        """Write the settings; return the error in words, or ""."""
        with self._lock:
            if self._saved != self._value:
                settings = self._value
                try:
                    save_settings(self._path, settings)
                except SettingsNotSaved as error:
                    return str(error)
                self._saved = settings
        return ""
