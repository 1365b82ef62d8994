"""Tokenizers that some tool saved wrongly, made right where the files tell how."""

from typing import Any

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from mlx_engine.text.added_tokens import Json
from mlx_engine.text.gguf_pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.token_bytes import BYTE_LEVEL, SPACE
from mlx_engine.text.tokenizer_library import steps_of
from mlx_engine.values.errors import BadTokenizer

_IN_EVERY_TEXT = [c for c, byte in BYTE_LEVEL.items() if 0x20 <= byte < 0x7F or byte >> 6 == 0b10]
"""The characters of printable ASCII and of the second bytes of all others."""
_MISTRALS = ("mistral", "mistral3", "voxtral", "ministral", "pixtral", None)
_FIXED_SINCE = 5
_LARGE = 100_000


def mend(core: tokenizers.Tokenizer, config: Json, model_config: Json, origin: str) -> None:
    """Mend `core` in place; config: of the tokenizer. BadTokenizer where no file tells how."""
    if config.get("fix_mistral_regex") is True and _is_old_mistral(core, model_config):
        _split_as_tekken(core)
    if _is_byte_level(core):
        _mend_byte_level(core, origin)


def _is_old_mistral(core: tokenizers.Tokenizer, config: Json) -> bool:
    """Whether transformers minds the flag: a large vocabulary of Mistral's, saved before 5.0."""
    major = str(config.get("transformers_version") or 0).partition(".")[0]
    is_old = major.isdecimal() and int(major[:9]) < _FIXED_SINCE
    is_mistral = config.get("model_type") in _MISTRALS
    return is_old and is_mistral and core.get_vocab_size() > _LARGE


def _split_as_tekken(core: tokenizers.Tokenizer) -> None:
    """Replace the pattern that was saved wrongly, the first step of the pre-tokenizer."""
    before = core.pre_tokenizer
    if before is None:
        return
    (pattern,) = pre_tokenizer_named("tekken", "").patterns
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    if isinstance(before, pre_tokenizers.Sequence):
        before[0] = split
        return
    is_metaspace = isinstance(before, pre_tokenizers.Metaspace)
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([split, rest if is_metaspace else before])


def _is_byte_level(core: tokenizers.Tokenizer) -> bool:
    def has(piece: str) -> bool:
        return core.token_to_id(piece) is not None

    is_merged = isinstance(core.model, models.BPE)
    return is_merged and all(map(has, _IN_EVERY_TEXT)) and not has(SPACE)


def _mend_byte_level(core: tokenizers.Tokenizer, origin: str) -> None:
    """Give the vocabulary its decoder, where a converter took SentencePiece's."""
    if not _has_bytes(core.normalizer) and not _has_bytes(core.pre_tokenizer):
        raise BadTokenizer(
            "{origin}: its vocabulary is of bytes, but its pre-tokenizer is of another kind and"
            " would lose all spaces: a tool that does not know it saved it again. Get"
            " tokenizer.json from where the model was first published.",
            origin=origin,
        )
    if not _has_bytes(core.decoder):
        core.decoder = decoders.ByteLevel()


def _has_bytes(part: Any) -> bool:
    return any(step["type"] == "ByteLevel" for step in steps_of(part))
