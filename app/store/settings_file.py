"""Settings of the app in one JSON file: nothing is lost that another version wrote."""

import json
import os
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from app.values.app_settings import AppSettings
from app.values.errors import SettingsNotSaved
from app.values.typed_json import Reading, encode, read_fields

LARGEST_FILE = 16 * 2**20


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
