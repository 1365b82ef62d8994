"""Cheaper output matrices for drafts: a copy in 4 bits, or rows of frequent tokens only."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from inspect import getsource
from itertools import chain, islice
from weakref import WeakValueDictionary

import mlx.core as mx
from typing_extensions import override

from metal_kernels.stock import computes_on_gpu
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from mlx_engine.models.contract import Model, MtpHead
from mlx_engine.models.layers import Linear
from mlx_engine.models.matrix import Matrix, dequantised, take_rows
from mlx_engine.values.options import DraftOptions, DraftOutput

GROUP = 64
"""Weights that share a scale in a copy of fewer bits."""

NEW_TOKENS = 64
"""Tokens met in the conversation that are gathered before the reduced vocabulary takes them in."""

MOST_CHARACTERS = 1_000_000
"""Characters of text whose tokens are counted at most: a second or less for a tokenizer."""

_SOURCES = ("argparse", "ast", "statistics", "textwrap", "json.decoder", "http.client")


class OutputHead(ABC):
    """Computes logits of an MTP head's states by another output matrix than the model's own.

    in_effect: which one. adapts: it takes in the tokens of the conversation.
    """

    in_effect: DraftOutput
    adapts = False

    @abstractmethod
    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        """States [1, T, H] of this MTP head -> logits [1, T, V].

        Heads that share a matrix (`mtp_output`) may go through one object.
        """

    def append(self, tokens: Sequence[int]) -> None:
        """Take in tokens of the conversation, for a reduced vocabulary to include."""
        del tokens


class PackedOutput(OutputHead):
    """A copy of an MTP head's output matrix in 4 bits, made at first use."""

    in_effect: DraftOutput = "4-bit"

    def __init__(self) -> None:
        self._packed: Linear | None = None

    @override
    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        if self._packed is None:
            assert head.mtp_output is not None
            self._packed = _requantise(head.mtp_output.matrix, 4)
        return head.mtp_logits(states, self._packed)


class FrequentOutput(OutputHead):
    """Output matrix rows of frequent tokens, control tokens and the conversation's tokens only.

    All other logits are -inf. size: rows at first. required_ids: tokens among them. frequent_ids:
    the most frequent first; where there are fewer than `size`, the lowest ids fill up, as byte-pair
    vocabularies number their tokens in the order of merging.
    """

    in_effect: DraftOutput = "frequent"
    adapts = True

    def __init__(
        self,
        vocabulary: int,
        size: int,
        required_ids: Iterable[int],
        frequent_ids: Iterable[int],
    ) -> None:
        self._vocabulary = vocabulary
        ranked = dict.fromkeys(
            chain((t for t in frequent_ids if t < vocabulary), range(vocabulary))
        )
        self._kept = set(islice(ranked, min(size, vocabulary)))
        self._kept.update(token for token in required_ids if token < vocabulary)
        self._new: set[int] = set()
        self._ids: mx.array | None = None
        self._rows: Linear | None = None

    @property
    def row_count(self) -> int:
        """Number of the vocabulary's rows in use."""
        return len(self._kept)

    @override
    def append(self, tokens: Sequence[int]) -> None:
        self._new.update(token for token in tokens if token not in self._kept)

    @override
    def logits(self, head: MtpHead, states: mx.array) -> mx.array:
        if self._rows is None or self._ids is None or len(self._new) >= NEW_TOKENS:
            self._gather_rows(head)
        assert self._rows is not None
        assert self._ids is not None
        found = head.mtp_logits(states, self._rows)
        whole = mx.full((*found.shape[:-1], self._vocabulary), -mx.inf)
        whole[..., self._ids] = found
        return whole

    def _gather_rows(self, head: MtpHead) -> None:
        assert head.mtp_output is not None
        self._kept |= self._new
        self._new.clear()
        self._ids = mx.array(sorted(self._kept))
        self._rows = _copy_rows(head.mtp_output.matrix, self._ids)


def make_output(
    options: DraftOptions,
    head: MtpHead,
    required_ids: Iterable[int] = (),
    frequent_ids: Callable[[], Iterable[int]] = tuple,
) -> OutputHead | None:
    """Make the MTP head's output matrix that the options ask for; None for the head's own.

    A head without a matrix, or with one whose rows do not fit into groups, keeps its own.
    required_ids, frequent_ids: for a reduced vocabulary, tokens that it must have, and the most
    frequent.
    """
    matrix = head.mtp_output.matrix if head.mtp_output else None
    if matrix is None or options.output == "full":
        return None
    if options.output == "frequent":
        return FrequentOutput(head.vocabulary, options.vocabulary, required_ids, frequent_ids())
    return None if matrix.input_size % GROUP else PackedOutput()


class SharedOutputHeads:
    """Output matrices for the MTP heads of one model, shared by chats and freed with the last user.

    required_ids: tokens of every reduced vocabulary. encode: a text -> its tokens, to count which
    are frequent when that is first asked for.
    """

    def __init__(
        self, model: Model, required_ids: Iterable[int], encode: Callable[[str], list[int]]
    ) -> None:
        self._heads = model.heads
        self._always = frozenset(required_ids)
        self._frequent = cache(lambda: count_tokens(encode))
        self._copies = WeakValueDictionary[int, PackedOutput]()

    def output_heads(self, options: DraftOptions) -> tuple[OutputHead | None, ...]:
        """Return the output head of each MTP head by `options.output`; None for the head's own.

        Heads that share a matrix share an output head. Reduced vocabularies belong to one chat.
        """
        made: dict[int, OutputHead | None] = {}
        for head in self._heads:
            matrix = id(head.mtp_output)
            if matrix in made:
                continue
            made[matrix] = self._copies.get(matrix) if options.output == "4-bit" else None
            if made[matrix] is None:
                output = make_output(options, head, self._always, self._frequent)
                made[matrix] = output
                if isinstance(output, PackedOutput):
                    self._copies[matrix] = output
        return tuple(made[id(head.mtp_output)] for head in self._heads)


def _requantise(matrix: Matrix, bits: int) -> Linear:
    dense = matrix.weight if matrix.mode == "dense" else dequantised(matrix, matrix.dtype)
    weight, scales, biases = mx.quantize(dense, group_size=GROUP, bits=bits)
    mx.eval(weight, scales, biases)
    return Linear(Matrix(weight, scales, biases, GROUP, bits, "affine"))


def _copy_rows(matrix: Matrix, ids: mx.array) -> Linear:
    """Copy some rows of an output matrix in a format that MLX multiplies by: 8 bits for GGUF."""
    rows = take_rows(matrix, ids)
    if rows.mode in BLOCK_FORMS and rows.input_size % GROUP == 0:
        return _requantise(rows, 8)
    if rows.mode == "dense" and not computes_on_gpu():
        rows = rows._replace(weight=mx.contiguous(rows.weight.T).T)
    mx.eval([part for part in (rows.weight, rows.scales, rows.biases) if part is not None])
    return Linear(rows)


def count_tokens(encode: Callable[[str], list[int]]) -> tuple[int, ...]:
    """Token ids of prose and code that come with every Python, the most frequent first.

    Of equally frequent tokens the lower id is first. encode: a text -> its tokens.
    """
    counted, room = Counter[int](), MOST_CHARACTERS
    for text in _python_texts():
        counted.update(encode(text[:room]))
        room -= min(room, len(text))
    return tuple(sorted(counted, key=lambda token: (-counted[token], token)))


def _python_texts() -> Iterator[str]:
    """Yield texts that come with Python: the language reference, then the source of modules.

    A packed app has no source.
    """
    from pydoc_data.topics import topics

    yield from topics.values()
    for name in _SOURCES:
        try:
            yield getsource(import_module(name))
        except OSError:
            continue
