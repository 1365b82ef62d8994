"""Output heads that only drafts go through, cheaper to read than the model's own."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from time import perf_counter
from typing import Protocol
from weakref import WeakValueDictionary

import mlx.core as mx

from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.drafting.frequent_tokens import count_tokens
from mlx_engine.models.contract import Adapter, MtpHead
from mlx_engine.models.layers import Linear
from mlx_engine.models.matrix import Matrix, rows_of, values_of
from mlx_engine.values.options import DraftOptions, DraftOutput

GROUP = 64
"""Weights that share a scale in a copy of fewer bits."""

NEW_TOKENS = 64
"""Tokens met in the conversation that are gathered before the reduced vocabulary takes them in."""

REPEATS = 3
"""Timings of each of two heads; the fastest counts."""

WORTH_A_COPY = 0.9
"""Time of a copy over that of the model's own, for it to be kept."""


class DraftOutputHead(Protocol):
    """From a head's states to logits over the whole vocabulary."""

    @property
    def in_effect(self) -> DraftOutput:
        """What kind it is."""

    def logits(self, states: mx.array, head: MtpHead | None = None) -> mx.array:
        """The head's states [1, T, H] -> float32 logits [1, T, V].

        head: another one with the same matrix, whose states they are.
        """

    def saw(self, tokens: mx.array) -> None:
        """Tokens of the conversation."""


class FullOutput:
    """The model's own."""

    in_effect: DraftOutput = "full"

    def __init__(self, adapter: MtpHead) -> None:
        self._adapter = adapter

    def logits(self, states: mx.array, head: MtpHead | None = None) -> mx.array:
        """As the family has it."""
        return (head or self._adapter).mtp_logits(states)

    def saw(self, tokens: mx.array) -> None:
        """Nothing to learn."""


class PackedOutput:
    """A copy in 4 or 3 bits, made at first use."""

    def __init__(self, adapter: MtpHead, bits: int) -> None:
        self.in_effect: DraftOutput = "4-bit" if bits == 4 else "3-bit"
        self._bits = bits
        self._adapter = adapter
        self._packed: Linear | None = None

    def logits(self, states: mx.array, head: MtpHead | None = None) -> mx.array:
        """Through the copy."""
        if self._packed is None:
            output = self._adapter.mtp_output
            assert output is not None
            self._packed = _requantised(output.matrix, self._bits)
        return (head or self._adapter).mtp_logits(states, self._packed)

    def saw(self, tokens: mx.array) -> None:
        """Nothing to learn."""


class CheaperOutput:
    """The 4-bit copy where it is measured to be faster than the model's own, which it mostly is
    where memory is what counts; decided at first use.
    """

    def __init__(self, adapter: MtpHead) -> None:
        self._full = FullOutput(adapter)
        self._packed = PackedOutput(adapter, 4)
        self._chosen: DraftOutputHead | None = None

    @property
    def in_effect(self) -> DraftOutput:
        """The one chosen."""
        return "auto" if self._chosen is None else self._chosen.in_effect

    def logits(self, states: mx.array, head: MtpHead | None = None) -> mx.array:
        """Through the one chosen."""
        if self._chosen is None:
            self._chosen = self._choose(states, head)
            del self._full, self._packed
        return self._chosen.logits(states, head)

    def saw(self, tokens: mx.array) -> None:
        """Nothing to learn."""

    def _choose(self, states: mx.array, head: MtpHead | None) -> DraftOutputHead:
        mx.eval(states)
        full = packed = float("inf")
        for _ in range(REPEATS):
            full = min(full, _seconds(self._full, states, head))
            packed = min(packed, _seconds(self._packed, states, head))
        return self._packed if packed < WORTH_A_COPY * full else self._full


def _seconds(output: DraftOutputHead, states: mx.array, head: MtpHead | None) -> float:
    started = perf_counter()
    mx.eval(mx.argmax(output.logits(states, head), axis=-1))
    return perf_counter() - started


class FrequentOutput:
    """The rows of frequent tokens, of control tokens, and of tokens the conversation has.

    frequent: the most frequent first. Where there are fewer than `size`, the lowest numbers fill
    up: byte-pair vocabularies number their tokens in the order of merging. All other logits are
    -inf.
    """

    in_effect: DraftOutput = "frequent"

    def __init__(
        self, adapter: MtpHead, size: int, always: Iterable[int], frequent: Iterable[int]
    ) -> None:
        self._adapter = adapter
        vocabulary = adapter.vocabulary
        ranked = dict.fromkeys(chain((t for t in frequent if t < vocabulary), range(vocabulary)))
        self._kept = set(islice(ranked, size))
        self._kept.update(token for token in always if token < vocabulary)
        self._new: set[int] = set()
        self._ids: mx.array | None = None
        self._rows: Linear | None = None

    @property
    def size(self) -> int:
        """Rows in use."""
        return len(self._kept)

    def saw(self, tokens: mx.array) -> None:
        """Gather tokens whose rows are missing."""
        committed: list[int] = tokens.tolist()  # type: ignore[assignment]
        self._new.update(token for token in committed if token not in self._kept)

    def logits(self, states: mx.array, head: MtpHead | None = None) -> mx.array:
        """Through the rows there are."""
        if self._rows is None or self._ids is None or len(self._new) >= NEW_TOKENS:
            self._gather()
        assert self._rows is not None
        assert self._ids is not None
        found = (head or self._adapter).mtp_logits(states, self._rows)
        whole = mx.full((*found.shape[:-1], self._adapter.vocabulary), -mx.inf)
        whole[..., self._ids] = found
        return whole

    def _gather(self) -> None:
        output = self._adapter.mtp_output
        assert output is not None
        self._kept |= self._new
        self._new.clear()
        self._ids = mx.array(sorted(self._kept))
        self._rows = _rows_of(output.matrix, self._ids)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """always: tokens that a reduced vocabulary must have. frequent: tokens, most frequent first."""

    always: frozenset[int] = frozenset()
    frequent: Callable[[], Sequence[int]] = tuple


def make_output(options: DraftOptions, adapter: MtpHead, tokens: Vocabulary) -> DraftOutputHead:
    """The output head the options ask for; the model's own where it has no copy to offer."""
    matrix = adapter.mtp_output.matrix if adapter.mtp_output else None
    if matrix is None or options.output == "full":
        return FullOutput(adapter)
    if options.output == "frequent":
        return FrequentOutput(adapter, options.vocabulary, tokens.always, tokens.frequent())
    if matrix.inputs % GROUP:
        return FullOutput(adapter)
    if options.output == "auto":
        return CheaperOutput(adapter)
    return PackedOutput(adapter, 4 if options.output == "4-bit" else 3)


class OutputShelf:
    """Output heads of one model; copies are shared by all chats and freed with the last of them.

    always: tokens that a reduced vocabulary must have. encode: a text -> its tokens, to count which
    are frequent when that is first asked for.
    """

    def __init__(
        self, adapter: Adapter, always: Iterable[int], encode: Callable[[str], list[int]]
    ) -> None:
        self._heads: tuple[MtpHead, ...] = (adapter, *adapter.later_heads)
        self._tokens = Vocabulary(frozenset(always), cache(lambda: count_tokens(encode)))
        self._shared = WeakValueDictionary[tuple[DraftOutput, int], DraftOutputHead]()

    def take(self, options: DraftOptions) -> tuple[DraftOutputHead, ...]:
        """Those the options ask for, one for each head; heads with one matrix have one.

        Reduced ones belong to their conversation.
        """
        made: dict[int, DraftOutputHead] = {}
        return tuple(self._take(options, head, made) for head in self._heads)

    def _take(
        self, options: DraftOptions, head: MtpHead, made: dict[int, DraftOutputHead]
    ) -> DraftOutputHead:
        matrix = id(head.mtp_output)
        key = (options.output, matrix)
        if matrix not in made:
            shared = None if options.output == "frequent" else self._shared.get(key)
            made[matrix] = shared or make_output(options, head, self._tokens)
            self._shared[key] = made[matrix]
        return made[matrix]


def _requantised(matrix: Matrix, bits: int) -> Linear:
    dense = matrix.weight if matrix.mode == "dense" else values_of(matrix, matrix.dtype)
    weight, scales, biases = mx.quantize(dense, group_size=GROUP, bits=bits)
    mx.eval(weight, scales, biases)
    return Linear(Matrix(weight, scales, biases, GROUP, bits, "affine"))


def _rows_of(matrix: Matrix, ids: mx.array) -> Linear:
    """A copy of some rows, which stock MLX multiplies by: in 8 bits what it cannot read."""
    rows = rows_of(matrix, ids)
    if rows.mode in BLOCK_FORMS and rows.inputs % GROUP == 0:
        return _requantised(rows, 8)
    if rows.mode == "dense" and not mx.metal.is_available():
        rows = rows._replace(weight=mx.contiguous(rows.weight.T).T)
    mx.eval([part for part in (rows.weight, rows.scales, rows.biases) if part is not None])
    return Linear(rows)
