"""What attention over a cache and the delta rule cost, in MLX's kernels and in ours."""

from speed.round_model.cost import Cost
from speed.round_model.shapes import Heads, States
from speed.round_model.work import Work

from metal_kernels.key_blocks import block_of

ELEMENT = 2
SUM_SLOTS = 20
"""Slots of a lane for a key and a query row besides its share of the elements: five exchanges and
additions of simd_sum, two exponentials, the running maximum."""
OUR_SUM_SLOTS = 8
"""The same where four keys are summed, and their exponentials taken, together."""
MOST_FUSED_ROWS = 32


def _attended(
    heads: Heads, rows: int, keys: int, slots: float, launches: float, sums: float = SUM_SLOTS
) -> Work:
    """slots: for one element of a key and one of its value, of one query row."""
    cache = heads.keys * keys * 2 * heads.size * ELEMENT
    pairs = heads.queries * rows * keys * heads.size
    each = slots + sums * 32 / heads.size
    return Work(Cost(cache, 0, 4.0 * pairs, launches), pairs * each)


def stock_attention(heads: Heads, rows: int, keys: int) -> Work:
    """sdpa_vector: every row fetches, converts and uses each element; the unfused operations of
    tiles of 32 rows, with the scores written and read twice, where a group has over 32 rows.
    """
    if heads.queries // heads.keys * rows <= MOST_FUSED_ROWS and rows <= 8:
        return _attended(heads, rows, keys, 7, 2)
    plain = _attended(heads, 1, keys, 0, 5)
    tiles = -(-rows // 32) * 32
    scores = heads.queries * rows * keys * ELEMENT * 2.0
    slots = heads.queries * tiles * keys * heads.size * 2.0
    return Work(plain.cost._replace(read=plain.cost.read + scores, written=scores), slots)


def our_attention(heads: Heads, rows: int, keys: int) -> Work:
    """few_query_attention: what a SIMD-group fetches serves two or four rows."""
    shared = 4 if heads.size <= 128 else 2
    done = _attended(heads, rows, keys, 2.25 + 4 / shared, 2, OUR_SUM_SLOTS)
    parts = heads.queries * rows * (block_of(keys) + 1) * (heads.size + 2) * 4.0
    cost = done.cost
    return Work(cost._replace(read=cost.read + parts, written=cost.written + parts), done.slots)


def stock_delta(states: States, rows: int) -> Work:
    """MLX's kernel, which gives the last state only: a pass of several rows is run again over the
    rows that stood.
    """
    times = 1 if rows == 1 else 2
    return _stepped(states, rows * times, times)


def our_delta(states: States, rows: int) -> Work:
    """gated_delta_block: rows that stood are replayed in registers, half the work of a new one."""
    return _stepped(states, 1.5 * rows - 0.5, 1)


def _stepped(states: States, steps: float, times: int) -> Work:
    nbytes = 4.0 * states.elements * times
    return Work(
        Cost(nbytes, nbytes, 7.0 * steps * states.elements, times), 4.0 * steps * states.elements
    )
