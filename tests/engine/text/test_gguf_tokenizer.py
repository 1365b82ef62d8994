"""The tokenizer inside a GGUF gives the ids of the Hugging Face one it was made of."""

import random
import sys
import unicodedata

import numpy as np
import pytest
from shared_case import FOLDER, gguf_of, needs_case

from mlx_engine.loading.gguf_file import read_gguf
from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer

PIECES = [
    *(
        "def f(x):\n\treturn x ** 2\n",
        "for (int i = 0; i < n; ++i) {\r\n",
        "#include <a.h>",
        "SELECT *",
    ),
    *("<|im_start|>", "<|im_end|>", "<|im_end", "<|endoftext|>", "[gMASK]", "<sop>", "<|user|>"),
    *("<think>", "</think>", "<|im_start|><|im_end|>", "< |im_end|>", "<|IM_END|>", "[gmask]"),
    *(
        " ",
        "  ",
        "   ",
        "\t",
        "\n",
        "\n\n",
        "\r\n",
        "\u00a0",
        "\u2003",
        "\u3000",
        "\u200b",
        "\ufeff",
    ),
    *(
        "I'm",
        "WE'RE",
        "don't",
        "'S",
        "\u2019s",
        "it's'll",
        "0",
        "12345",
        "3.14",
        "\u0663\u0664",
        "\u2167",
    ),
    *(
        "👩\u200d👩\u200d👧\u200d👦",
        "🏳\ufe0f\u200d🌈",
        "👍🏽",
        "🇩🇪🇫🇷",
        "e\u0301",
        "\u00e9",
        "\ufb01",
        "Å",
        "A\u030a",
    ),
    *(
        "नमस्ते",
        "สวัสดี",
        "مرحبا",
        "שלום",
        "你好，世界",
        "こんにちは",
        "안녕",
        "각",
        "Привет",
        "İı",
        "ß",
        "Ǆ",
    ),
    *(
        "\x00",
        "\x07",
        "\x1b[31m",
        "\u0300",
        "a\u0300\u0301\u0302",
        "\u0934",
        "\U0001d54f",
        "\U00020000",
    ),
    *(
        "http://x.y/?a=b&c=d#e",
        "a_b-c.d",
        "...",
        "!!!",
        "—",
        "“q”",
        "$$",
        "\\n",
        "```py",
        "|",
        "\x7f",
    ),
]


def awkward_texts(count: int) -> list[str]:
    """Pieces above in random order, and random characters of every plane."""
    draw = random.Random(7)
    texts = ["", *PIECES]
    while len(texts) < count:
        if draw.random() < 0.6:
            texts.append("".join(draw.choices(PIECES, k=draw.randint(1, 8))))
        else:
            texts.append("".join(random_character(draw) for _ in range(draw.randint(1, 20))))
    return texts


def random_character(draw: random.Random) -> str:
    while True:
        plane = draw.choice((0, 0, 0, 1, 2, 3, 14, 15, 16))
        character = chr(min(plane * 0x10000 + draw.randrange(0x10000), sys.maxunicode))
        if unicodedata.category(character) != "Cs":
            return character


@needs_case
def test_ids_are_those_of_the_original() -> None:
    original = Tokenizer.from_folder(FOLDER / "hf")
    made = tokenizer_from_gguf(read_gguf(gguf_of("Q8_0")).metadata, "x.gguf")
    texts = awkward_texts(6000)
    assert [made.encode(text) for text in texts] == [original.encode(text) for text in texts]
    some = texts[:600]
    assert [made.encode_plain(text) for text in some] == [original.encode_plain(t) for t in some]
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
    assert with_bos.adds_bos
    assert with_bos.encode("a", add_special=True) == [5, 0]


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
        ({"model": "llama"}, "kind 'llama'"),
        ({"pre": "new"}, "pre-tokenizer 'new'"),
        ({"tokens": 3}, "tokens is not a list"),
        ({"tokens": ["a", "a", "ab", "c", "d", "e", "f"]}, "a token twice"),
        ({"token_type": np.array([1])}, "token_type does not go with 7"),
        ({"merges": ["ab"]}, "'ab' is no pair"),
        ({"merges": ["a x"]}, "merges do not go"),
        ({"eos_token_id": 7}, "eos_token_id is 7 in a vocabulary of 7"),
        ({"eos_token_id": "x"}, "eos_token_id is 'x'"),
        ({"bos_token_id": -1}, "bos_token_id is -1"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(BadTokenizer, match=message) as caught:
        tokenizer_from_gguf(tiny(**changes), "x.gguf")
    assert "x.gguf" in str(caught.value)


def test_templates_that_are_none() -> None:
    assert template_from_gguf(tiny(), "x.gguf") is None
    with pytest.raises(BadChatTemplate, match=r"x\.gguf"):
        template_from_gguf(tiny() | {"tokenizer.chat_template": 5}, "x.gguf")
