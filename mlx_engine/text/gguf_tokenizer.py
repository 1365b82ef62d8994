"""The tokenizer and chat template in the metadata of a GGUF file.

Token ids equal those of the Hugging Face tokenizer; rules follow llama.cpp's llama-vocab.cpp and
its converter.
"""

from collections.abc import Mapping

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

_KINDS = _BYTE_LEVEL, _PIECES, _MERGED_PIECES = "gpt2", "llama", "gemma4"
_ADDED = (CONTROL, USER_DEFINED, UNKNOWN)
_NOT_STRIPPING = ("<unk>", "<s>", "<|endoftext|>")
"""Special tokens of Phi-3 that keep the white space after them."""
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_PIECES_BY_MERGES = {"gemma4": True, "sarvam-moe": False}
"""Pre-tokenizers of SentencePiece vocabularies with merges -> whether bos is always added."""
_MOST_WORK = 100_000_000
"""Largest sum of squared piece lengths; the largest vocabularies have 20 million."""
Pair = tuple[str, str]


def tokenizer_from_gguf(metadata: Mapping[str, object], origin: str) -> Tokenizer:
    """Build the tokenizer. Raises BadTokenizer for damage, UnsupportedModel for unknown kinds."""
    kind = metadata.get("tokenizer.ggml.model")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedModel(
            "{origin}: its tokenizer.ggml.model is {kind}; this version reads"
            " {readers}. Take the model as a folder.",
            origin=origin,
            kind=ascii(kind)[:60],
            readers=", ".join(_KINDS),
        )
    vocabulary = GgufVocabulary.of(metadata, origin).with_token_kinds()
    if kind == _BYTE_LEVEL and vocabulary.text("pre") in _PIECES_BY_MERGES:
        kind = _MERGED_PIECES
    if kind == _BYTE_LEVEL:
        core = _byte_level_core(vocabulary)
    else:
        core = piece_core(vocabulary, has_merges=kind == _MERGED_PIECES)
    bos = vocabulary.token_id("bos_token_id")
    if bos is not None and _adds_bos(kind, vocabulary):
        open_with(core, vocabulary.tokens[bos], bos)
    suppressed = vocabulary.token_ids("suppress_tokens")
    return Tokenizer(core, _ends(vocabulary), bos, origin, suppressed, opens_chats=True)


def template_from_gguf(metadata: Mapping[str, object], origin: str) -> ChatTemplate | None:
    """Build the chat template, None without one. Raises BadChatTemplate, BadTokenizer."""
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


def _byte_level_core(vocabulary: GgufVocabulary) -> tokenizers.Tokenizer:
    pre = pre_tokenizer_named(vocabulary.text("pre"), vocabulary.origin)
    ids, merges = vocabulary.ids(), vocabulary.merges()
    with library_errors(vocabulary.origin):
        core = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=pre.whole_words))
        core.normalizer = pre.normalizer()
        core.pre_tokenizer = pre.pre_tokenizer()
        core.decoder = decoders.ByteLevel()
        core.add_tokens(_added_tokens(vocabulary, ids))
    return core


def piece_core(vocabulary: GgufVocabulary, *, has_merges: bool = False) -> tokenizers.Tokenizer:
    """Build a BPE of SentencePiece pieces: spaces as U+2581, byte fallback to `<0x..>`.

    has_merges: merge by the file's merges, else in the order of the pieces' scores. With
    `add_space_prefix` each run of text between special tokens gets a space in front, of which the
    decoder strips the first.
    """
    ids = _piece_ids(vocabulary)
    merges = vocabulary.merges() if has_merges else _merges_from_scores(vocabulary, ids)
    unknown = next((text for text, i in ids.items() if vocabulary.kinds[i] == UNKNOWN), None)
    space_first = vocabulary.flag("add_space_prefix", default=not has_merges)
    spaces = normalizers.Replace(" ", SPACE)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] if space_first else []
    with library_errors(vocabulary.origin):
        bpe = models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        core = tokenizers.Tokenizer(bpe)
        first = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        core.normalizer = first if space_first else spaces
        core.decoder = decoders.Sequence([*steps, *strip])
        core.add_tokens(_added_tokens(vocabulary, ids))
    return core


def _added_tokens(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[AddedToken]:
    """Tokens that are matched before normalization."""
    kinds, strips = vocabulary.kinds, _strips_after_roles(vocabulary.table)
    return [
        AddedToken(
            text,
            normalized=False,
            special=kinds[i] != USER_DEFINED,
            rstrip=strips and text not in _NOT_STRIPPING,
        )
        for text, i in ids.items()
        if kinds[i] in _ADDED
    ]


def _strips_after_roles(table: Mapping[str, object]) -> bool:
    """Whether special tokens strip the white space after them, as in Phi-3."""
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
    """Let texts begin with this token."""
    named = {"id": "bos", "ids": [token_id], "tokens": [token]}  # the text "<a:b>" is no valid id
    core.post_processor = processors.TemplateProcessing("bos $A", None, special_tokens=[named])


def _ends(vocabulary: GgufVocabulary) -> set[int]:
    """End tokens named by the metadata, and control tokens known to end answers."""
    named = {vocabulary.token_id(key) for key in _END_KEYS}
    controls = {t: i for i, t in enumerate(vocabulary.tokens) if vocabulary.kinds[i] == CONTROL}
    known = {controls[text] for text in known_ends(controls)}
    return {token for token in named if token is not None} | known


def _piece_ids(vocabulary: GgufVocabulary) -> dict[str, int]:
    """Piece -> id, runs of blanks written with U+2581 again, which converters write plainly."""
    given = vocabulary.ids()
    pieces = dict(given)
    for text, i in given.items():
        run = SPACE * len(text)
        if vocabulary.kinds[i] == USER_DEFINED and not text.strip(" ") and run not in given:
            del pieces[text]
            pieces[run] = i
    return pieces


def _merges_from_scores(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[Pair]:
    """All pairs of pieces that join to a piece, by descending score of that piece, then by ids.

    User-defined runs of spaces (Gemma) have no scores and come first, longest first.
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
