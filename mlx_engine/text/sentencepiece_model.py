"""The tokenizer of a folder that has SentencePiece's tokenizer.model and no tokenizer.json.

Pieces, scores and kinds are what a GGUF has of them, so both become one kind of core. Format:
https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, normalizers

from mlx_engine.text.added_tokens import described_tokens
from mlx_engine.text.gguf_tokenizer import open_with, piece_core
from mlx_engine.text.gguf_vocabulary import GgufVocabulary
from mlx_engine.text.roles import CONFIG
from mlx_engine.text.tokenizer import CoreFile, Tokenizer, named_special_tokens, read_object
from mlx_engine.text.tokenizer_library import library_errors
from mlx_engine.text.vocab_and_merges import MERGES, VOCABULARY, read_vocab_and_merges
from mlx_engine.values.errors import BadTokenizer, UnsupportedModel
from mlx_engine.values.untrusted import TOKENIZER_BYTES, read_bytes

NAME = "tokenizer.model"
_BPE = 2
_FIRST_BYTE = b"\x0a"
"""Of the format: the first field, with a length. Files in tiktoken's format are plain text."""


def read_tokenizer(folder: Path) -> Tokenizer:
    """From tokenizer.json, else from tokenizer.model, else from vocab.json and merges.txt.

    Raises BadTokenizer, UnsupportedModel.
    """
    path = folder / NAME
    if (folder / "tokenizer.json").exists():
        return Tokenizer.from_folder(folder)
    if not path.exists():
        has_merges = all((folder / name).exists() for name in (VOCABULARY, MERGES))
        return Tokenizer.from_folder(folder, read_vocab_and_merges(folder) if has_merges else None)
    model = _model(path)
    config = read_object(folder / CONFIG)
    with library_errors(str(path)):
        vocabulary = _vocabulary(model, described_tokens(config, str(folder / CONFIG)), str(path))
        core = piece_core(vocabulary)
        _normalize(core, model.normalizer_spec)
        _add_tokens(core, folder / "added_tokens.json")
        bos = core.token_to_id(named_special_tokens(folder).get("bos_token", ""))
        bos = model.trainer_spec.bos_id if bos is None else bos
        opening = core.id_to_token(bos) if bos >= 0 else None
        if opening and config.get("add_bos_token", True) is not False:
            open_with(core, opening, bos)
    ends = {model.trainer_spec.eos_id} - {-1}
    return Tokenizer.from_folder(folder, CoreFile(core, path, ends, bos if opening else None))


def _model(path: Path) -> Any:
    """The file as SentencePiece's own message."""
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
    if model.trainer_spec.model_type != _BPE:
        raise UnsupportedModel(
            "{path} holds a vocabulary that is no BPE, which this version does not run: get "
            "tokenizer.json from where the model came from.",
            path=path,
        )
    return model


def _vocabulary(model: Any, listed: Mapping[int, AddedToken], origin: str) -> GgufVocabulary:
    """Pieces that only held a place have the text that the config lists for their id."""
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
    return GgufVocabulary.of(table, origin)


def _normalize(core: tokenizers.Tokenizer, spec: Any) -> None:
    """What is done to a text before its spaces become U+2581."""
    steps: list[normalizers.Normalizer] = []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        for pattern, left in (("^ +| +$", ""), (" {2,}", " ")):
            steps.append(normalizers.Replace(tokenizers.Regex(pattern), left))
    if steps and core.normalizer is not None:
        core.normalizer = normalizers.Sequence([*steps, core.normalizer])


def _add_tokens(core: tokenizers.Tokenizer, path: Path) -> None:
    """Tokens behind the vocabulary, text -> id, as older folders list them."""
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
                name=NAME,
                token_to_id=core.token_to_id(text),
            )
