"""The device's memory is bounded while engines are open, cleared as tokens pass, told when full."""

from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import mlx.core as mx
import pytest
from session_runs import (
    failing_engine,
    goes_on_as_a_fresh_one,
    listen,
    session_of,
    tiny_folder,
)

import mlx_engine
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.decoding import config
from mlx_engine.decoding.config import MOST_CACHED, MemoryLimits
from mlx_engine.decoding.state import CLEAR_EVERY, SequenceState
from mlx_engine.values.conversation import Message, RoundFinished
from mlx_engine.values.errors import OutOfMemory
from mlx_engine.values.options import SamplingOptions

GB = 1024**3
UNBOUNDED = 48 * GB
WORDS_OF_MLX = [
    "[METAL] Command buffer execution failed: Insufficient Memory "
    "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
    "[malloc_or_wait] Unable to allocate 1073741824 bytes.",
    "[metal::malloc] Attempting to allocate 22548578304 bytes which is greater than the maximum "
    "allowed buffer size of 14318469120 bytes.",
]


@dataclass
class Device:
    """MLX's limits as Metal has them."""

    recommended: int = 40 * GB
    cached: int = UNBOUNDED
    wired: int = 0

    def set_cache_limit(self, limit: int) -> int:
        before, self.cached = self.cached, limit
        return before

    def set_wired_limit(self, limit: int) -> int:
        if limit > self.recommended:
            raise ValueError("larger than the maximum working set size is not allowed")
        before, self.wired = self.wired, limit
        return before


@pytest.fixture
def device(monkeypatch):
    made = Device()
    monkeypatch.setattr(config, "gpu_bytes", lambda: made.recommended)
    monkeypatch.setattr(mx, "set_cache_limit", made.set_cache_limit)
    monkeypatch.setattr(mx, "set_wired_limit", made.set_wired_limit)
    return made


@pytest.mark.parametrize(("recommended", "cached"), [(11 * GB, 11 * GB // 16), (90 * GB, 2 * GB)])
def test_limits_follow_the_device(device, recommended, cached):
    device.recommended = recommended
    with MemoryLimits().during_generation():
        assert (device.cached, device.wired) == (cached, recommended)
    assert (device.cached, device.wired) == (UNBOUNDED, 0)


def test_limits_stay_until_the_last_answer_ends(device):
    limits = MemoryLimits()
    first, second = ExitStack(), ExitStack()
    for _ in range(2):
        first.enter_context(limits.during_generation())
        second.enter_context(limits.during_generation())
        first.close()
        assert (device.cached, device.wired) == (MOST_CACHED, device.recommended)
        second.close()
        assert (device.cached, device.wired) == (UNBOUNDED, 0)


def test_engines_answer_in_any_order(device):
    first, second = ExitStack(), ExitStack()
    first.enter_context(MemoryLimits().during_generation())
    second.enter_context(MemoryLimits().during_generation())
    first.close()
    second.close()
    assert (device.cached, device.wired) == (UNBOUNDED, 0)


@pytest.mark.parametrize("cached", [GB // 2, 0])
def test_stricter_limits_of_a_users_own_stay(device, cached):
    device.cached, device.wired = cached, 10 * GB
    with MemoryLimits().during_generation():
        assert (device.cached, device.wired) == (cached, 10 * GB)
    assert (device.cached, device.wired) == (cached, 10 * GB)


def test_memory_is_wired_while_an_engine_generates(tmp_path, device):
    """Also while several answers are read by turns, and one is left; not while it is idle."""
    engine = mlx_engine.load(tiny_folder(tmp_path / "m"))
    assert device.wired == 0
    chats = [session_of(engine) for _ in range(3)]
    running = [chat.send("hi") for chat in chats]
    while running:
        for events in list(running):
            event = next(events, None)
            if event is None:
                running.remove(events)
            elif isinstance(event, RoundFinished):
                assert device.wired == device.recommended
    assert device.wired == 0
    left = chats[0].send("hi")
    next(left)
    left.close()
    assert device.wired == 0
    engine.generate([1, 2], 3)
    engine.close()
    assert (device.cached, device.wired) == (UNBOUNDED, 0)


def test_generating_never_waits_for_all_of_the_device(tmp_path, monkeypatch):
    engine = mlx_engine.load(tiny_folder(tmp_path / "m"))
    waits = []
    monkeypatch.setattr(mx, "synchronize", lambda *_: waits.append("waited"))
    engine.generate([1, 2], CLEAR_EVERY + 9, ignore_eos=True)
    assert not waits


@pytest.mark.parametrize("depth", [0, 3])
def test_freed_buffers_are_given_back_as_tokens_pass(tmp_path, monkeypatch, depth):
    engine = mlx_engine.load(tiny_folder(tmp_path / "m"))
    session = session_of(engine, depth=depth, max_tokens=CLEAR_EVERY)
    cleared = []
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(len(session._sequence.tokens)))
    said = listen(session, session.send("The quick brown fox " * 9))
    read = said.finished.stats.prompt_tokens + said.finished.stats.generated_tokens
    places = [length // CLEAR_EVERY for length in cleared]
    assert places == [*range(1, 1 + (read - 1) // CLEAR_EVERY)]


@pytest.mark.parametrize("words", WORDS_OF_MLX)
@pytest.mark.parametrize("where", [0, 2, 5])
def test_a_chat_outlives_full_memory(tmp_path, words, where):
    """In the prompt's chunks (0) and in the rounds."""
    engine, model = failing_engine(tiny_folder(tmp_path / "m"))
    session = session_of(engine)
    listen(session, session.send("before"))
    model.faults = iter([*[None] * where, RuntimeError(words)])
    with pytest.raises(OutOfMemory, match="Memory ran out") as caught:
        listen(session, session.send("The quick brown fox"))
    assert words in str(caught.value)
    assert session.messages[2] == Message("user", "The quick brown fox")
    assert session._sequence.caches.length == 0, "its memory is free again"
    model.faults = iter(())
    goes_on_as_a_fresh_one(engine, session)


def test_full_memory_is_told_by_every_call(tmp_path):
    engine, model = failing_engine(tiny_folder(tmp_path / "m"))
    calls = (
        lambda: engine.measure_costs(lambda: False),
        lambda: engine.generate([1, 2, 3], 5),
        lambda: engine.logits([1, 2, 3]),
        lambda: engine.draft_logits([1, 2, 3]),
        lambda: listen(session := session_of(engine), session.send("hi")),
    )
    for call in calls:
        model.faults = iter([RuntimeError(WORDS_OF_MLX[0])])
        with pytest.raises(OutOfMemory):
            call()
    model.faults = iter([RuntimeError("[matmul] Last dimension of first input must match")])
    with pytest.raises(RuntimeError, match="matmul"):
        engine.generate([1, 2, 3], 5)
    assert engine.generate([1, 2, 3], 5, SamplingOptions(temperature=0)).tokens
    assert max(engine.pass_costs.verify_ms) < float("inf"), "a measurement that failed begins anew"


def test_4096_tokens_leave_no_outgrown_buffers_behind():
    """With as much room for freed buffers as Metal gives by itself; all are MLX's own here."""
    layers = [AttentionCache() for _ in range(2)]
    caches = LayerCaches(layers)
    model = SimpleNamespace(make_caches=lambda bits: caches)
    sequence = SequenceState(model)
    before = mx.set_cache_limit(UNBOUNDED)
    most = 0
    for rows in [512] * 4 + [1] * 2048:
        new = mx.zeros((1, 2, rows, 64))
        for layer in layers:
            layer.write(new, new)
        sequence.append_prompt_rows([1] * rows, mx.zeros((1, rows, 8)))
        sequence.evaluate()
        most = max(most, mx.get_cache_memory())
    mx.set_cache_limit(before)
    assert len(sequence.tokens) == 4096
    assert most < 1.5 * caches.nbytes
