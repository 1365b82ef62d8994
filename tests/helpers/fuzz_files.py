"""Fuzzes files that come from outside: weights, indexes, hub listings, chats, the chats' database.

python tests/helpers/fuzz_files.py SUBJECT [RUNS] [SEED] [SECONDS]; SUBJECT is a key of CHECKS.
A run may take 10 s and 2 GB, and raise errors of our two trees only.
"""

import hashlib
import json
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from chat_stores import talk
from converted_gguf import convert
from fake_hub import COMMIT, FakeHub, _sibling, serving
from fuzz import Check, fuzz, spoilt_bytes, spoilt_json
from tiny_gguf import write_tiny_gguf
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from app.state.settings import read_settings, save_settings
from app.store.session_store import open_passing_store, open_some_store, open_store
from app.store.transfer import export_chat, insert_chat, read_chat
from app.values.app_settings import AppSettings, ModelSettings
from app.values.chat_settings import ChatSettings
from app.values.errors import KnownError
from app.values.typed_json import encode
from mlx_engine.hub.client import Hub
from mlx_engine.loading.describe import inspect_remote
from mlx_engine.loading.find import HubAccess
from mlx_engine.values.conversation import PromptProgress
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import GenerationOptions, LoadOptions

LONGEST_MESSAGE = 2500
"""Characters of an error: a file's own words are cut in it."""
FAMILIES = (
    "llama", "gpt_oss", "deepseek_v3", "gemma3_text", "phi3", "glm4_moe", "mimo_v2_flash",
    "qwen3_moe", "lfm2", "granitemoehybrid", "falcon_h1", "nemotron_h", "exaone_moe",
)  # fmt: skip


def place() -> Path:
    """A folder in memory."""
    return Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm"))


def look(path: Path) -> None:
    """Inspect a model; its error must be short and printable."""
    try:
        mlx_engine.inspect(path)
    except EngineError as error:
        assert len(str(error).encode()) < LONGEST_MESSAGE, "a long message"
        raise


def load(path: Path) -> None:
    """Load a model and draft a token with it."""
    with mlx_engine.load(path) as engine:
        engine.generate([1, 2, 3], max_tokens=1, draft=mlx_engine.DraftOptions(depth=1))


def spoilt_file(sound: object, random: Random, changes: int = 4) -> bytes:
    """JSON with some values changed, a tenth also cut or with other bytes."""
    made = json.dumps(spoilt_json(sound, random, changes)).encode()
    return spoilt_bytes(made, random) if random.random() < 0.1 else made


def spoilt_weights(data: bytes, random: Random) -> bytes:
    """A safetensors file whose header, sizes or values are changed."""
    length = int.from_bytes(data[:8], "little")
    if random.random() < 0.5:
        header = spoilt_file(json.loads(data[8 : 8 + length]), random)
        return len(header).to_bytes(8, "little") + header + data[8 + length :]
    return spoilt_bytes(data, random, within=random.choice((length + 40, len(data))))


def replaced(path: Path, data: bytes) -> Path:
    """The file as a new one: what maps the old one into memory keeps it."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def weights() -> Check:
    folder = write_tiny_qwen3_5(place() / "model")
    file = folder / "model.safetensors"
    sound = file.read_bytes()

    def check(random: Random) -> None:
        replaced(file, spoilt_weights(sound, random))
        look(folder)

    return check


def index() -> Check:
    folder = write_tiny_qwen3_5(place() / "model", shards=2)
    file = folder / "model.safetensors.index.json"
    sound = json.loads(file.read_bytes())

    def check(random: Random) -> None:
        file.write_bytes(spoilt_file(sound, random, 6))
        look(folder)

    return check


def hub() -> Check:
    """What a server answers, also about files that are damaged there."""
    root = place()
    folder = publish("llama", root / "model").folder
    gguf = write_tiny_gguf(root / "a.gguf").read_bytes()
    sound = {
        "o/n": {file.name: file.read_bytes() for file in folder.iterdir()},
        "o/g": {"a-Q8_0.gguf": gguf},
    }
    listed = {
        name: {"id": name, "sha": COMMIT, "siblings": [_sibling(*file) for file in files.items()]}
        for name, files in sound.items()
    }
    fake = FakeHub(sound)
    server = serving(fake)
    server.__enter__()

    def check(random: Random) -> None:
        name = random.choice(list(sound))
        fake.nonsense, fake.repositories = None, {key: dict(sound[key]) for key in sound}
        if random.random() < 0.7:
            fake.nonsense = spoilt_file(listed[name], random)
        else:
            files = fake.repositories[name]
            file = random.choice(list(files))
            files[file] = spoilt_bytes(files[file], random, within=500)
        inspect_remote(name, root, HubAccess(Hub(root / "hub", fake.endpoint, token=False)))
        assert server

    return check


def models() -> Check:
    """Whole loads of folders, one file of which is damaged, and of GGUFs."""
    root, folders = place(), list[Path]()
    for family in FAMILIES:
        folders.append(publish(family, root / family).folder)
    folders.append(write_tiny_qwen3_5(root / "qwen3_5"))
    ggufs = [write_tiny_gguf(root / "qwen.gguf")]
    ggufs += [convert(root / name, root / f"{name}.gguf") for name in ("llama", "gemma3_text")]
    sound = {path: path.read_bytes() for path in ggufs}
    for folder in folders:
        sound |= {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def check(random: Random) -> None:
        path = random.choice(list(sound))
        data = sound[path]
        match path.suffix:
            case ".safetensors":
                data = spoilt_weights(data, random)
            case ".json":
                data = spoilt_file(json.loads(data), random)
            case _:
                data = spoilt_bytes(data, random, within=random.choice((500, 5000, len(data))))
        replaced(path, data)
        try:
            load(path if path.suffix == ".gguf" else path.parent)
        finally:
            replaced(path, sound[path])

    return check


def chats() -> Check:
    """Imports of both formats: what was taken is stored, read, copied and written again."""
    root = place()
    store = open_store(root / "chats.db")
    chat = talk(store, "a question", "an **answer**", "zebra " * 40, "> quote\n\nmore " * 20)
    store.messages.edit(store.messages.path(chat)[0].message.id, "another")
    store.folders.create("box", [chat])
    sound = dict[str, bytes]()
    for name in ("chat.json", "chat.md"):
        export_chat(store, chat, root / name)
        sound[name] = (root / name).read_bytes()
    store.close()

    def check(random: Random) -> None:
        name = random.choice(list(sound))
        is_json = name == "chat.json" and random.random() < 0.8
        data = sound[name]
        made = spoilt_file(json.loads(data), random) if is_json else spoilt_bytes(data, random)
        (root / name).write_bytes(made)
        new, passing = read_chat(root / name, ChatSettings()), open_passing_store("")
        try:
            chat_id = insert_chat(passing, new)
            for turn in passing.open_chat(chat_id).turns:
                assert turn.number and list(turn.message.spans) is not None
            passing.messages.figures(chat_id)
            for again in (chat_id, passing.chats.duplicate(chat_id)):
                export_chat(passing, again, root / f"out-{name}")
        finally:
            passing.close()

    return check


def database() -> Check:
    """Bytes of chats.db: it opens, what is left is read, and more can be said."""
    root = place()
    store = open_store(root / "sound.db")
    for number in range(4):
        talk(store, f"question {number}", "an answer", "zebra " * 100, "more " * 200)
    store.database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    sound = (root / "sound.db").read_bytes()

    def check(random: Random) -> None:
        folder = root / "home"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        file = folder / "chats.db"
        file.write_bytes(spoilt_bytes(sound, random, within=random.choice((100, 4096, 2**30))))
        if random.random() < 0.1:
            (folder / "chats.db-wal").write_bytes(random.randbytes(5000))
        opened = open_some_store(file)
        try:
            for chat in (*opened.chats.listed(), *opened.chats.in_bin()):
                list(opened.open_chat(chat.id).turns)
                opened.messages.all_of(chat.id)
            opened.search.find("zebra")
            talk(opened, "new", "one")
        finally:
            opened.close()
        assert not any("lost when you quit" in notice for notice in opened.notices)

    return check


def settings() -> Check:
    file = place() / "settings.json"
    full = AppSettings(
        presets={"a": ChatSettings()},
        recent_models=("m",),
        model_folders=(Path("/x"),),
        models={"m": ModelSettings()},
        unsent={1: "x"},
        rewritten={2: "y"},
        last_chat=3,
    )

    def check(random: Random) -> None:
        file.write_bytes(spoilt_file(encode(full), random, 5))
        reading = read_settings(file)
        save_settings(file, reading.value)
        again = read_settings(file)
        assert again.value == reading.value or again.notes
        for aside in file.parent.glob("settings-damaged*"):
            aside.unlink()

    return check


def prompts() -> Check:
    """Saved prompts, most of them with the checksum of their damage: they are passed over."""
    folder = place() / "prompts"
    options = LoadOptions(prompt_files=folder, prompt_files_bytes=10**9)
    engine = mlx_engine.load(None, options=options)
    question = "What does int do in Python, and why is it so? " * 4

    def ask() -> int:
        """How many tokens of the question a file spared."""
        session = engine.session(generation=GenerationOptions(max_tokens=1))
        events = list(session.send(question))
        reused = max(event.reused for event in events if isinstance(event, PromptProgress))
        engine.parts.prompts.save_prompts()
        engine.parts.prompts.files.wait()
        engine.forget_conversations()
        return reused

    ask()
    assert ask() > 0
    sound = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.safetensors")}

    def check(random: Random) -> None:
        shutil.rmtree(folder)
        files, hit = dict(sound), random.choice(list(sound))
        spoilt = spoilt_weights(files.pop(hit), random)
        stem, _, checksum = hit.stem.rpartition("-")
        if random.random() < 0.9:
            checksum = hashlib.sha256(stem.encode() + spoilt).hexdigest()[:40]
        files[hit.with_name(f"{stem}-{checksum}.safetensors")] = spoilt
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        ask()

    return check


CHECKS: dict[str, Callable[[], Check]] = {
    check.__name__: check
    for check in (weights, index, hub, models, chats, database, settings, prompts)
}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    defaults = ("weights", "20000", "0", "600")
    what, runs, seed, seconds = (*sys.argv[1:], *defaults[len(sys.argv) - 1 :])
    tree = (EngineError, KnownError)
    print(what, fuzz(CHECKS[what], int(runs), tree, seed=int(seed), total_s=float(seconds)))
