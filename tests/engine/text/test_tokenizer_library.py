"""Tokenizers on which the library panics, and those that would take hours or all memory."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.text import tokenizer_library
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadTokenizer

LETTERS = {"type": "BPE", "vocab": {letter: i for i, letter in enumerate("abd")}, "merges": []}


def with_parts(folder: Path, **parts: Any) -> Path:
    described = {"version": "1.0", "added_tokens": [], "model": LETTERS} | parts
    (folder / "tokenizer.json").write_text(json.dumps(described))
    return folder


def split(pattern: str) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}
WORDS = {"type": "WordLevel", "vocab": {"b": 0}, "unk_token": "[UNK]"}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"post_processor": TEMPLATE},
        {"model": WORDS},
        {"pre_tokenizer": split("(")},
    ],
)
def test_what_fails_at_loading_is_a_bad_tokenizer(tmp_path: Path, parts: dict[str, Any]) -> None:
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json"):
        read_tokenizer(with_parts(tmp_path, **parts))


def test_what_fails_at_a_text_is_a_bad_tokenizer(tmp_path: Path) -> None:
    made = read_tokenizer(with_parts(tmp_path, pre_tokenizer=split("(a|aa|aaa)+$")))
    for read in (made.encode, lambda text: made.split_control_tokens(text, made.special_ids)):
        with pytest.raises(BadTokenizer, match="retry-limit"):
            read("a" * 40 + "b")


def test_what_fails_at_an_answer_is_a_bad_tokenizer(tmp_path: Path) -> None:
    strip = {"type": "Strip", "content": "d", "start": 2**60, "stop": 2**60}
    made = read_tokenizer(with_parts(tmp_path, decoder={"type": "Sequence", "decoders": [strip]}))
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json"):
        made.decode([2])
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json"):
        StreamingText(made).add([2])


def test_a_text_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_library, "SECONDS", 0.01)
    calls, never, asked = tokenizer_library.TimedCalls("x.json"), Event(), Event()
    for work in (never.wait, asked.set):
        with pytest.raises(BadTokenizer, match=r"x\.json: .* a text of 3 char"):
            calls.run(work, 3)
    assert not asked.is_set(), "while the first text still runs, no other is begun"
    never.set()
    monkeypatch.setattr(tokenizer_library, "SECONDS", 60)
    calls._abandoned_thread.join()
    assert calls.run(lambda: 5, 3) == 5


@pytest.mark.parametrize("part", ["normalizer", "decoder"])
def test_replacements_that_grow_without_end_are_refused(tmp_path: Path, part: str) -> None:
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    sequence = {"type": "Sequence", f"{part}s": [step] * 40}
    with pytest.raises(BadTokenizer, match="times as long"):
        read_tokenizer(with_parts(tmp_path, **{part: sequence}))


LONG = "ab" * 300_000
UNIGRAM = {"type": "Unigram", "vocab": [["a", -1.0], [LONG, -2.0]], "unk_id": 0}
ADDED = {"id": 3, "content": LONG, "single_word": False, "lstrip": False, "rstrip": False}


@pytest.mark.parametrize(
    "parts",
    [{"model": UNIGRAM}, {"added_tokens": [ADDED | {"normalized": False, "special": True}]}],
)
def test_tokens_that_overflow_the_stack_are_refused(tmp_path: Path, parts: dict[str, Any]) -> None:
    with pytest.raises(BadTokenizer, match="longer than any words"):
        read_tokenizer(with_parts(tmp_path, **parts))


def test_inspect_says_it_in_words(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path)
    with_parts(folder, pre_tokenizer={"type": "FixedLength", "length": 0})
    for use in (lambda: mlx_engine.inspect(folder, text=True), lambda: mlx_engine.load(folder)):
        with pytest.raises(BadTokenizer):
            use()
