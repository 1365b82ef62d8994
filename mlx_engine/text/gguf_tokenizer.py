"""Build the tokenizer and chat template from the metadata of a GGUF file.

Token ids equal those of the Hugging Face tokenizer; rules follow llama.cpp's llama-vocab.cpp and
its converter.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken, decoders, models, normalizers, processors

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.tokenizer import Tokenizer, known_end_tokens
from mlx_engine.text.tokenizer_library import SPACE, translate_library_errors
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer, UnsupportedModel
from mlx_engine.values.words import Words

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""Token types, as numbered in GGUF files."""

_DEFAULT_IDS = {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Usual ids in SentencePiece vocabularies, for files that name none."""
_BRACKETS, _UNTYPED = ("<", "["), (NORMAL, USER_DEFINED, UNUSED)
_MARKER = re.compile(r"[<\[].*\w.*[>\]]", re.DOTALL)
_LOOKS_SPECIAL = re.compile(r"<[|\uff5c].*[|\uff5c]>|<unused.*>|<(pad|mask)>", re.DOTALL)
_LONGEST_MARKER = 200
_ALSO_A_TAG = "</s>"
"""An end token only where the metadata name it: in Gemma it closes the HTML tag <s>."""
_KINDS = _BYTE_LEVEL, _PIECES, _MERGED_PIECES = "gpt2", "llama", "gemma4"
_ADDED = (CONTROL, USER_DEFINED, UNKNOWN)
_NOT_STRIPPING = ("<unk>", "<s>", "<|endoftext|>")
"""Special tokens of Phi-3 that keep the white space after them."""
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_NAMED = ("bos_token_id", *_END_KEYS)
_PIECES_BY_MERGES = {"gemma4": True, "sarvam-moe": False}
"""Pre-tokenizers of SentencePiece vocabularies with merges -> whether bos is always added."""
_MOST_WORK = 100_000_000
"""Largest sum of squared piece lengths; the largest known vocabularies have 20 million."""
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """The checked vocabulary of a GGUF file: metadata under `tokenizer.ggml.`.

    tokens: text of each id; "" and tokens of kind UNUSED occur in no text. kinds: token type of
    each id. origin: the file, for error messages.
    """

    table: Mapping[str, object]
    tokens: list[str]
    kinds: list[int]
    origin: str

    @classmethod
    def from_metadata(cls, table: Mapping[str, object], origin: str) -> "GgufVocabulary":
        """Read tokens and token types from GGUF metadata. Raises BadTokenizer."""
        tokens = _read_texts_array(table, "tokenizer.ggml.tokens", origin)
        numbers = _read_numbers_array(table, "tokenizer.ggml.token_type", len(tokens), "iu", origin)
        kinds = [NORMAL] * len(tokens) if numbers is None else numbers.tolist()
        return cls(table, tokens, kinds, origin)

    def ids_by_text(self) -> dict[str, int]:
        """Map the text of every used token of a GGUF file to its id.

        Raises BadTokenizer for a repeated text.
        """
        used = [i for i, text in enumerate(self.tokens) if text and self.kinds[i] != UNUSED]
        found = {self.tokens[i]: i for i in used}
        if len(found) != len(used):
            raise BadTokenizer(
                "{origin}: its vocabulary has a token twice. Get the file again.",
                origin=self.origin,
            )
        return found

    def piece_scores(self) -> NDArray[np.float64]:
        """Scores of SentencePiece tokens by id.

        Without scores in the GGUF file, or where all are equal, they descend with the id.
        """
        count = len(self.tokens)
        found = _read_numbers_array(self.table, "tokenizer.ggml.scores", count, "fiu", self.origin)
        normal = np.array(self.kinds) == NORMAL
        if found is None or not normal.any() or np.ptp(found[normal]) == 0:
            return -np.arange(count, dtype=np.float64)
        return found.astype(np.float64)

    def merges(self) -> list[tuple[str, str]]:
        """BPE merges of a GGUF file as pairs of pieces, in order of priority."""
        return merge_pairs(
            _read_texts_array(self.table, "tokenizer.ggml.merges", self.origin), self.origin
        )

    def text(self, key: str) -> str | None:
        """Read a GGUF metadata string under `tokenizer.ggml.`, None if absent.

        Raises BadTokenizer.
        """
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and not isinstance(value, str):
            raise self._wrong_type_error(key, value, Words("a text"))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Read a GGUF metadata boolean under `tokenizer.ggml.`. Raises BadTokenizer."""
        value = self.table.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, bool):
            raise self._wrong_type_error(key, value, Words("yes or no"))
        return value

    def token_id(self, key: str) -> int | None:
        """Read the id of a special token from GGUF metadata, None when the file names none.

        Ids out of range are ignored. SentencePiece vocabularies fall back to the usual id, if the
        token there looks special.
        """
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and type(value) is not int:
            raise self._wrong_type_error(key, value, Words("a whole number"))
        if value is not None and 0 <= value < len(self.tokens):
            return value
        is_pieces = str(self.table.get("tokenizer.ggml.model")) == "llama"
        usual = _DEFAULT_IDS.get(key, -1) if is_pieces else -1
        is_there = 0 <= usual < len(self.tokens) and _MARKER.fullmatch(self.tokens[usual])
        return usual if is_there else None

    def token_ids(self, key: str) -> list[int]:
        """Read a list of token ids from GGUF metadata, less those out of range."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is None:
            return []
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu":
            raise self._wrong_type_error(key, value, Words("a list of whole numbers"))
        return [token for token in value.tolist() if 0 <= token < len(self.tokens)]

    def with_token_kinds(self) -> "GgufVocabulary":
        """Copy the GGUF vocabulary with the types of turn and control tokens corrected.

        Converters may forget them. End tokens and tokens that look special become control tokens,
        as in llama.cpp and its converter. Normal tokens that the chat template spells become
        control or user-defined tokens, unless merges produce them.
        """
        kinds, ids = list(self.kinds), {text: i for i, text in enumerate(self.tokens)}
        roles = {self.token_id(key): CONTROL for key in _NAMED}
        roles[self.token_id("unknown_token_id")] = UNKNOWN
        roles |= {ids[text]: CONTROL for text in known_end_tokens(ids) - {_ALSO_A_TAG}}
        words: dict[int, int] = {}
        for i, text in enumerate(self.tokens):
            is_untyped = text[:1] in _BRACKETS and kinds[i] in _UNTYPED
            if not is_untyped or len(text) > _LONGEST_MARKER or not _MARKER.fullmatch(text):
                continue
            if i in roles or (kinds[i] == USER_DEFINED and _LOOKS_SPECIAL.fullmatch(text)):
                kinds[i] = roles.get(i, CONTROL)
            elif kinds[i] == NORMAL and (role := self._marker_type(text, ids)) != NORMAL:
                words[i] = role
        for i in self._unmerged_tokens(words) if words else ():
            kinds[i] = words[i]
        return replace(self, kinds=kinds)

    def _marker_type(self, text: str, ids: Mapping[str, int]) -> int:
        """Token type of a turn or control token; paired tags (<think>) are user-defined."""
        if _LOOKS_SPECIAL.fullmatch(text):
            return CONTROL
        template = self.table.get("tokenizer.chat_template")
        if not isinstance(template, str) or text not in template:
            return NORMAL
        opening = text.replace("/", "", 1)
        is_paired = opening in ids and f"{opening[0]}/{opening[1:]}" in ids
        return USER_DEFINED if is_paired else CONTROL

    def _unmerged_tokens(self, words: Iterable[int]) -> list[int]:
        """Return those of the token ids whose token no BPE merge of shorter tokens produces."""
        if "tokenizer.ggml.merges" in self.table:
            made = {first + second for first, second in self.merges()}
            return [i for i in words if self.tokens[i] not in made]
        pieces = set(self.tokens)
        return [
            i
            for i in words
            if not any(
                self.tokens[i][:n] in pieces and self.tokens[i][n:] in pieces
                for n in range(1, len(self.tokens[i]))
            )
        ]

    def _wrong_type_error(self, key: str, value: object, wanted: str) -> BadTokenizer:
        return BadTokenizer(
            "{origin}: tokenizer.ggml.{key} is {value}, where {wanted} is needed."
            " Get the file again.",
            origin=self.origin,
            key=key,
            value=ascii(value)[:40],
            wanted=wanted,
        )


def merge_pairs(texts: Iterable[str], origin: str) -> list[tuple[str, str]]:
    """Split BPE merges at their one space; the first piece may begin with a space.

    Raises BadTokenizer for a text that is not a pair.
    """
    pairs = []
    for text in texts:
        blank = text.find(" ", 1)
        if blank < 0 or blank == len(text) - 1 or text.find(" ", blank + 1) > 0:
            raise BadTokenizer(
                "{origin}: the merge {text} is no pair. Get it again.",
                origin=origin,
                text=ascii(text)[:40],
            )
        pairs.append((text[:blank], text[blank + 1 :]))
    return pairs


def _read_texts_array(table: Mapping[str, object], key: str, origin: str) -> list[str]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTokenizer(
            "{origin}: {key} is not a list of texts. Get the file again.", origin=origin, key=key
        )
    return value


def _read_numbers_array(
    table: Mapping[str, object], key: str, count: int, dtypes: str, origin: str
) -> NDArray[np.float64] | NDArray[np.int64] | None:
    value = table.get(key)
    if value is None:
        return None
    if (
        isinstance(value, np.ndarray)
        and value.dtype.kind in dtypes
        and len(value) >= count
        and bool(np.isfinite(value).all())
    ):
        return value[:count]
    raise BadTokenizer(
        "{origin}: {key} does not go with {count} tokens. Get the file again.",
        origin=origin,
        key=key,
        count=count,
    )


def tokenizer_from_gguf(metadata: Mapping[str, object], origin: str) -> Tokenizer:
    """Build the tokenizer from GGUF metadata. Raises BadTokenizer, UnsupportedModel."""
    kind = metadata.get("tokenizer.ggml.model")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedModel(
            "{origin}: its tokenizer.ggml.model is {kind}; this version reads"
            " {readers}. Take the model as a folder.",
            origin=origin,
            kind=ascii(kind)[:60],
            readers=", ".join(_KINDS),
        )
    vocabulary = GgufVocabulary.from_metadata(metadata, origin).with_token_kinds()
    if kind == _BYTE_LEVEL and vocabulary.text("pre") in _PIECES_BY_MERGES:
        kind = _MERGED_PIECES
    if kind == _BYTE_LEVEL:
        core = _byte_level_core(vocabulary)
    else:
        core = build_sentencepiece(vocabulary, has_merges=kind == _MERGED_PIECES)
    bos = vocabulary.token_id("bos_token_id")
    if bos is not None and _adds_bos(kind, vocabulary):
        prepend_bos(core, vocabulary.tokens[bos], bos)
    suppressed = vocabulary.token_ids("suppress_tokens")
    return Tokenizer(core, _end_ids(vocabulary), bos, origin, suppressed, adds_bos_to_chats=True)


def template_from_gguf(metadata: Mapping[str, object], origin: str) -> ChatTemplate | None:
    """Build the chat template from GGUF metadata, None without one.

    Raises BadChatTemplate, BadTokenizer.
    """
    source = metadata.get("tokenizer.chat_template")
    if source is None or (isinstance(source, str) and not source.strip()):
        return None
    if not isinstance(source, str):
        raise BadChatTemplate(
            "{origin}: its chat template is not a text. Get the file again.", origin=origin
        )
    vocabulary = GgufVocabulary.from_metadata(metadata, origin)
    named: dict[str, str] = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token = vocabulary.token_id(f"{key}_token_id")
        if token is not None:
            named[f"{name}_token"] = vocabulary.tokens[token]
    return ChatTemplate(source, named, origin)


def _byte_level_core(vocabulary: GgufVocabulary) -> tokenizers.Tokenizer:
    pre = pre_tokenizer_named(vocabulary.text("pre"), vocabulary.origin)
    ids, merges = vocabulary.ids_by_text(), vocabulary.merges()
    with translate_library_errors(vocabulary.origin):
        core = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=pre.ignore_merges))
        core.normalizer = pre.normalizer()
        core.pre_tokenizer = pre.pre_tokenizer()
        core.decoder = decoders.ByteLevel()
        core.add_tokens(_added_tokens(vocabulary, ids))
    return core


def build_sentencepiece(
    vocabulary: GgufVocabulary, *, has_merges: bool = False
) -> tokenizers.Tokenizer:
    """Build a BPE tokenizer of SentencePiece pieces: spaces as U+2581, byte fallback to `<0x..>`.

    has_merges: use the file's merges; without, merge in the order of the pieces' scores. With the
    file's `add_space_prefix`, every run of text between special tokens gets a space in front, and
    the decoder strips the first one.
    """
    ids = _piece_ids(vocabulary)
    merges = vocabulary.merges() if has_merges else _merges_from_scores(vocabulary, ids)
    unknown = next((text for text, i in ids.items() if vocabulary.kinds[i] == UNKNOWN), None)
    space_first = vocabulary.flag("add_space_prefix", default=not has_merges)
    spaces = normalizers.Replace(" ", SPACE)
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    strip = [decoders.Strip(" ", 1, 0)] if space_first else []
    with translate_library_errors(vocabulary.origin):
        bpe = models.BPE(ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
        core = tokenizers.Tokenizer(bpe)
        first = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
        core.normalizer = first if space_first else spaces
        core.decoder = decoders.Sequence([*steps, *strip])
        core.add_tokens(_added_tokens(vocabulary, ids))
    return core


def _added_tokens(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[AddedToken]:
    """Special and user-defined tokens, which a text is searched for before normalization."""
    kinds, strips = vocabulary.kinds, _strips_after_special(vocabulary.table)
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


def _strips_after_special(table: Mapping[str, object]) -> bool:
    """Whether white space after special tokens is dropped, as in Phi-3."""
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


def prepend_bos(core: tokenizers.Tokenizer, token: str, token_id: int) -> None:
    """Make a tokenizer put this begin-of-text token in front of every text."""
    named = {"id": "bos", "ids": [token_id], "tokens": [token]}  # the text "<a:b>" is no valid id
    core.post_processor = processors.TemplateProcessing("bos $A", None, special_tokens=[named])


def _end_ids(vocabulary: GgufVocabulary) -> set[int]:
    """Ids of tokens that end an answer: named by the metadata, or control tokens known to do so."""
    named = {vocabulary.token_id(key) for key in _END_KEYS}
    controls = {t: i for i, t in enumerate(vocabulary.tokens) if vocabulary.kinds[i] == CONTROL}
    known = {controls[text] for text in known_end_tokens(controls)}
    return {token for token in named if token is not None} | known


def _piece_ids(vocabulary: GgufVocabulary) -> dict[str, int]:
    """Map SentencePiece pieces to token ids; runs of spaces are spelled with U+2581."""
    given = vocabulary.ids_by_text()
    pieces = dict(given)
    for text, i in given.items():
        run = SPACE * len(text)
        if vocabulary.kinds[i] == USER_DEFINED and not text.strip(" ") and run not in given:
            del pieces[text]
            pieces[run] = i
    return pieces


def _merges_from_scores(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[Pair]:
    """Derive BPE merges: all pairs of pieces that join to a piece, by that piece's score.

    Highest scores come first, ties in the order of ids. User-defined runs of spaces (Gemma) have no
    scores and come before all others, longest first.
    """
    kinds, scores = vocabulary.kinds, vocabulary.piece_scores().tolist()
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
