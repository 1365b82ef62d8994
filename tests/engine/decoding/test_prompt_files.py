"""What was read outlives the engine, for whom it was read; files of no use are told and removed."""

import hashlib
import itertools
import os
import shutil
import stat

import mlx.core as mx
import pytest
from session_runs import PICKS, drafts, listen, session_of

import mlx_engine
from mlx_engine.decoding.prompt_files import LEAST_NEW
from mlx_engine.values.options import CacheOptions, DraftOptions, LoadOptions, SamplingOptions

GREEDY = SamplingOptions(temperature=0, logit_bias=PICKS.logit_bias)
LONG = "The quick brown fox jumps over the lazy dog and the fox. " * 4
KINDS = ("recurrent", "windowed", "attention")


@pytest.fixture
def opened(folders, tmp_path):
    """Engines one after the other, each as after a restart, with one folder of files."""
    engines = []

    def open_one(kind="recurrent", **options):
        its = LoadOptions(prompt_files=tmp_path / "read", **options)
        engines.append(mlx_engine.load(folders[kind], options=its))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


def files_in(tmp_path):
    return sorted((tmp_path / "read").iterdir())


PAIRS = [
    (kind, depth, bits, way)
    for number, (kind, depth) in enumerate(itertools.product(KINDS, (0, 1, 2, 4)))
    for bits, way in [
        ((16, 8, 4)[number % 3] if kind == "recurrent" else 16, (GREEDY, PICKS)[number % 2])
    ]
]


@pytest.mark.parametrize(("kind", "depth", "bits", "way"), PAIRS)
def test_a_second_turn_after_a_restart_reads_what_is_new(opened, tmp_path, kind, depth, bits, way):
    """The same words and drafts as of a chat that goes on, in every format of keys and values."""
    first = opened(kind)
    cache = CacheOptions(bits=bits, head_bits=bits)
    chat = session_of(first, way, depth, cache=cache)
    listen(chat, chat.send(LONG))
    before = chat.messages
    kept = {path.name for path in files_in(tmp_path)}
    truth = listen(chat, chat.send("And then?"))
    for path in files_in(tmp_path):
        if path.name not in kept:
            path.unlink()
    second = opened(kind)
    chat = session_of(second, way, depth, cache=cache)
    chat.load_messages(before)
    said = listen(chat, chat.send("And then?"))
    assert (said.tokens, drafts(said)) == (truth.tokens, drafts(truth))
    reused = truth.finished.stats.reused_tokens
    assert reused - LEAST_NEW < said.finished.stats.reused_tokens <= reused
    assert second.prompt_files_trouble is None


def read_once(engine, **more):
    chat = session_of(engine, GREEDY, **more)
    return listen(chat, chat.send(LONG))


def test_files_are_for_their_owner_alone_and_a_beginning_is_there_once(opened, tmp_path):
    read_once(opened())
    kept = files_in(tmp_path)
    assert kept
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "read").stat().st_mode) == 0o700
    assert read_once(opened()).finished.stats.reused_tokens > 60
    assert [path.name for path in files_in(tmp_path)] == [path.name for path in kept]


DAMAGES = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "altered": lambda path: path.write_bytes(
        path.read_bytes()[:-9] + bytes([path.read_bytes()[-9] ^ 1]) + path.read_bytes()[-8:]
    ),
    "no header": lambda path: path.write_bytes(b"\xff" * 64),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_removed_and_read_again(opened, tmp_path, damage):
    truth = read_once(opened())
    damaged = files_in(tmp_path)
    for path in damaged:
        DAMAGES[damage](path)
    engine = opened()
    said = read_once(engine)
    assert said.tokens == truth.tokens
    assert said.finished.stats.reused_tokens == 0
    assert engine.prompt_files_trouble.code == "prompt-file-damaged"
    assert engine.prompt_files_trouble in engine.description.declined
    assert all(path.stat().st_size != 64 for path in files_in(tmp_path))
    assert read_once(opened()).finished.stats.reused_tokens > 60, "they are written anew"


def test_what_belongs_to_others_is_left_alone(opened, tmp_path, folders):
    """Another model with tensors of the same names and sizes, another format, files of others."""
    read_once(opened())
    mine = tmp_path / "read" / "notes.txt"
    mine.write_text("not ours")
    other = tmp_path / "other"
    shutil.copytree(folders["recurrent"], other)
    weights = next(other.glob("*.safetensors"))
    arrays = mx.load(str(weights))
    metadata = {"format": "pt"}
    name = next(name for name in arrays if "embed" in name)
    arrays[name] = arrays[name] * 1.5
    mx.save_safetensors(str(weights), arrays, metadata)
    folders["other"] = other
    for engine, more in ((opened("other"), {}), (opened(), {"cache": CacheOptions(bits=8)})):
        assert read_once(engine, **more).finished.stats.reused_tokens == 0
        assert engine.prompt_files_trouble is None
    assert mine.read_text() == "not ours"


def test_a_piece_without_its_beginning_is_of_no_use(opened, tmp_path):
    engine = opened()
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(LONG))
    history = chat.messages
    listen(chat, chat.send(LONG))
    first = min(files_in(tmp_path), key=lambda path: int(path.name.split("-")[0]))
    first.unlink()
    engine = opened()
    chat = session_of(engine, GREEDY)
    chat.load_messages(history)
    assert listen(chat, chat.send(LONG)).finished.stats.reused_tokens == 0
    assert engine.prompt_files_trouble.code == "prompt-file-damaged"


def test_a_piece_that_comes_before_itself_is_of_no_use(opened, tmp_path):
    """As only somebody who means it can write it."""
    truth = read_once(opened())
    for path in files_in(tmp_path):
        end, key, _ = path.stem.split("-")
        arrays, told = mx.load(str(path), return_metadata=True)
        mx.save_safetensors(str(path), arrays, {**told, "start": end, "parent": key})
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()[:40]
        path.rename(path.with_name(f"{end}-{key}-{checksum}.safetensors"))
    engine = opened()
    assert read_once(engine).tokens == truth.tokens
    assert "what comes before it is gone" in engine.prompt_files_trouble.words


def test_the_least_recently_used_go_beyond_the_bound(opened, tmp_path):
    engine = opened(prompt_files_bytes=2**20)
    for number in range(6):
        chat = session_of(engine, GREEDY)
        listen(chat, chat.send(f"{number} {LONG}"))
    sizes = [path.stat().st_size for path in files_in(tmp_path)]
    assert 0 < sum(sizes) <= 2**20
    chat = session_of(opened(), GREEDY)
    said = listen(chat, chat.send(f"5 {LONG}"))
    assert said.finished.stats.reused_tokens > 60, "the newest is there"
    read_once(opened(prompt_files_bytes=0))
    assert files_in(tmp_path) == []


def test_a_full_disk_ends_no_answer_and_loses_nothing(opened, tmp_path, monkeypatch):
    engine = opened()
    truth = read_once(engine)
    kept = files_in(tmp_path)

    def full(file, arrays, told):
        del arrays, told
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mx, "save_safetensors", full)
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send("Another " + LONG))
    assert engine.prompt_files_trouble.code == "prompt-files-unwritten"
    assert files_in(tmp_path) == kept
    monkeypatch.undo()
    said = read_once(opened())
    assert said.tokens == truth.tokens
    assert said.finished.stats.reused_tokens > 60


def test_a_folder_that_cannot_be_is_told(opened, tmp_path):
    (tmp_path / "read").write_text("a file")
    engine = opened()
    assert read_once(engine).tokens
    assert engine.prompt_files_trouble.code in ("prompt-files-folder", "prompt-files-unwritten")


def test_raw_prompts_are_kept_as_well(opened):
    text = DraftOptions(depth=2)
    prompt = list(range(60, 200))
    first = opened().generate(prompt, 8, GREEDY, text)
    said = opened().generate([*prompt, *first.tokens, 7, 8], 8, GREEDY, text)
    assert said.stats.reused_tokens >= len(prompt) - 1
