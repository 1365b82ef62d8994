"""A large load ends where it is no longer wanted, with the real engine and a large file."""

import json
import math
import struct
from threading import Event, Thread

import pytest
from served import Served, served
from tiny_qwen3_5 import PREFIXES, tiny_config
from tiny_tokenizer import make_tiny_tokenizer

from app.worker.model_in_use import ModelSource
from app.worker.replies import LoadCancelled, LoadFailed, LoadProgress, ModelLoaded, Reply
from app.worker.requests import CancelLoad, LoadModel
from mlx_engine.models.families.qwen3_5 import Qwen35


@pytest.fixture
def large(tmp_path):
    """A model of some four gigabytes, all of them zeros that take no room on the disk."""
    config = tiny_config(layers=96)
    text = config["text_config"]
    assert isinstance(text, dict)
    text["intermediate_size"] = 100_000
    header, end = dict[str, object](), 0
    spec = Qwen35("qwen3_5", config, "large").spec
    for name, shape in spec.tensors().items():
        nbytes = 2 * math.prod(shape)
        header[PREFIXES["mlx"][0] + name] = {
            "dtype": "BF16",
            "shape": list(shape),
            "data_offsets": [end, end + nbytes],
        }
        end += nbytes
    start = json.dumps(header).encode()
    start += b" " * (-len(start) % 8)
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(start)) + start)
        file.truncate(8 + len(start) + end)
    (tmp_path / "config.json").write_text(json.dumps(config))
    make_tiny_tokenizer(tmp_path)
    return tmp_path


def is_in_the_middle(value: Reply) -> bool:
    assert not isinstance(value, LoadFailed | ModelLoaded), value
    return isinstance(value, LoadProgress) and value.done > 0


@pytest.fixture
def in_the_middle(monkeypatch):
    """Takes what is called on the engine's thread once a part of the file is read."""
    reply, waiting = Served.reply, []

    def noted(room, value):
        reply(room, value)
        if waiting and is_in_the_middle(value):
            waiting.pop()(room)

    monkeypatch.setattr(Served, "reply", noted)
    return waiting.append


def test_a_cancel_ends_a_large_load_at_once(large, in_the_middle):
    in_the_middle(lambda room: room.put(CancelLoad()))
    with served(ModelSource()) as room:
        room.put(LoadModel(str(large)))
        progress = room.until(is_in_the_middle)
        assert isinstance(progress, LoadProgress)
        assert progress.total > 3 * 10**9
        room.until_a(LoadCancelled)
        read = [reply.done for reply in room.replies if isinstance(reply, LoadProgress)]
        assert max(read) < progress.total / 2


def test_the_end_of_the_program_ends_a_large_load_at_once(large, in_the_middle):
    ends = Event()
    in_the_middle(lambda room: ends.wait(60))
    with served(ModelSource()) as room:
        room.put(LoadModel(str(large)))
        room.until(is_in_the_middle)
        close = Thread(target=room.desk.thread.close)
        close.start()
        while not room.desk.thread.is_closing:
            pass
        ends.set()
        close.join()
        read = [reply.done for reply in room.rest() if isinstance(reply, LoadProgress)]
    assert not read or max(read) < 2 * 10**9
