"""What was read outlives the engine, for whom it was read; files of no use are told and removed."""

import contextlib
import hashlib
import itertools
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import pytest
from session_runs import PICKS, drafts, listen, session_of
from small_disk import run_on_a_small_disk

import mlx_engine
from mlx_engine.cache import prompt_files
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.prompt_files import LEAST_NEW
from mlx_engine.cache.prompt_format import CacheState, NewFile
from mlx_engine.decoding import prompt_cache
from mlx_engine.self_check import kernel_record
from mlx_engine.values.errors import EngineMisuse
from mlx_engine.values.options import CacheOptions, DraftOptions, LoadOptions, SamplingOptions

GREEDY = SamplingOptions(temperature=0, logit_bias=PICKS.logit_bias)
LONG = "The quick brown fox jumps over the lazy dog and the fox. " * 4
SHORT = "The quick brown fox jumps over the lazy dog."
KINDS = ("recurrent", "windowed", "attention")


class Opened:
    """Engines one after the other, each as after a restart, with one folder of files."""

    def __init__(self, folders, folder):
        self.folders, self.folder, self.engine = folders, folder, None

    def __call__(self, kind="recurrent", **options):
        self.close()
        its = LoadOptions(prompt_files=self.folder, **options)
        self.engine = mlx_engine.load(self.folders[kind], options=its)
        return self.engine

    def files(self):
        """Once all is written."""
        self.engine.parts.prompts.files.wait()
        return sorted(self.folder.glob("*/*"))

    def close(self):
        if self.engine is not None:
            self.engine.close()


@pytest.fixture
def opened(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(prompt_cache, "CLOSING_S", 60.0)  # of a busy disk, else a file is lost
    made = Opened(folders, tmp_path / "read")
    yield made
    made.close()


PAIRS = [
    (kind, depth, bits, way)
    for number, (kind, depth) in enumerate(itertools.product(KINDS, (0, 1, 2, 4)))
    for bits, way in [
        ((16, 8, 4)[number % 3] if kind == "recurrent" else 16, (GREEDY, PICKS)[number % 2])
    ]
]


@pytest.mark.parametrize(("kind", "depth", "bits", "way"), PAIRS)
def test_a_second_turn_after_a_restart_reads_what_is_new(opened, kind, depth, bits, way):
    """The same words and drafts as of a chat that goes on, in every format of keys and values."""
    first = opened(kind)
    cache = CacheOptions(bits=bits, head_bits=bits)
    chat = session_of(first, way, depth, cache=cache)
    listen(chat, chat.send(LONG))
    before = chat.messages
    kept = {path.name for path in opened.files()}
    truth = listen(chat, chat.send("And then?"))
    for path in opened.files():
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


def test_files_are_for_their_owner_alone_and_a_beginning_is_there_once(opened):
    read_once(opened())
    kept = opened.files()
    assert kept
    for path in kept:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(opened.folder.stat().st_mode) == 0o700
    assert read_once(opened()).finished.stats.reused_tokens > 60
    assert [path.name for path in opened.files()] == [path.name for path in kept]


DAMAGES = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "altered": lambda path: path.write_bytes(
        path.read_bytes()[:-9] + bytes([path.read_bytes()[-9] ^ 1]) + path.read_bytes()[-8:]
    ),
    "no header": lambda path: path.write_bytes(b"\xff" * 64),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_removed_and_read_again(opened, damage):
    truth = read_once(opened())
    damaged = opened.files()
    for path in damaged:
        DAMAGES[damage](path)
    engine = opened()
    said = read_once(engine)
    assert said.tokens == truth.tokens
    assert said.finished.stats.reused_tokens == 0
    assert engine.prompt_files_trouble.code == "prompt-file-damaged"
    assert engine.prompt_files_trouble in engine.description.declined
    assert all(path.stat().st_size != 64 for path in opened.files())
    assert read_once(opened()).finished.stats.reused_tokens > 60, "they are written anew"


def test_what_belongs_to_others_is_left_alone(opened, folders):
    """Another model with tensors of the same names and sizes, another format, files of others."""
    read_once(opened())
    mine = opened.folder / "notes.txt"
    mine.write_text("not ours")
    other = opened.folder.with_name("other")
    shutil.copytree(folders["recurrent"], other)
    weights = next(other.glob("*.safetensors"))
    arrays = mx.load(str(weights))
    metadata = {"format": "pt"}
    name = next(name for name in arrays if "embed" in name)
    arrays[name] = arrays[name] * 1.5
    mx.save_safetensors(str(weights), arrays, metadata)
    folders["other"] = other
    for kind, more in (("other", {}), ("recurrent", {"cache": CacheOptions(bits=8)})):
        engine = opened(kind)
        assert read_once(engine, **more).finished.stats.reused_tokens == 0
        assert engine.prompt_files_trouble is None
    assert mine.read_text() == "not ours"


def test_what_does_not_change_the_rows_changes_no_model(opened, folders):
    """Notes beside the weights, and another place of the model and its draft model."""
    base = opened.folder.parent

    def read_again(name):
        model, drafter = base / f"{name}-model", base / f"{name}-drafter"
        for place in (model, drafter):
            shutil.copytree(folders["attention"], place)
        (model / ".DS_Store").write_bytes(os.urandom(64))
        (model / "README.md").write_text(name)
        (model / "lost-mtp.safetensors").symlink_to("nowhere")
        folders["moved"] = model
        engine = opened("moved", draft_model=drafter)
        chat = session_of(engine, GREEDY)
        chat.draft = DraftOptions("model", depth=2)
        reused = listen(chat, chat.send(LONG)).finished.stats.reused_tokens
        assert opened.files()
        return reused

    assert read_again("first") == 0
    assert read_again("second") > 60


def test_another_config_or_draft_model_is_another_model(opened, folders):
    model = opened.folder.parent / "model"
    shutil.copytree(folders["attention"], model)
    folders["mine"] = model
    known = {opened("mine").parts.prompts.files._model}
    known.add(opened("mine", draft_model=folders["attention"]).parts.prompts.files._model)
    config = model / "config.json"
    config.write_text(config.read_text() + " ")
    known.add(opened("mine").parts.prompts.files._model)
    assert len(known) == 3


def test_files_of_earlier_formats_go_and_files_of_others_stay(opened):
    opened.folder.mkdir()
    checksum, key, tag = "c" * 40, "a" * 40, "b" * 16
    old = [f"70-{key}-{tag}-{checksum}.{kind}.safetensors" for kind in ("rows", "states")]
    old += [f"70-{key}-{tag}.rows.part", f"{key}.chat"]
    foreign = ["model.safetensors", "notes.chat", ".DS_Store"]
    for name in (*old, *foreign):
        (opened.folder / name).write_text("text")
    opened().close()
    assert sorted(path.name for path in opened.folder.iterdir()) == sorted(foreign)


def test_a_file_of_a_name_from_another_format_counts_and_goes_as_the_least_recently_used(tmp_path):
    """In the folder of a chat, where no search would ever find it."""
    saved_rows(tmp_path, "model", 8).wait()
    (kept,) = tmp_path.glob("*/*")
    folder = mlx_engine.PromptFolder(tmp_path)
    size = folder.nbytes
    old = kept.with_name(f"64-{'a' * 40}-v3.safetensors")
    old.write_bytes(bytes(size))
    os.utime(old, ns=(1, 1))
    assert folder.nbytes == 2 * size
    folder.delete_oldest(size)
    assert list(tmp_path.glob("*/*")) == [kept]


def test_a_piece_without_its_beginning_is_of_no_use(opened):
    engine = opened()
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(LONG))
    history = chat.messages
    listen(chat, chat.send(LONG))
    min(opened.files(), key=lambda path: int(path.name.split("-")[0])).unlink()
    engine = opened()
    chat = session_of(engine, GREEDY)
    chat.load_messages(history)
    assert listen(chat, chat.send(LONG)).finished.stats.reused_tokens == 0
    assert engine.prompt_files_trouble.code == "prompt-file-damaged"
    assert "continues is gone" in engine.prompt_files_trouble.words


def test_a_file_that_continues_itself_is_left_alone(opened):
    """As only somebody who means it can name it."""
    truth = read_once(opened())
    for path in opened.files():
        end, _, *rest = path.name.split("-")
        path.rename(path.with_name("-".join((end, end, *rest))))
    engine = opened()
    assert read_once(engine).tokens == truth.tokens


def test_the_least_recently_used_go_beyond_the_bound(opened):
    engine = opened(prompt_files_bytes=2**20)
    for number in range(6):
        chat = session_of(engine, GREEDY)
        listen(chat, chat.send(f"{number} {LONG}"))
    sizes = [path.stat().st_size for path in opened.files()]
    assert 0 < sum(sizes) <= 2**20
    chat = session_of(opened(), GREEDY)
    said = listen(chat, chat.send(f"5 {LONG}"))
    assert said.finished.stats.reused_tokens > 60, "the newest is there"
    read_once(opened(prompt_files_bytes=0))
    assert opened.files() == []


def test_what_was_computed_otherwise_is_told_and_left_alone(opened, monkeypatch):
    """Rows of another MLX, or other kernels, are not gone on from; those of now are kept too."""
    truth = read_once(opened())
    kept = opened.files()
    here = {**kernel_record.machine_and_versions(), "mlx": "another"}
    with monkeypatch.context() as patch:
        patch.setattr(kernel_record, "machine_and_versions", lambda: here)
        engine = opened()
    said = read_once(engine)
    assert said.finished.stats.reused_tokens == 0
    assert engine.prompt_files_trouble.code == "prompt-file-other"
    assert "(now another)" in engine.prompt_files_trouble.words
    assert engine.prompt_files_trouble in engine.description.declined
    assert set(kept) < set(opened.files())
    assert read_once(opened()).finished.stats.reused_tokens > 60
    assert said.tokens == truth.tokens


def test_a_prompt_is_known_whatever_a_comparison_of_rows_finds(opened, monkeypatch):
    """On a busy machine it ends early, finds nothing, and changes no row."""
    read_once(opened())
    differ = "mlx_engine.self_check.between_answers.rows_that_differ"
    monkeypatch.setattr(differ, lambda *_: "with 16 tokens at once")
    engine = opened()
    assert engine.description.numerics == "fast"
    assert read_once(engine).finished.stats.reused_tokens > 60


def test_what_is_computed_in_two_ways_is_not_written(opened, monkeypatch):
    """As where a kernel is switched off between two answers of a chat."""
    engine = opened()
    ways = ["one"]
    monkeypatch.setattr(engine.parts.prompts.files, "_computed_by", lambda: {"kernels": ways[-1]})
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(SHORT))
    kept = opened.files()
    assert kept
    ways.append("other")
    listen(chat, chat.send(SHORT))
    assert opened.files() == kept
    chat.forget()
    listen(chat, chat.send(SHORT))
    assert len(opened.files()) > len(kept), "it was read anew, in one way"


def test_a_file_that_claims_to_be_another_is_of_no_use(opened):
    """Of another text, or of another model's, under the name that is looked for."""
    read_once(opened())
    foreign = opened.files()
    chat = session_of(opened(), GREEDY)
    truth = listen(chat, chat.send("Another " + LONG))
    for path, other in zip(sorted(set(opened.files()) - set(foreign)), foreign, strict=True):
        checksum = other.name.split("-")[-1]
        other.rename(path.with_name("-".join((*path.name.split("-")[:-1], checksum))))
        path.unlink()
    engine = opened()
    chat = session_of(engine, GREEDY)
    said = listen(chat, chat.send("Another " + LONG))
    assert (said.tokens, said.finished.stats.reused_tokens) == (truth.tokens, 0)
    assert engine.prompt_files_trouble.code == "prompt-file-damaged"


def test_states_that_a_chat_has_left_behind_go_where_they_are_large(opened, monkeypatch):
    """Of large states those of the first and the last two places stay, so that the last question
    can be put differently; files of others do not go with them.
    """
    monkeypatch.setattr(prompt_files, "WORTH_A_TOKEN", 64)
    chat = session_of(opened(), GREEDY, name="a")
    for turn in range(5):
        listen(chat, chat.send(SHORT))
        assert len(opened.files()) == min(turn + 1, 3)
    history = chat.messages
    for turns, name in ((4, "b"), (5, "c")):
        chat = session_of(opened(), GREEDY, name=name)
        chat.load_messages(history[: 2 * turns])
        stats = listen(chat, chat.send("Why?")).finished.stats
        assert stats.prompt_tokens - stats.reused_tokens < 2 * len(SHORT)
    for _ in range(2):
        listen(chat, chat.send(SHORT))
    places = [int(path.name.split("-")[0]) for path in opened.files()]
    mlx_engine.PromptFolder(opened.folder).forget_chat("c")
    left = [int(path.name.split("-")[0]) for path in opened.files()]
    assert len(set(places)) > len(set(left)) == 4, "a's three, and one of b"


@pytest.mark.parametrize("kind", KINDS)
def test_small_states_stay_and_any_question_put_anew_reads_but_itself(opened, kind):
    chat = session_of(opened(kind), GREEDY)
    for _ in range(4):
        listen(chat, chat.send(SHORT))
        opened.files()
    history = chat.messages
    chat = session_of(opened(kind), GREEDY)
    chat.load_messages(history[:4])
    stats = listen(chat, chat.send("Why?")).finished.stats
    assert stats.prompt_tokens - stats.reused_tokens < 2 * len(SHORT)


class Held:
    """A disk that takes nothing before it may."""

    def __init__(self, monkeypatch):
        self.may, self.written = threading.Event(), []

        def write_later(file, folder):
            self.may.wait(60)
            self.written.append(file)
            return write(file, folder)

        write = NewFile.write_file
        monkeypatch.setattr(NewFile, "write_file", write_later)


def test_the_next_question_does_not_wait_for_the_disk(opened, monkeypatch):
    """And of places that come while it is at work only the newest is written."""
    disk = Held(monkeypatch)
    engine = opened()
    chat = session_of(engine, GREEDY)
    for _ in range(5):
        listen(chat, chat.send(SHORT))
    assert not disk.written
    history = chat.messages
    disk.may.set()
    engine.close()
    assert len(disk.written) == 2, "the place that was begun, and the newest"
    monkeypatch.undo()
    chat = session_of(opened(), GREEDY)
    chat.load_messages(history)
    stats = listen(chat, chat.send(SHORT)).finished.stats
    assert stats.prompt_tokens - stats.reused_tokens < 2 * len(SHORT)


def test_closing_waits_for_the_disk_a_little(opened, monkeypatch):
    engine = opened()
    monkeypatch.setattr(prompt_cache, "CLOSING_S", 0.05)
    disk = Held(monkeypatch)
    read_once(engine)
    engine.close()
    assert not disk.written
    disk.may.set()
    monkeypatch.undo()
    read_once(opened())
    assert opened.files()


def saved_rows(folder, model, size, rows=64, most_bytes=10**9):
    """What saves so many rows in a folder."""
    caches = LayerCaches([AttentionCache()])
    block = mx.ones((1, 1, rows, size))
    caches.layers[0].write(block, block)
    caches.commit(rows)
    told = prompt_files.SavedConversation("kind", range(rows), (caches,), None)
    files = prompt_files.PromptFiles(folder, model, most_bytes)
    files.save_states([(told, [CacheState(rows, (caches.snapshot(),), None)])])
    return files


FORGED = {
    "the same": lambda arrays, told: (arrays, told),
    "fewer rows": lambda arrays, told: ({n: a[:, :, 1:] for n, a in arrays.items()}, told),
    "no arrays": lambda _, told: ({"none": mx.zeros(1)}, told),
    "no lengths": lambda arrays, _: (arrays, {}),
    "other lengths": lambda arrays, told: (arrays, {**told, "lengths": "[3]"}),
    "no list": lambda arrays, told: (arrays, {**told, "lengths": "7"}),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_sound_file_of_other_contents_is_of_no_use(tmp_path, how):
    saved_rows(tmp_path, "model", 8).wait()
    (path,) = tmp_path.glob("*/*")
    arrays, told = FORGED[how](*mx.load(str(path), return_metadata=True))
    mx.save_safetensors(str(path), arrays, told)
    stem = path.stem.rpartition("-")[0]
    checksum = hashlib.sha256(stem.encode() + path.read_bytes()).hexdigest()[:40]
    path.rename(path.with_name(f"{stem}-{checksum}.safetensors"))
    caches = LayerCaches([AttentionCache()])
    files = prompt_files.PromptFiles(tmp_path, "model", 10**9)
    asked = prompt_files.SavedConversation("kind", (), (caches,), None)
    found = files.restore(asked, range(70), 1, lambda: caches.restore(caches.snapshot_at_length(0)))
    if how == "the same":
        assert (found.length, caches.length) == (64, 64)
    else:
        assert found is None
        assert files.newest_failure.code == "prompt-file-damaged"
        assert not list(tmp_path.glob("*/*"))


@pytest.mark.parametrize(("files", "left"), [(1, [64]), (2, [64, 128]), (3, [64, 128, 192])])
def test_of_a_chain_the_last_files_go_first(tmp_path, files, left):
    saved_rows(tmp_path, "model", 8).wait()
    size = mlx_engine.PromptFolder(tmp_path).nbytes
    for rows in (128, 192):
        time.sleep(0.01)  # of a clock that is coarse
        saved_rows(tmp_path, "model", 8, rows, most_bytes=int((files + 0.5) * size)).wait()
    names = [path.name for path in tmp_path.glob("*/*.safetensors")]
    assert sorted(int(name.split("-")[0]) for name in names) == left


def test_threads_that_write_leave_nothing_of_mlx_behind(tmp_path):
    """A stream of a thread keeps a thread of its own, and on a GPU a command queue."""
    saved_rows(tmp_path, "model", 8).wait()
    before = native_threads()
    for number in range(3):
        saved_rows(tmp_path, f"model {number}", 8).wait()
    assert len(list(tmp_path.glob("*/*.safetensors"))) == 4
    patience = time.monotonic() + 60
    while native_threads() > before and time.monotonic() < patience:
        time.sleep(0.01)  # a thread of the system ends a moment after Python's
    assert native_threads() <= before


def native_threads():
    """Of this process; where the system does not tell, the threads of Python."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


WRITES = """
import os, sys, threading, time
from pathlib import Path
import mlx.core as mx
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.prompt_files import SavedConversation, PromptFiles
from mlx_engine.cache.prompt_format import CacheState
folder = Path(sys.argv[1])
if sys.argv[2] == "hangs":
    os.fsync = lambda _: threading.Event().wait()
caches = LayerCaches([AttentionCache()])
rows = mx.ones((1, 1, 64, 2**18))
caches.layers[0].write(rows, rows)
caches.commit(64)
files = PromptFiles(folder, "model", 10**9)
told = SavedConversation("kind", range(64), (caches,), None)
files.save_states([(told, [CacheState(64, (caches.snapshot(),), None)])])
while not list(folder.glob("*/*")):
    time.sleep(0.001)
files.wait(0.05)
"""


@pytest.mark.parametrize("how", ["hangs", "is slow"])
def test_a_program_ends_though_its_disk_does_not(tmp_path, how):
    script = [sys.executable, "-c", WRITES, str(tmp_path), how]
    subprocess.run(script, check=True, timeout=120)


def test_files_go_with_their_chat_but_for_what_others_have_read(opened):
    def asked(name):
        chat = session_of(opened(), GREEDY, name=name, system=LONG)
        stats = listen(chat, chat.send(f"{name} {SHORT}")).finished.stats
        assert opened.files()
        return stats.prompt_tokens - stats.reused_tokens

    first, second = asked("a"), asked("b")
    assert second < first / 2, "the system prompt is in files"
    folder = mlx_engine.PromptFolder(opened.folder)
    before = folder.nbytes
    folder.forget_chat("a")
    assert 0 < folder.nbytes < before
    assert asked("b") < second / 2, "all of it is there"
    assert asked("a") == second, "what b has read, too, is there"
    for name in ("b", "nobody", "a"):
        assert folder.nbytes > 0
        folder.forget_chat(name)
    assert opened.files() == []


def test_what_waits_to_be_written_is_forgotten_with_its_chat(opened, monkeypatch):
    engine = opened()
    disk = Held(monkeypatch)
    for name in ("a", "b"):
        chat = session_of(engine, GREEDY, name=name)
        listen(chat, chat.send(f"{name} {LONG}"))
    folder = mlx_engine.PromptFolder(opened.folder)
    folder.forget_chat("a")
    folder.forget_chat("b")
    disk.may.set()
    assert opened.files() == []
    assert engine.prompt_files_trouble is None


def fill_a_real_disk(disk, model):
    """Turns of a chat beside a file that leaves less and less room, then enough again."""
    opened = Opened({"recurrent": model}, disk / "read")
    engine = opened()
    chat, files, filler = session_of(engine, GREEDY), {0}, disk / "filler"
    for turn in range(4):
        listen(chat, chat.send(f"{turn} {SHORT}"))
        there = opened.files()
        files.add(len(there))
        assert not [path for path in there if path.suffix == ".part"]
        with filler.open("ab") as file:
            file.write(bytes(int(0.7 * shutil.disk_usage(disk).free)))
    history = chat.messages
    trouble = engine.prompt_files_trouble
    assert trouble.code == "prompt-files-unwritten"
    assert "No space left on device" in trouble.words
    assert len(files) < 5, "not all turns have left something"
    before = opened.files()
    filler.unlink()
    truth = listen(chat, chat.send("And then?"))
    assert opened.files() != before
    assert engine.prompt_files_trouble is None
    chat = session_of(opened(), GREEDY)
    chat.load_messages(history)
    said = listen(chat, chat.send("And then?"))
    assert said.tokens == truth.tokens
    stats = said.finished.stats
    assert stats.reused_tokens > stats.prompt_tokens - 40
    opened.close()


def test_a_disk_that_is_really_full_is_told(folders, tmp_path):
    """And written to again once it has room; a second of it goes into loading MLX anew."""
    model = str(folders["recurrent"])
    run_on_a_small_disk(tmp_path, "400k", "fill_a_real_disk", __file__, model)


class FullFile(contextlib.nullcontext):
    """A file on a disk that is full; given as the context is entered."""

    def __enter__(self):
        return SimpleNamespace(write=self.enter_result)


def full(*given, **more):
    raise OSError(ENOSPC, os.strerror(ENOSPC))


CALLS = {
    "open": (os, "open", full),
    "write": (os, "fdopen", lambda *_: FullFile(full)),
    "fsync": (os, "fsync", full),
    "rename": (Path, "rename", full),
}


@pytest.mark.parametrize("call", CALLS)
def test_wherever_the_disk_is_full_nothing_is_left_over(tmp_path, monkeypatch, call):
    monkeypatch.setattr(*CALLS[call])
    files = saved_rows(tmp_path, "model", 8)
    files.wait()
    assert files.newest_failure.code == "prompt-files-unwritten"
    assert not list(tmp_path.glob("*/*"))
    monkeypatch.undo()
    files = saved_rows(tmp_path, "model", 8)
    files.wait()
    assert files.newest_failure is None
    assert len(list(tmp_path.glob("*/*"))) == 1


def test_where_the_disk_is_full_no_answer_ends(opened, monkeypatch):
    engine = opened()
    truth = read_once(engine)
    kept = opened.files()
    monkeypatch.setattr(*CALLS["fsync"])
    chat = session_of(engine, GREEDY)
    said = listen(chat, chat.send("Another " + LONG))
    assert opened.files() == kept
    assert engine.prompt_files_trouble.code == "prompt-files-unwritten"
    monkeypatch.undo()
    listen(chat, chat.send(SHORT))
    assert len(opened.files()) > len(kept), "there is room again"
    assert engine.prompt_files_trouble is None
    alone = session_of(opened(), GREEDY)
    assert listen(alone, alone.send("Another " + LONG)).tokens == said.tokens
    again = read_once(opened())
    assert again.tokens == truth.tokens
    assert again.finished.stats.reused_tokens > 60


def test_a_folder_that_cannot_be_is_told(opened):
    opened.folder.write_text("a file")
    engine = opened()
    assert read_once(engine).tokens
    assert engine.prompt_files_trouble.code == "prompt-files-unwritten"


def told_of(engine):
    return [one.code for one in engine.description.declined if one.code.startswith("prompt-file")]


def test_a_folder_that_can_be_used_again_is_and_nothing_is_told_of_it_any_more(opened):
    opened.folder.write_text("a file")
    engine = opened()
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(LONG))
    assert told_of(engine) == [engine.prompt_files_trouble.code]
    opened.folder.unlink()
    listen(chat, chat.send(LONG))
    assert opened.files()
    assert engine.prompt_files_trouble is None
    listen(chat, chat.send(SHORT))
    assert told_of(engine) == []


def test_what_is_told_of_files_is_of_the_last_that_was_read_or_written(opened):
    chat = session_of(opened("attention"), GREEDY)
    listen(chat, chat.send(SHORT))
    room = int(1.5 * sum(path.stat().st_size for path in opened.files()))
    for path in opened.files():
        path.write_bytes(b"")
    engine = opened("attention", prompt_files_bytes=room)
    for text, code in (
        (SHORT, "prompt-file-damaged"),
        (3 * LONG, "prompt-files-small"),
        (f"Another {SHORT}", None),
    ):
        chat = session_of(engine, GREEDY)
        listen(chat, chat.send(text))
        opened.files()
        trouble = engine.prompt_files_trouble
        assert (trouble and trouble.code) == code
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(f"And another {SHORT}"))
    assert told_of(engine) == []


def test_raw_prompts_are_kept_as_well(opened):
    text = DraftOptions(depth=2)
    prompt = list(range(60, 200))
    first = opened().generate(prompt, 8, GREEDY, text)
    said = opened().generate([*prompt, *first.tokens, 7, 8], 8, GREEDY, text)
    assert said.stats.reused_tokens >= len(prompt) - 1


def test_closing_never_fails(opened, monkeypatch):
    engine = opened()
    disk = Held(monkeypatch)
    read_once(engine)
    chat = session_of(engine, GREEDY)
    listen(chat, chat.send(f"Another {LONG}"))

    def lost(*given):
        raise RuntimeError("the device was lost")

    monkeypatch.setattr(prompt_files, "collect_arrays", lost)
    disk.may.set()
    engine.close()
    with pytest.raises(EngineMisuse):
        engine.session()
