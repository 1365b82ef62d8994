"""Turns text into token ids and back."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from mlx_engine.text.roles import CONFIG, ConfiguredTokens, TemplateFile, known_ends
from mlx_engine.values.errors import BadPrompt, BadTokenizer
from mlx_engine.values.untrusted import TOKENIZER_BYTES, read_json, read_text

_ANCHOR = "\n"
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\u2581"


class CoreFile(NamedTuple):
    """A core, the file it was read from, and the tokens that have a meaning by that file."""

    core: tokenizers.Tokenizer
    path: Path
    end_ids: Collection[int] = ()
    bos_id: int | None = None


class Tokenizer:
    """A `tokenizers` core, and the ids that have a meaning of their own.

    end_ids: the tokens that end an answer. bos_id: the begin-of-text token. origin: the file, for
    messages. suppressed_ids: tokens that are never to be written; first_suppressed_ids: not as the
    first of an answer. Truncation and padding that the core's file asks for are switched off.
    """

    def __init__(
        self,
        core: tokenizers.Tokenizer,
        end_ids: Iterable[int] = (),
        bos_id: int | None = None,
        origin: str = "the tokenizer",
        suppressed_ids: Iterable[int] = (),
        first_suppressed_ids: Iterable[int] = (),
    ) -> None:
        core.no_truncation()
        core.no_padding()
        self._core = core
        self._origin = origin
        self._added = core.get_added_tokens_decoder()
        self.end_ids = frozenset(end_ids)
        self.suppressed_ids = frozenset(suppressed_ids)
        self.first_suppressed_ids = frozenset(first_suppressed_ids)
        self.bos_id = bos_id
        self.special_ids = frozenset(i for i, token in self._added.items() if token.special)
        self.vocabulary = max(core.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.opening_ids = _opening_ids(core)
        self.token_bytes = TokenBytes.of(core)

    @classmethod
    def from_folder(cls, folder: Path, other: CoreFile | None = None) -> "Tokenizer":
        """Reads tokenizer.json and the files beside it; BadTokenizer names the bad one.

        other: what stands in the place of tokenizer.json.
        """
        own = folder / "tokenizer.json"
        file = other or CoreFile(_read_core(own), own)
        core, names = file.core, named_special_tokens(folder)
        _add_listed_tokens(core, folder / CONFIG)
        _mark_special(core, names.values())
        configured, template = ConfiguredTokens.of_folder(folder), TemplateFile.find(folder)
        spelled = known_ends(core.get_vocab(with_added_tokens=True)) if template else set()
        texts = {text for text in spelled if template and text in template.source}
        named = map(core.token_to_id, (*texts, names.get("eos_token", "")))
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
        kept = self.special_ids - {self.bos_id, *self.opening_ids}
        if not kept.issuperset(beyond.values()):
            raise BadTokenizer(
                "{origin} has token ids up to {vocabulary}, but the model knows"
                " {model_vocabulary} tokens: the tokenizer belongs to another model. Use the"
                " one that came with the weights.",
                origin=self._origin,
                vocabulary=self.vocabulary - 1,
                model_vocabulary=model_vocabulary,
            )
        core = _without(self._core, beyond)
        ends = self.end_ids - {*beyond.values()}
        suppressed = self.suppressed_ids, self.first_suppressed_ids
        return Tokenizer(core, ends, self.bos_id, self._origin, *suppressed)

    def encode(self, text: str, add_special: bool = False) -> list[int]:
        """The ids of `text`; the text of a special token becomes that token.

        add_special puts the opening tokens of the model in front, unless `text` spells them out
        there (never an end token behind). BadPrompt when `text` is not valid Unicode.
        """
        check_unicode(text)
        # as a batch: `encode` keeps Python's other threads waiting, a window's among them
        (encoded,) = self._core.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoded.ids
        opening = [*self.opening_ids]
        return ids if not add_special or ids[: len(opening)] == opening else [*opening, *ids]

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        """The ids of the parts of one text: no token reaches across the end of a part."""
        ids = self.encode(parts[0]) if parts else []
        for part in parts[1:]:
            ids += self._encode_inside(part)
        return ids

    def plain_parts(self, text: str, controls: frozenset[int]) -> list[str]:
        """`text`, cut inside everything that would be read as a token of `controls`.

        A single part when there is nothing of the kind. Controls that are one character long
        cannot be cut; they stay.
        """
        check_unicode(text)
        (encoding,) = self._core.encode_batch([text], add_special_tokens=False)
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
        return self._core.decode(ids, skip_special_tokens=not keep_special)

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
    if not isinstance(value.get("model"), dict):
        raise BadTokenizer(
            "{path} is not a tokenizer: it has no model. Download the file again.", path=path
        )
    try:
        return tokenizers.Tokenizer.from_str(read_text(path, TOKENIZER_BYTES, BadTokenizer))
    except Exception as error:
        raise BadTokenizer(
            "{path} is not a tokenizer that can be read ({error}): download the file again.",
            path=path,
            error=str(error),
        ) from error


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`, empty without such a file; BadTokenizer when it is damaged."""
    return read_json(path, TOKENIZER_BYTES, BadTokenizer) if path.exists() else {}


def named_special_tokens(folder: Path) -> dict[str, str]:
    """Name ("bos_token", "eos_token", ...) -> text, for the names ending in "_token".

    From special_tokens_map.json and tokenizer_config.json; the second wins. A token is written as a
    string or as an object with "content".
    """
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", CONFIG):
        for name, value in read_object(folder / file).items():
            text = value.get("content") if isinstance(value, Mapping) else value
            if name.endswith("_token") and isinstance(text, str):
                names[name] = text
    return names


def _add_listed_tokens(core: tokenizers.Tokenizer, config: Path) -> None:
    """Adds what only the config's `added_tokens_decoder` lists; BadTokenizer if an id is taken."""
    listed = read_object(config).get("added_tokens_decoder")
    entries = listed.items() if isinstance(listed, dict) else ()
    for key, entry in sorted(entries, key=lambda item: (len(item[0]), item[0])):
        if not (
            key.isdecimal() and isinstance(entry, dict) and isinstance(entry.get("content"), str)
        ):
            raise BadTokenizer(
                "{config}: added token {key} is not described: correct it.",
                config=config,
                key=repr(key),
            )
        text, special = entry["content"], entry.get("special") is True
        if core.token_to_id(text) is None:
            normalized = entry.get("normalized", not special) is True
            core.add_tokens([tokenizers.AddedToken(text, special=special, normalized=normalized)])
        if core.token_to_id(text) != int(key):
            raise BadTokenizer(
                "{config} gives token {text} the id {key}, tokenizer.json gives it"
                " {token_to_id}: take both files from the same model.",
                config=config,
                text=repr(text),
                key=key,
                token_to_id=core.token_to_id(text),
            )


def _without(core: tokenizers.Tokenizer, texts: Collection[str]) -> tokenizers.Tokenizer:
    """The same without these added tokens, which are ordinary text then."""
    described = json.loads(core.to_str())
    added, model = described["added_tokens"], described["model"]
    described["added_tokens"] = [token for token in added if token["content"] not in texts]
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {text: i for text, i in model["vocab"].items() if text not in texts}
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def _mark_special(core: tokenizers.Tokenizer, texts: Iterable[str]) -> None:
    """Makes tokens special that the vocabulary has and a config calls bos, eos, pad and so on."""
    added = {token.content for token in core.get_added_tokens_decoder().values() if token.special}
    for text in texts:
        if text not in added and core.token_to_id(text) is not None:
            core.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False)])


def _opening_ids(core: tokenizers.Tokenizer) -> tuple[int, ...]:
    """What the post-processor puts in front of a text."""
    plain = core.encode("a", add_special_tokens=False)
    whole = core.encode("a", add_special_tokens=True)
    count = whole.special_tokens_mask.index(0) if 0 in whole.special_tokens_mask else 0
    return tuple(whole.ids[:count]) if len(plain) else ()


def _byte_level_characters() -> dict[str, int]:
    """Character -> byte, as in GPT-2: printable bytes are themselves, others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {chr(byte): byte for byte in printable}
    return characters | {chr(256 + place): byte for place, byte in enumerate(others)}


_BYTE_LEVEL = _byte_level_characters()


def _decoder_steps(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for part in node.get("decoders", ()):
            yield from _decoder_steps(part)


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Maps ids to bytes as the decoder of `core` would, one token at a time.

    Byte-level and SentencePiece-like decoders are known by their description. Any other is asked
    what a token adds after the token before it.
    """

    core: tokenizers.Tokenizer
    byte_level: bool
    pieces: bool
    drops_first_space: bool

    @classmethod
    def of(cls, core: tokenizers.Tokenizer) -> "TokenBytes":
        """Reads the description of the decoder of `core`; without one, tokens are plain words."""
        decoder = core.decoder
        description = json.loads(decoder.__getstate__()) if decoder is not None else {}
        steps = list(_decoder_steps(description))
        kinds = {step.get("type") for step in steps}
        drops = any(
            (step.get("type") == "Strip" and step.get("content") == " " and step.get("start") == 1)
            or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        byte_level = "ByteLevel" in kinds
        return cls(core, byte_level, bool(kinds & {"ByteFallback", "Metaspace"}), drops)

    def of_token(self, token: int, before: int | None) -> bytes:
        """The bytes of `token` after the token `before` (None: it is the first); b"" if unknown."""
        text = self.core.id_to_token(token)
        if text is None:
            return b""
        if self.byte_level:
            if all(character in _BYTE_LEVEL for character in text):
                return bytes(_BYTE_LEVEL[character] for character in text)
            return text.encode()
        if self.pieces:
            return self._of_piece(text, first=before is None)
        if before is None:
            return self.core.decode([token], skip_special_tokens=False).encode()
        both = self.core.decode([before, token], skip_special_tokens=False)
        alone = self.core.decode([before], skip_special_tokens=False)
        return both[len(alone) :].encode()

    def _of_piece(self, text: str, first: bool) -> bytes:
        byte = _BYTE_PIECE.fullmatch(text)
        if byte:
            return bytes([int(byte[1], 16)])
        spaced = text.replace(_SPACE, " ")
        return (spaced.removeprefix(" ") if first and self.drops_first_space else spaced).encode()
