"""Grammar-constrained answers: masks of the tokens that may come next, by llguidance.

A JSON schema, a regular expression or a Lark grammar is compiled for the model's vocabulary. While
an answer runs, `allowed` masks every row of a verify pass, given the drafted tokens before that
row. So the text is the same with drafting on and off, and follows the grammar. Masks also
enforce a limit of thinking tokens.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.text.call_form import WHITESPACE
from mlx_engine.text.channels import ThinkingMarkers
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.values.errors import BadOption, EngineMisuse
from mlx_engine.values.options import GenerationOptions

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

SPECIAL = b"\xff"
"""Byte before the name of special tokens, so that no text of a grammar matches them."""


class GrammarTokens:
    """Compiles grammars for a model's vocabulary.

    llguidance's tokenizer is built at the first grammar, which takes a second or less.
    """

    def __init__(self, tokenizer: Tokenizer, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        self.vocabulary = vocabulary
        self._made: LLTokenizer | None = None

    def bind_grammar(
        self,
        options: GenerationOptions,
        thinking_markers: ThinkingMarkers | None,
        is_thinking: bool | None,
        calls: str | None = None,
    ) -> "AnswerGrammar | None":
        """Make the grammar of an answer; None if its tokens are unconstrained.

        thinking_markers: markers of the model's thoughts, None if it has none. is_thinking: whether
        a thought is open at the end of the prompt, None if the model may open one itself. calls:
        Lark grammar of an answer with tool calls, used instead of the options' grammar. Raises
        BadOption for an invalid grammar.
        """
        matcher = self._compile_matcher(options, calls)
        has_thought = thinking_markers is not None and is_thinking is not False
        if matcher is None and (options.max_thinking is None or not has_thought):
            return None
        opening, closing = (
            (
                self._tokenizer.encode(thinking_markers.opening),
                self._tokenizer.encode(thinking_markers.closing),
            )
            if thinking_markers is not None and has_thought
            else ([], [])
        )
        begin = _AnswerPlace("thought" if is_thinking else "begin" if opening else "text")
        return AnswerGrammar(
            matcher,
            self.vocabulary,
            self._tokenizer.end_ids,
            _ThoughtTokens(tuple(opening), tuple(closing), options.max_thinking),
            begin,
        )

    def _compile_matcher(self, options: GenerationOptions, calls: str | None) -> "LLMatcher | None":
        """Compile the grammar of an answer; None where there is none. Raises BadOption."""
        source = _grammar_source(options, calls)
        if source is None:
            return None
        from llguidance import LLMatcher

        if self._made is None:
            self._made = self._library_tokenizer()
        matcher = LLMatcher(self._made, source, log_level=0)
        if matcher.is_error():
            raise _grammar_refusal(options, calls, matcher.get_error())
        return matcher

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
    """Adapter by which `LLTokenizer` reads a tokenizer; attributes as llguidance defines them."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer, tokens: list[bytes], end_token_ids: list[int]) -> None:
        self._tokenizer = tokenizer
        self.tokens = tokens
        self.eos_token_id = end_token_ids[0]
        self.bos_token_id = tokenizer.bos_id
        self.special_token_ids = [n for n, data in enumerate(tokens) if data[:1] == SPECIAL]

    def __call__(self, text: str) -> list[int]:
        """Encode a text."""
        return self._tokenizer.encode(text)


def _grammar_source(options: GenerationOptions, calls: str | None) -> str | None:
    """Compile calls, schema, regex or grammar for llguidance; None for none. Raises BadOption."""
    if not any(
        text is not None for text in (calls, options.schema, options.regex, options.grammar)
    ):
        return None
    from llguidance import LLMatcher

    try:
        if calls is not None:
            return LLMatcher.grammar_from_lark(calls)
        if options.schema is not None:
            spaces: Any = {"whitespace_pattern": WHITESPACE}
            return LLMatcher.grammar_from_json_schema(dict(options.schema), overrides=spaces)
        if options.regex is not None:
            return LLMatcher.grammar_from_regex(options.regex)
        return LLMatcher.grammar_from_lark(options.grammar or "")
    except ValueError as error:
        raise _grammar_refusal(options, calls, str(error)) from error


def _grammar_refusal(options: GenerationOptions, calls: str | None, why: str) -> BadOption:
    names = (n for n in ("schema", "regex", "grammar") if getattr(options, n) is not None)
    name = next(names, "") if calls is None else "tools"
    return BadOption(
        "{name}: no answer can be bound to it ({why}). Change it.",
        name=name,
        why=" ".join(why.split())[:300],
    )


class _ThoughtTokens(NamedTuple):
    """Tokens that open and close a thought; most: limit of a thought's tokens, or None."""

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    most: int | None


class _AnswerPlace(NamedTuple):
    """State of an answer: before its first token, in an opening marker, a thought, or the text.

    tail: the newest tokens, as many as may belong to a marker. length: tokens of the thought.
    """

    phase: Literal["begin", "opening", "thought", "text"]
    tail: tuple[int, ...] = ()
    length: int = 0


class AnswerGrammar:
    """Grammar state of one answer: which tokens may come next, after the tokens so far.

    The grammar applies to the text, not to the thought before it. Once a thought has its most
    tokens, only the rest of its closing marker may follow.
    """

    def __init__(
        self,
        matcher: "LLMatcher | None",
        vocabulary: int,
        end_ids: Collection[int],
        thought_tokens: _ThoughtTokens,
        place: _AnswerPlace,
    ) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._end_ids = end_ids
        self._thought = thought_tokens
        self._begin = self._place = place

    def reset_copy(self) -> "AnswerGrammar":
        """Copy this grammar, reset to the beginning of an answer."""
        matcher = self._matcher and self._matcher.deep_copy()
        if matcher is not None:
            matcher.reset()
        return AnswerGrammar(matcher, self._vocabulary, self._end_ids, self._thought, self._begin)

    def commit(self, tokens: Iterable[int]) -> None:
        """Advance the grammar past accepted tokens. Raises BadOption for too large a grammar."""
        for token in tokens:
            self._place = self._next_place(token)
            if self._place.phase != "text" or self._place.tail:
                continue
            if not self._consume_token(token) and token not in self._end_ids:
                assert self._matcher is not None
                if not (why := self._matcher.get_error()):
                    raise EngineMisuse("The answer left its grammar.")
                raise BadOption(
                    "schema, regex or grammar: it is too large for an answer to be bound to it "
                    "({why}). Make it smaller.",
                    why=why.partition("\n")[0][:200],
                )

    def allowed_tokens(self, drafted: Sequence[int]) -> NDArray[np.bool_]:
        """Masks of the tokens that may follow: bool [n + 1, V], row i after i drafted tokens.

        n: number of drafted tokens before the first that is not allowed. Does not advance the
        grammar.
        """
        place, walked, rows = self._place, 0, [self._next_token_mask()]
        for token in drafted:
            if token < 0 or not rows[-1][token]:
                break
            self._place = self._next_place(token)
            if self._place.phase == "text" and not self._place.tail:
                if not self._consume_token(token):
                    break
                walked += 1
            rows.append(self._next_token_mask())
        if self._matcher is not None:
            self._matcher.rollback(walked)
        self._place = place
        return np.stack(rows)

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, as the tokenizer encodes the text; [] if there is a choice.

        The grammar may allow other tokens for the same text.
        """
        (phase, tail, length), thought = self._place, self._thought
        if phase == "opening":
            return list(thought.opening[len(tail) :])
        if phase == "thought":
            is_full = thought.most is not None and length >= thought.most
            rest = thought.closing[_matched_length(thought.closing, tail) :]
            return list(rest) if is_full else []
        if phase != "text" or self._matcher is None:
            return []
        return self._matcher.compute_ff_tokens()

    def _next_place(self, token: int) -> _AnswerPlace:
        """Return the place after one more token.

        Of places in the text only that of a thought's last token has a tail: the closing marker.
        """
        (phase, tail, length), thought = self._place, self._thought
        if phase == "text" or (phase == "begin" and token != thought.opening[0]):
            return _AnswerPlace("text")
        if phase == "thought":
            tail = (*tail, token)[-len(thought.closing) :]
            return _AnswerPlace("text" if tail == thought.closing else "thought", tail, length + 1)
        tail = (*tail, token)
        return _AnswerPlace("opening", tail) if tail != thought.opening else _AnswerPlace("thought")

    def _consume_token(self, token: int) -> bool:
        """Advance the grammar past a token of the text; return False if it is not allowed."""
        return self._matcher is None or bool(self._matcher.try_consume_tokens([token]))

    def _next_token_mask(self) -> NDArray[np.bool_]:
        """Mask of the tokens that may come next, bool [V]."""
        row = np.ones(self._vocabulary, dtype=np.bool_)
        (phase, tail, length), thought = self._place, self._thought
        if phase == "thought":
            if thought.most is not None and length >= thought.most:
                _allow_only(row, thought.closing[_matched_length(thought.closing, tail)])
        elif phase == "opening":
            _allow_only(row, thought.opening[len(tail)])
        elif self._matcher is not None:
            mask = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
            row[:] = np.unpackbits(mask, bitorder="little")[: self._vocabulary]
            if phase == "begin":
                row[thought.opening[0]] = True
        return row


def _allow_only(row: NDArray[np.bool_], token: int) -> None:
    row[:] = False
    row[token] = True


def _matched_length(marker: Sequence[int], newest_tokens: Sequence[int]) -> int:
    """Return how many of a marker's first tokens the tail ends with, fewer than all."""
    sizes = range(min(len(marker) - 1, len(newest_tokens)), 0, -1)
    return next((n for n in sizes if tuple(newest_tokens[-n:]) == tuple(marker[:n])), 0)
