"""Recognise dropped things: models, MTP heads, hub links, chats, texts, or nothing of use."""

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.library.find_models import Place, find_models
from app.library.model_card import described, is_heads_file
from app.library.picture_file import is_picture
from app.library.text_file import is_document, read_text_file
from app.values.attached_text import Refused
from mlx_engine.hub.repository import HubModel, read_hub_link
from mlx_engine.hub.weight_files import (
    FOREIGN,
    GGUF,
    PARTIAL,
    SAFETENSORS,
    UNSAFE,
    damage_message,
    folder_name,
    holds_only_heads,
    is_tower_of_other,
    may_be_tower,
    parse_shard_name,
)
from mlx_engine.values.errors import EngineError
from mlx_engine.values.saved_chat import FORMAT
from mlx_engine.values.untrusted import open_regular
from mlx_engine.values.words import Words

_MODEL_FILES = ("config.json", "model.safetensors.index.json", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class DroppedModel:
    """A model to load: a folder or a GGUF file, in place.

    heads, vision: files of MTP heads and of a vision tower that were dropped for it.
    """

    path: Path
    heads: Path | None = None
    vision: Path | None = None

    @property
    def name(self) -> str:
        """Name to show: of a file with its extension, of a folder as on the card."""
        return folder_name(self.path) if self.path.is_dir() else self.path.name


@dataclass(frozen=True, slots=True)
class DroppedHeads:
    """A file or folder of MTP heads for the model in use."""

    path: Path


@dataclass(frozen=True, slots=True)
class DroppedHubModel:
    """A model to download."""

    model: HubModel


@dataclass(frozen=True, slots=True)
class DroppedModels:
    """A folder with several models, to add to the library."""

    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class DroppedText:
    """A text file or picture to attach to the message, or an exported chat to import."""

    path: Path
    nbytes: int
    is_chat: bool = False


@dataclass(frozen=True, slots=True)
class DroppedWords:
    """Text to insert into the message."""

    text: str


Dropped = (
    DroppedModel
    | DroppedModels
    | DroppedHeads
    | DroppedHubModel
    | DroppedText
    | DroppedWords
    | Refused
)


LONGEST_NAME = 2000
"""Most characters of an address; anything longer is a text."""


def what_is(dropped: str) -> Dropped:
    """Recognise a path, file:// address, hub link or `org/name`, by name and content.

    Reads at most the start of a few files, or one text. Never raises for what is on the disk.
    """
    text = dropped.strip()
    try:
        exact = _local_path(dropped)  # a name may end in a blank
        place = exact if exact is not None and exact.exists() else _local_path(text)
        if place is not None:
            return _at(place)
    except (OSError, ValueError, RuntimeError) as error:
        return Refused(Words("{text}: cannot be opened ({error}).", text=text, error=str(error)))
    link = read_hub_link(text)
    if isinstance(link, HubModel):
        return DroppedHubModel(link)
    if link is not None:
        return Refused(link)
    return Refused(
        Words(
            "This is neither a file here nor a model on the hub. Drop a model folder, a "
            ".gguf file, or a link such as https://huggingface.co/Qwen/Qwen3.5-0.8B."
        )
    )


def what_says(text: str) -> Dropped:
    """Recognise a dropped text; one that names nothing of use is DroppedWords."""
    is_name = len(text) < LONGEST_NAME and "\n" not in text.strip()
    thing = what_is(text) if is_name else DroppedWords(text)
    return DroppedWords(text) if isinstance(thing, Refused) else thing


def all_of(dropped: Iterable[str], in_use: Path | None = None) -> tuple[Dropped, ...]:
    """Recognise several things dropped together.

    Files of one model are one model; chats beside other files are attached as texts. in_use: the
    model in use, for which a vision tower may be.
    """
    texts = tuple(dict.fromkeys(dropped))
    towers = tuple(filter(None, map(_tower_at, texts)))
    things = tuple(dict.fromkeys(what_is(text) for text in texts if _tower_at(text) is None))
    if not all(isinstance(thing, DroppedText) and thing.is_chat for thing in things):
        things = tuple(
            replace(thing, is_chat=False) if isinstance(thing, DroppedText) else thing
            for thing in things
        )
    things = _with_heads(things)
    if len(things) == 1 and isinstance(things[0], DroppedModel) and towers:
        return (replace(things[0], vision=_chosen(things[0].path, towers[0])),)
    return (*things, *dict.fromkeys(_owner_of(tower, in_use) for tower in towers))


def _with_heads(things: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
    """Join heads and other files of a model with it, where there is one model."""
    models = [thing.path for thing in things if isinstance(thing, DroppedModel)]
    if len(models) != 1:
        return things
    home = models[0] if models[0].is_dir() else models[0].parent
    heads = [thing.path for thing in things if isinstance(thing, DroppedHeads)]
    others = tuple(
        thing
        for thing in things
        if not isinstance(thing, DroppedModel | DroppedHeads)
        and not (isinstance(thing, DroppedText) and home in thing.path.parents)
    )
    return (DroppedModel(models[0], *heads[:1]), *map(DroppedHeads, heads[1:]), *others)


def _local_path(text: str) -> Path | None:
    """Return the absolute path that a text names; None for links and ids."""
    if text.startswith("file:"):
        return Path(unquote(urlsplit(text).path))
    if text.startswith(("/", "~")):
        return Path(text).expanduser()
    return None


def _at(place: Path) -> Dropped:
    if place.is_dir():
        return _folder(place)
    if not place.is_file():
        return Refused(Words("{place}: there is no such file or folder.", place=place))
    return _file(place, place.suffix.lower())


def _file(file: Path, ending: str) -> Dropped:
    """Classify a file by its name, then by its first bytes."""
    unread = _unread(file.name, ending)
    if unread is not None:
        return Refused(unread)
    if ending == GGUF:
        return _gguf(file)
    if ending == SAFETENSORS:
        return _safetensors(file)
    if file.name in _MODEL_FILES and any(file.parent.glob("*" + SAFETENSORS)):
        return _folder(file.parent)
    return _text(file)


def _unread(name: str, ending: str) -> str | None:
    """Return why a file is not opened, None if it is."""
    if ending in PARTIAL:
        return Words("{name} is not downloaded to its end: wait for it, then drop it.", name=name)
    if ending in UNSAFE:
        return Words(
            "{name} could run code on this Mac when opened, so it is not. Take a version "
            "with .safetensors files.",
            name=name,
        )
    if ending in FOREIGN:
        return Words(
            "{name} holds weights as {program} has them: take a .gguf, or a folder with "
            ".safetensors, of the model.",
            name=name,
            program=FOREIGN[ending],
        )
    return None


def _refused(place: Path, problem: str) -> Refused:
    return Refused(Words("{name}: {problem}.", name=place.name, problem=problem))


def _gguf(file: Path) -> Dropped:
    """Classify a GGUF file; the first shard stands for all shards."""
    problem = damage_message(file)
    if problem is not None:
        return _refused(file, problem)
    if may_be_tower(file.name):
        return _owner_of(file, None)
    if is_heads_file(file):
        return DroppedHeads(file)
    shard = parse_shard_name(file.name)
    return DroppedModel(file if shard is None else file.with_name(shard.shard_name(1)))


def _tower_at(dropped: str) -> Path | None:
    """Return the path of a dropped file of a vision tower, None for all else."""
    try:
        place = _local_path(dropped.strip())
        is_tower = place is not None and may_be_tower(place.name) and place.is_file()
        return place if is_tower and place and damage_message(place) is None else None
    except (OSError, ValueError, RuntimeError):
        return None


def _may_see_with(model: Path, tower: Path) -> bool:
    """Return whether a vision tower fits a model; True if the model cannot be read."""
    try:
        return described(model, vision=tower).vision is None
    except EngineError:
        return True


def _chosen(model: Path, tower: Path) -> Path | None:
    """Return the tower to load a model with, None for the only one beside it, found anyway."""
    beside = [file.name for file in model.parent.iterdir() if may_be_tower(file.name)]
    return None if tower.parent == model.parent and beside == [tower.name] else tower


def _owner_of(tower: Path, in_use: Path | None) -> Dropped:
    """Return the model that a dropped vision tower is for: that in use, or one beside the tower."""
    if in_use is not None and _may_see_with(in_use, tower):
        return DroppedModel(in_use, vision=_chosen(in_use, tower))
    models = list(find_models([Place("", tower.parent)], 0, _brief()))
    beside = [m.path for m in models if not m.problem and m.path.suffix.lower() == GGUF]
    named = [path for path in beside if not is_tower_of_other(tower.stem, path.stem)]
    fitting = [path for path in (named or beside)[:MOST_COMPARED] if _may_see_with(path, tower)]
    if len(fitting) == 1:
        return DroppedModel(fitting[0], vision=_chosen(fitting[0], tower))
    if fitting:
        names = ", ".join(path.name for path in fitting)
        return Refused(
            Words(
                "{name} is the picture part of a model, and several models here could be it "
                "({names}): load the one that it is for, then drop it again.",
                name=tower.name,
                names=names,
            )
        )
    return Refused(
        Words(
            "{name} is the picture part of a model that is neither loaded nor here: load it "
            "first, then drop this again, or drop both together.",
            name=tower.name,
        )
    )


def _safetensors(file: Path) -> Dropped:
    problem = damage_message(file)
    if problem is not None:
        return _refused(file, problem)
    if holds_only_heads(file):
        return DroppedHeads(file)
    if (file.parent / "config.json").is_file():
        return DroppedModel(file.parent)
    return Refused(
        Words(
            "{name} lies here without its config.json: drop the whole model folder, or "
            "download the missing files beside it.",
            name=file.name,
        )
    )


MOST_COMPARED = 12
"""Most models beside a dropped vision tower whose headers are read."""
FEW = 4
"""Most models of a dropped folder whose headers are read."""
NEAR, MOST_FOLDERS, LONGEST_S = 2, 500, 1.0
"""Limits for searching a dropped folder while its user waits: levels, folders, seconds."""


def _brief() -> Callable[[], bool]:
    """Return a function that tells whether one more folder may be looked into."""
    ends, left = time.monotonic() + LONGEST_S, iter(range(MOST_FOLDERS))
    return lambda: next(left, None) is not None and time.monotonic() < ends


def _folder(folder: Path) -> Dropped:
    sound = [
        file
        for file in folder.glob("*" + SAFETENSORS)
        if file.is_file() and damage_message(file) is None
    ]
    if sound and all(map(holds_only_heads, sound)):
        return DroppedHeads(folder)
    deepest = 0 if folder == Path.home() else NEAR
    found = list(find_models([Place("", folder)], deepest, _brief()))
    good = [model for model in found if not model.problem]
    if len(good) <= FEW:
        good = [model for model in good if not is_heads_file(model.path)]
    if len(good) == 1:
        return DroppedModel(good[0].path)
    if good:
        return DroppedModels(folder, len(good))
    if broken := next((model for model in found if model.problem), None):
        return _refused(broken.path, broken.problem)
    return _folder_of_heads(folder)


def _folder_of_heads(folder: Path) -> Dropped:
    """Classify a folder whose GGUF files are heads only, or refuse it."""
    ggufs = (file for file in sorted(folder.iterdir()) if file.suffix.lower() == GGUF)
    heads = [file for file in ggufs if is_heads_file(file)]
    if len(heads) == 1:
        return _gguf(heads[0])
    if heads:
        return Refused(
            Words(
                "{name} holds {count} files of drafting heads: drop one of them.",
                name=folder.name,
                count=len(heads),
            )
        )
    return Refused(
        Words(
            "{name} holds no model near its top: it needs a .gguf, or .safetensors with "
            "config. Add the folder in Models to have all of it searched.",
            name=folder.name,
        )
    )


CHATS = tuple(
    re.compile(rb"(\xef\xbb\xbf)?\s*" + beginning, re.DOTALL)
    for beginning in (
        rb'\{.*"format"\s*:\s*"' + FORMAT.encode() + rb'"',
        rb'\[\s*\{.*"mapping"\s*:\s*\{',
        rb'\{.*"messages"\s*:\s*\[\s*\{\s*"versions"',
    )
)
"""Beginnings of exported chats: ours, ChatGPT's and LM Studio's."""
BEGINNING = 4096
"""Bytes read of a file to recognise it."""

FOREIGN_CHATS = ("conversations.json", ".conversation.json", "messages.jsonl")
"""Ends of the file names of chats of ChatGPT, LM Studio and Jan."""


def _text(file: Path) -> Dropped:
    """Classify a chat, a text, a document or a picture; a GGUF file may have lost its ending."""
    with open_regular(file) as opened:
        beginning = opened.read(BEGINNING)
    if beginning.startswith(b"GGUF"):
        return DroppedModel(file)
    holds_chats = any(kind.match(beginning) for kind in CHATS) and file.suffix.lower() == ".json"
    is_chat = holds_chats or file.name.lower().endswith(FOREIGN_CHATS)
    is_whole = is_chat or is_document(file) or is_picture(file, beginning)
    text = None if is_whole else read_text_file(file)
    return text if isinstance(text, Refused) else DroppedText(file, file.stat().st_size, is_chat)
