"""Tokens that only the config lists, against transformers; tokenizers that were saved wrongly."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_tokenizer import make_tiny_tokenizer
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer

from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadTokenizer

TEXT = "<|im_start|>user\nHi <think> there  <tool>  b<w> c<w>d</think><|im_end|> [PAD]"
USUAL = {"<|im_start|>": 296, "<|im_end|>": 297, "<think>": 298}
NAMES = list(USUAL)


def flagged(text: str, **flags: bool) -> dict[str, object]:
    return {"content": text, "lstrip": False, "rstrip": False, "special": False} | flags


LISTS: dict[str, dict[str, Any]] = {
    "decoder": {"added_tokens_decoder": {i: flagged(t, special=True) for t, i in USUAL.items()}},
    "additional": {"additional_special_tokens": NAMES},
    "extra": {"extra_special_tokens": [*NAMES, "<tool>"]},
    "extra of both kinds": {"extra_special_tokens": [], "additional_special_tokens": NAMES},
    "extra by name": {"extra_special_tokens": {"image_token": "<|im_start|>", "b": "<tool>"}},
    "names": {"image_token": "<w>", "pad_token": "[PAD]", "unk_token": "<tool>"},
    "nothing": {"added_tokens_decoder": {}, "additional_special_tokens": [], "pad_token": None},
    "flags": {
        "added_tokens_decoder": {
            "300": flagged("<tool>", rstrip=True, special=True, normalized=False),
            "301": flagged("<w>", lstrip=True, single_word=True, normalized=False),
            "298": flagged("<think>", special=True, rstrip=True),
        }
    },
    "other ids": {"added_tokens_decoder": {"7": flagged("<tool>"), "900": flagged("<|im_start|>")}},
}


@pytest.mark.parametrize("are_words", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_listed_tokens_are_those_of_transformers(
    tmp_path: Path, name: str, are_words: bool
) -> None:
    """are_words: tokenizer.json knows its added tokens as words of the vocabulary alone."""
    make_tiny_tokenizer(tmp_path)
    if are_words:
        described = json.loads((tmp_path / "tokenizer.json").read_text())
        added = {token["content"]: token["id"] for token in described["added_tokens"]}
        described["model"]["vocab"] |= added
        described["added_tokens"] = []
        (tmp_path / "tokenizer.json").write_text(json.dumps(described))
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | LISTS[name]))
    truth, made = AutoTokenizer.from_pretrained(tmp_path), read_tokenizer(tmp_path)
    ids = truth.encode(TEXT, add_special_tokens=False)
    assert made.encode(TEXT) == ids
    assert made.decode(ids) == truth.decode(ids, skip_special_tokens=True)


def test_old_folders_list_tokens_in_files_of_their_own(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    (tmp_path / "added_tokens.json").write_text('{"<w>": 301, "<tool>": 300}')
    (tmp_path / "special_tokens_map.json").write_text('{"additional_special_tokens": ["<tool>"]}')
    made = read_tokenizer(tmp_path)
    assert made.encode("<tool><w>") == [300, 301]
    assert made.special_ids >= {300} and 301 not in made.special_ids


def saved_again(folder: Path, **parts: Any) -> Path:
    """The tiny tokenizer with these parts in the place of its own."""
    core = Tokenizer.from_file(str(make_tiny_tokenizer(folder) / "tokenizer.json"))
    for name, part in parts.items():
        setattr(core, name, part)
    core.save(str(folder / "tokenizer.json"))
    return folder


PIECES = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback()])


@pytest.mark.parametrize("decoder", [PIECES, decoders.Metaspace(), decoders.Fuse()])
def test_bytes_are_decoded_as_bytes_whatever_the_file_says(tmp_path: Path, decoder: Any) -> None:
    made, text = read_tokenizer(saved_again(tmp_path, decoder=decoder)), "Hello there, Füchse 😀"
    streamed = StreamingText(made)
    streamed.add(made.encode(text))
    streamed.finish()
    assert made.decode(made.encode(text)) == streamed.text == text


@pytest.mark.parametrize(
    "pre_tokenizer",
    [pre_tokenizers.Metaspace(prepend_scheme="never"), pre_tokenizers.Split(" ", "isolated")],
)
def test_a_file_that_lost_how_bytes_are_cut_is_refused(tmp_path: Path, pre_tokenizer: Any) -> None:
    folder = saved_again(tmp_path, pre_tokenizer=pre_tokenizer, decoder=PIECES)
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json: .*lose all spaces"):
        read_tokenizer(folder)


WRONG = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"


@pytest.fixture(scope="module")
def large_mistral() -> str:
    """The tokenizer.json of a vocabulary as large as those whose flag transformers minds."""
    core = Tokenizer(models.BPE())
    cut = pre_tokenizers.Split(Regex(WRONG), "isolated")
    bytes_alone = ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([cut, bytes_alone])
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(["getElementById 2024 fooBar"] * 9, trainer)
    described = json.loads(core.to_str())
    described["model"]["vocab"] |= {f"ĠĠ{i}": 400 + i for i in range(100_000)}
    return json.dumps(described)


@pytest.mark.parametrize(
    ("flag", "kind", "version", "is_fixed"),
    [
        (True, "mistral", "4.50.0", True),
        (True, "ministral", None, True),
        (False, "mistral", "4.50.0", False),
        (True, "mistral", "5.1.0", False),
        (True, "qwen2", "4.50.0", False),
    ],
)
def test_the_flag_for_a_pattern_that_mistral_saved_wrongly(
    tmp_path: Path, large_mistral: str, flag: bool, kind: str, version: str | None, is_fixed: bool
) -> None:
    (tmp_path / "tokenizer.json").write_text(large_mistral)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "fix_mistral_regex": flag}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    said = {"model_type": kind, "transformers_version": version}
    (tmp_path / "config.json").write_text(json.dumps(said))
    made = read_tokenizer(tmp_path)
    texts = [made.token_text(token) for token in made.encode("x 2024 fooBar")]
    assert ("2024"[:3] not in texts) is is_fixed
    if is_fixed and version is not None:
        assert texts == AutoTokenizer.from_pretrained(tmp_path).tokenize("x 2024 fooBar")
