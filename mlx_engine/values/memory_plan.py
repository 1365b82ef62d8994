"""The memory a model needs, before it is loaded and while it runs, as a sum of parts in bytes."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words, join_words, size_words

Fit = Literal["fits", "tight", "too-large"]

TIGHT_SHARE = 0.9
"""Share of the usable memory above which the system itself gets slow."""

SHORT_CONTEXT = 4096
GROWTH = 256
"""Rows by which key and value buffers grow; at most 255 rows are unused."""

WINDOW_STEP = 64
"""Most rows outside the window that a pass reads (and masks)."""

WINDOW_SLACK = 256
"""Rows kept before a window, to roll back to, and free rows after it."""

MOST_PICKED = 9
"""Most rows of logits in a verify pass."""

LONGEST_CHUNK, SHORTEST_CHUNK, CHUNK_ON_CPU = 2048, 512, 32

CHUNK_WORK = 2e13
"""Most active parameters times tokens of a prefill chunk: some 3 seconds at 15 TFLOPS, since a
chunk cannot be interrupted.
"""

CHUNK_BYTES = 3e6
"""Temporary bytes of one row of a prefill chunk: a few arrays of the widest layer, and scores."""

MOST_SCORES = 256 * 2**20
"""Most bytes of attention scores computed at once (metal_kernels/stock.py)."""

MOST_SUMS = 2**22
"""Most group sums that a matrix product holds at once (mlx_engine/models/layers.py)."""

PATCH_ARRAYS, PIXEL_BYTES = 4, 48
"""Arrays of a vision tower alive at once that are as wide as its widest row; bytes of a pixel while
a picture is decoded, resized, normalised and cut into patches.
"""

WIDE_ARRAYS, SCORE_ARRAYS, LOGIT_ARRAYS, SUM_ARRAYS = 8, 3, 4, 3
"""Arrays alive at once that are as wide as the widest layer, attention scores, logits, and group
sums: measured on a CPU (tests/speed/memory_against_plan.py).
"""


def chunk_rows(weight_bytes: int, active_parameters: int, gpu_bytes: int) -> int:
    """Number of prompt tokens to process in one prefill chunk, a power of two.

    gpu_bytes: memory a GPU may use, 0 without one. More rows read the weights less often, but take
    memory and delay the next check for a stop: the chunk may take a quarter of the memory that the
    weights leave free, and CHUNK_WORK.
    """
    if gpu_bytes == 0:
        return CHUNK_ON_CPU
    rows = LONGEST_CHUNK
    free = gpu_bytes - weight_bytes
    while rows > SHORTEST_CHUNK and (
        rows * CHUNK_BYTES > free / 4 or rows * active_parameters > CHUNK_WORK
    ):
        rows //= 2
    return rows


@dataclass(frozen=True, slots=True)
class CacheBytes:
    """Sizes of the KV cache and recurrent states of a model's layers or of its MTP heads.

    element: bytes of one unquantised key or value element. values, groups: for each token and all
    layers, key and value elements, and quantisation groups of elements that share a scale and a
    bias. window_values, window_groups: elements and groups of full sliding windows. slack_values:
    elements of window rows that are stored but out of view. states: bytes of recurrent and
    convolution states. plain_values: elements of each token that are never quantised.
    """

    element: int = 2
    values: int = 0
    groups: int = 0
    window_values: int = 0
    window_groups: int = 0
    slack_values: int = 0
    states: int = 0
    plain_values: int = 0

    def per_token(self, bits: CacheBits = 16) -> int:
        """Bytes of keys and values that one token adds to the KV cache, stored in `bits`."""
        plain = self.plain_values * self.element
        return self._row_nbytes(self.values, self.groups, bits) + plain

    def checkpoint_bytes(self, bits: CacheBits = 16) -> int:
        """Bytes that a checkpoint of the conversation copies: recurrent states and full windows."""
        return self.states + self._row_nbytes(self.window_values, self.window_groups, bits)

    def window_slack_bytes(self, bits: CacheBits = 16) -> int:
        """Bytes of sliding-window rows that are stored but no longer attended to."""
        groups = self.slack_values * self.window_groups // max(1, self.window_values)
        return self._row_nbytes(self.slack_values, groups, bits)

    def _row_nbytes(self, values: int, groups: int, bits: CacheBits) -> int:
        if bits == 16:
            return values * self.element
        return values * bits // 8 + 2 * groups * self.element


@dataclass(frozen=True, slots=True)
class WorkSize:
    """Sizes from which the temporary memory of a forward pass follows.

    widest: elements of the widest row that a layer computes. score_heads: query heads of the layer
    with most. layer_values: key and value elements of a token in the layer with most. vocabulary:
    logits of a row. group_sums: partial sums of a row's largest product, where a CPU multiplies
    quantised codes.
    """

    widest: int = 0
    score_heads: int = 0
    layer_values: int = 0
    vocabulary: int = 0
    group_sums: int = 0

    def nbytes(self, rows: int, context: int, element_bytes: int, *, is_packed: bool) -> int:
        """Bytes of temporary memory for a prefill chunk of `rows` tokens or a verify pass.

        The larger of both. context: tokens attended to. element_bytes: bytes of an activation.
        is_packed: keys and values are stored quantised, and a prompt attends to a layer's values
        unpacked.
        """
        scores = min(rows * self.score_heads * context * element_bytes, MOST_SCORES)
        sums = min(rows * self.group_sums, MOST_SUMS) * 4
        wide = rows * self.widest * element_bytes
        reading = wide * WIDE_ARRAYS + scores * SCORE_ARRAYS + sums * SUM_ARRAYS
        unpacked = context * self.layer_values * element_bytes if is_packed else 0
        return max(reading, MOST_PICKED * self.vocabulary * 4 * LOGIT_ARRAYS) + unpacked


@dataclass(frozen=True, slots=True)
class PictureSizes:
    """Sizes from which the memory follows that pictures take.

    tower: bytes of the vision tower's weights, which are read with the first picture. element:
    bytes of an activation. hidden, widest: elements of a patch between layers, and in the widest
    row that a layer computes. heads: of the tower's attention. patches: of a token. patch_pixels:
    of a patch. most_tokens: that a picture takes in a prompt.
    """

    tower: int
    element: int
    hidden: int
    widest: int
    heads: int
    patches: int
    patch_pixels: int
    most_tokens: int

    def work_bytes(self, tokens: int) -> int:
        """Bytes of temporary memory to encode a picture that takes so many tokens."""
        patches = tokens * self.patches
        layers = WIDE_ARRAYS * self.hidden + PATCH_ARRAYS * self.widest
        scores = min(self.heads * patches**2 * self.element, MOST_SCORES)
        pixels = patches * self.patch_pixels * PIXEL_BYTES
        return pixels + patches * layers * self.element + scores

    @property
    def most_bytes(self) -> int:
        """Bytes that the largest picture takes beside the model, the vision tower included."""
        return self.tower + self.work_bytes(self.most_tokens)

    @property
    def words(self) -> Words:
        """Memory that pictures take, in words."""
        return Words(
            "{tower} more from the first one on, up to {work} while the model looks at one",
            tower=size_words(self.tower),
            work=size_words(self.work_bytes(self.most_tokens)),
        )


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes that a chat of `context` tokens needs, by purpose.

    weights: the model with its MTP heads. draft_model: weights and cache of a separate draft model.
    cache: keys and values of model and heads. states: recurrent states (twice with lookahead) and
    windows. checkpoints: copies of states to return to. work: temporary arrays of a pass. others:
    caches of other chats. pictures: what the largest picture takes, no part of the total.
    """

    context: int
    weights: int
    draft_model: int = 0
    cache: int = 0
    states: int = 0
    checkpoints: int = 0
    work: int = 0
    others: int = 0
    pictures: int = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of memory that a model and a chat need, all parts together."""
        return self.weights + self.draft_model + self.conversation_bytes + self.work + self.others

    @property
    def conversation_bytes(self) -> int:
        """Bytes of a chat's KV cache, recurrent states and checkpoints."""
        return self.cache + self.states + self.checkpoints

    def fit_in_memory(self, usable_bytes: int) -> Fit:
        """Compare the memory a model needs with `usable_bytes`: "fits", "tight" or "too-large"."""
        if self.total_bytes > usable_bytes:
            return "too-large"
        return "tight" if self.total_bytes > TIGHT_SHARE * usable_bytes else "fits"

    @property
    def sum_in_words(self) -> Words:
        """The parts: "18.2 GB model + 1.3 GB chat"."""
        parts = {
            Words("{size} model", size=size_words(self.weights)): self.weights,
            Words("{size} draft model", size=size_words(self.draft_model)): self.draft_model,
            Words("{size} chat", size=size_words(self.conversation_bytes)): self.conversation_bytes,
            Words("{size} other chats", size=size_words(self.others)): self.others,
            Words("{size} working space", size=size_words(self.work)): self.work,
        }
        return join_words((words for words, nbytes in parts.items() if nbytes), " + ")

    def words(self, usable_bytes: int) -> Words:
        """The plan in words: "18.2 GB model + 1.3 GB chat at 4,096 tokens = 19.5 GB of 48 GB"."""
        return Words(
            "{parts} at {tokens:,} tokens = {needed} of {usable}",
            parts=self.sum_in_words,
            tokens=self.context,
            needed=size_words(self.total_bytes),
            usable=size_words(usable_bytes),
        )


HOPELESS = 3
"""Times the usable memory beyond which swapping does not help: some two memories of a machine."""


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Memory plans of a short and of the full context, compared with `usable` bytes.

    longest: longest context in tokens that fits, 0 when the weights alone do not. is_asked: the
    full context was requested by the user.
    """

    short: MemoryPlan
    full: MemoryPlan
    usable: int
    longest: int
    is_asked: bool = False

    @property
    def fit_in_memory(self) -> Fit:
        """Whether a model fits in memory: "fits", "tight" (part of its context) or "too-large".

        Too large if all of the context was requested and does not fit.
        """
        short = self.short.fit_in_memory(self.usable)
        if self.full.total_bytes <= self.usable or short == "too-large":
            return short
        return "too-large" if self.is_asked else "tight"

    @property
    def is_hopeless(self) -> bool:
        """Whether the model is so large that loading it anyway would end the program."""
        return self.short.total_bytes > HOPELESS * self.usable

    @property
    def words(self) -> Words:
        """The memory plan in words, and whether the model fits."""
        start = self.short.words(self.usable)
        match self.fit_in_memory:
            case "too-large" if self.is_hopeless:
                return Words("{start}: far too large for this computer", start=start)
            case "fits":
                return Words(
                    "{start}: fits ({full} with all {tokens:,})",
                    start=start,
                    full=size_words(self.full.total_bytes),
                    tokens=self.full.context,
                )
            case "tight":
                return Words(
                    "{start}: tight, room for about {tokens:,} tokens",
                    start=start,
                    tokens=self.longest,
                )
            case "too-large" if self.short.total_bytes <= self.usable:
                return Words(
                    "{full}: does not fit, room for about {tokens:,} tokens",
                    full=self.full.words(self.usable),
                    tokens=self.longest,
                )
            case "too-large":
                over = size_words(self.short.total_bytes - self.usable)
                return Words("{start}: does not fit, {over} too much", start=start, over=over)
