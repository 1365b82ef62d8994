"""Cheaper output heads for drafts: quantised copies, or rows of frequent tokens only."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from inspect import getsource
from itertools import chain, islice
from time import perf_counter
from weakref import WeakValueDictionary

import mlx.core as mx

from metal_kernels.stock import computes_on_gpu
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.models.contract import Model, MtpHead
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

MOST_CHARACTERS = 1_000_000
"""Counted at most: a second or less of a tokenizer's time."""

_SOURCES = ("argparse", "ast", "statistics", "textwrap", "json.decoder", "http.client")


class OutputHead(ABC):
    """From an MTP head's states to logits over the whole vocabulary; in_effect: its kind.

    reads_words: it adapts to the tokens of the conversation.
    """

    in_effect: DraftOutput
    reads_words = False

    @abstractmethod
    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """States [1, T, H] of this head -> float32 logits [1, T, V].

        Heads that share a matrix (`mtp_output`) may go through one object.
        """

    def saw(self, tokens: Sequence[int]) -> None:
        """Take in tokens of the conversation."""
        del tokens


class FullOutput(OutputHead):
    """The model's own output head."""

    in_effect: DraftOutput = "full"

    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """Logits by the model's own output head."""
        return head.mtp_logits(states)


class PackedOutput(OutputHead):
    """A copy in 4 or 3 bits, made at first use."""

    def __init__(self, bits: int) -> None:
        self.in_effect: DraftOutput = "4-bit" if bits == 4 else "3-bit"
        self._bits = bits
        self._packed: Linear | None = None

    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """Logits by the quantised copy."""
        if self._packed is None:
            assert head.mtp_output is not None
            self._packed = _requantised(head.mtp_output.matrix, self._bits)
        return head.mtp_logits(states, self._packed)


class CheaperOutput(OutputHead):
    """The 4-bit copy where it is measured to be faster than the model's own, which it mostly is
    where memory is what counts; decided at first use.
    """

    in_effect: DraftOutput = "auto"  # until it is decided

    def __init__(self) -> None:
        self._full = FullOutput()
        self._packed = PackedOutput(4)
        self._chosen: OutputHead | None = None

    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """Through the one chosen."""
        if self._chosen is None:
            self._chosen = self._choose(head, states)
            self.in_effect = self._chosen.in_effect
            del self._full, self._packed
        return self._chosen.logits(head, states)

    def _choose(self, head: MtpHead, states: mx.array) -> OutputHead:
        mx.eval(states)
        full = packed = float("inf")
        for _ in range(REPEATS):
            full = min(full, _seconds(self._full, head, states))
            packed = min(packed, _seconds(self._packed, head, states))
        return self._packed if packed < WORTH_A_COPY * full else self._full


def _seconds(output: OutputHead, head: MtpHead, states: mx.array) -> float:
    started = perf_counter()
    mx.eval(mx.argmax(output.logits(head, states), axis=-1))
    return perf_counter() - started


class FrequentOutput(OutputHead):
    """The rows of frequent tokens, of control tokens, and of tokens the conversation has.

    frequent: the most frequent first. Where there are fewer than `size`, the lowest numbers fill
    up: byte-pair vocabularies number their tokens in the order of merging. All other logits are
    -inf.
    """

    in_effect: DraftOutput = "frequent"
    reads_words = True

    def __init__(
        self, vocabulary: int, size: int, always: Iterable[int], frequent: Iterable[int]
    ) -> None:
        self._vocabulary = vocabulary
        ranked = dict.fromkeys(chain((t for t in frequent if t < vocabulary), range(vocabulary)))
        self._kept = set(islice(ranked, min(size, vocabulary)))
        self._kept.update(token for token in always if token < vocabulary)
        self._new: set[int] = set()
        self._ids: mx.array | None = None
        self._rows: Linear | None = None

    @property
    def size(self) -> int:
        """Rows in use."""
        return len(self._kept)

    def saw(self, tokens: Sequence[int]) -> None:
        """Note tokens whose rows are missing."""
        self._new.update(token for token in tokens if token not in self._kept)

    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """Logits by the rows at hand; other tokens get -inf."""
        if self._rows is None or self._ids is None or len(self._new) >= NEW_TOKENS:
            self._gather(head)
        assert self._rows is not None
        assert self._ids is not None
        found = head.mtp_logits(states, self._rows)
        whole = mx.full((*found.shape[:-1], self._vocabulary), -mx.inf)
        whole[..., self._ids] = found
        return whole

    def _gather(self, head: MtpHead) -> None:
        assert head.mtp_output is not None
        self._kept |= self._new
        self._new.clear()
        self._ids = mx.array(sorted(self._kept))
        self._rows = _rows_of(head.mtp_output.matrix, self._ids)


def make_output(
    options: DraftOptions,
    head: MtpHead,
    always: Iterable[int] = (),
    frequent: Callable[[], Iterable[int]] = tuple,
) -> OutputHead:
    """The output head the options ask for; the model's own where it has no copy to offer.

    always, frequent: for a reduced vocabulary, tokens that it must have, and the most frequent.
    """
    matrix = head.mtp_output.matrix if head.mtp_output else None
    if matrix is None or options.output == "full":
        return FullOutput()
    if options.output == "frequent":
        return FrequentOutput(head.vocabulary, options.vocabulary, always, frequent())
    if matrix.inputs % GROUP:
        return FullOutput()
    if options.output == "auto":
        return CheaperOutput()
    return PackedOutput(4 if options.output == "4-bit" else 3)


class OutputShelf:
    """Output heads of one model; copies are shared by all chats and freed with the last of them.

    always: tokens that a reduced vocabulary must have. encode: a text -> its tokens, to count which
    are frequent when that is first asked for.
    """

    def __init__(
        self, model: Model, always: Iterable[int], encode: Callable[[str], list[int]]
    ) -> None:
        self._heads = model.heads
        self._always = frozenset(always)
        self._frequent = cache(lambda: count_tokens(encode))
        self._shared = WeakValueDictionary[tuple[DraftOutput, int], OutputHead]()

    def take(self, options: DraftOptions) -> tuple[OutputHead, ...]:
        """Output heads that the options ask for, one for each MTP head; heads that share a matrix
        share one. Reduced vocabularies belong to one conversation.
        """
        made: dict[int, OutputHead] = {}
        return tuple(self._take(options, head, made) for head in self._heads)

    def _take(
        self, options: DraftOptions, head: MtpHead, made: dict[int, OutputHead]
    ) -> OutputHead:
        matrix = id(head.mtp_output)
        key = (options.output, matrix)
        if matrix not in made:
            shared = None if options.output == "frequent" else self._shared.get(key)
            made[matrix] = shared or make_output(options, head, self._always, self._frequent)
            self._shared[key] = made[matrix]
        return made[matrix]


def _requantised(matrix: Matrix, bits: int) -> Linear:
    dense = matrix.weight if matrix.mode == "dense" else values_of(matrix, matrix.dtype)
    weight, scales, biases = mx.quantize(dense, group_size=GROUP, bits=bits)
    mx.eval(weight, scales, biases)
    return Linear(Matrix(weight, scales, biases, GROUP, bits, "affine"))


def _rows_of(matrix: Matrix, ids: mx.array) -> Linear:
    """Copy some rows in a format that MLX multiplies by: 8 bits for GGUF blocks."""
    rows = rows_of(matrix, ids)
    if rows.mode in BLOCK_FORMS and rows.inputs % GROUP == 0:
        return _requantised(rows, 8)
    if rows.mode == "dense" and not computes_on_gpu():
        rows = rows._replace(weight=mx.contiguous(rows.weight.T).T)
    mx.eval([part for part in (rows.weight, rows.scales, rows.biases) if part is not None])
    return Linear(rows)


def count_tokens(encode: Callable[[str], list[int]]) -> tuple[int, ...]:
    """Tokens of prose and code that come with every Python, the most frequent first.

    Of equally frequent ones the lower number is first.

    encode: a text -> its tokens.
    """
    counted, room = Counter[int](), MOST_CHARACTERS
    for text in _texts():
        counted.update(encode(text[:room]))
        room -= min(room, len(text))
    return tuple(sorted(counted, key=lambda token: (-counted[token], token)))


def _texts() -> Iterator[str]:
    """The language reference, then modules whose source is at hand: a packed app has none."""
    from pydoc_data.topics import topics

    yield from topics.values()
    for name in _SOURCES:
        try:
            yield getsource(import_module(name))
        except OSError:
            continue
