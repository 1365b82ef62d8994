"""The tokenizer of a folder that has GPT-2's vocab.json and merges.txt, and no tokenizer.json."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers

from mlx_engine.text.gguf_pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.roles import CONFIG
from mlx_engine.text.tokenizer import CoreFile, read_object
from mlx_engine.text.tokenizer_library import library_errors
from mlx_engine.values.errors import BadTokenizer, UnsupportedModel
from mlx_engine.values.untrusted import TOKENIZER_BYTES, read_text

VOCABULARY, MERGES = "vocab.json", "merges.txt"
_END = "<|endoftext|>"
_GPT_2, _GPT_NEOX, _QWEN_2, _QWEN_35 = (
    f"{name}Tokenizer" for name in ("GPT2", "GPTNeoX", "Qwen2", "Qwen3_5")
)
_PRE_TOKENIZERS = {_GPT_2: "gpt-2", _GPT_NEOX: "gpt-2", _QWEN_2: "qwen2", _QWEN_35: "qwen35"} | {
    "CodeGenTokenizer": "gpt-2"
}
_CLASSES = {
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "gpt_bigcode", "codegen", "opt"), _GPT_2),
    **dict.fromkeys(("phi", "starcoder2", "granite", "granitemoe"), _GPT_2),
    **dict.fromkeys(("gpt_neox", "mamba", "mamba2", "olmo", "olmoe"), _GPT_NEOX),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"), _QWEN_2),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe"), _QWEN_35),
}
"""By model_type, where tokenizer_config.json names no class."""


def read_vocab_and_merges(folder: Path) -> CoreFile:
    """As transformers' class of that name does, which alone says how texts are cut.

    Raises BadTokenizer, and UnsupportedModel where the class is another one.
    """
    path = folder / VOCABULARY
    listed, merges = read_object(path), _merges(folder / MERGES)
    vocabulary = {text: token for text, token in listed.items() if isinstance(token, int)}
    if len(vocabulary) != len(listed):
        raise BadTokenizer("{path}: not a list of tokens. Get it again.", path=path)
    name = _class_name(folder)
    if name not in _PRE_TOKENIZERS:
        raise UnsupportedModel(
            "{path}: how {name} cuts a text is not known here: get tokenizer.json from where the"
            " model came from.",
            path=path,
            name=ascii(name)[:60] if name else CONFIG,
        )
    pre = pre_tokenizer_named(_PRE_TOKENIZERS[name], str(path))
    with library_errors(str(path)):
        core = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
        core.normalizer = normalizers.NFC() if name == _GPT_NEOX else pre.normalizer()
        core.pre_tokenizer = pre.pre_tokenizer()
        core.decoder = decoders.ByteLevel()
    return CoreFile(core, path, names={"eos_token": _END, "unk_token": _END})


def _class_name(folder: Path) -> str:
    named = read_object(folder / CONFIG).get("tokenizer_class")
    usual = _CLASSES.get(str(read_object(folder / "config.json").get("model_type")), "")
    return named.removesuffix("Fast") if isinstance(named, str) else usual


def _merges(path: Path) -> list[tuple[str, str]]:
    text = read_text(path, TOKENIZER_BYTES, BadTokenizer)
    lines = [line.rstrip("\r") for line in text.split("\n") if not line.startswith("#version")]
    pairs: list[tuple[str, str]] = []
    for line in filter(str.strip, lines):
        first, _, second = line.partition(" ")
        if not first or not second or " " in second:
            raise BadTokenizer(
                "{path}: the merge {text} is no pair. Get it again.",
                path=path,
                text=ascii(line)[:40],
            )
        pairs.append((first, second))
    return pairs
