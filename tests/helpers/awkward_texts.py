"""Texts that tokenizers tend to read differently: all planes, blanks, code, near-special words."""

import random
import sys
import unicodedata

PIECES = [
    *("def f(x):\n\treturn x ** 2\n", "for (int i = 0; i < n; ++i) {\r\n", "#include <a.h>"),
    *("<|im_start|>", "<|im_end|>", "<|im_end", "<|endoftext|>", "[gMASK]", "<sop>", "<|user|>"),
    *("<think>", "</think>", "<|im_start|><|im_end|>", "< |im_end|>", "<|IM_END|>", "[gmask]"),
    *("<s>", "</s>", "<unk>", "<0x0A>", "\u2581", "\u2581\u2581a", "[INST]", "<start_of_turn>"),
    *("<|eot_id|>", "<\uff5cUser\uff5c>", "<|channel|>", "SELECT *", "\u2581<s>", "<bos>", "[SEP]"),
    *(" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u2003", "\u3000", "\u200b"),
    *("\ufeff", " " * 17, "\n" * 5, "\t\t\t", "\n \n", " \t ", "\u0085", "\x0b\x0c", "\u2028"),
    *("I'm", "WE'RE", "don't", "'S", "\u2019s", "it's'll", "0", "12345", "3.14", "\u0663\u0664"),
    *(
        "\u2167",
        "1234567890123",
        "\u00bd\u00b2",
        "\u2460\u0e51\u096a",
        "x1y22z333",
        "camelCaseHTTPServer",
    ),
    *(
        "👩\u200d👩\u200d👧\u200d👦",
        "🏳\ufe0f\u200d🌈",
        "👍🏽",
        "🇩🇪🇫🇷",
        "e\u0301",
        "\u00e9",
        "\ufb01",
    ),
    *("Å", "A\u030a", "\u212b", "नमस्ते", "สวัสดี", "مرحبا", "שלום", "你好，世界", "こんにちは"),
    *(
        "カタカナ",
        "안녕",
        "\u1100\u1161\u11a8",
        "Привет",
        "İı",
        "ß",
        "ǅ",
        "ʰʷ",
        "ªº",
        "ﬀﬓ",
        "Ａｚ",
        "𐐀𞤀",
    ),
    *("\x00", "\x07", "\x1b[31m", "\u0300", "a\u0300\u0301\u0302", "\u0934", "\U0001d54f"),
    *("\U00020000", "http://x.y/?a=b&c=d#e", "a_b-c.d", "...", "!!!", "—", "“q”", "$$", "\\n"),
    *("```py", "|", "\x7f", "/**/", "//\n/", "、。「」", "+=<>^~`", "¿¡§", "\u0b95\u0bcd\u0bb7"),
]


def awkward_texts(count: int, seed: int = 7) -> list[str]:
    """The pieces, pieces in random order, and random characters of every plane."""
    draw = random.Random(seed)
    texts = ["", *PIECES]
    while len(texts) < count:
        if draw.random() < 0.6:
            texts.append("".join(draw.choices(PIECES, k=draw.randint(1, 8))))
        else:
            texts.append("".join(_random_character(draw) for _ in range(draw.randint(1, 20))))
    return texts


def _random_character(draw: random.Random) -> str:
    while True:
        plane = draw.choice((0, 0, 0, 1, 2, 3, 14, 15, 16))
        character = chr(min(plane * 0x10000 + draw.randrange(0x10000), sys.maxunicode))
        if unicodedata.category(character) != "Cs":
            return character
