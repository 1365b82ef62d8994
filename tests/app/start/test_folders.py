"""Folders are where each system has them, and follow the environment."""

from pathlib import Path

from app.start.folders import folders_of, this_users_folders

HOME = Path("/home/ann")


def test_macos():
    folders = folders_of("darwin", HOME, {"XDG_DATA_HOME": "/elsewhere"})
    support = HOME / "Library" / "Application Support" / "Headstart"
    assert folders.chats_file == support / "chats.db"
    assert folders.settings_file == support / "settings.json"
    assert folders.cache == HOME / "Library" / "Caches" / "Headstart"
    assert folders.logs == HOME / "Library" / "Logs" / "Headstart"


def test_linux():
    folders = folders_of("linux", HOME, {})
    assert folders.data == HOME / ".local" / "share" / "headstart"
    assert folders.settings == HOME / ".config" / "headstart"
    assert folders.cache == HOME / ".cache" / "headstart"
    assert folders.logs == HOME / ".local" / "state" / "headstart"
    assert folders.hub_models == HOME / ".cache" / "huggingface" / "hub"


def test_xdg_variables_count_when_absolute():
    folders = folders_of(
        "linux", HOME, {"XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "rel", "XDG_STATE_HOME": ""}
    )
    assert folders.data == Path("/d/headstart")
    assert folders.cache == HOME / ".cache" / "headstart"
    assert folders.logs == HOME / ".local" / "state" / "headstart"


def test_everything_in_one_folder():
    for platform in ("darwin", "linux"):
        folders = folders_of(platform, HOME, {"HEADSTART_FOLDER": "/p"})
        assert {folders.data, folders.settings} == {Path("/p")}
        assert folders.cache == Path("/p/cache") and folders.logs == Path("/p/logs")


def test_where_the_hub_keeps_models():
    def hub(environment: dict[str, str]) -> Path:
        return folders_of("darwin", HOME, environment).hub_models

    assert hub({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}) == Path("/b/hub")
    assert hub({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")


def test_this_machine_has_them():
    assert this_users_folders().chats_file.is_absolute()
