"""Read the tokenizer of a model folder from whichever files it has.

tokenizer.json, else SentencePiece's tokenizer.model, else GPT-2's vocab.json and merges.txt; the
files beside them add tokens and name special ones. SentencePiece's format:
https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers

from mlx_engine.text.gguf_tokenizer import (
    GgufVocabulary,
    build_sentencepiece,
    merge_pairs,
    prepend_bos,
)
from mlx_engine.text.pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.tokenizer import Tokenizer, known_end_tokens
from mlx_engine.text.tokenizer_config import (
    CONFIG,
    SPECIAL_TOKENS_MAP,
    ConfiguredTokens,
    TemplateFile,
    TokenLists,
    add_listed_tokens,
    described_tokens,
    named_special_tokens,
    read_object,
    repair_tokenizer,
    token_content,
)
from mlx_engine.text.tokenizer_library import (
    ADDED_CHARACTERS,
    PIECE_CHARACTERS,
    check_texts,
    translate_library_errors,
)
from mlx_engine.values.errors import BadTokenizer, UnsupportedModel
from mlx_engine.values.untrusted import TOKENIZER_BYTES, read_bytes, read_text

_JSON, _SENTENCEPIECE, _ADDED_TOKENS = "tokenizer.json", "tokenizer.model", "added_tokens.json"
_VOCABULARY, _MERGES = "vocab.json", "merges.txt"
_SENTENCEPIECE_BPE = 2
_FIRST_BYTE = b"\x0a"
"""Begins a SentencePiece file: its first field, with a length. tiktoken's files are plain text."""
_END = "<|endoftext|>"
_GPT_2, _GPT_NEOX, _QWEN_2, _QWEN_35 = (
    f"{name}Tokenizer" for name in ("GPT2", "GPTNeoX", "Qwen2", "Qwen3_5")
)
_PRE_TOKENIZERS = {_GPT_2: "gpt-2", _GPT_NEOX: "gpt-2", _QWEN_2: "qwen2", _QWEN_35: "qwen35"} | {
    "CodeGenTokenizer": "gpt-2"
}
_CLASS_BY_TYPE = {
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "gpt_bigcode", "codegen", "opt"), _GPT_2),
    **dict.fromkeys(("phi", "starcoder2", "granite", "granitemoe"), _GPT_2),
    **dict.fromkeys(("gpt_neox", "mamba", "mamba2", "olmo", "olmoe"), _GPT_NEOX),
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"), _QWEN_2),
    **dict.fromkeys(("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_8", "qwen3_8_moe"), _QWEN_35),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text"), _QWEN_35),
}
"""model_type -> tokenizer class, where tokenizer_config.json names none."""


class _LibraryTokenizer(NamedTuple):
    """A tokenizer of the `tokenizers` library, its file, and the special tokens that file names.

    names: defaults for tokenizer_config.json ("eos_token" -> text).
    """

    core: tokenizers.Tokenizer
    path: Path
    end_ids: Collection[int] = ()
    bos_id: int | None = None
    names: Mapping[str, str] = MappingProxyType({})


def read_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of the model in `folder`.

    Raises BadTokenizer naming the bad file, UnsupportedModel for unsupported formats.
    """
    read = _read_library_tokenizer(folder)
    core, names = read.core, {**read.names, **named_special_tokens(folder)}
    config = {**read.names, **read_object(folder / CONFIG)}
    lists = [read_object(folder / name) for name in (SPECIAL_TOKENS_MAP, _ADDED_TOKENS)]
    configured, template = ConfiguredTokens.from_folder(folder), TemplateFile.find_template(folder)
    with translate_library_errors(str(read.path)):
        add_listed_tokens(core, TokenLists(config, *lists), str(folder / CONFIG))
        repair_tokenizer(core, config, read_object(folder / "config.json"), str(read.path))
        ends = known_end_tokens(core.get_vocab(with_added_tokens=True)) if template else set()
        texts = {text for text in ends if template and text in template.source}
        named = [core.token_to_id(text) for text in (*texts, names.get("eos_token", ""))]
        bos = core.token_to_id(names.get("bos_token", ""))
    return Tokenizer(
        core,
        {*configured.ends, *read.end_ids, *(token for token in named if token is not None)},
        read.bos_id if bos is None else bos,
        str(read.path),
        configured.suppressed,
        configured.first_suppressed,
    )


def _read_library_tokenizer(folder: Path) -> _LibraryTokenizer:
    if (folder / _JSON).exists():
        return _LibraryTokenizer(_read_tokenizer_json(folder / _JSON), folder / _JSON)
    if (folder / _SENTENCEPIECE).exists():
        return _sentencepiece_core(folder)
    if all((folder / name).exists() for name in (_VOCABULARY, _MERGES)):
        return _vocab_and_merges_core(folder)
    raise BadTokenizer(
        "{path} is missing: get tokenizer.json from where the model came from.", path=folder / _JSON
    )


def _read_tokenizer_json(path: Path) -> tokenizers.Tokenizer:
    value = read_object(path)
    model = value.get("model")
    if not isinstance(model, dict):
        raise BadTokenizer(
            "{path} is not a tokenizer: it has no model. Download the file again.", path=path
        )
    vocabulary, added = model.get("vocab"), value.get("added_tokens")
    pieces = vocabulary if isinstance(vocabulary, list) else []
    texts = [str(piece[0]) for piece in pieces if isinstance(piece, list) and piece]
    check_texts(texts, PIECE_CHARACTERS, str(path))
    tokens = added if isinstance(added, list) else []
    check_texts(map(token_content, tokens), ADDED_CHARACTERS, str(path))
    text = read_text(path, TOKENIZER_BYTES, BadTokenizer)
    with translate_library_errors(str(path)):
        return tokenizers.Tokenizer.from_str(text)


def _sentencepiece_core(folder: Path) -> _LibraryTokenizer:
    path, config = folder / _SENTENCEPIECE, read_object(folder / CONFIG)
    model = _sentencepiece_model(path)
    with translate_library_errors(str(path)):
        listed = described_tokens(config, str(folder / CONFIG))
        core = build_sentencepiece(_sentencepiece_vocabulary(model, listed, str(path)))
        _prepend_normalizers(core, model.normalizer_spec)
        _add_tokens(core, folder / _ADDED_TOKENS)
        bos = core.token_to_id(named_special_tokens(folder).get("bos_token", ""))
        bos = model.trainer_spec.bos_id if bos is None else bos
        opening = core.id_to_token(bos) if bos >= 0 else None
        if opening and config.get("add_bos_token", True) is not False:
            prepend_bos(core, opening, bos)
    ends = {model.trainer_spec.eos_id} - {-1}
    return _LibraryTokenizer(core, path, ends, bos if opening else None)


def _sentencepiece_model(path: Path) -> Any:
    """Parse tokenizer.model (SentencePiece). Raises BadTokenizer, UnsupportedModel."""
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    data = read_bytes(path, TOKENIZER_BYTES, BadTokenizer)
    if not data.startswith(_FIRST_BYTE):
        raise UnsupportedModel(
            "{path} is not in SentencePiece's format: get tokenizer.json from where the model came"
            " from, or take another version of it.",
            path=path,
        )
    model = sentencepiece_model_pb2.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise BadTokenizer(
            "{path} is damaged ({error}): download it again.", path=path, error=str(error)
        ) from error
    if model.trainer_spec.model_type != _SENTENCEPIECE_BPE:
        raise UnsupportedModel(
            "{path} holds a vocabulary that is no BPE, which this version does not run: get "
            "tokenizer.json from where the model came from.",
            path=path,
        )
    return model


def _sentencepiece_vocabulary(
    model: Any, listed: Mapping[int, AddedToken], origin: str
) -> GgufVocabulary:
    """Convert SentencePiece pieces to a vocabulary; listed tokens replace placeholders."""
    pieces = [piece.piece for piece in model.pieces]
    own = set(pieces)
    for token, added in listed.items():
        if token < len(pieces) and added.content not in own:
            pieces[token] = added.content
    table = {
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": np.array([piece.score for piece in model.pieces], np.float64),
        "tokenizer.ggml.token_type": np.array([piece.type for piece in model.pieces], np.int64),
        "tokenizer.ggml.add_space_prefix": bool(model.normalizer_spec.add_dummy_prefix),
    }
    return GgufVocabulary.from_metadata(table, origin)


def _prepend_normalizers(core: tokenizers.Tokenizer, spec: Any) -> None:
    """Add SentencePiece's normalization in front of the replacement of spaces by U+2581."""
    steps: list[normalizers.Normalizer] = []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        for pattern, left in (("^ +| +$", ""), (" {2,}", " ")):
            steps.append(normalizers.Replace(tokenizers.Regex(pattern), left))
    if steps and core.normalizer is not None:
        core.normalizer = normalizers.Sequence([*steps, core.normalizer])


def _add_tokens(core: tokenizers.Tokenizer, path: Path) -> None:
    """Add the tokens of an older folder's added_tokens.json (text -> id). Raises BadTokenizer."""
    for text, token in sorted(read_object(path).items(), key=lambda item: str(item[1]).zfill(20)):
        if core.token_to_id(text) is None:
            core.add_tokens([AddedToken(text, normalized=False)])
        if core.token_to_id(text) != token:
            raise BadTokenizer(
                "{path} gives token {text} the id {token}, {name} gives it"
                " {token_to_id}: take both files from the same model.",
                path=path,
                text=repr(text),
                token=ascii(token)[:20],
                name=_SENTENCEPIECE,
                token_to_id=core.token_to_id(text),
            )


def _vocab_and_merges_core(folder: Path) -> _LibraryTokenizer:
    """Build the tokenizer of vocab.json and merges.txt as transformers' tokenizer class does.

    The class named by the config decides how texts are split. Raises UnsupportedModel for a class
    that is not known here.
    """
    path = folder / _VOCABULARY
    listed, text = read_object(path), read_text(folder / _MERGES, TOKENIZER_BYTES, BadTokenizer)
    vocabulary = {text: token for text, token in listed.items() if isinstance(token, int)}
    if len(vocabulary) != len(listed):
        raise BadTokenizer("{path}: not a list of tokens. Get it again.", path=path)
    lines = (line.rstrip("\r") for line in text.split("\n") if not line.startswith("#version"))
    merges = merge_pairs(filter(str.strip, lines), str(folder / _MERGES))
    name = _class_name(folder)
    if name not in _PRE_TOKENIZERS:
        raise UnsupportedModel(
            "{path}: how {name} cuts a text is not known here: get tokenizer.json from where the"
            " model came from.",
            path=path,
            name=ascii(name)[:60] if name else CONFIG,
        )
    pre = pre_tokenizer_named(_PRE_TOKENIZERS[name], str(path))
    with translate_library_errors(str(path)):
        core = tokenizers.Tokenizer(models.BPE(vocabulary, merges))
        core.normalizer = normalizers.NFC() if name == _GPT_NEOX else pre.normalizer()
        core.pre_tokenizer = pre.pre_tokenizer()
        core.decoder = decoders.ByteLevel()
    return _LibraryTokenizer(core, path, names={"eos_token": _END, "unk_token": _END})


def _class_name(folder: Path) -> str:
    named = read_object(folder / CONFIG).get("tokenizer_class")
    usual = _CLASS_BY_TYPE.get(str(read_object(folder / "config.json").get("model_type")), "")
    return named.removesuffix("Fast") if isinstance(named, str) else usual
