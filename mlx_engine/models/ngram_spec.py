"""Spec of n-gram embeddings: sizes, and the table rows of a text's n-grams by hashing. No MLX here.

The n tokens that end at a position, for n from 2 to `longest`, are hashed by `heads` hash functions
each, whose rows lie one head after the other in one table. An n-gram does not reach back over the
end token: from there on it has end tokens (LongCat: zeros), as before the text.
"""

from dataclasses import dataclass
from functools import cache
from itertools import accumulate, count, islice
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlx_engine.models.layer_specs import CacheSize, Shapes

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
"""Increment of SplitMix64 (doi 10.1145/2660193.2660195)."""

_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_SEED_STEP = 10007
"""Distance of the seeds of two layers with n-gram embeddings."""


class TableShape(NamedTuple):
    """Number of rows of an n-gram table, and elements of a row."""

    rows: int
    width: int


@dataclass(frozen=True, slots=True)
class NgramSpec:
    """Embeddings of n-grams that a layer adds to its residual streams (Qwen3.8-Flash-Next, PLE).

    width: of a token's embedding, the rows of all heads side by side. Keys and a value are
    projected from it; a stream gets sigmoid(sign(g) sqrt|g|) * value with g = key . stream /
    sqrt(H), and a causal convolution with `taps` taps, every `longest`-th row, over that. number:
    of the layer among those with n-grams. base: least rows of a head, whose numbers of rows are the
    primes from there on; divisor: the table's rows are padded to a multiple. end: end token.
    """

    hidden: int
    streams: int
    width: int
    longest: int
    heads: int
    vocabulary: int
    base: int
    divisor: int
    seed: int
    end: int
    number: int
    taps: int

    prefix = "ple"
    table = "ngram_embedding"
    packed_cache = None
    cache_count = 2

    @property
    def channels(self) -> int:
        """Elements of all residual streams of a token."""
        return self.streams * self.hidden

    @property
    def context_tokens(self) -> int:
        """Earlier tokens that an n-gram may have."""
        return self.longest - 1

    @property
    def convolution_context_rows(self) -> int:
        """Earlier rows that the convolution reads."""
        return (self.taps - 1) * self.longest

    @property
    def cache(self) -> CacheSize:
        """Cache size of n-gram embeddings: the convolution's last rows, and the last tokens."""
        return CacheSize(
            kept_elements=self.convolution_context_rows * self.channels + 2 * self.context_tokens
        )

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of n-gram embeddings, without the table."""
        del has_split_kv_b
        return {
            "key_proj.weight": (self.channels, self.width),
            "value_proj.weight": (hidden, self.width),
            "conv1d.weight": (self.channels, self.taps, 1),
            **{f"{of}_norm.weight": (self.channels,) for of in ("key", "query", "conv")},
        }

    @property
    def head_rows(self) -> tuple[int, ...]:
        """Number of table rows of each head, the heads of 2-grams first."""
        heads = self.context_tokens * self.heads
        return _primes(self.base, self.number * heads, heads)

    @property
    def table_shape(self) -> TableShape:
        """Shape of the table of all heads."""
        rows, heads = self.head_rows, self.context_tokens * self.heads
        return TableShape(-(-sum(rows) // self.divisor) * self.divisor, self.width // heads)

    def row_numbers(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hash n-grams: tokens int64 [context + T] -> table rows int64 [T, heads of all n]."""
        rows = len(tokens) - self.context_tokens
        factors = _ngram_hash_factors(
            self.vocabulary, self.longest, self.seed + _SEED_STEP * self.number
        )
        sizes = np.array(self.head_rows).reshape(self.context_tokens, self.heads)
        starts = np.array([0, *accumulate(self.head_rows)][:-1]).reshape(sizes.shape)
        mixed = tokens[self.context_tokens :] * factors[0]
        cut = np.zeros(rows, dtype=bool)
        made = []
        for distance in range(1, self.longest):
            first = self.context_tokens - distance
            earlier = tokens[first : first + rows]
            cut |= earlier == self.end
            mixed = mixed ^ (np.where(cut, self.end, earlier) * factors[distance])
            made.append(mixed[:, None] % sizes[distance - 1] + starts[distance - 1])
        return np.concatenate(made, axis=1)


@dataclass(frozen=True, slots=True)
class TokenNgramSpec:
    """N-grams as a part of the embedding of a token (LongCat-Flash-Lite, arXiv 2601.21204).

    Embeddings of the token and of its n-grams, each behind a projection, are averaged. tables:
    number of hash functions, each with a table of hidden / tables elements a row. base: rows of the
    first table less one; each has two more than the one before. end: end token.
    """

    hidden: int
    longest: int
    heads: int
    vocabulary: int
    base: int
    end: int

    prefix = "ngrams"
    table = "embedders"
    packed_cache = None
    cache_count = 1

    @property
    def context_tokens(self) -> int:
        """Earlier tokens that an n-gram may have."""
        return self.longest - 1

    @property
    def tables(self) -> int:
        """Number of hash functions."""
        return self.context_tokens * self.heads

    @property
    def width(self) -> int:
        """Elements of the rows of all tables side by side."""
        return self.hidden

    @property
    def share(self) -> float:
        """Weight of the token's embedding, and of each n-gram's, in their mean."""
        return 1 / (1 + self.tables)

    @property
    def cache(self) -> CacheSize:
        """Cache size of n-grams: the last tokens."""
        return CacheSize(kept_elements=2 * self.context_tokens)

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of n-grams, without the tables."""
        del has_split_kv_b
        return {"post_projs.weight": (self.tables, hidden, hidden // self.tables)}

    @property
    def table_shape(self) -> TableShape:
        """Shape of all tables, one below the other."""
        return TableShape(sum(self._table_rows), self.hidden // self.tables)

    @property
    def _table_rows(self) -> tuple[int, ...]:
        return tuple(self.base + 2 * number + 1 for number in range(self.tables))

    def row_numbers(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hash n-grams: tokens int64 [context + T] -> table rows int64 [T, tables]."""
        count = len(tokens) - self.context_tokens
        sizes = np.array(self._table_rows)
        starts = np.array([0, *accumulate(self._table_rows)][:-1])
        mixed = np.repeat(tokens[self.context_tokens :, None], self.tables, axis=1)
        cut = np.zeros(count, dtype=bool)
        for distance in range(1, self.longest):
            first = self.context_tokens - distance
            earlier = tokens[first : first + count]
            cut |= earlier == self.end
            longer = slice((distance - 1) * self.heads, None)  # tables of n-grams that reach so far
            factors = [pow(self.vocabulary, distance, int(size)) for size in sizes[longer]]
            mixed[:, longer] += np.where(cut, 0, earlier)[:, None] * np.array(factors)
        numbers: NDArray[np.int64] = mixed % sizes + starts
        return numbers


@dataclass(frozen=True, slots=True)
class EngramSpec:
    """N-grams of classes of tokens, whose embeddings a layer adds to its streams (DeepSeek-V4.1).

    A key for each stream and a value for all are projected from the rows of an n-gram's hashes, of
    `row` elements each; a stream gets as much of the value as its key is like the stream. classes:
    of tokens, alike but for case, accents and space. end: token before the text. layer: seeds the
    hashes. number, base: as in NgramSpec.
    """

    hidden: int
    streams: int
    row: int
    longest: int
    heads: int
    classes: int
    base: int
    end: int
    layer: int
    number: int

    prefix = "engram"
    table = "embed"
    packed_cache = None
    cache_count = 1

    @property
    def context_tokens(self) -> int:
        """Earlier tokens that an n-gram may have."""
        return self.longest - 1

    @property
    def width(self) -> int:
        """Elements of the rows of all hashes of a token side by side."""
        return self.context_tokens * self.heads * self.row

    @property
    def cache(self) -> CacheSize:
        """Cache size of n-grams: the last tokens."""
        return CacheSize(kept_elements=2 * self.context_tokens)

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of n-gram embeddings, without the table."""
        del has_split_kv_b
        weights = dict.fromkeys(("q_weight", "k_weight"), (self.streams, hidden))
        return {"wkv.weight": ((self.streams + 1) * hidden, self.width), **weights}

    @property
    def _head_rows(self) -> tuple[int, ...]:
        heads = self.context_tokens * self.heads
        return _primes(self.base, self.number * heads, heads)

    @property
    def table_shape(self) -> TableShape:
        """Shape of the table of all hashes."""
        return TableShape(sum(self._head_rows), self.row)

    def row_numbers(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hash n-grams: classes of tokens int64 [context + T] -> table rows int64 [T, hashes]."""
        context, rows = self.context_tokens, len(tokens) - self.context_tokens
        factors = _seeded_factors(self.classes, self.longest, _SEED_STEP * self.layer)
        sizes = np.array(self._head_rows).reshape(context, self.heads)
        starts = np.array([0, *accumulate(self._head_rows)][:-1]).reshape(sizes.shape)
        mixed, made = tokens[context:] * factors[0], []
        for distance in range(1, self.longest):
            first = context - distance
            mixed = mixed ^ (tokens[first : first + rows] * factors[distance])
            made.append(mixed[:, None] % sizes[distance - 1] + starts[distance - 1])
        return np.concatenate(made, axis=1)


AnyNgramSpec = NgramSpec | TokenNgramSpec | EngramSpec


def _seeded_factors(classes: int, longest_ngram: int, seed: int) -> NDArray[np.int64]:
    """Odd factors of the tokens of an n-gram, drawn by numpy; products fit in 63 bits."""
    bound = max(1, (2**63 - 1) // classes // 2)
    return 2 * np.random.default_rng(seed).integers(0, bound, size=longest_ngram) + 1


@cache
def _primes(lower_bound: int, first: int, number: int) -> tuple[int, ...]:
    """Primes from `lower_bound` on: `number` of them, after `first` others."""
    found = (candidate for candidate in count(max(2, lower_bound)) if _is_prime(candidate))
    return tuple(islice(found, first, first + number))


def _is_prime(number: int) -> bool:
    if number % 2 == 0:
        return number == 2
    return all(number % divisor for divisor in range(3, isqrt(number) + 1, 2))


@cache
def _ngram_hash_factors(vocabulary: int, longest_ngram: int, hash_seed: int) -> NDArray[np.int64]:
    """Odd factors of the tokens of an n-gram; products with token ids fit in 63 bits."""
    bound = max(1, (2**63 - 1) // max(vocabulary, 1) // 2)
    states = (hash_seed + _GOLDEN * (number + 1) for number in range(longest_ngram))
    return np.array([2 * (_mix_bits(state & _WORD) % bound) + 1 for state in states])


def _mix_bits(state: int) -> int:
    """Output of SplitMix64 for a state that the increment was added to, and once more."""
    mixed = (state + _GOLDEN) & _WORD
    for shift, factor in _MIXING:
        mixed = ((mixed ^ (mixed >> shift)) * factor) & _WORD
    return mixed ^ (mixed >> 31)
