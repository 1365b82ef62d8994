"""Folders of the user's data, settings, caches and logs, and of the assets.

macOS: ~/Library, by Apple's File System Programming Guide. Elsewhere: the XDG Base Directory
specification. HEADSTART_FOLDER moves everything into one folder, for a second profile. An installed
package has the assets in app/assets; a checkout beside app/.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders of the app; they may not exist yet. hub_models: huggingface_hub's download cache."""

    data: Path
    settings: Path
    cache: Path
    logs: Path
    hub_models: Path

    @property
    def chats_file(self) -> Path:
        """The database of all chats."""
        return self.data / "chats.db"

    @property
    def being_shown_file(self) -> Path:
        """File with the id of the chat that is being laid out or answered."""
        return self.data / "being-shown"

    @property
    def kernels_file(self) -> Path:
        """Results of the self-check of the Metal kernels on this machine."""
        return self.cache / "kernels.json"

    @property
    def prompts(self) -> Path:
        """Saved caches of prompts, so that chats are not read again after a restart."""
        return self.cache / "prompts"

    @property
    def settings_file(self) -> Path:
        """The app's settings."""
        return self.settings / "settings.json"


def this_users_folders() -> Folders:
    """Return the folders of the current user on this machine."""
    return folders_of(sys.platform, Path.home(), os.environ)


def folders_of(platform: str, home: Path, environment: Mapping[str, str]) -> Folders:
    """Return the folders for a home and environment, in which relative paths are ignored."""
    hub_models = _hub_models(home, environment)
    together = _absolute(environment, "HEADSTART_FOLDER")
    if together is not None:
        return Folders(together, together, together / "cache", together / "logs", hub_models)
    if platform == "darwin":
        library = home / "Library"
        data = library / "Application Support" / "Headstart"
        return Folders(
            data, data, library / "Caches" / "Headstart", library / "Logs" / "Headstart", hub_models
        )
    return Folders(
        (_absolute(environment, "XDG_DATA_HOME") or home / ".local" / "share") / "headstart",
        (_absolute(environment, "XDG_CONFIG_HOME") or home / ".config") / "headstart",
        (_absolute(environment, "XDG_CACHE_HOME") or home / ".cache") / "headstart",
        (_absolute(environment, "XDG_STATE_HOME") or home / ".local" / "state") / "headstart",
        hub_models,
    )


def has_display(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a window can be shown: always on a Mac, elsewhere if a display server is named or Qt
    runs without a screen.
    """
    if sys.platform in ("darwin", "win32"):
        return True
    has_no_screen = environment.get("QT_QPA_PLATFORM") in ("offscreen", "vnc")
    return has_no_screen or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _hub_models(home: Path, environment: Mapping[str, str]) -> Path:
    """Return huggingface_hub's cache folder, by the order of its own constants."""
    whole = _absolute(environment, "HF_HUB_CACHE")
    if whole is not None:
        return whole
    caches = _absolute(environment, "XDG_CACHE_HOME") or home / ".cache"
    return (_absolute(environment, "HF_HOME") or caches / "huggingface") / "hub"


def _absolute(environment: Mapping[str, str], name: str) -> Path | None:
    path = Path(environment.get(name, "")).expanduser()
    return path if path.is_absolute() else None


APP_FOLDER = Path(__file__).parents[1]


@cache
def asset_folder(app_folder: Path = APP_FOLDER) -> Path:
    """Return the folder of all assets; raises FileNotFoundError if it is not installed."""
    for folder in (app_folder / "assets", app_folder.parent / "assets"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{app_folder / 'assets'} is missing: install Headstart again.")


def asset_path(name: str, app_folder: Path = APP_FOLDER) -> Path:
    """Return the path of an asset ("icons/app.svg"); raises FileNotFoundError if there is none."""
    path = asset_folder(app_folder) / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: install Headstart again.")
    return path
