"""Picks tokens from logits by sampling options and positions.

A grammar and penalties of repeated passages come first, on raw logits; then the other penalties and
the bias; then temperature; then the filters (see Filters), and of what they keep the top choices
may be excluded. Rows never look at each other.
"""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.choice import KernelRowCounts, Kernels, KernelWork
from metal_kernels.filtered_pick import (
    SamplingFilters,
    apply_temperature,
    filter_tempered,
    filtered_pick,
)
from metal_kernels.vocabulary_pick import PickOptions
from mlx_engine.cache.contract import RowCount
from mlx_engine.sampling.penalties import (
    RepeatedSequences,
    TokenHistory,
    exclude_top_choices,
    presence_and_frequency_penalty,
    repetition_penalty,
)
from mlx_engine.sampling.position_noise import NoiseOfKeys, noise_function, plain_noise, row_keys
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import DraftOptions, SamplingOptions

COLDEST_CHOOSING = 1e-4
"""Least temperature for a kernel to pick: logits divided by it stay well inside float32."""

DRAFTED_FROM = 64
"""Likeliest tokens that a draft is drawn from with top_p, where no kernel finds the nucleus.

At 0.5, 0.9 and 0.95 as many drafts of the built-in model are accepted as with the whole nucleus.
"""

LOWEST = float(np.finfo(np.float32).min)
"""Least finite float32."""


def fresh_seed() -> int:
    """A random sampling seed that nobody can foresee, 0 to 2**64-1."""
    return secrets.randbits(64)


def finite_rows(logits: mx.array) -> mx.array:
    """Whether all logits [R, V] of a row are finite, bool [R]; lazy."""
    return mx.all(mx.abs(logits) < mx.inf, axis=-1)


class _DrawnNoise(NamedTuple):
    """Gumbel noise [R, V] drawn ahead for positions `start` to `end` - 1.

    behind: rows before them whose number the host does not know yet.
    """

    start: int
    end: int
    behind: RowCount | None
    noise: mx.array


@dataclass(frozen=True, slots=True)
class SamplerKernels:
    """Kernels by which a sampler makes noise and filters logits.

    filtered: None where plain operations filter.
    """

    noise: NoiseOfKeys = plain_noise
    filtered: KernelRowCounts | None = None

    @staticmethod
    def for_kernels(kernels: Kernels, vocabulary: int) -> "SamplerKernels":
        """Choose the noise and filter kernels that are in use on this machine."""
        work = KernelWork("", vocabulary)
        noise, filtered = (
            kernels.served_row_counts(name, work) for name in ("noise", "filtered-pick")
        )
        return SamplerKernels(noise_function(noise), filtered)


PLAIN_OPS = SamplerKernels()


class GrammarConstraint(Protocol):
    """Protocol of a grammar that constrains an answer; AnswerGrammar implements it."""

    def allowed_tokens(self, drafted: Sequence[int]) -> NDArray[np.bool_]:
        """Which tokens may follow the answer and the first n drafted tokens, [n + 1, V].

        n: number of drafted tokens before the first that is not allowed.
        """

    def forced_tokens(self) -> Sequence[int]:
        """Tokens that must follow the answer, as its text is usually tokenised; often none."""

    def commit(self, tokens: Sequence[int]) -> None:
        """Advance past these tokens of the answer."""


class Sampler:
    """Picks tokens for one conversation; every method is lazy, nothing waits for the device.

    Logits are floating [R, V]. `prefix`, int32 [P] with P >= R-1, holds drafted tokens that follow
    the committed ones; row i is the distribution after the first P-(R-1)+i of them. A row's result
    does not depend on the rows beside it. As long as a committed count is not known by the host,
    positions are given as if none of its tokens counted.
    """

    def __init__(
        self,
        options: SamplingOptions,
        vocabulary: int,
        seed: int,
        kernels: SamplerKernels = PLAIN_OPS,
        suppressed: Collection[int] = (),
        first_suppressed: Collection[int] = (),
        grammar: GrammarConstraint | None = None,
        logprobs: int | None = None,
        sequence_breakers: Callable[[tuple[str, ...]], Collection[int]] = lambda _: (),
    ) -> None:
        """Make a sampler for one conversation; seed: the effective one, 0 to 2**64-1.

        suppressed: tokens that are never picked; first_suppressed: not right behind the prompt.
        grammar: binds the answer; `cut` and `commit` then wait for the device. logprobs: how many
        of the likeliest tokens `scores` tells; None if nobody asks for scores. sequence_breakers:
        finds the tokens whose text contains one of several strings. Raises BadOption for a bias
        outside V.
        """
        self._noise = kernels.noise
        self._filtered = kernels.filtered
        self._options = options
        self._filters = SamplingFilters(
            options.temperature, options.top_k, options.top_p, options.min_p
        )
        self.is_greedy = options.temperature == 0
        self._vocabulary = vocabulary
        self._seed = seed
        self._bias = _logit_bias(options.logit_bias, suppressed, vocabulary)
        self._first_bias = _logit_bias({}, first_suppressed, vocabulary)
        self._first = -1
        penalties = (options.presence_penalty, options.frequency_penalty)
        are_counted = options.repetition_penalty != 1 or any(penalties)
        self._history = TokenHistory(vocabulary) if are_counted else None
        biases = self._bias is not None or self._first_bias is not None
        self._grammar = grammar
        self._binding = mx.zeros((1, vocabulary))
        self._logprobs = logprobs
        self._repeated: RepeatedSequences | None = None
        if options.dry_multiplier > 0 and options.dry_penalty_last_n != 0:
            found = sequence_breakers(options.dry_sequence_breakers)
            self._repeated = RepeatedSequences(options, vocabulary, found)
        self._sees_raw = self._history is None and not biases and not self.depends_on_tokens
        self._settings = self._filters.kernel_settings(LOWEST if self._sees_raw else -mx.inf)
        self._draft_settings = self._filters.kernel_settings()
        self._drawn: _DrawnNoise | None = None
        self._count: RowCount | None = None

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a conversation: forget all tokens, then count the prompt's for penalties."""
        self._first = len(prompt)
        if self._history is not None:
            self._history.begin(prompt)
        if self._repeated is not None:
            self._repeated.begin(prompt)

    def commit(self, tokens: mx.array, count: int | RowCount) -> None:
        """Count the first `count` of the emitted tokens int32 [T] for the penalties."""
        if self.depends_on_tokens:
            assert isinstance(count, int)
            known: list[int] = tokens[:count].tolist()  # type: ignore[assignment]
            if self._grammar is not None:
                self._grammar.commit(known)
            if self._repeated is not None:
                self._repeated.commit(known)
        pending = count if isinstance(count, RowCount) else None
        self._count = pending or self._pending_count
        if self._history is not None:
            self._history.commit(tokens if pending else tokens[:count], pending)

    @property
    def _pending_count(self) -> RowCount | None:
        """Number of the newest committed tokens, if the host does not know it yet; else None."""
        if self._count is not None and self._count.known is not None:
            self._count = None
        return self._count

    def token_choice_arguments(self, position: int, rows: int) -> PickOptions | None:
        """Arguments for the kernel that picks tokens of `rows` rows without writing logits.

        None where filters, penalties, a bias or `scores` have to see the logits. That depends on
        the options alone, so every pass of an answer with these options picks in the same way.
        """
        options = self._options
        filters = self._filters.any_filter_on or options.xtc_probability > 0
        if not self._sees_raw or filters or self._logprobs is not None:
            return None
        if options.temperature == 0:
            return PickOptions()
        if options.temperature < COLDEST_CHOOSING:
            return None
        return PickOptions(keys=self._noise_keys(position, rows), temperature=options.temperature)

    def draw_noise(self, position: int, rows: int) -> None:
        """Draw the Gumbel noise of `rows` positions from `position` on, and store it.

        Drafting and verifying then use it, with one launch for both.
        """
        if self._options.temperature > 0 and self._filter_kernel is None:
            noise = self._noise(self._noise_keys(position, rows), self._vocabulary)
            self._drawn = _DrawnNoise(position, position + rows, self._pending_count, noise)

    def _noise_at(self, position: int, rows: int) -> mx.array:
        """Gumbel noise float32 [R, V] of `rows` positions from `position` on.

        Stored noise that was drawn ahead is used if there is some, and dropped with its last row.
        """
        pending, drawn, end = self._pending_count, self._drawn, position + rows
        fits = drawn is not None and drawn.start <= position < end <= drawn.end
        if drawn is None or not fits or drawn.behind is not pending:
            return self._noise(self._noise_keys(position, rows), self._vocabulary)
        if end == drawn.end:
            self._drawn = None
        return drawn.noise[position - drawn.start : end - drawn.start]

    @property
    def depends_on_tokens(self) -> bool:
        """Whether picks depend on all tokens before them, which the host has to know.

        So it is where a grammar binds the answer or repeated passages are penalised.
        """
        return self._grammar is not None or self._repeated is not None

    def forced_tokens(self) -> Sequence[int]:
        """Tokens that a grammar makes follow the newest one, as text is usually tokenised."""
        return () if self._grammar is None else self._grammar.forced_tokens()

    def truncate_draft(self, drafted: mx.array) -> mx.array:
        """End a draft before its first token that the grammar does not allow; for every round."""
        if not self.depends_on_tokens:
            return drafted
        self._binding = self._constraint_bias(drafted.tolist())  # type: ignore[arg-type]
        return drafted[: self._binding.shape[0] - 1]

    def with_grammar_bias(self, logits: mx.array) -> mx.array:
        """Add the bias of grammar and repeated passages to logits [R, V], after `cut`."""
        return logits + self._binding if self.depends_on_tokens else logits

    def draft_with_grammar_bias(self, logits: mx.array) -> mx.array:
        """Add the bias of grammar and repeated passages to a draft's first logits [1, V]."""
        return logits + self._constraint_bias(()) if self.depends_on_tokens else logits

    def _constraint_bias(self, drafted: Sequence[int]) -> mx.array:
        """Make the bias after the answer and each of n drafted tokens, float32 [n + 1, V].

        -inf where the grammar forbids a token, and penalties of repeated passages. n: number of
        drafted tokens before the first that is forbidden.
        """
        added = np.zeros((len(drafted) + 1, self._vocabulary), dtype=np.float32)
        if self._grammar is not None:
            allowed = self._grammar.allowed_tokens(drafted)
            added = np.where(allowed, added[: len(allowed)], -np.inf).astype(np.float32)
        if self._repeated is not None:
            added -= self._repeated.repeat_penalties(drafted[: len(added) - 1])
        return mx.array(added)

    def pick(self, logits: mx.array, position: int, prefix: mx.array) -> mx.array:
        """Sample one token per row of logits, int32 [R], with the noise of their positions.

        position: absolute index in the conversation of the token that row 0 picks. The kernel that
        filters says -1 in a row with a logit that is not finite.
        """
        if self.is_greedy:
            return self.pick_greedy(logits, position, prefix)
        return self._pick(logits, position, prefix, self._filters, self._settings)

    def pick_draft(self, logits: mx.array, position: int, prefix: mx.array) -> mx.array:
        """Sample draft tokens int32 [R], as `pick` does, from logits that may be -inf.

        A draft may be wrong: without a kernel no nucleus reaches beyond DRAFTED_FROM tokens, so
        that the vocabulary need not be sorted.
        """
        if self.is_greedy:
            return self.pick_greedy(logits, position, prefix)
        filters = self._filters
        if filters.top_k == 0 and filters.top_p < 1:
            filters = filters._replace(top_k=DRAFTED_FROM)
        return self._pick(logits, position, prefix, filters, self._draft_settings)

    def _pick(
        self,
        logits: mx.array,
        position: int,
        prefix: mx.array,
        filters: SamplingFilters,
        settings: mx.array,
    ) -> mx.array:
        rows, kernel = logits.shape[0], self._filter_kernel
        penalised = self._apply_penalties(logits, prefix, position)
        if kernel is not None:
            keys = self._noise_keys(position, rows)
            return filtered_pick(penalised, keys, settings, kernel.launcher)
        kept = filter_tempered(apply_temperature(penalised, filters.temperature), filters)
        if (chance := self._options.xtc_probability) > 0:
            keys = self._noise_keys(position, rows)  # the tokens' noise is a hash of them
            is_excluding = keys[:, 0].astype(mx.float32) < chance * 2**32
            kept = exclude_top_choices(kept, self._options.xtc_threshold, is_excluding)
        return mx.argmax(kept + self._noise_at(position, rows), axis=-1).view(mx.int32)

    @property
    def _filter_kernel(self) -> KernelRowCounts | None:
        """The kernel that filters logits and picks tokens; None where plain operations do it."""
        served = self._filtered
        is_used = self._filters.any_filter_on and not self._options.xtc_probability
        return served if served is not None and is_used and 1 in served else None

    def mark_not_finite(self, logits: mx.array, picked_tokens: mx.array) -> mx.array:
        """Replace picked tokens by -1 in rows whose logits [R, V] are not all finite."""
        if self._sees_raw and self._options.temperature > 0 and self._filter_kernel is not None:
            return picked_tokens  # the kernel has marked them
        return mx.where(finite_rows(logits), picked_tokens, -1)

    def token_logprobs_of(self, logits: mx.array, picked_tokens: mx.array) -> "TokenScores | None":
        """Score the picked tokens int32 [R] by logits [R, V]; None if nobody asks for it."""
        if self._logprobs is None:
            return None
        return token_scores(logits, picked_tokens, self._logprobs)

    def pick_greedy(self, logits: mx.array, position: int, prefix: mx.array) -> mx.array:
        """Pick the likeliest token of each row of logits, int32 [R]; among equals the lowest id."""
        scored = logits if self._sees_raw else self._apply_penalties(logits, prefix, position)
        return mx.argmax(scored, axis=-1).view(mx.int32)

    def probability(self, logits: mx.array, picked_tokens: mx.array, prefix: mx.array) -> mx.array:
        """Probability float32 [R] of the picked tokens int32 [R] by the logits' softmax.

        Penalties and bias are applied; the temperature is 1.
        """
        penalised = self._apply_penalties(logits, prefix)
        chosen = mx.take_along_axis(penalised, picked_tokens[:, None], axis=-1)
        return mx.exp(chosen - mx.logsumexp(penalised, axis=-1, keepdims=True))[:, 0]

    def _noise_keys(self, position: int, rows: int) -> mx.array:
        """Noise keys of `rows` positions from `position` on, uint32 [rows, 2]."""
        pending = self._pending_count
        if pending is None:
            return row_keys(self._seed, range(position, position + rows))
        every = row_keys(self._seed, range(position + 1, position + pending.most + rows))
        return mx.take(every, pending.length_with_count(-1) + mx.arange(rows), axis=0)

    def _apply_penalties(
        self, logits: mx.array, prefix: mx.array, position: int | None = None
    ) -> mx.array:
        """Apply penalties and bias to logits; returns float32 [R, V].

        position: of row 0, None if no row picks the answer's first token.
        """
        options, logits = self._options, logits.astype(mx.float32)
        if self._history is not None:
            counts = self._history.answer_counts(logits.shape[0], prefix)
            if options.repetition_penalty != 1:
                seen = self._history.seen_tokens(counts)
                logits = repetition_penalty(logits, seen, options.repetition_penalty)
            presence, frequency = options.presence_penalty, options.frequency_penalty
            if presence or frequency:
                logits = presence_and_frequency_penalty(logits, counts, presence, frequency)
        if self._bias is not None:
            logits = logits + self._bias
        if self._first_bias is None or position is None or self._pending_count is not None:
            return logits
        is_first = mx.arange(position, position + logits.shape[0]) == self._first
        return mx.where(is_first[:, None], logits + self._first_bias, logits)


class TokenScores(NamedTuple):
    """Log-probabilities of one chosen token a row, and of the k likeliest tokens of each row.

    chosen: float32 [R]. top_ids: the likeliest tokens, int32 [R, k], the likeliest first. top:
    their log-probabilities, float32 [R, k].
    """

    chosen: mx.array
    top_ids: mx.array
    top: mx.array


def token_scores(logits: mx.array, tokens: mx.array, top: int) -> TokenScores:
    """Score tokens int32 [R] by logits [R, V], and the `top` likeliest tokens; lazy."""
    logprobs = logits.astype(mx.float32)
    logprobs = logprobs - mx.logsumexp(logprobs, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, tokens[:, None], axis=-1)[:, 0]
    if not top:
        return TokenScores(chosen, *[mx.zeros((tokens.shape[0], 0))] * 2)
    ids = mx.argsort(-logprobs, axis=-1)[:, :top].astype(mx.int32)
    return TokenScores(chosen, ids, mx.take_along_axis(logprobs, ids, axis=-1))


class DraftPicks:
    """Picks the tokens of a draft, each from logits that depend on those before; lazy.

    With min_probability the draft ends before the first token that its source finds less likely:
    `tokens` then waits for the device, once for the draft.
    """

    def __init__(self, sampler: Sampler, position: int, depth: int, options: DraftOptions) -> None:
        """Begin a draft of `depth` tokens. position: index of the first in the conversation."""
        self._sampler = sampler
        self._position = position
        self._least = options.min_probability
        self._pick = sampler.pick_greedy
        if options.rule == "shared-noise" and not sampler.is_greedy:
            sampler.draw_noise(position, depth + 1)
            self._pick = sampler.pick_draft
        self._picked: list[mx.array] = []
        self._probabilities: list[mx.array] = []
        self._prefix = mx.zeros((0,), dtype=mx.int32)

    def pick(self, logits: mx.array, probability: mx.array | None = None) -> mx.array:
        """Draft the next token int32 [1] from logits [1, V]; lazy.

        probability: [1], of the token to be accepted; None for its share of the distribution.
        """
        prefix = self._prefix
        if not self._picked:
            logits = self._sampler.draft_with_grammar_bias(logits)
        token = self._pick(logits, self._position + len(self._picked), prefix)
        if self._least > 0:
            if probability is None:
                probability = self._sampler.probability(logits, token, prefix)
            self._probabilities.append(probability)
        self._picked.append(token)
        self._prefix = mx.concatenate(self._picked) if len(self._picked) > 1 else token
        return token

    def tokens(self) -> mx.array:
        """Return the drafted tokens, int32 [k]."""
        if not self._probabilities:
            return self._prefix
        likely = mx.concatenate(self._probabilities) >= self._least
        count: int = mx.sum(mx.cumprod(likely.astype(mx.int32))).item()  # type: ignore[assignment]
        return self._prefix[:count]


def _logit_bias(
    bias: Mapping[int, float], suppressed: Collection[int], vocabulary: int
) -> mx.array | None:
    """Bias of all tokens, float32 [V], -inf for suppressed ones; None where there is neither."""
    never = [token for token in suppressed if token < vocabulary]
    if not bias and not never:
        return None
    if max(bias, default=0) >= vocabulary:
        raise BadOption(
            "logit_bias={{{bias}: ...}} names no token: use ids below {vocabulary}.",
            bias=max(bias),
            vocabulary=vocabulary,
        )
    dense = np.zeros(vocabulary, dtype=np.float32)
    dense[list(bias)] = list(bias.values())
    dense[never] = -np.inf
    return mx.array(dense)
