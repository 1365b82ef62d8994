"""Turns text into token ids and back."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import tokenizers

from mlx_engine.text.added_tokens import TokenLists, add_listed_tokens, text_of
from mlx_engine.text.mended_tokenizer import mend
from mlx_engine.text.roles import CONFIG, ConfiguredTokens, TemplateFile, known_ends
from mlx_engine.text.token_bytes import TokenBytes
from mlx_engine.text.tokenizer_library import (
    ADDED_CHARACTERS,
    PIECE_CHARACTERS,
    TimedCalls,
    check_growth,
    check_texts,
    library_errors,
)
from mlx_engine.values.errors import BadPrompt, BadTokenizer
from mlx_engine.values.untrusted import TOKENIZER_BYTES, read_json, read_text

_SPECIAL_TOKENS_MAP, _ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"
_ANCHOR = "\n"


class CoreFile(NamedTuple):
    """A core, the file it was read from, and the tokens that have a meaning by that file.

    names: those that tokenizer_config.json need not say, "eos_token" -> text and so on.
    """

    core: tokenizers.Tokenizer
    path: Path
    end_ids: Collection[int] = ()
    bos_id: int | None = None
    names: Mapping[str, str] = MappingProxyType({})


class Tokenizer:
    """A `tokenizers` core, and the ids that have a meaning of their own.

    end_ids: the tokens that end an answer. bos_id: the begin-of-text token. origin: the file, for
    messages. suppressed_ids: tokens that are never to be written; first_suppressed_ids: not as the
    first of an answer. opens_chats: whether chats begin with the opening tokens, too, where their
    template writes none. Truncation and padding that the core's file asks for are switched off.

    Raises BadTokenizer, as every method does, where the core itself fails.
    """

    def __init__(
        self,
        core: tokenizers.Tokenizer,
        end_ids: Iterable[int] = (),
        bos_id: int | None = None,
        origin: str = "the tokenizer",
        suppressed_ids: Iterable[int] = (),
        first_suppressed_ids: Iterable[int] = (),
        opens_chats: bool = False,
    ) -> None:
        self._core = core
        self._origin = origin
        self._opens_chats = opens_chats
        self.end_ids = frozenset(end_ids)
        self.suppressed_ids = frozenset(suppressed_ids)
        self.first_suppressed_ids = frozenset(first_suppressed_ids)
        self.bos_id = bos_id
        with library_errors(origin):
            core.no_truncation()
            core.no_padding()
            check_growth(core, origin)
            self._added = core.get_added_tokens_decoder()
            self.special_ids = frozenset(i for i, token in self._added.items() if token.special)
            self.vocabulary = max(core.get_vocab(with_added_tokens=True).values(), default=-1) + 1
            self._calls = TimedCalls(origin, core)
            self.opening_ids = self._calls.run(lambda: _opening_ids(core), 1)
            self.token_bytes = TokenBytes.of(core, origin)

    @classmethod
    def from_folder(cls, folder: Path, other: CoreFile | None = None) -> "Tokenizer":
        """Reads tokenizer.json and the files beside it; BadTokenizer names the bad one.

        other: what stands in the place of tokenizer.json.
        """
        own = folder / "tokenizer.json"
        file = other or CoreFile(_read_core(own), own)
        core, names = file.core, {**file.names, **named_special_tokens(folder)}
        config = {**file.names, **read_object(folder / CONFIG)}
        lists = [read_object(folder / name) for name in (_SPECIAL_TOKENS_MAP, _ADDED_TOKENS)]
        configured, template = ConfiguredTokens.of_folder(folder), TemplateFile.find(folder)
        with library_errors(str(file.path)):
            add_listed_tokens(core, TokenLists(config, *lists), str(folder / CONFIG))
            mend(core, config, read_object(folder / "config.json"), str(file.path))
            spelled = known_ends(core.get_vocab(with_added_tokens=True)) if template else set()
            texts = {text for text in spelled if template and text in template.source}
            named = [core.token_to_id(text) for text in (*texts, names.get("eos_token", ""))]
            bos = core.token_to_id(names.get("bos_token", ""))
        return cls(
            core,
            {*configured.ends, *file.end_ids, *(i for i in named if i is not None)},
            file.bos_id if bos is None else bos,
            str(file.path),
            configured.suppressed,
            configured.first_suppressed,
        )

    def fitted(self, model_vocabulary: int) -> "Tokenizer":
        """The same without special tokens that have no row in a model of `model_vocabulary` tokens.

        Gemma 3 1B has one for pictures, older fine-tunes one for padding. BadTokenizer when a token
        of texts, or the one they begin with, has no row, or when every token is suppressed.
        """
        if (self.suppressed_ids | self.first_suppressed_ids).issuperset(range(model_vocabulary)):
            raise BadTokenizer(
                "{origin}: generation_config.json suppresses every token. Get it again.",
                origin=self._origin,
            )
        if self.vocabulary <= model_vocabulary:
            return self
        vocabulary = self._core.get_vocab(with_added_tokens=True)
        beyond = {text: i for text, i in vocabulary.items() if i >= model_vocabulary}
        kept = self.special_ids - {*self.opening_ids}
        if not kept.issuperset(beyond.values()):
            raise BadTokenizer(
                "{origin} has token ids up to {vocabulary}, but the model knows"
                " {model_vocabulary} tokens: the tokenizer belongs to another model. Use the"
                " one that came with the weights.",
                origin=self._origin,
                vocabulary=self.vocabulary - 1,
                model_vocabulary=model_vocabulary,
            )
        with library_errors(self._origin):
            core = _without(self._core, beyond)
        ends = self.end_ids - {*beyond.values()}
        bos = None if self.bos_id in beyond.values() else self.bos_id
        suppressed = self.suppressed_ids, self.first_suppressed_ids
        return Tokenizer(core, ends, bos, self._origin, *suppressed, self._opens_chats)

    def encode(self, text: str, add_special: bool = False) -> list[int]:
        """The ids of `text`; the text of a special token becomes that token.

        add_special puts the opening tokens of the model in front, unless `text` spells them out
        there (never an end token behind). BadPrompt when `text` is not valid Unicode.
        """
        check_unicode(text)
        # as a batch: `encode` keeps Python's other threads waiting, a window's among them
        (encoded,) = self._calls.run(
            lambda: self._core.encode_batch_fast([text], add_special_tokens=False), len(text)
        )
        ids: list[int] = encoded.ids
        opening = [*self.opening_ids]
        return ids if not add_special or ids[: len(opening)] == opening else [*opening, *ids]

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """The ids of the parts of one text: no token reaches across the end of a part."""
        ids = self.encode(parts[0]) if parts else []
        for part in parts[1:]:
            ids += self._encode_inside(part)
        return ids

    def encode_chat(self, parts: Sequence[str]) -> list[int]:
        """The ids of a rendered chat in parts, with the opening tokens where it needs them."""
        ids, opening = self.encode_parts(parts), [*self.opening_ids]
        is_open = not self._opens_chats or ids[: len(opening)] == opening
        return ids if is_open else [*opening, *ids]

    def plain_parts(self, text: str, controls: frozenset[int]) -> list[str]:
        """`text`, cut inside everything that would be read as a token of `controls`.

        A single part when there is nothing of the kind. Controls that are one character long
        cannot be cut; they stay.
        """
        check_unicode(text)
        (encoding,) = self._calls.run(
            lambda: self._core.encode_batch([text], add_special_tokens=False), len(text)
        )
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        cuts = [
            (start + end) // 2 for i, (start, end) in spans if i in controls and end - start > 1
        ]
        if not cuts:
            return [text]
        edges = zip([0, *cuts], [*cuts, len(text)], strict=True)
        return [part for a, b in edges for part in self.plain_parts(text[a:b], controls)]

    def decode(self, ids: Sequence[int], keep_special: bool = False) -> str:
        """The text of `ids`, special tokens left out unless asked for; bad UTF-8 becomes U+FFFD.

        The English spacing clean-up that some configs ask for is not done: it changes the text.
        """
        skip = not keep_special
        return self._calls.run(lambda: self._core.decode(ids, skip_special_tokens=skip), len(ids))

    @property
    def opening_text(self) -> str:
        """What is written where the opening tokens of the model are meant, "" for none."""
        return "".join(self.token_text(token) for token in self.opening_ids)

    def token_text(self, token: int) -> str:
        """How `token` is written in the vocabulary file; "" when there is no such token."""
        return self._core.id_to_token(token) or ""

    def has_token(self, text: str) -> bool:
        """Whether the vocabulary has `text` as one token."""
        return self._core.token_to_id(text) is not None

    def control_ids(self, source: str) -> frozenset[int]:
        """The special tokens, and the other added tokens whose text stands in `source`.

        `source` is a chat template: a model's own markers (`<think>`, `<tool_call>`) are often not
        declared special. Blank tokens (runs of spaces) are ordinary text.
        """
        written = {
            i
            for i, token in self._added.items()
            if token.content.strip() and token.content in source
        }
        return self.special_ids | written

    def _encode_inside(self, part: str) -> list[int]:
        """As `encode`, without the space that SentencePiece puts at the start of a text."""
        anchor = self.encode(_ANCHOR)
        ids = self.encode(_ANCHOR + part)
        return ids[len(anchor) :] if ids[: len(anchor)] == anchor else self.encode(part)


def check_unicode(text: str) -> None:
    """BadPrompt, naming the place, when `text` holds half of a surrogate pair, or is no text."""
    if not isinstance(text, str):
        raise BadPrompt("{text} is no text: give a string.", text=repr(text))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadPrompt(
            "The text is not valid Unicode: character {start} is the lone surrogate"
            " U+{ord:04X}. Remove it or replace it.",
            start=error.start,
            ord=ord(text[error.start]),
        ) from error


def _read_core(path: Path) -> tokenizers.Tokenizer:
    if not path.exists():
        raise BadTokenizer(
            "{path} is missing: get tokenizer.json from where the model came from.", path=path
        )
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
    check_texts(map(text_of, tokens), ADDED_CHARACTERS, str(path))
    text = read_text(path, TOKENIZER_BYTES, BadTokenizer)
    with library_errors(str(path)):
        return tokenizers.Tokenizer.from_str(text)


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`, empty without such a file; BadTokenizer when it is damaged."""
    return read_json(path, TOKENIZER_BYTES, BadTokenizer) if path.exists() else {}


def named_special_tokens(folder: Path) -> dict[str, str]:
    """Name ("bos_token", "eos_token", ...) -> text, for the names ending in "_token".

    From special_tokens_map.json and tokenizer_config.json; the second wins. A token is written as a
    string or as an object with "content".
    """
    names: dict[str, str] = {}
    for file in (_SPECIAL_TOKENS_MAP, CONFIG):
        texts = {name: text_of(value) for name, value in read_object(folder / file).items()}
        names |= {name: text for name, text in texts.items() if name.endswith("_token") and text}
    return names


def _without(core: tokenizers.Tokenizer, texts: Collection[str]) -> tokenizers.Tokenizer:
    """The same without these added tokens, which are ordinary text then."""
    described = json.loads(core.to_str())
    added, model = described["added_tokens"], described["model"]
    described["added_tokens"] = [token for token in added if token["content"] not in texts]
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {text: i for text, i in model["vocab"].items() if text not in texts}
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def _opening_ids(core: tokenizers.Tokenizer) -> tuple[int, ...]:
    """What the post-processor puts in front of a text."""
    plain = core.encode("a", add_special_tokens=False)
    whole = core.encode("a", add_special_tokens=True)
    count = whole.special_tokens_mask.index(0) if 0 in whole.special_tokens_mask else 0
    return tuple(whole.ids[:count]) if len(plain) else ()
