"""The tokenizer and chat template that a GGUF file carries in its metadata.

Byte-level BPE only (`gpt2`). The pre-tokenizer has a name; its pattern is that of the Hugging Face
tokenizer the name stands for, as in llama.cpp's llama-vocab.cpp.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer

_LETTERS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LETTERS_AND_MARKS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {"qwen2": _LETTERS, "deepseek-r1-qwen": _LETTERS, "qwen35": _LETTERS_AND_MARKS}
_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_ENDS = ("<|im_end|>", "<|endoftext|>")
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")


def tokenizer_from_gguf(metadata: Mapping[str, object], origin: str) -> Tokenizer:
    """The same ids as the Hugging Face tokenizer it was made of. Raises BadTokenizer."""
    kind, pre = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in _PATTERNS:
        raise BadTokenizer(
            f"{origin}: its tokenizer is of kind {ascii(kind)[:40]} with pre-tokenizer "
            f"{ascii(pre)[:40]}; this version reads gpt2 with {', '.join(_PATTERNS)}. Take the "
            "model as a folder."
        )
    tokens = _texts(metadata, "tokenizer.ggml.tokens", origin)
    types = _types(metadata, len(tokens), origin)
    core = _core(tokens, types, _merges(metadata, origin), _PATTERNS[str(pre)], origin)
    named = {key: _token_id(metadata, key, len(tokens), origin) for key in _END_KEYS}
    ends = {token for token in named.values() if token is not None}
    ends |= {i for i in map(core.token_to_id, _ENDS) if i is not None and types[i] == _CONTROL}
    bos = _token_id(metadata, "bos_token_id", len(tokens), origin)
    if bos is not None and metadata.get("tokenizer.ggml.add_bos_token") is True:
        pair = (tokens[bos], bos)
        core.post_processor = processors.TemplateProcessing(
            single=f"{_quoted(tokens[bos])} $A", pair=None, special_tokens=[pair]
        )
    return Tokenizer(core, ends, bos, origin)


def template_from_gguf(metadata: Mapping[str, object], origin: str) -> ChatTemplate | None:
    """The chat template, None when there is none. Raises BadChatTemplate, BadTokenizer."""
    source = metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    if not isinstance(source, str):
        raise BadChatTemplate(f"{origin}: its chat template is not a text. Get the file again.")
    tokens = _texts(metadata, "tokenizer.ggml.tokens", origin)
    named: dict[str, str] = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token = _token_id(metadata, f"{key}_token_id", len(tokens), origin)
        if token is not None:
            named[f"{name}_token"] = tokens[token]
    return ChatTemplate(source, named, origin)


def _core(
    tokens: Sequence[str],
    types: Sequence[int],
    merges: list[tuple[str, str]],
    pattern: str,
    origin: str,
) -> tokenizers.Tokenizer:
    vocabulary = {text: i for i, text in enumerate(tokens) if types[i] != _UNUSED}
    if len(vocabulary) != len(tokens) - list(types).count(_UNUSED):
        raise BadTokenizer(f"{origin}: its vocabulary has a token twice. Get the file again.")
    try:
        core = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
    except Exception as error:
        raise BadTokenizer(
            f"{origin}: its merges do not go with its vocabulary ({error}). Get the file again."
        ) from error
    core.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    core.decoder = decoders.ByteLevel()
    core.add_tokens(
        [
            AddedToken(text, special=types[i] == _CONTROL, normalized=False)
            for i, text in enumerate(tokens)
            if types[i] in (_CONTROL, _USER_DEFINED) and text
        ]
    )
    return core


def _texts(metadata: Mapping[str, object], key: str, origin: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTokenizer(f"{origin}: {key} is not a list of texts. Get the file again.")
    return value


def _types(metadata: Mapping[str, object], count: int, origin: str) -> list[int]:
    value = metadata.get("tokenizer.ggml.token_type")
    if value is None:
        return [1] * count
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or len(value) != count:
        raise BadTokenizer(
            f"{origin}: tokenizer.ggml.token_type does not go with {count} tokens. Get the file "
            "again."
        )
    return [int(one) for one in value]


def _merges(metadata: Mapping[str, object], origin: str) -> list[tuple[str, str]]:
    """Pairs; a piece may itself contain no blank, so the first one parts them."""
    pairs = []
    for text in _texts(metadata, "tokenizer.ggml.merges", origin):
        left, blank, right = text.partition(" ")
        if not blank:
            raise BadTokenizer(f"{origin}: the merge {ascii(text)[:40]} is no pair. Get it again.")
        pairs.append((left, right))
    return pairs


def _token_id(metadata: Mapping[str, object], key: str, count: int, origin: str) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise BadTokenizer(
            f"{origin}: tokenizer.ggml.{key} is {ascii(value)[:40]} in a vocabulary of {count}. "
            "Get the file again."
        )
    return value


def _quoted(token: str) -> str:
    return token.replace("$", "$$") if "$" in token else token
