"""The tokenizer inside a GGUF gives the ids of the Hugging Face one it was made of."""

import numpy as np
import pytest
from awkward_texts import awkward_texts
from shared_case import FOLDER, gguf_of, needs_case

from mlx_engine.loading.gguf.file import read_gguf
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer, UnsupportedModel


@needs_case
def test_ids_are_those_of_the_original() -> None:
    original = read_tokenizer(FOLDER / "hf")
    made = tokenizer_from_gguf(read_gguf(gguf_of("Q8_0")).metadata, "x.gguf")
    texts = awkward_texts(6000)
    assert [made.encode(text) for text in texts] == [original.encode(text) for text in texts]
    some = texts[:600]
    for text in some:
        parts = original.split_control_tokens(text, original.special_ids)
        assert made.split_control_tokens(text, made.special_ids) == parts
        assert made.encode_parts(parts) == original.encode_parts(parts)
    ids = [original.encode(text) for text in some]
    assert [made.decode(one) for one in ids] == [original.decode(one) for one in ids]
    assert made.special_ids == original.special_ids
    assert made.end_ids >= original.end_ids
    assert (made.vocabulary, made.bos_id) == (original.vocabulary, original.bos_id)


@needs_case
def test_the_template_renders_alike() -> None:
    original = ChatTemplate.from_folder(FOLDER / "hf")
    made = template_from_gguf(read_gguf(gguf_of("Q8_0")).metadata, "x.gguf")
    assert original is not None
    assert made is not None
    messages = [Message("system", "Be brief."), Message("user", "Hi")]
    rendered = [one.render(messages, add_generation_prompt=True) for one in (original, made)]
    assert rendered[0] == rendered[1]


def tiny(**changes: object) -> dict[str, object]:
    """A vocabulary of letters, one merge, a control, a user-defined and an unused token."""
    metadata: dict[str, object] = {
        "model": "gpt2",
        "pre": "qwen2",
        "tokens": ["a", "b", "ab", "<|im_end|>", "<tool>", "<s>", "[PAD6]"],
        "token_type": np.array([1, 1, 1, 3, 4, 3, 5], np.int32),
        "merges": ["a b"],
        "eos_token_id": 3,
        "bos_token_id": 5,
    }
    return {f"tokenizer.ggml.{key}": value for key, value in (metadata | changes).items()}


def test_added_tokens_ends_and_openings() -> None:
    made = tokenizer_from_gguf(tiny(), "x.gguf")
    assert made.encode("abba<tool>ab<|im_end|>") == [2, 1, 0, 4, 2, 3]
    assert made.special_ids == {3, 5}
    assert made.end_ids == {3}
    assert made.encode("[PAD6]", add_special=True) == []
    with_bos = tokenizer_from_gguf(tiny(add_bos_token=True), "x.gguf")
    assert with_bos.opening_ids
    assert with_bos.encode("a", add_special=True) == [5, 0]


@pytest.mark.parametrize("pre", ["llama-bpe", "tekken", "glm4", "qwen2", "gpt-4o", "chatglm-bpe"])
def test_words_that_no_merge_makes(pre: str) -> None:
    given = {"tokens": ["a", "b", "c", "abc", "<e>", "<s>", "ab"], "merges": ["a b"]}
    made = tokenizer_from_gguf(tiny(pre=pre, token_type=None, **given), "x")
    assert made.encode("abc") == ([3] if pre in ("llama-bpe", "tekken", "glm4") else [6, 2])


def test_marks_stay_with_their_letters_only_for_qwen35() -> None:
    low, high = "\u00cc", "\u00a3"  # the two bytes of U+0323, which does not compose with x
    given: dict[str, object] = {
        "tokens": ["x", low, high, low + high, "x" + low + high],
        "token_type": None,
        "merges": [f"{low} {high}", f"x {low}{high}"],
        "eos_token_id": None,
        "bos_token_id": None,
    }
    assert tokenizer_from_gguf(tiny(pre="qwen35", **given), "x").encode("x\u0323") == [4]
    assert tokenizer_from_gguf(tiny(pre="qwen2", **given), "x").encode("x\u0323") == [0, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"add_bos_token": 1}, "add_bos_token is 1, where yes or no"),
        ({"pre": 3}, "pre is 3, where a text"),
        ({"tokens": 3}, "tokens is not a list"),
        ({"tokens": ["a", "a", "ab", "c", "d", "e", "f"]}, "a token twice"),
        ({"token_type": np.array([1])}, "token_type does not go with 7"),
        ({"merges": ["ab"]}, "'ab' is no pair"),
        ({"merges": ["a x"]}, "`x` out of vocabulary"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x'"),
        ({"bos_token_id": True}, "bos_token_id is True"),
        ({"suppress_tokens": ["a"]}, "suppress_tokens is"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadTokenizer, match=message) as caught:
        tokenizer_from_gguf(tiny(**changes), "x.gguf")
    assert "x.gguf" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "ggml.model is 'rwkv'"),
        ({"pre": "new\u00fc"}, r"pre-tokenizer 'new\\xfc'"),
    ],
)
def test_what_this_version_lacks_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message) as caught:
        tokenizer_from_gguf(tiny(**changes), "x.gguf")
    assert "x.gguf" in str(caught.value)


def test_templates_that_are_none() -> None:
    assert template_from_gguf(tiny(), "x.gguf") is None
    with pytest.raises(BadChatTemplate, match=r"x\.gguf"):
        template_from_gguf(tiny() | {"tokenizer.chat_template": 5}, "x.gguf")


@pytest.mark.parametrize("text", ["<|role_end|>", "[|endofturn|]", "<end_of_utterance>", "<|eot|>"])
def test_turns_end_where_the_metadata_name_another_end(text: str) -> None:
    """As those of Ling, EXAONE and SmolVLM do; what is not known to end any is no end."""
    tokens = ["a", "b", "ab", "<eos>", "<tool>", text, "[PAD6]"]
    made = tokenizer_from_gguf(tiny(tokens=tokens), "x")
    assert made.end_ids == ({3} if text == "<|eot|>" else {3, 5})
