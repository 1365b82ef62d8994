"""Encode text to token ids and decode token ids to text."""

import json
from collections.abc import Collection, Iterable, Sequence

import tokenizers
from tokenizers import normalizers

from mlx_engine.text.tokenizer_library import (
    TimedCalls,
    TokenBytes,
    check_growth,
    translate_library_errors,
)
from mlx_engine.values.errors import BadPrompt, BadTokenizer

_SPACE = "\ue000"
"""Stands for a text of spaces alone while spaces around texts are dropped."""

_PLAIN = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.NFD(),
        normalizers.StripAccents(),
        normalizers.Lowercase(),
        normalizers.Replace(tokenizers.Regex(r"[ \t\r\n]+"), " "),
        normalizers.Replace(tokenizers.Regex("^ $"), _SPACE),
        normalizers.Strip(),
        normalizers.Replace(_SPACE, " "),
    ]
)
_ANCHOR = "\n"
_ENDS = frozenset(
    (
        *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>"),
        *("<|return|>", "<|call|>", "<end_of_turn>", "<turn|>", "<eos>", "</s>", "[EOS]", "[EOT]"),
        *("<|role_end|>", "[|endofturn|]", "<|endofresponse|>", "<end_of_utterance>", "<EOT>"),
        *("<|END_OF_TURN_TOKEN|>", "<|flush|>", "<|calls|>", "<|end_of_msg|>", "<|assistant_end|>"),
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    )
)
_MESSAGE_END, _ENDS_OF_MESSAGES = "<|end|>", frozenset(("<|return|>", "<|flush|>"))


class Tokenizer:
    """A tokenizer of the `tokenizers` library with its end, begin-of-text and suppressed tokens.

    core: the library's tokenizer; truncation and padding are switched off. end_ids: tokens that end
    an answer. bos_id: the begin-of-text token. origin: the file, for error messages.
    suppressed_ids: tokens never sampled. first_suppressed_ids: tokens never sampled first in an
    answer. adds_bos_to_chats: whether `encode_chat` adds begin-of-text tokens that the template
    leaves out. Every method raises BadTokenizer where the core fails.
    """

    def __init__(
        self,
        core: tokenizers.Tokenizer,
        end_ids: Iterable[int] = (),
        bos_id: int | None = None,
        origin: str = "the tokenizer",
        suppressed_ids: Iterable[int] = (),
        first_suppressed_ids: Iterable[int] = (),
        adds_bos_to_chats: bool = False,
    ) -> None:
        self._core = core
        self._origin = origin
        self._adds_bos_to_chats = adds_bos_to_chats
        self.end_ids = frozenset(end_ids)
        self.suppressed_ids = frozenset(suppressed_ids)
        self.first_suppressed_ids = frozenset(first_suppressed_ids)
        self.bos_id = bos_id
        with translate_library_errors(origin):
            core.no_truncation()
            core.no_padding()
            check_growth(core, origin)
            self._added = core.get_added_tokens_decoder()
            self.special_ids = frozenset(i for i, token in self._added.items() if token.special)
            self.vocabulary = max(core.get_vocab(with_added_tokens=True).values(), default=-1) + 1
            self._calls = TimedCalls(origin, core)
            self.opening_ids = self._calls.run(lambda: _opening_ids(core), 1)
            self.token_bytes = TokenBytes.from_core(core, origin)
        self._found: dict[tuple[str, ...], frozenset[int]] = {}

    def find_classes(self) -> list[int]:
        """Number the classes of all tokens, whose texts differ in case, accents or space alone.

        A token that is a part of a character is a class by itself (DeepSeek-V4.1's n-grams).
        """
        numbers: dict[str, int] = {}
        with translate_library_errors(self._origin):
            count = self._core.get_vocab_size(with_added_tokens=True)
            return [
                numbers.setdefault(self._plain_text(token), len(numbers)) for token in range(count)
            ]

    def _plain_text(self, token: int) -> str:
        text = self._core.decode([token], skip_special_tokens=False)
        if "\N{REPLACEMENT CHARACTER}" in text:
            return self._core.id_to_token(token) or text
        return _PLAIN.normalize_str(text) or text

    def fit_to_vocabulary(self, model_vocabulary: int) -> "Tokenizer":
        """Return a tokenizer without special tokens beyond the model's vocabulary.

        Gemma 3 1B has such a token for images, older fine-tunes one for padding. Raises
        BadTokenizer when an ordinary or begin-of-text token is beyond it, or when every token is
        suppressed.
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
        with translate_library_errors(self._origin):
            core = _remove_added_tokens(self._core, beyond)
        ends = self.end_ids - {*beyond.values()}
        bos = None if self.bos_id in beyond.values() else self.bos_id
        suppressed = self.suppressed_ids, self.first_suppressed_ids
        return Tokenizer(core, ends, bos, self._origin, *suppressed, self._adds_bos_to_chats)

    def encode(self, text: str, add_special: bool = False) -> list[int]:
        """Encode `text` to token ids; the text of a special token becomes that token.

        add_special: prepend the begin-of-text tokens unless `text` begins with them; no end token
        is added. Raises BadPrompt when `text` is not valid Unicode.
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
        """Encode a text given in parts to token ids; no token spans two parts."""
        ids = self.encode(parts[0]) if parts else []
        for part in parts[1:]:
            ids += self._encode_inside(part)
        return ids

    def encode_chat(self, parts: Sequence[str]) -> list[int]:
        """Encode a rendered chat given in parts, with begin-of-text tokens if configured."""
        ids, opening = self.encode_parts(parts), [*self.opening_ids]
        is_open = not self._adds_bos_to_chats or ids[: len(opening)] == opening
        return ids if is_open else [*opening, *ids]

    def split_control_tokens(self, text: str, controls: frozenset[int]) -> list[str]:
        """Split `text` inside every substring that would become a control token; return the parts.

        Tokens of one character cannot be split and stay. controls: ids of the control tokens.
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
        return [part for a, b in edges for part in self.split_control_tokens(text[a:b], controls)]

    def decode(self, ids: Sequence[int], keep_special: bool = False) -> str:
        """Decode token ids to text, without special tokens unless `keep_special`.

        Invalid UTF-8 becomes U+FFFD. `clean_up_tokenization_spaces` of configs is ignored: it
        changes text.
        """
        skip = not keep_special
        return self._calls.run(lambda: self._core.decode(ids, skip_special_tokens=skip), len(ids))

    @property
    def opening_text(self) -> str:
        """Text of the begin-of-text tokens, "" for none."""
        return "".join(self.token_text(token) for token in self.opening_ids)

    def token_text(self, token: int) -> str:
        """Text of a token id in the vocabulary, "" for an unknown id."""
        return self._core.id_to_token(token) or ""

    def has_token(self, text: str) -> bool:
        """Whether the vocabulary has `text` as one token."""
        return self._core.token_to_id(text) is not None

    def tokens_with(self, texts: tuple[str, ...]) -> frozenset[int]:
        """Ids of the tokens, special ones left out, whose text contains one of several strings."""
        if texts not in self._found:
            parts = [text.encode() for text in texts]
            ids = [token for token in range(self.vocabulary) if token not in self.special_ids]
            found = ((token, self.token_bytes.bytes_of([token], 0)[0]) for token in ids)
            self._found[texts] = frozenset(t for t, data in found if any(p in data for p in parts))
        return self._found[texts]

    def control_ids(self, source: str) -> frozenset[int]:
        """Ids of special tokens, and of added tokens that the chat template `source` spells.

        Markers such as `<think>` are often not declared special. Runs of spaces are left out.
        """
        written = {
            i
            for i, token in self._added.items()
            if token.content.strip() and token.content in source
        }
        return self.special_ids | written

    def _encode_inside(self, part: str) -> list[int]:
        """Encode text that continues a text, without SentencePiece's space at the start."""
        anchor = self.encode(_ANCHOR)
        ids = self.encode(_ANCHOR + part)
        return ids[len(anchor) :] if ids[: len(anchor)] == anchor else self.encode(part)


def known_end_tokens(texts: Iterable[str]) -> set[str]:
    """Return the vocabulary's tokens that end an answer in some model family.

    `<|end|>` is left out beside gpt-oss's or Solar Open's end tokens: there it ends a message only.
    """
    known = set(texts) & _ENDS
    return known - {_MESSAGE_END} if known & _ENDS_OF_MESSAGES else known


def check_unicode(text: str) -> None:
    """Raise BadPrompt for a text with a lone surrogate, naming its place, and for a non-string."""
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


def _remove_added_tokens(
    core: tokenizers.Tokenizer, texts: Collection[str]
) -> tokenizers.Tokenizer:
    """Copy a tokenizer without the given added tokens, which then encode as plain text."""
    described = json.loads(core.to_str())
    added, model = described["added_tokens"], described["model"]
    described["added_tokens"] = [token for token in added if token["content"] not in texts]
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {text: i for text, i in model["vocab"].items() if text not in texts}
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def _opening_ids(core: tokenizers.Tokenizer) -> tuple[int, ...]:
    """Token ids (such as BOS) that the tokenizer's post-processor puts in front of a text."""
    plain = core.encode("a", add_special_tokens=False)
    whole = core.encode("a", add_special_tokens=True)
    count = whole.special_tokens_mask.index(0) if 0 in whole.special_tokens_mask else 0
    return tuple(whole.ids[:count]) if len(plain) else ()
