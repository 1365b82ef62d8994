"""Fuzz what tokenizers are read from: python tests/helpers/fuzz_tokenizers.py folder 5000 0.

folder: tokenizer.json and the files beside it; pieces: tokenizer.model; vocab: vocab.json and
merges.txt; gguf: the metadata of a GGUF. Each is read, and cuts, joins and streams a few texts.
"""

import json
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz import Check, fuzz, spoilt_bytes, spoilt_json
from sentencepiece.sentencepiece_model_pb2 import ModelProto
from test_tokenizer_folder import as_vocab_and_merges, write_model
from tiny_tokenizer import make_tiny_tokenizer
from trained_tokenizers import byte_level_metadata, trained_byte_level

from mlx_engine.text.gguf_tokenizer import template_from_gguf, tokenizer_from_gguf
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.errors import BadTokenizer

TEXT = f"<|im_start|>user\nHello  there, {'a' * 30}b Füchse 123 😀<think><|im_end|>\n"
TEXTS = ["", "a b", " ", "\u2581", "\u0120", "<0x41>", "</s>", "<|im_end|>", "a" * 9999, "\0"]
LISTED = {"content": "<tool>", "rstrip": True, "lstrip": False, "special": True}
BESIDE: dict[str, Any] = {
    "tokenizer_config.json": {
        "eos_token": "<|im_end|>",
        "bos_token": {"content": "<|endoftext|>", "__type": "AddedToken"},
        "added_tokens_decoder": {"300": LISTED, "298": LISTED | {"content": "<think>"}},
        "additional_special_tokens": ["<|im_start|>", {"content": "<x>"}],
        "fix_mistral_regex": True,
    },
    "special_tokens_map.json": {"pad_token": "<pad>", "extra_special_tokens": {"a": "<y>"}},
    "added_tokens.json": {"<w>": 302, "<v>": 303},
    "config.json": {"model_type": "mistral", "eos_token_id": [297]},
    "generation_config.json": {"eos_token_id": 297, "suppress_tokens": [1, -1]},
}
REPLACE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}
SPLIT = {"type": "Split", "pattern": {"Regex": r"\p{L}+|\s+(?!\S)"}, "behavior": "Isolated"}
STEPS: dict[str, list[Any]] = {
    "normalizer": [
        {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
        {"type": "Sequence", "normalizers": [REPLACE, {"type": "Prepend", "prepend": "\u2581"}]},
        {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
        | {"strip_accents": None, "lowercase": True},
    ],
    "pre_tokenizer": [
        {"type": "Sequence", "pretokenizers": [SPLIT | {"invert": False}, {"type": "Whitespace"}]},
        {"type": "FixedLength", "length": 3},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        SPLIT | {"pattern": {"Regex": "(a+)+$"}, "invert": True},
    ],
    "decoder": [
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Sequence", "decoders": [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
    ],
    "model": [
        {"type": "WordLevel", "vocab": {"a": 0, "Hello": 1}, "unk_token": "a"},
        {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]], "unk_id": 0}
        | {"byte_fallback": False},
        {"type": "WordPiece", "vocab": {"a": 0, "##a": 1}, "unk_token": "a"}
        | {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
        {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}
        | {"dropout": None, "fuse_unk": True, "byte_fallback": True, "unk_token": "a"},
    ],
    "post_processor": [
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]}
        | {"pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
        | {"trim_offsets": True, "add_prefix_space": True},
    ],
    "padding": [{"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_to_multiple_of": None}],
    "truncation": [
        {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
    ],
}


def use(tokenizer: Tokenizer) -> None:
    """All that an answer asks of it."""
    ids = tokenizer.encode(TEXT, add_special=True)
    parts = tokenizer.split_control_tokens(TEXT, tokenizer.control_ids("<think>"))
    some = [*ids[:40], *tokenizer.encode_chat(parts)[:40], 5, 2**31]
    tokenizer.decode(ids)
    streamed = StreamingText(tokenizer)
    streamed.add(some)
    streamed.finish()
    with suppress(BadTokenizer):
        tokenizer.fit_to_vocabulary(max(1, min(tokenizer.vocabulary, 299)))


def scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz-tokenizers-"))


def folder() -> Check:
    """Spoils a part of tokenizer.json, with parts of other kinds, or a file beside it."""
    place = scratch()
    make_tiny_tokenizer(place)
    sound = {"tokenizer.json": json.loads((place / "tokenizer.json").read_text())} | BESIDE

    def check(random: Random) -> None:
        files = dict(sound)
        if random.random() < 0.7:
            part = random.choice(list(STEPS))
            files["tokenizer.json"] = files["tokenizer.json"] | {part: random.choice(STEPS[part])}
        name = random.choice([*files, *["tokenizer.json"] * 5])
        if name == "tokenizer.json":
            whole = files[name]
            part = random.choice(list(whole))
            spoilt = spoilt_json({part: whole[part]}, random)
            files[name] = whole | spoilt if isinstance(spoilt, dict) else spoilt
        else:
            files[name] = spoilt_json(files[name], random)
        for file, value in files.items():
            data = json.dumps(value).encode(errors="surrogatepass")
            in_bytes = file == name and random.random() < 0.1
            (place / file).write_bytes(spoilt_bytes(data, random) if in_bytes else data)
        use(read_tokenizer(place))

    return check


def pieces() -> Check:
    """Spoils tokenizer.model, mostly the values of its fields."""
    place = scratch()
    write_model(place)
    data = (place / "tokenizer.model").read_bytes()

    def check(random: Random) -> None:
        model = ModelProto.FromString(data)
        for piece in random.choices(model.pieces, k=random.choice([0, 1, 30])):
            other = random.choice(model.pieces)
            piece.piece = random.choice([*TEXTS, other.piece, other.piece + piece.piece])
            piece.type = random.randint(1, 6)
            piece.score = random.choice([0, float("nan"), float("inf"), -1e30, other.score])
        spec, normal = model.trainer_spec, model.normalizer_spec
        if random.random() < 0.5:
            spec.bos_id, spec.eos_id = (
                random.choice([-1, 0, 7, 329, 330, 2**31 - 1]) for _ in "ab"
            )
            normal.remove_extra_whitespaces = random.random() < 0.5
            normal.precompiled_charsmap = random.choice([b"", b"", bytes(8), data[:200]])
        made = model.SerializeToString()
        is_spoilt = random.random() < 0.2
        (place / "tokenizer.model").write_bytes(spoilt_bytes(made, random) if is_spoilt else made)
        use(read_tokenizer(place))

    return check


def vocab() -> Check:
    """Spoils vocab.json, merges.txt or the config."""
    place = as_vocab_and_merges(scratch(), tokenizer_class="Qwen2Tokenizer", eos_token="</s>")
    sound = {path.name: path.read_bytes() for path in place.iterdir()}

    def check(random: Random) -> None:
        name = random.choice(list(sound))
        for file, data in sound.items():
            (place / file).write_bytes(spoilt_bytes(data, random) if file == name else data)
        use(read_tokenizer(place))

    return check


def gguf() -> Check:
    """Spoils the metadata of a GGUF, as its header is read: lists, arrays, numbers and texts."""
    bytes_alone = byte_level_metadata(trained_byte_level("llama-bpe", 330), "llama-bpe")
    odd: list[Any] = [np.array([1, 2]), np.array([]), np.array([1e400]), [np.array([1])], "x"]
    odd += [None, None, 0, 2**63, -1.5, True, [], ["a"], "x" * 10**6]

    def spoilt(value: Any, random: Random) -> Any:
        if random.random() < 0.3 or not isinstance(value, (list, np.ndarray)) or not len(value):
            return random.choice(odd)
        value = value.copy()
        for _ in range(random.randint(1, 4)):
            place, other = random.randrange(len(value)), random.choice(value)
            if isinstance(value, np.ndarray):
                value[place] = random.choice([other, 1, 2, 3, 4, 5, 6, 99])
            else:
                value[place] = random.choice([other, other + value[place], *TEXTS])
        return random.choice([value, value, value[:-1]])

    def check(random: Random) -> None:
        table = dict(bytes_alone) | {"tokenizer.chat_template": "{{ bos_token }}<think>"}
        table |= {f"tokenizer.ggml.{name}_token_id": random.randrange(-2, 340) for name in
                  random.sample(["bos", "eos", "eot", "eom", "unknown", "padding"], 3)}  # fmt: skip
        if random.random() < 0.3:
            table |= {"tokenizer.ggml.model": random.choice(["llama", "gemma4"])}
            count = len(table["tokenizer.ggml.tokens"])
            table["tokenizer.ggml.scores"] = np.array([random.random() for _ in range(count)])
        if random.random() < 0.3:
            table["tokenizer.ggml.pre"] = random.choice(
                ["", "superbpe", "sarvam-moe", "deepseek-llm"]
            )
        for key in random.sample(list(table), random.randint(1, 2)):
            table[key] = spoilt(table[key], random)
        table = {key: value for key, value in table.items() if value is not None}
        template_from_gguf(table, "x.gguf")
        use(tokenizer_from_gguf(table, "x.gguf"))

    return check


if __name__ == "__main__":
    what, runs, seed = sys.argv[1:4]
    checks = {"folder": folder, "pieces": pieces, "vocab": vocab, "gguf": gguf}
    print(what, fuzz(checks[what], int(runs), seed=int(seed)))
