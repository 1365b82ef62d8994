"""The tokenizer and chat template that a GGUF file carries in its metadata.

Ids are those of the Hugging Face tokenizer the file was made of; the rules follow llama.cpp's
llama-vocab.cpp and its converter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken, decoders, models, normalizers, processors

from mlx_engine.text.chat_template import ChatTemplate
from mlx_engine.text.gguf_pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.roles import known_ends
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer, UnsupportedModel
from mlx_engine.values.words import Words

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
"""Kinds of tokens, as numbered in the file."""

_BYTE_LEVEL, _PIECES, _MERGED_PIECES = "gpt2", "llama", "gemma4"
_ADDED = (CONTROL, USER_DEFINED, UNKNOWN)
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
SPACE = "\u2581"
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """Everything under `tokenizer.ggml.`; origin names the file in messages.

    tokens: by id, "" and those of kind UNUSED belong to no text. kinds: by id, one of the numbers
    above.
    """

    table: Mapping[str, object]
    tokens: list[str]
    kinds: list[int]
    origin: str

    @classmethod
    def of(cls, table: Mapping[str, object], origin: str) -> "GgufVocabulary":
        """Raises BadTokenizer when tokens are no texts, or kinds do not go with them."""
        tokens = _texts(table, "tokenizer.ggml.tokens", origin)
        numbers = _numbers(table, "tokenizer.ggml.token_type", len(tokens), "iu", origin)
        kinds = [NORMAL] * len(tokens) if numbers is None else numbers.tolist()
        return cls(table, tokens, kinds, origin)

    def ids(self) -> dict[str, int]:
        """Text -> id of all tokens in use; BadTokenizer when two have one text."""
        used = [i for i, text in enumerate(self.tokens) if text and self.kinds[i] != UNUSED]
        found = {self.tokens[i]: i for i in used}
        if len(found) != len(used):
            raise BadTokenizer(
                "{origin}: its vocabulary has a token twice. Get the file again.",
                origin=self.origin,
            )
        return found

    def scores(self) -> NDArray[np.float64]:
        """By id; when the file tells no two tokens apart, the earlier token has the higher one."""
        count = len(self.tokens)
        found = _numbers(self.table, "tokenizer.ggml.scores", count, "fiu", self.origin)
        normal = np.array(self.kinds) == NORMAL
        if found is None or not normal.any() or np.ptp(found[normal]) == 0:
            return -np.arange(count, dtype=np.float64)
        return found.astype(np.float64)

    def merges(self) -> list[tuple[str, str]]:
        """Pairs, the first merged first; a blank parts them, and the first piece is never empty."""
        pairs = []
        for text in _texts(self.table, "tokenizer.ggml.merges", self.origin):
            blank = text.find(" ", 1)
            if blank < 0 or blank == len(text) - 1:
                raise BadTokenizer(
                    "{origin}: the merge {text} is no pair. Get it again.",
                    origin=self.origin,
                    text=ascii(text)[:40],
                )
            pairs.append((text[:blank], text[blank + 1 :]))
        return pairs

    def text(self, key: str) -> str | None:
        """A text of the metadata, None when there is none."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, value, Words("a text"))
        return value

    def flag(self, key: str, default: bool) -> bool:
        """Yes or no."""
        value = self.table.get(f"tokenizer.ggml.{key}", default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, Words("yes or no"))
        return value

    def token_id(self, key: str) -> int | None:
        """The id of a token that has a part to play, None when the file names none."""
        value = self.table.get(f"tokenizer.ggml.{key}")
        if value is None:
            return None
        count = len(self.tokens)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
            raise BadTokenizer(
                "{origin}: tokenizer.ggml.{key} is {value} in a vocabulary of"
                " {count}. Get the file again.",
                origin=self.origin,
                key=key,
                value=ascii(value)[:40],
                count=count,
            )
        return value

    def _wrong(self, key: str, value: object, wanted: str) -> BadTokenizer:
        return BadTokenizer(
            "{origin}: tokenizer.ggml.{key} is {value}, where {wanted} is needed."
            " Get the file again.",
            origin=self.origin,
            key=key,
            value=ascii(value)[:40],
            wanted=wanted,
        )


def _texts(table: Mapping[str, object], key: str, origin: str) -> list[str]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise BadTokenizer(
            "{origin}: {key} is not a list of texts. Get the file again.", origin=origin, key=key
        )
    return value


def _numbers(
    table: Mapping[str, object], key: str, count: int, dtypes: str, origin: str
) -> NDArray[np.float64] | NDArray[np.int64] | None:
    value = table.get(key)
    if value is None:
        return None
    if (
        isinstance(value, np.ndarray)
        and value.dtype.kind in dtypes
        and len(value) == count
        and bool(np.isfinite(value).all())
    ):
        return value
    raise BadTokenizer(
        "{origin}: {key} does not go with {count} tokens. Get the file again.",
        origin=origin,
        key=key,
        count=count,
    )


def tokenizer_from_gguf(metadata: Mapping[str, object], origin: str) -> Tokenizer:
    """The tokenizer; BadTokenizer for damage, UnsupportedModel for a kind this version lacks."""
    kind = metadata.get("tokenizer.ggml.model")
    readers = {_BYTE_LEVEL: _byte_level, _PIECES: piece_core, _MERGED_PIECES: _merged_pieces}
    if kind not in readers:
        raise UnsupportedModel(
            "{origin}: its tokenizer.ggml.model is {kind}; this version reads"
            " {readers}. Take the model as a folder.",
            origin=origin,
            kind=ascii(kind)[:60],
            readers=", ".join(readers),
        )
    vocabulary = GgufVocabulary.of(metadata, origin)
    core = readers[str(kind)](vocabulary)
    bos = vocabulary.token_id("bos_token_id")
    if bos is not None and _adds_bos(str(kind), vocabulary):
        open_with(core, vocabulary.tokens[bos], bos)
    return Tokenizer(core, _ends(vocabulary), bos, origin)


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
    try:
        return tokenizers.Tokenizer(models.BPE(dict(ids), merges, **options))
    except Exception as error:  # the library raises no narrower one
        raise BadTokenizer(
            "{origin}: its merges do not go with its vocabulary ({error}). Get the file again.",
            origin=vocabulary.origin,
            error=str(error),
        ) from error


def _with_added(
    core: tokenizers.Tokenizer, vocabulary: GgufVocabulary, ids: Mapping[str, int]
) -> tokenizers.Tokenizer:
    """Adds what is found in a text before anything else is done to it."""
    kinds = vocabulary.kinds
    added = [
        AddedToken(text, special=kinds[i] != USER_DEFINED, normalized=False)
        for text, i in ids.items()
        if kinds[i] in _ADDED
    ]
    core.add_tokens(added)
    return core


def _adds_bos(kind: str, vocabulary: GgufVocabulary) -> bool:
    if kind == _MERGED_PIECES:
        return True
    if kind == _PIECES:
        return vocabulary.flag("add_bos_token", default=True)
    usual = pre_tokenizer_named(vocabulary.text("pre"), vocabulary.origin).adds_bos
    return vocabulary.flag("add_bos_token", usual)


def open_with(core: tokenizers.Tokenizer, token: str, token_id: int) -> None:
    """Make this the token that texts begin with."""
    quoted = token.replace("$", "$$")
    core.post_processor = processors.TemplateProcessing(
        single=f"{quoted} $A", pair=None, special_tokens=[(token, token_id)]
    )


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
    parts = normal | {text: ids[text] for text in runs}
    merges = [(text[:-1], SPACE) for text in sorted(runs, key=len, reverse=True)]
    merges = [pair for pair in merges if pair[0] in parts and SPACE in parts]
    for text in sorted(normal, key=lambda text: (-scores[normal[text]], normal[text])):
        halves = ((text[:i], text[i:]) for i in range(1, len(text)))
        found = [pair for pair in halves if pair[0] in parts and pair[1] in parts]
        merges += sorted(found, key=lambda pair: (parts[pair[0]], parts[pair[1]]))
    return merges
