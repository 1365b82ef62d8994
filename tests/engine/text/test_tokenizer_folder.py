"""Folders with a tokenizer.model alone, or vocab.json and merges.txt, against the originals."""

import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from awkward_texts import PIECES
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_tokenizer import CORPUS, make_tiny_tokenizer
from transformers import AutoTokenizer

import mlx_engine
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadTokenizer, UnsupportedModel

MARKERS = ("<think>", "<s>", "</s>", "<unk>")
TEXTS = [*CORPUS[:4], *PIECES, "a  b", "  two before", "Ünïcödé ﬁ ①"]


def write_model(folder: Path, **changed: Any) -> sentencepiece.SentencePieceProcessor:
    folder.mkdir(parents=True, exist_ok=True)
    written = io.BytesIO()
    wanted: dict[str, Any] = {
        "vocab_size": 330,
        "model_type": "bpe",
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
        "user_defined_symbols": ["<think>"],
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 3), model_writer=written, **wanted | changed
    )
    (folder / "tokenizer.model").write_bytes(written.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "nmt_nfkc", "remove_extra_whitespaces": True},
        {"split_digits": True},
    ],
)
def test_the_same_ids_as_sentencepiece(tmp_path: Path, changed: dict[str, Any]) -> None:
    truth, made = write_model(tmp_path, **changed), read_tokenizer(tmp_path)
    for text in TEXTS:
        if any(marker in text for marker in MARKERS):
            continue  # found before all else here, as in transformers and llama.cpp
        if "nmt_nfkc" in changed.values() and not unicodedata.is_normalized("NFC", text):
            continue  # `tokenizers` composes at most 5 bytes at once, in transformers as well
        assert made.encode(text) == truth.encode(text), repr(text)
    ids = made.encode("The quick 😀 fox")
    assert made.decode(ids) == truth.decode(ids)


def test_tokens_with_a_meaning(tmp_path: Path) -> None:
    write_model(tmp_path)
    made = read_tokenizer(tmp_path)
    assert (made.bos_id, made.end_ids, made.opening_ids) == (1, {2}, (1,))
    assert {0, 1, 2} <= made.special_ids
    assert made.encode("a", add_special=True) == [1, *made.encode("a")]
    config = {"add_bos_token": False, "eos_token": "<think>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "added_tokens.json").write_text('{"<|b|>": 331, "<|a|>": 330}')
    other = read_tokenizer(tmp_path)
    assert (other.opening_ids, other.vocabulary) == ((), 332)
    assert other.end_ids == {2, other.encode("<think>")[-1]}
    assert other.encode("<|b|><|a|>") == [331, 330]


def test_pieces_that_held_a_place_have_the_text_that_the_config_lists(tmp_path: Path) -> None:
    write_model(tmp_path, user_defined_symbols=["<think>", "[UNUSED_TOKEN_1]"])
    place = read_tokenizer(tmp_path).encode("[UNUSED_TOKEN_1]")[-1]
    listed = {str(place): {"content": "<|im_start|>", "special": True}, "0": {"content": "<unk>"}}
    config = {"added_tokens_decoder": listed, "add_bos_token": False}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    made = read_tokenizer(tmp_path)
    assert made.encode("<|im_start|>") == [place] and place in made.special_ids


def as_vocab_and_merges(folder: Path, **config: str) -> Path:
    """The tiny tokenizer as folders of GPT-2's time had it."""
    file = make_tiny_tokenizer(folder) / "tokenizer.json"
    model = json.loads(file.read_text())["model"]
    file.unlink()
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"]), ""]
    (folder / "merges.txt").write_text("\n".join(lines))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("name", ["GPT2Tokenizer", "Qwen2TokenizerFast", "GPTNeoXTokenizer"])
def test_vocab_and_merges_alone_against_transformers(tmp_path: Path, name: str) -> None:
    folder = as_vocab_and_merges(tmp_path, tokenizer_class=name, pad_token="<|endoftext|>")
    truth, made = AutoTokenizer.from_pretrained(folder), read_tokenizer(folder)
    texts = [*TEXTS, "Hello there's 12345 <|endoftext|> e\u0301"]
    wanted = [truth.encode(text, add_special_tokens=False) for text in texts]
    assert [made.encode(text) for text in texts] == wanted
    assert made.end_ids == {truth.eos_token_id} <= made.special_ids
    (folder / "tokenizer_config.json").unlink()
    kind = {"GPT2Tokenizer": "gpt2", "GPTNeoXTokenizer": "gpt_neox"}.get(name, "qwen3")
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    assert [read_tokenizer(folder).encode(text) for text in texts] == wanted


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("vocab.json", '{"a": "b"}', "not a list of tokens"),
        ("vocab.json", '{"a": 1}', "out of vocabulary"),
        ("merges.txt", "a b c", "'a b c' is no pair"),
        ("tokenizer_config.json", '{"tokenizer_class": "NewTokenizer"}', "how 'NewTokenizer' cuts"),
        ("tokenizer_config.json", "{}", "how tokenizer_config.json cuts"),
    ],
)
def test_vocab_and_merges_that_do_not_do(
    tmp_path: Path, file: str, content: str, words: str
) -> None:
    folder = as_vocab_and_merges(tmp_path, tokenizer_class="GPT2Tokenizer")
    (folder / file).write_text(content)
    with pytest.raises((BadTokenizer, UnsupportedModel), match=words):
        read_tokenizer(folder)


def test_tokenizer_json_goes_first(tmp_path: Path) -> None:
    write_tiny_qwen3_5(tmp_path)
    before = read_tokenizer(tmp_path).encode("The fox")
    write_model(tmp_path)
    assert read_tokenizer(tmp_path).encode("The fox") == before


def test_a_model_with_it_answers(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", vocabulary=330)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text("{}")
    write_model(folder)
    engine = mlx_engine.load(folder)
    made = engine.generate("The quick brown", 8, ignore_eos=True)
    assert made.stats.prompt_tokens == 1 + len(engine.tokenize("The quick brown"))
    assert len(made.tokens) == 8
    engine.close()


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", UnsupportedModel, "not in SentencePiece's format"),
        (b"IQ== 0\nIg== 1\n", UnsupportedModel, "not in SentencePiece's format"),
        (b"\x0a\xff\xff\xff\xff\xff", BadTokenizer, "damaged"),
    ],
)
def test_what_is_no_such_file(
    tmp_path: Path, content: bytes, kind: type[Exception], words: str
) -> None:
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(kind, match=rf"tokenizer\.model.*{words}"):
        read_tokenizer(tmp_path)


def test_other_ways_to_cut_are_told(tmp_path: Path) -> None:
    write_model(tmp_path, model_type="unigram")
    with pytest.raises(UnsupportedModel, match=r"no BPE.*tokenizer\.json"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("listed", ['{"<x>": 400}', '{"<x>": "a"}', '{"<x>": 5}'])
def test_added_tokens_that_do_not_fit(tmp_path: Path, listed: str) -> None:
    write_model(tmp_path)
    (tmp_path / "added_tokens.json").write_text(listed)
    with pytest.raises(BadTokenizer, match=r"added_tokens\.json gives token '<x>'"):
        read_tokenizer(tmp_path)
