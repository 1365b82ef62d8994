"""A byte-level BPE tokenizer, trained on the spot, as a folder that looks like a real one's."""

import json
from functools import cache
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PLAIN_MARKERS = ["<think>", "</think>"]
CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps.",
    "user assistant system\nHello there, how are you today?\n\nI am fine; thank you.",
    "def fox(dog):\n    return dog + 1\n",
    "Füchse jagen 😀😀 Hühner, naïve café — 你好，世界 你好",
] * 3


def make_tiny_tokenizer(
    folder: Path, vocabulary: int = 300, chat_template: str | None = CHATML
) -> Path:
    """Writes tokenizer.json and tokenizer_config.json into `folder` and returns it.

    `vocabulary` ids in all, the last ones being SPECIAL (end of answer: `<|im_end|>`) and then
    PLAIN_MARKERS (added tokens that are not special, as in Qwen3). At least 261.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(_trained(vocabulary), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
    }
    if chat_template is not None:
        config["chat_template"] = chat_template
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@cache
def _trained(vocabulary: int) -> str:
    """Its tokenizer.json."""
    core = tokenizers.Tokenizer(models.BPE())
    core.normalizer = normalizers.NFC()
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    core.decoder = decoders.ByteLevel()
    words = vocabulary - len(SPECIAL) - len(PLAIN_MARKERS)
    trainer = trainers.BpeTrainer(
        vocab_size=words,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS, trainer)
    if core.get_vocab_size() != words:
        raise ValueError(f"a vocabulary of {vocabulary} is out of reach of this corpus")
    core.add_special_tokens(SPECIAL)
    core.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in PLAIN_MARKERS])
    text: str = core.to_str(pretty=True)
    return text
