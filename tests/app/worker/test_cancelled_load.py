"""A large load ends soon after it is no longer wanted, with the real engine and a large file."""

import json
import math
import struct
import time

import pytest
from served import served
from tiny_qwen3_5 import PREFIXES, tiny_config
from tiny_tokenizer import make_tiny_tokenizer

from app.worker.model_in_use import ModelSource
from app.worker.replies import LoadCancelled, LoadFailed, LoadProgress, ModelLoaded, Reply
from app.worker.requests import CancelLoad, LoadModel
from mlx_engine.models.families.qwen3_5 import Qwen35

SOON_S = 10.0
"""Generous, for a machine that is busy: the bytes tell whether the load went on."""


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


def test_a_cancel_ends_a_large_load_at_once(large):
    with served(ModelSource()) as room:
        room.put(LoadModel(str(large)))
        progress = room.until(is_in_the_middle)
        assert isinstance(progress, LoadProgress)
        assert progress.total > 3 * 10**9
        started = time.perf_counter()
        room.put(CancelLoad())
        room.until_a(LoadCancelled)
        assert time.perf_counter() - started < SOON_S
        read = [reply.done for reply in room.replies if isinstance(reply, LoadProgress)]
        assert max(read) < progress.total / 2


def test_the_end_of_the_program_ends_a_large_load_at_once(large):
    with served(ModelSource()) as room:
        room.put(LoadModel(str(large)))
        room.until(is_in_the_middle)
        started = time.perf_counter()
    assert time.perf_counter() - started < SOON_S
