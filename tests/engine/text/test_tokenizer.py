"""The tokenizer against transformers' own, and damaged files."""

import json
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import sleep

import pytest
import tokenizers
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizer import make_tiny_tokenizer
from tokenizers import models, pre_tokenizers, processors

from mlx_engine.built_in_model import built_in_model
from mlx_engine.text.tokenizer import Tokenizer, known_end_tokens
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadPrompt, BadTokenizer

REAL = Path(__file__).parents[4] / "shared" / "data" / "qwen35" / "hf"
PIECES = ["<|im_end|>", "<|im_start|>", "<think>", "<|im_", "|>", "the dog", " ", "\n", "é", "😀"]
TEXT = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=8).map("".join)


def encode_plain(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode_parts(tokenizer.split_control_tokens(text, tokenizer.special_ids))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_tokenizer(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return read_tokenizer(folder)


@pytest.fixture(scope="module")
def truth(folder: Path) -> transformers.PreTrainedTokenizerFast:
    return transformers.PreTrainedTokenizerFast.from_pretrained(folder)


@settings(max_examples=100)
@given(text=TEXT)
def test_ids_and_text_are_those_of_transformers(
    tokenizer: Tokenizer, truth: transformers.PreTrainedTokenizerFast, text: str
) -> None:
    ids = tokenizer.encode(text)
    assert ids == truth.encode(text, add_special_tokens=False)
    assert tokenizer.encode(text, add_special=True) == truth.encode(text)
    assert tokenizer.decode(ids) == truth.decode(ids, skip_special_tokens=True)
    assert tokenizer.decode(ids, keep_special=True) == truth.decode(ids)


@settings(max_examples=100)
@given(text=TEXT)
def test_plain_encoding_has_no_special_token_and_the_same_text(
    tokenizer: Tokenizer, text: str
) -> None:
    ids = encode_plain(tokenizer, text)
    assert not tokenizer.special_ids & set(ids)
    spelled = tokenizer.decode(tokenizer.encode(text), keep_special=True)
    assert tokenizer.decode(ids) == spelled
    if not tokenizer.special_ids & set(tokenizer.encode(text)):
        assert ids == tokenizer.encode(text)


def test_what_the_folder_says(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary == 300
    assert tokenizer.end_ids == {297}
    assert tokenizer.special_ids == {295, 296, 297}
    assert (tokenizer.bos_id, tokenizer.opening_ids) == (None, ())
    assert (tokenizer.token_text(297), tokenizer.token_text(5000)) == ("<|im_end|>", "")
    assert tokenizer.control_ids("no marker") == {295, 296, 297}
    assert tokenizer.control_ids("{{ '<think>' }}") == {295, 296, 297, 298}


def edit(path: Path, change: Callable[[dict], object]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_end_ids_come_from_every_file(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
    (tmp_path / "config.json").write_text('{"eos_token_id": 5, "text_config": {"eos_token_id": 6}}')
    assert read_tokenizer(tmp_path).end_ids == {297, 3, 4}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [null, -1]}')
    assert read_tokenizer(tmp_path).end_ids == {297, 5, 6}


@pytest.mark.parametrize(
    ("eos_token", "template", "expected"),
    [
        ("<|endoftext|>", "{{ m }}<|im_end|>", {295, 297}),
        ("<|endoftext|>", "{{ m }}", {295}),
        ("<|endoftext|>", None, {295}),
        ("<|im_end|>", "<|endoftext|>{{ m }}<|im_end|>", {295, 297}),
        (None, "{{ m }}<|im_end|>", {297}),
    ],
)
def test_an_end_of_turn_is_known_by_its_text(
    tmp_path: Path, eos_token: str | None, template: str | None, expected: set[int]
) -> None:
    """As llama.cpp knows it: of the tokens that the template writes."""
    make_tiny_tokenizer(tmp_path, chat_template=template)
    edit(tmp_path / "tokenizer_config.json", lambda config: config.update(eos_token=eos_token))
    assert read_tokenizer(tmp_path).end_ids == expected


def test_what_ends_messages_ends_no_answer() -> None:
    assert known_end_tokens(["<|end|>", "<|endoftext|>", "x"]) == {"<|end|>", "<|endoftext|>"}
    assert known_end_tokens(["<|end|>", "<|return|>"]) == {"<|return|>"}  # gpt-oss
    assert known_end_tokens(["<|end|>", "<|flush|>", "<|think|>"]) == {"<|flush|>"}  # Solar Open


@pytest.mark.parametrize("key", ["eos_token_id", "suppress_tokens", "begin_suppress_tokens"])
@pytest.mark.parametrize("value", ["5", [5, "6"], 1.5, [True], {"5": 6}, 10**30])
def test_ids_that_are_none_are_named(tmp_path: Path, key: str, value: object) -> None:
    make_tiny_tokenizer(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({key: value}))
    with pytest.raises(BadTokenizer, match=rf"generation_config\.json: {key} .* is not a token id"):
        read_tokenizer(tmp_path)


def test_suppressed_tokens(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    said = {"suppress_tokens": [3, None, -1, 9000], "begin_suppress_tokens": [4]}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    made = read_tokenizer(tmp_path)
    assert (made.suppressed_ids, made.first_suppressed_ids) == ({3, 9000}, {4})
    assert made.fit_to_vocabulary(300) is made
    said = {"suppress_tokens": [*range(299)], "begin_suppress_tokens": [299]}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    with pytest.raises(BadTokenizer, match="suppresses every token"):
        read_tokenizer(tmp_path).fit_to_vocabulary(300)


def test_begin_token_is_added_when_the_file_says_so(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    core.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|im_end|>",
        special_tokens=[("<|endoftext|>", 295), ("<|im_end|>", 297)],
    )
    core.save(str(tmp_path / "tokenizer.json"))
    edit(
        tmp_path / "tokenizer_config.json",
        lambda c: c.update(bos_token={"content": "<|endoftext|>"}),
    )
    tokenizer = read_tokenizer(tmp_path)
    assert (tokenizer.bos_id, tokenizer.opening_ids) == (295, (295,))
    assert tokenizer.encode("dog", add_special=True) == [295, *tokenizer.encode("dog")]
    assert tokenizer.encode("", add_special=True) == [295]


def test_truncation_and_padding_of_the_file_are_ignored(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = core.encode("the quick brown fox").ids
    core.enable_truncation(2)
    core.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path).encode("the quick brown fox") == expected
    core.no_truncation()
    core.enable_padding(length=50)
    core.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path).encode("the quick brown fox") == expected


def test_a_named_token_of_the_vocabulary_becomes_special(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path, chat_template=None)
    edit(tmp_path / "tokenizer_config.json", lambda c: c.update(eos_token="</think>"))
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer.end_ids == {299} <= tokenizer.special_ids


def test_lone_surrogate_is_refused_with_its_place(tokenizer: Tokenizer) -> None:
    with pytest.raises(BadPrompt, match=r"character 2 .*U\+D83D"):
        tokenizer.encode("ab\ud83dc")
    with pytest.raises(BadPrompt, match=r"character 2 .*U\+D83D"):
        encode_plain(tokenizer, "ab\ud83dc")


def test_tokenizer_of_another_model(tokenizer: Tokenizer) -> None:
    assert tokenizer.fit_to_vocabulary(300) is tokenizer
    with pytest.raises(BadTokenizer, match=r"tokenizer\.json.*299.*299 tokens"):
        tokenizer.fit_to_vocabulary(299)


def test_a_special_token_without_a_row_is_ordinary_text(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path, chat_template=None)
    listed = {"300": {"content": "<image>", "special": True}}
    edit(tmp_path / "tokenizer_config.json", lambda c: c.update(added_tokens_decoder=listed))
    edit(tmp_path / "tokenizer_config.json", lambda c: c.update(eos_token="<image>"))
    whole = read_tokenizer(tmp_path)
    fit_to_vocabulary = whole.fit_to_vocabulary(300)
    assert whole.encode("<image>") == [300] and whole.end_ids == {300}
    assert max(fit_to_vocabulary.encode("a <image>")) < 300 and fit_to_vocabulary.end_ids == set()
    assert fit_to_vocabulary.decode(fit_to_vocabulary.encode("a <image>")) == "a <image>"
    assert fit_to_vocabulary.encode("<|im_end|>") == whole.encode("<|im_end|>")
    assert (fit_to_vocabulary.vocabulary, fit_to_vocabulary.special_ids) == (
        300,
        whole.special_ids - {300},
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", None),
        ("tokenizer.json", "{"),
        ("tokenizer.json", "[]"),
        ("tokenizer.json", "{}"),
        ("tokenizer.json", "[" * 100_000),
        ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}'),
        ("tokenizer.json", '{"model": {"type": "Unigram", "vocab": [], "unk_id": 4}}'),
        ("tokenizer_config.json", '{"eos_token": '),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {"content": "y"}}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"7": {"content": 5}}}'),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"7": "<new>"}}'),
        ("generation_config.json", '{"eos_token_id": "end"}'),
        ("config.json", '{"text_config": {"eos_token_id": [true]}}'),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, file: str, content: str | None) -> None:
    make_tiny_tokenizer(tmp_path)
    (tmp_path / file).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / file).write_text(content)
    with pytest.raises(BadTokenizer, match=file.replace(".", r"\.")):
        read_tokenizer(tmp_path)


def test_truncated_anywhere(tmp_path: Path) -> None:
    path = make_tiny_tokenizer(tmp_path) / "tokenizer.json"
    whole = path.read_bytes()
    for end in range(0, len(whole) - 2, len(whole) // 25):
        path.write_bytes(whole[:end])
        with pytest.raises(BadTokenizer):
            read_tokenizer(tmp_path)


def test_plain_parts_of_a_sentencepiece_like_tokenizer_keep_the_text() -> None:
    letters = {letter: i for i, letter in enumerate("▁\nabcs<>/")}
    core = tokenizers.Tokenizer(models.BPE(letters, []))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    core.add_special_tokens(["</s>"])
    tokenizer = Tokenizer(core)
    spelled = [tokenizer.token_text(i) for i in encode_plain(tokenizer, "ab</s>c")]
    assert spelled == list("▁ab</s>c")


def test_special_tokens_that_overlap_are_all_cut(tmp_path: Path) -> None:
    make_tiny_tokenizer(tmp_path)
    core = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    core.add_special_tokens(["abab", "ba"])
    tokenizer = Tokenizer(core)
    ids = encode_plain(tokenizer, "xababax")
    assert not tokenizer.special_ids & set(ids)
    assert tokenizer.decode(ids) == "xababax"


@pytest.mark.skipif(not REAL.is_dir(), reason="the shared test checkpoint is not here")
def test_real_tokenizer() -> None:
    tokenizer = read_tokenizer(REAL)
    ids = [int(i) for i in (REAL.parent / "prompt.tok").read_text().replace(",", " ").split()]
    assert tokenizer.encode((REAL.parent / "prompt.txt").read_text()) == ids
    assert (tokenizer.vocabulary, tokenizer.end_ids) == (2048, {2041})


def test_other_threads_go_on_while_a_long_text_is_read() -> None:
    tokenizer, text = read_tokenizer(built_in_model()), "words and more words\n" * 4_000
    reading = Thread(target=lambda: (tokenizer.encode(text), encode_plain(tokenizer, text)))
    turns = 0
    reading.start()
    while reading.is_alive():
        sleep(0.002)
        turns += 1
    assert turns > 5
