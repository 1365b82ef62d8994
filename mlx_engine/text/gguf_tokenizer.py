"""The tokenizer and chat template that a GGUF file carries in its metadata.

Ids are those of the Hugging Face tokenizer the file was made of; the rules follow llama.cpp's
llama-vocab.cpp and its converter.
"""

from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_vocabulary import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
)
from mlx_engine.text.pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.tokenizer import Tokenizer, known_ends
from mlx_engine.text.tokenizer_library import SPACE, library_errors
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer, UnsupportedModel

_BYTE_LEVEL, _PIECES, _MERGED_PIECES = "gpt2", "llama", "gemma4"
_ADDED = (CONTROL, USER_DEFINED, UNKNOWN)
_KEPT = ("<unk>", "<s>", "<|endoftext|>")
"""Special tokens of Phi-3 that white space may follow."""
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_PIECES_BY_MERGES = {"gemma4": True, "sarvam-moe": False}
"""Names of pre-tokenizers whose vocabulary is of pieces -> whether texts begin with bos."""
_MOST_WORK = 100_000_000
"""Square of the length of pieces, added up; the largest vocabularies have 20 million."""
Pair = tuple[str, str]


def tokenizer_from_gguf(metadata: Mapping[str, object], origin: str) -> Tokenizer:
    """The tokenizer; BadTokenizer for damage, UnsupportedModel for a kind this version lacks."""
    kind = metadata.get("tokenizer.ggml.model")
    readers = {_BYTE_LEVEL: _byte_level, _PIECES: piece_core, _MERGED_PIECES: _merged_pieces}
    if not isinstance(kind, str) or kind not in readers:
        raise UnsupportedModel(
            "{origin}: its tokenizer.ggml.model is {kind}; this version reads"
            " {readers}. Take the model as a folder.",
            origin=origin,
            kind=ascii(kind)[:60],
            readers=", ".join(readers),
        )
    vocabulary = GgufVocabulary.of(metadata, origin).with_roles()
    if kind == _BYTE_LEVEL and vocabulary.text("pre") in _PIECES_BY_MERGES:
        kind = _MERGED_PIECES
    core = readers[kind](vocabulary)
    bos = vocabulary.token_id("bos_token_id")
    if bos is not None and _adds_bos(kind, vocabulary):
        open_with(core, vocabulary.tokens[bos], bos)
    suppressed = vocabulary.token_ids("suppress_tokens")
    return Tokenizer(core, _ends(vocabulary), bos, origin, suppressed, opens_chats=True)


def template_from_gguf(metadata: Mapping[str, object], origin: str) -> ChatTemplate | None:
    """The chat template, None when there is none. Raises BadChatTemplate, BadTokenizer."""
    source = metadata.get("tokenizer.chat_template")
    if source is None or (isinstance(source, str) and not source.strip()):
        return None
    if not isinstance(source, str):
        raise BadChatTemplate(
            "{origin}: its chat template is not a text. Get the file again.", origin=origin
        )
    vocabulary = GgufVocabulary.of(metadata, origin)
    named: dict[str, str] = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token = vocabulary.token_id(f"{key}_token_id")
        if token is not None:
            named[f"{name}_token"] = vocabulary.tokens[token]
    return ChatTemplate(source, named, origin)


def _byte_level(vocabulary: GgufVocabulary) -> tokenizers.Tokenizer:
    pre = pre_tokenizer_named(vocabulary.text("pre"), vocabulary.origin)
    ids = vocabulary.ids()
    core = _merging(vocabulary, ids, vocabulary.merges(), ignore_merges=pre.whole_words)
    core.normalizer = pre.normalizer()
    core.pre_tokenizer = pre.pre_tokenizer()
    core.decoder = decoders.ByteLevel()
    return _with_added(core, vocabulary, ids)


def piece_core(vocabulary: GgufVocabulary) -> tokenizers.Tokenizer:
    """Of pieces with scores, as SentencePiece's BPE has them."""
    ids = _piece_ids(vocabulary)
    space_first = vocabulary.flag("add_space_prefix", default=True)
    merges = _merges_from_scores(vocabulary, ids)
    return _with_added(_merging_pieces(vocabulary, ids, merges, space_first), vocabulary, ids)


def _merged_pieces(vocabulary: GgufVocabulary) -> tokenizers.Tokenizer:
    ids = _piece_ids(vocabulary)
    space_first = vocabulary.flag("add_space_prefix", default=False)
    core = _merging_pieces(vocabulary, ids, vocabulary.merges(), space_first)
    return _with_added(core, vocabulary, ids)


def _merging(
    vocabulary: GgufVocabulary, ids: Mapping[str, int], merges: list[Pair], **options: Any
) -> tokenizers.Tokenizer:
    """BadTokenizer when merges do not go with the vocabulary."""
    with library_errors(vocabulary.origin):
        return tokenizers.Tokenizer(models.BPE(dict(ids), merges, **options))


def _with_added(
    core: tokenizers.Tokenizer, vocabulary: GgufVocabulary, ids: Mapping[str, int]
) -> tokenizers.Tokenizer:
    """Adds what is found in a text before anything else is done to it."""
    added: list[AddedToken] = []
    kinds, strips = vocabulary.kinds, _strips_after_roles(vocabulary.table)
    for text, i in ids.items():
        if kinds[i] in _ADDED:
            flags = {"special": kinds[i] != USER_DEFINED, "rstrip": strips and text not in _KEPT}
            added.append(AddedToken(text, normalized=False, **flags))
    with library_errors(vocabulary.origin):
        core.add_tokens(added)
    return core


def _strips_after_roles(table: Mapping[str, object]) -> bool:
    """Whether white space after a special token is no part of a text, as Phi-3 has it."""
    name = str(table.get("general.name")).lower()
    kind = [str(table.get(key)) for key in ("general.architecture", "tokenizer.ggml.model")]
    return kind == ["phi3", _PIECES] or "phi-3" in name or "phi3" in name


def _adds_bos(kind: str, vocabulary: GgufVocabulary) -> bool:
    if kind == _MERGED_PIECES:
        always = _PIECES_BY_MERGES.get(vocabulary.text("pre") or kind, True)
        return always or vocabulary.flag("add_bos_token", default=False)
    if kind == _PIECES:
        return vocabulary.flag("add_bos_token", default=True)
    usual = pre_tokenizer_named(vocabulary.text("pre"), vocabulary.origin).adds_bos
    return vocabulary.flag("add_bos_token", usual)


def open_with(core: tokenizers.Tokenizer, token: str, token_id: int) -> None:
    """Make this the token that texts begin with."""
    named = {"id": "bos", "ids": [token_id], "tokens": [token]}  # its text may be no name: "<a:b>"
    core.post_processor = processors.TemplateProcessing("bos $A", None, special_tokens=[named])


def _ends(vocabulary: GgufVocabulary) -> set[int]:
    """What the metadata names, and control tokens known to end an answer in some family."""
    named = {vocabulary.token_id(key) for key in _END_KEYS}
    controls = {t: i for i, t in enumerate(vocabulary.tokens) if vocabulary.kinds[i] == CONTROL}
    known = {controls[text] for text in known_ends(controls)}
    return {token for token in named if token is not None} | known


def _merging_pieces(
    vocabulary: GgufVocabulary, ids: Mapping[str, int], merges: list[Pair], space_first: bool
) -> tokenizers.Tokenizer:
    """SentencePiece's kind: pairs merged in text whose spaces are written as U+2581.

    Characters without a piece become the pieces `<0x..>` of their bytes. ids: of `_piece_ids`.
    space_first: every run of text between special tokens gets a space in front, and the decoder
    takes one from the front of the whole.
    """
    unknown = [text for text, i in ids.items() if vocabulary.kinds[i] == UNKNOWN]
    options = {"unk_token": next(iter(unknown), None), "fuse_unk": True, "byte_fallback": True}
    core = _merging(vocabulary, ids, merges, **options)
    spaces = normalizers.Replace(" ", SPACE)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if space_first:
        core.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        core.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    else:
        core.normalizer = spaces
        core.decoder = decoders.Sequence(steps)
    return core


def _piece_ids(vocabulary: GgufVocabulary) -> dict[str, int]:
    """Piece -> id. Runs of blanks, which a converter writes plainly, are pieces again."""
    given = vocabulary.ids()
    pieces = dict(given)
    for text, i in given.items():
        run = SPACE * len(text)
        if vocabulary.kinds[i] == USER_DEFINED and not text.strip(" ") and run not in given:
            del pieces[text]
            pieces[run] = i
    return pieces


def _merges_from_scores(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[Pair]:
    """Every way to make a piece of two others, that of the highest score first.

    The Hugging Face twin has merges, where the file has one score for each piece. User-defined runs
    of spaces come before all, longest first: where a vocabulary has them (Gemma), the converter
    wrote no scores for them. Ways to one piece go by ids.
    """
    kinds, scores = vocabulary.kinds, vocabulary.scores().tolist()
    normal = {text: i for text, i in ids.items() if kinds[i] == NORMAL}
    runs = [t for t, i in ids.items() if kinds[i] == USER_DEFINED and t == SPACE * len(t)]
    if sum(len(text) ** 2 for text in normal) > _MOST_WORK:
        raise BadTokenizer(
            "{origin}: its vocabulary has pieces that are far longer than any words. Get the file"
            " again.",
            origin=vocabulary.origin,
        )
    parts = normal | {text: ids[text] for text in runs}
    merges = [(text[:-1], SPACE) for text in sorted(runs, key=len, reverse=True)]
    merges = [pair for pair in merges if pair[0] in parts and SPACE in parts]
    for text in sorted(normal, key=lambda text: (-scores[normal[text]], normal[text])):
        halves = ((text[:i], text[i:]) for i in range(1, len(text)))
        found = [pair for pair in halves if pair[0] in parts and pair[1] in parts]
        merges += sorted(found, key=lambda pair: (parts[pair[0]], parts[pair[1]]))
    return merges
