"""Grammars that bind an answer's text: which tokens may follow, by the llguidance library.

A JSON schema, a regular expression or a Lark grammar is compiled for the model's vocabulary. While
an answer runs, `allowed` tells for every row of a verify pass which tokens may follow the drafted
ones before it. So the text is the same with drafting on and off, and always one of the grammar's.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadOption, EngineMisuse
from mlx_engine.values.options import GenerationOptions

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

WHITESPACE = r"[ ]?|\n{1,2}[ ]{0,20}"
"""White space between two JSON tokens; without a bound a model may write it for ever."""

SPECIAL = b"\xff"
"""Byte before the text of tokens that are no text, which no grammar can spell."""


class GrammarTokens:
    """A model's vocabulary as llguidance reads it; made at the first grammar (a second or less)."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = vocabulary
        self._made: LLTokenizer | None = None

    def bind(self, options: GenerationOptions, thought_end: str | None) -> "AnswerGrammar | None":
        """Make the grammar of an answer; None where the options set none.

        thought_end: text that ends a thought which is open at the end of the prompt; the grammar
        binds the text behind it. Raises BadOption for what is no grammar.
        """
        source = _source(options)
        if source is None:
            return None
        from llguidance import LLMatcher

        if self._made is None:
            self._made = self._library_tokenizer()
        matcher = LLMatcher(self._made, source, log_level=0)
        if matcher.is_error():
            raise _refusal(options, matcher.get_error())
        end = self._tokenizer.encode(thought_end) if thought_end else []
        return AnswerGrammar(matcher, self.vocabulary, self._tokenizer.end_ids, end)

    def _library_tokenizer(self) -> "LLTokenizer":
        from llguidance import LLTokenizer

        tokenizer = self._tokenizer
        special = tokenizer.special_ids | tokenizer.end_ids
        tokens = []
        for token in range(self.vocabulary):
            text = tokenizer.token_text(token).encode()
            is_text = text and token not in special
            (data,) = tokenizer.token_bytes.bytes_of([token], 0) if is_text else (SPECIAL + text,)
            tokens.append(data or SPECIAL)
        ends = sorted(tokenizer.end_ids) or [tokenizer.bos_id or 0]
        return LLTokenizer(_Vocabulary(tokenizer, tokens, ends), self.vocabulary, ends)  # type: ignore[arg-type]


class _Vocabulary:
    """What `LLTokenizer` reads of a tokenizer: names, types and meaning are the library's."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes], ends: list[int]) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.eos_token_id = ends[0]
        self.bos_token_id = tokenizer.bos_id
        self.special_token_ids = [n for n, data in enumerate(tokens) if data[:1] == SPECIAL]

    def __call__(self, text: str) -> list[int]:
        """Encode a text."""
        return self._tokenizer.encode(text)


def _source(options: GenerationOptions) -> str | None:
    """Return the library's form of the options' grammar. Raises BadOption."""
    from llguidance import LLMatcher

    try:
        if options.schema is not None:
            spaces: Any = {"whitespace_pattern": WHITESPACE}
            return LLMatcher.grammar_from_json_schema(dict(options.schema), overrides=spaces)
        if options.regex is not None:
            return LLMatcher.grammar_from_regex(options.regex)
        if options.grammar is not None:
            return LLMatcher.grammar_from_lark(options.grammar)
    except ValueError as error:
        raise _refusal(options, str(error)) from error
    return None


def _refusal(options: GenerationOptions, why: str) -> BadOption:
    name = next(n for n in ("schema", "regex", "grammar") if getattr(options, n) is not None)
    return BadOption(
        "{name}: no answer can be bound to it ({why}). Change it.",
        name=name,
        why=" ".join(why.split())[:300],
    )


class AnswerGrammar:
    """The grammar of one answer, at the place that the answer has reached.

    thought_end: token ids that end a thought; before them everything is allowed.
    """

    def __init__(
        self,
        matcher: "LLMatcher",
        vocabulary: int,
        end_ids: Collection[int],
        thought_end: Sequence[int],
    ) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._end_ids = end_ids
        self._thought_end = tuple(thought_end)
        self._thought: list[int] = []
        self._is_bound = not thought_end

    def fresh(self) -> "AnswerGrammar":
        """Return this grammar at the beginning of an answer."""
        matcher = self._matcher.deep_copy()
        matcher.reset()
        return AnswerGrammar(matcher, self._vocabulary, self._end_ids, self._thought_end)

    def commit(self, tokens: Iterable[int]) -> None:
        """Go on by these tokens of the answer."""
        for token in tokens:
            if not self._is_bound:
                self._think(token)
            elif token not in self._end_ids and not self._matcher.consume_token(token):
                raise EngineMisuse(
                    "The answer left its grammar: {why}.", why=self._matcher.get_error()
                )

    def _think(self, token: int) -> None:
        self._thought = [*self._thought, token][-len(self._thought_end) :]
        self._is_bound = tuple(self._thought) == self._thought_end

    def allowed(self, drafted: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may follow the answer and the first n drafted tokens, [n, V].

        n from 0 to all; behind a drafted token that is not allowed itself everything is, since
        nothing there is accepted. The place of the answer stays.
        """
        rows = np.ones((len(drafted) + 1, self._vocabulary), dtype=np.bool_)
        thought, is_bound, walked = self._thought, self._is_bound, 0
        for row, token in enumerate((*drafted, None)):
            if self._is_bound:
                mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
                rows[row] = np.unpackbits(mask, bitorder="little")[: self._vocabulary]
            if token is None:
                break
            if not self._is_bound:
                self._think(token)
            elif token in self._end_ids or not self._matcher.try_consume_tokens([token]):
                break
            else:
                walked += 1
        self._matcher.rollback(walked)
        self._thought, self._is_bound = thought, is_bound
        return rows
