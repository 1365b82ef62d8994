"""Small tokenizers trained on the spot, put together as each family's tokenizer.json says, and as
llama.cpp's converter writes them into the metadata of a GGUF.
"""

import json
from collections.abc import Callable

import numpy as np
import tokenizers
from awkward_texts import PIECES
from tiny_tokenizer import CORPUS
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Split

TEXTS = [*CORPUS, *PIECES, *(f"{a}{b}" for a, b in zip(PIECES, PIECES[7:], strict=False))]
SPECIAL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<\uff5cUser\uff5c>")
PLAIN = ("<think>", "</think>", "[INST]")

LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT_4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"


def cuts(*patterns: str) -> list[PreTokenizer]:
    return [Split(Regex(pattern), "isolated") for pattern in patterns]


def by_bytes(*, regex: bool = False) -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=regex)


BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
SEED = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
    r"| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The pre-tokenizers of each family's tokenizer.json.
STEPS: dict[str, Callable[[], list[PreTokenizer]]] = {
    "gpt-2": lambda: [by_bytes(regex=True)],
    "llama-bpe": lambda: [*cuts(LLAMA_3), by_bytes()],
    "glm4": lambda: [*cuts(LLAMA_3), by_bytes()],
    "chatglm-bpe": lambda: [*cuts(LLAMA_3), by_bytes()],
    "qwen2": lambda: [*cuts(QWEN_2), by_bytes()],
    "qwen35": lambda: [*cuts(QWEN_35), by_bytes()],
    "gpt-4o": lambda: [*cuts(GPT_4O), by_bytes()],
    "tekken": lambda: [*cuts(TEKKEN), by_bytes()],
    "kimi-k2": lambda: [*cuts(KIMI), by_bytes()],
    "deepseek-v3": lambda: [*cuts(*DEEPSEEK_3), by_bytes()],
    "deepseek-coder": lambda: [
        *cuts(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK),
        Digits(individual_digits=True),
        by_bytes(),
    ],
    "smollm": lambda: [Digits(individual_digits=True), by_bytes(regex=True)],
    "exaone": lambda: [Digits(individual_digits=True), by_bytes(regex=True)],
    "exaone4": lambda: [by_bytes(regex=True)],
    "bailingmoe2": lambda: [*cuts(BAILING), by_bytes()],
    "seed-coder": lambda: [*cuts(SEED), by_bytes()],
    "command-r": lambda: [Digits(individual_digits=True), by_bytes(regex=True)],
}
COMPOSED = ("qwen2", "qwen35", "command-r")
WHOLE_WORDS = ("llama-bpe", "glm4", "tekken")


def trained_byte_level(pre: str, size: int = 700) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(models.BPE(ignore_merges=pre in WHOLE_WORDS))
    if pre in COMPOSED:
        core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.Sequence(STEPS[pre]())
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(TEXTS, trainer)
    return with_added(core)


def with_added(core: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    core.add_special_tokens([AddedToken(text, normalized=False) for text in SPECIAL])
    core.add_tokens([AddedToken(text, normalized=False) for text in PLAIN])
    return core


def trained_pieces(size: int = 900) -> list[str]:
    """Pieces of byte pairs with U+2581 for spaces, the earliest learnt first."""
    core = tokenizers.Tokenizer(models.BPE())
    core.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, limit_alphabet=200)
    core.train_from_iterator([text * 3 for text in TEXTS], trainer)
    learnt = core.get_vocab()
    return sorted(learnt, key=lambda text: (len(text) == 1, learnt[text]))


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def looks_special(text: str) -> bool:
    pairs = (("<|", "|>"), ("<\uff5c", "\uff5c>"), ("<unused", ">"))
    return text == "<pad>" or any(text.startswith(a) and text.endswith(b) for a, b in pairs)


def byte_level_metadata(core: tokenizers.Tokenizer, pre: str, size: int = 0) -> dict[str, object]:
    """As its `_set_vocab_gpt2`; size: of the model's vocabulary, the rest is padding."""
    names = {i: text for text, i in core.get_vocab(with_added_tokens=True).items()}
    added = core.get_added_tokens_decoder()
    tokens, kinds = [], []
    for i in range(max(size, max(names) + 1)):
        text = names.get(i, f"[PAD{i}]")
        if i in added:
            special = added[i].special or looks_special(text)
            text = text if special else text.replace("\u2581", " ")
            kinds.append(CONTROL if special else USER_DEFINED)
        else:
            kinds.append(NORMAL if i in names else UNUSED)
        tokens.append(text)
    merges = json.loads(core.to_str())["model"]["merges"]
    return _keyed(
        model="gpt2",
        pre=pre,
        tokens=tokens,
        token_type=np.array(kinds, np.int32),
        merges=[pair if isinstance(pair, str) else " ".join(pair) for pair in merges],
    )


def piece_metadata(
    core: tokenizers.Tokenizer, scores: list[float], *, space_first: bool
) -> dict[str, object]:
    """As its `_set_vocab_sentencepiece`: what is in no table of scores gets -1000."""
    names = {i: text for text, i in core.get_vocab(with_added_tokens=True).items()}
    added = core.get_added_tokens_decoder()
    tokens, kinds = [], []
    for i in range(max(names) + 1):
        text = names[i]
        if text == "<unk>":
            kinds.append(UNKNOWN)
        elif i in added:
            special = added[i].special or looks_special(text)
            text = text if special else text.replace("\u2581", " ")
            kinds.append(CONTROL if special else USER_DEFINED)
        else:
            kinds.append(BYTE if text.startswith("<0x") else NORMAL)
        tokens.append(text)
    filled = [
        score if kind == NORMAL else -1000.0 for score, kind in zip(scores, kinds, strict=True)
    ]
    return _keyed(
        model="llama",
        pre="default",
        tokens=tokens,
        scores=np.array(filled, np.float32),
        token_type=np.array(kinds, np.int32),
        add_space_prefix=space_first,
    )


def _keyed(**values: object) -> dict[str, object]:
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}
