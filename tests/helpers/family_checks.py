"""Checks of a family's tiny models: same bits in any blocks, rows taken back, words drafted."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from compared import relative
from session_runs import PICKS, PLAIN
from tiny_nextn import Published

import mlx_engine
from mlx_engine.cache.contract import LayerCaches, RowCount
from mlx_engine.engine import Engine
from mlx_engine.values.options import CacheBits, CacheOptions, DraftOptions

TEXTS = ("the fox and the fox", "abc abc abc", "1 2")


class Opened(NamedTuple):
    """A published tiny model and an engine that has loaded it."""

    tiny: Published
    engine: Engine


@contextmanager
def opening(publish: Callable[[str], Published]) -> Iterator[Callable[[str], Opened]]:
    """Yields what publishes and loads the model of a name, once; all are closed at the end."""
    with ExitStack() as engines:

        @cache
        def get(name: str) -> Opened:
            tiny = publish(name)
            return Opened(tiny, engines.enter_context(mlx_engine.load(tiny.folder)))

        yield get


def _read(engine: Engine, tokens: list[int], caches: LayerCaches) -> mx.array:
    """Logits of tokens behind cached ones, not committed."""
    model = engine.parts.model
    return model.logits(model.forward(mx.array([tokens]), caches))


def _counts(kept: int) -> tuple[int, RowCount]:
    """A number of a block's four rows, told by the host or known to the device alone."""
    return kept, RowCount(mx.array([kept], dtype=mx.int32), 4)


def assert_same_bits_in_blocks(opened: Opened, length: int) -> None:
    """Logits of the first tokens are the same bits read singly, by threes, and all together."""
    tiny, engine = opened
    found = []
    for size in (1, 3, length):
        caches, made = engine.parts.model.make_caches(), []
        for start in range(0, length, size):
            block = tiny.tokens[start : start + size]
            made.append(_read(engine, block, caches))
            caches.commit(len(block))
        found.append(mx.concatenate(made, axis=1))
    for other in found[1:]:
        assert mx.array_equal(other, found[0])


def assert_same_bits_after_any_count(opened: Opened, start: int, end: int) -> None:
    """Logits of `end` tokens are the same bits with any of four rows kept from `start` on."""
    engine, tokens = opened.engine, opened.tiny.tokens[:end]
    make_caches = engine.parts.model.make_caches
    whole = _read(engine, tokens, make_caches())
    for kept in range(5):
        for count in _counts(kept):
            caches = make_caches()
            parts = [_read(engine, tokens[:start], caches)]
            caches.commit(start)
            block = tokens[start : start + kept] + [5] * (4 - kept)
            parts.append(_read(engine, block, caches)[:, :kept])
            caches.commit(count)
            parts.append(_read(engine, tokens[start + kept :], caches))
            assert mx.array_equal(mx.concatenate(parts, axis=1), whole)


def assert_goes_back_to_any_count(opened: Opened, starts: Iterable[int], end: int) -> None:
    """Tokens 24 to `end` have the same logits behind four rows of which some are kept."""
    tiny, engine = opened
    block, after = tiny.tokens[20:24], tiny.tokens[24:end]
    for start in starts:
        before = engine.parts.model.make_caches()
        _read(engine, tiny.tokens[:start], before)
        before.commit(start)
        for kept in range(5):
            straight = engine.parts.model.make_caches()
            _read(engine, tiny.tokens[:start] + block[:kept], straight)
            straight.commit(start + kept)
            wanted = _read(engine, after, straight.fork())
            for count in _counts(kept):
                caches = before.fork()
                _read(engine, block, caches)
                caches.commit(count)
                found = _read(engine, after, caches.fork())
                np.testing.assert_allclose(found, wanted, atol=2e-5)


def assert_compiled_for_any_length(opened: Opened, monkeypatch: Any) -> None:
    """Logits are transformers' where elementwise operations are compiled once for all shapes."""
    tiny, engine = opened
    monkeypatch.setattr("metal_kernels.stock.computes_on_gpu", lambda: True)
    caches = engine.parts.model.make_caches()
    for tokens in (tiny.tokens[:20], tiny.tokens[20:21], tiny.tokens[21:]):
        found = _read(engine, tokens, caches)
        caches.commit(len(tokens))
    assert relative(np.array(found[0]), tiny.logits[21:]) < 1e-4


def assert_same_words_drafted(
    engine: Engine, temperature: float, bits: CacheBits = 16, max_tokens: int = 6
) -> None:
    """Three chats, alone and in shared passes, say the words they say without the head.

    Some drafts are accepted.
    """
    asked: dict[str, Any] = {"max_tokens": max_tokens, "ignore_eos": True}
    asked["sampling"] = replace(PICKS, temperature=temperature)
    asked["cache"] = CacheOptions(bits=bits, head_bits=bits)
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
    drafted = DraftOptions(depth=3)
    alone = [engine.generate(text, draft=drafted, **asked) for text in TEXTS]
    for answers in (alone, engine.generate_many(TEXTS, draft=drafted, **asked)):
        assert [answer.tokens for answer in answers] == truth
        assert sum(answer.stats.accepted for answer in answers)
