"""What a model needs in memory, before it is loaded and while it runs: one sum, in parts."""

from dataclasses import dataclass
from typing import Literal

from mlx_engine.values.options import CacheBits
from mlx_engine.values.words import Words, about_tokens, joined, size_words, token_words

Fit = Literal["fits", "tight", "too-large"]

TIGHT_SHARE = 0.9
"""Above this share of the usable memory the system itself gets slow."""

SHORT_CONTEXT = 4096
GROWTH = 256
"""Rows by which buffers of keys and values grow, so that at most 255 are unused."""

WINDOW_STEP = 64
"""At most this many rows out of the window are seen (and masked) by a block."""

WINDOW_SLACK = 256
"""Rows before what is seen of a window, to come back to, and free ones after a copy."""

MOST_PICKED = 9
"""Rows of logits that a verify pass has at once."""

LONGEST_CHUNK, SHORTEST_CHUNK, CHUNK_ON_CPU = 2048, 512, 32

CHUNK_WORK = 2e13
"""Weights of a token times tokens that a chunk may take: some 3 seconds at 15 TFLOPS, because a
chunk that has begun cannot be stopped.
"""

CHUNK_BYTES = 3e6
"""What a row of a chunk may take at its widest: a few arrays of the widest layer, and scores."""

MOST_SCORES = 256 * 2**20
"""Of attention's scores that are made at once (metal_kernels/stock.py)."""

MOST_SUMS = 2**22
"""Sums over groups that a product holds at once (mlx_engine/models/layers.py)."""

WIDE_ARRAYS, SCORE_ARRAYS, LOGIT_ARRAYS, SUM_ARRAYS = 8, 3, 4, 3
"""Arrays as wide as a layer's widest, as attention's scores, as logits and as sums over groups that
live at a time: measured on a CPU (tests/speed/memory_against_plan.py).
"""


def chunk_rows(weight_bytes: int, active_parameters: int, gpu_bytes: int) -> int:
    """Prompt tokens to read at once, a power of two; gpu_bytes: what a GPU may hold, 0 for none.

    More rows share one reading of the weights, and take memory and time before the next look at a
    stop: as many as a quarter of what the weights leave free holds, and CHUNK_WORK.
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
    """What a conversation remembers in the layers of a trunk, or of heads.

    element: bytes of a key's or value's element as it comes. values, groups: of each token, in all
    layers: elements, and the groups of them that share a scale and a bias where they are packed.
    window_values, window_groups: the same of windows that are full. slack_values: of the rows that
    windows have beside those in view. states: bytes of recurrent states and of what convolutions
    keep.
    """

    element: int = 2
    values: int = 0
    groups: int = 0
    window_values: int = 0
    window_groups: int = 0
    slack_values: int = 0
    states: int = 0

    def per_token(self, bits: CacheBits = 16) -> int:
        """Bytes of keys and values."""
        return self._stored(self.values, self.groups, bits)

    def place(self, bits: CacheBits = 16) -> int:
        """Bytes of what tokens overwrite: states and full windows."""
        return self.states + self._stored(self.window_values, self.window_groups, bits)

    def slack(self, bits: CacheBits = 16) -> int:
        """Bytes of rows out of view."""
        groups = self.slack_values * self.window_groups // max(1, self.window_values)
        return self._stored(self.slack_values, groups, bits)

    def _stored(self, values: int, groups: int, bits: CacheBits) -> int:
        if bits == 16:
            return values * self.element
        return values * bits // 8 + 2 * groups * self.element


@dataclass(frozen=True, slots=True)
class WorkSize:
    """What a pass takes for itself. widest: elements of the widest row that a layer makes.
    score_heads: heads of queries of the layer with most. layer_values: elements of a token's keys
    and values in the layer with most. vocabulary: logits of a row. group_sums: what a processor
    sums a row's largest product up from, where it reads weights as codes.
    """

    widest: int = 0
    score_heads: int = 0
    layer_values: int = 0
    vocabulary: int = 0
    group_sums: int = 0

    def nbytes(self, rows: int, context: int, element: int, *, is_packed: bool) -> int:
        """Of chunks of so many rows, or of a verify pass, whichever takes more.

        is_packed: a prompt attends to keys and values that are unpacked layer by layer.
        """
        scores = min(rows * self.score_heads * context * element, MOST_SCORES)
        sums = min(rows * self.group_sums, MOST_SUMS) * 4
        wide = rows * self.widest * element
        reading = wide * WIDE_ARRAYS + scores * SCORE_ARRAYS + sums * SUM_ARRAYS
        unpacked = context * self.layer_values * element if is_packed else 0
        return max(reading, MOST_PICKED * self.vocabulary * 4 * LOGIT_ARRAYS) + unpacked


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes at `context` tokens. weights: of the model with its heads. draft_model: another one's
    weights and cache. cache: keys and values of model and heads. states: recurrent states, twice
    where rounds are begun ahead, and windows. checkpoints: of places to come back to. work: what a
    pass takes beside them. others: what other chats hold.
    """

    context: int
    weights: int
    draft_model: int = 0
    cache: int = 0
    states: int = 0
    checkpoints: int = 0
    work: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.draft_model + self.conversation + self.work + self.others

    @property
    def conversation(self) -> int:
        """What a chat of this length holds."""
        return self.cache + self.states + self.checkpoints

    def fit(self, usable: int) -> Fit:
        """Whether that is within what may be used."""
        if self.total > usable:
            return "too-large"
        return "tight" if self.total > TIGHT_SHARE * usable else "fits"

    def words(self, usable: int) -> Words:
        """ "18.2 GB weights + 1.32 GB cache + 0.7 GB work at 4k tokens = 20.2 GB of 48 GB"."""
        parts = {
            Words("{size} weights", size=size_words(self.weights)): self.weights,
            Words("{size} draft model", size=size_words(self.draft_model)): self.draft_model,
            Words("{size} cache", size=size_words(self.conversation)): self.conversation,
            Words("{size} other chats", size=size_words(self.others)): self.others,
            Words("{size} work", size=size_words(self.work)): self.work,
        }
        return Words(
            "{parts} at {tokens} tokens = {needed} of {usable}",
            parts=joined((words for words, nbytes in parts.items() if nbytes), " + "),
            tokens=token_words(self.context),
            needed=size_words(self.total),
            usable=size_words(usable),
        )


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """Plans of a short and of the full context, against what may be used here.

    longest: the context in tokens that fits, 0 when not even the weights do. is_asked: the full
    context is one that was asked for.
    """

    short: MemoryPlan
    full: MemoryPlan
    usable: int
    longest: int
    is_asked: bool = False

    @property
    def fit(self) -> Fit:
        """Tight where only a part of the context fits, and too large if all of it was asked for."""
        short = self.short.fit(self.usable)
        if self.full.total <= self.usable or short == "too-large":
            return short
        return "too-large" if self.is_asked else "tight"

    @property
    def words(self) -> Words:
        """The sum, and what it means."""
        start = self.short.words(self.usable)
        match self.fit:
            case "fits":
                return Words(
                    "{start}: fits ({full} with all {tokens})",
                    start=start,
                    full=size_words(self.full.total),
                    tokens=token_words(self.full.context),
                )
            case "tight":
                return Words(
                    "{start}: tight, room for about {tokens} tokens",
                    start=start,
                    tokens=about_tokens(self.longest),
                )
            case "too-large" if self.short.total <= self.usable:
                return Words(
                    "{full}: does not fit, room for about {tokens} tokens",
                    full=self.full.words(self.usable),
                    tokens=about_tokens(self.longest),
                )
            case "too-large":
                over = size_words(self.short.total - self.usable)
                return Words("{start}: does not fit, {over} too much", start=start, over=over)
