"""One small run of each kernel that any mistake in it shows in: what broke, in one word.

A scenario takes a launcher and raises Wrong("numbers" | "rows" | "counts") or EmulatorError.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import mlx.core as mx
import numpy as np
from compared import normal
from gguf_blocks import random_blocks
from metal_emulator import EmulatorError, EmulatorLauncher

from metal_kernels import (
    block_embedding,
    expert_union_matvec,
    few_query_attention,
    few_row_matvec,
    filtered_pick,
    gated_delta_block,
    gated_delta_inputs,
    many_row_product,
    mtp_input,
    noise,
    stream_exchange,
    tile_product,
    vocabulary_pick,
    wide_norm,
)
from metal_kernels.few_query_attention import KeyExtent
from metal_kernels.kernel import Launch, pipeline
from metal_kernels.key_value_formats import cache_format
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS
from metal_kernels.weight_formats.mlx_formats import DENSE, MXFP4, NVFP4, affine_format

WIDTH = 320
ROWS = 3


class Wrong(Exception):
    """What a check of a result found."""


class Breaking:
    """A launcher that runs kernels with one text of theirs replaced.

    private: looks for variables used before they are written, and at nothing else. found: whether
    any kernel had the text.
    """

    def __init__(
        self, old: str = "", new: str = "", shuffle: int = 0, private: bool = False
    ) -> None:
        seconds = 60 if private else 10  # a look at every variable takes its time
        self._inner = EmulatorLauncher(
            seconds=seconds, shuffle=shuffle, private=private, lines=False
        )
        self._old, self._new = old, new
        self.found = False

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """The outputs of one launch. Raises EmulatorError."""
        source, parameters = launch.pipeline.source, launch.pipeline.parameters
        if self._old and self._old in source.body + source.header:
            self.found = True
            source = replace(
                source,
                body=source.body.replace(self._old, self._new),
                header=source.header.replace(self._old, self._new),
            )
            launch = launch._replace(pipeline=pipeline(source, parameters))
        return self._inner.run(launch, inputs)

    def read_once(
        self, buffer: str, report: int = -1, share: float = 1.0, loads: float = 1.0
    ) -> None:
        """Raises Wrong where more than `share` of the buffer's lines were read, or its bytes
        were fetched more than `loads` times.
        """
        traffic = self._inner.reports[report].buffers[buffer]
        if traffic.times_read > 1.1 * share or traffic.bytes_loaded > 1.1 * loads * traffic.size:
            raise Wrong("counts")


def caught_by(scenario: "Scenario", launcher: Breaking) -> str:
    """What noticed: a kind of EmulatorError, a word of Wrong, or "nothing"."""
    try:
        scenario(launcher)
    except EmulatorError as error:
        return error.kind
    except Wrong as wrong:
        return str(wrong)
    return "nothing"


Scenario = Callable[[Breaking], None]


def near(mine: mx.array, its: mx.array) -> None:
    difference = mx.abs(mine - its).max()
    if not (difference <= 2e-5 * mx.abs(its).max()).item():
        raise Wrong("numbers")


def equal(mine: mx.array, its: mx.array, what: str) -> None:
    if not mx.array_equal(mine, its).item():
        raise Wrong(what)


def product(
    form: WeightFormat, weights: tuple[mx.array, ...], width: int = WIDTH, loads: float = 1.0
) -> Scenario:
    """Of 16 weight rows; the numbers are looked at with three fewer.

    Two rows, whose runs are written out, and the same beside five more, whose runs are a loop and
    which share fewer weight rows.
    """

    def run(launcher: Breaking) -> None:
        more = normal((7, width), 1)
        x, ragged = more[:2], tuple(part[:13] for part in weights)
        whole = few_row_matvec.few_row_matvec(x, ragged, form, launcher)
        near(whole, few_row_matvec.reference(x, ragged, form))
        beside = few_row_matvec.few_row_matvec(more, ragged, form, launcher)
        equal(beside[:2], whole, "rows")
        few_row_matvec.few_row_matvec(x, weights, form, launcher)
        launcher.read_once("w", loads=loads)

    return run


FOUR = affine_format(4, 64)


def four_bits(*shape: int) -> tuple[mx.array, ...]:
    return tuple(mx.quantize(normal((*shape, WIDTH), 2) / 16, bits=4))


def gate_up(launcher: Breaking) -> None:
    x, weights = normal((ROWS, WIDTH), 3), four_bits(2 * 13)
    whole = few_row_matvec.few_row_gate_up(x, weights, FOUR, launcher)
    near(whole, few_row_matvec.gate_up_reference(x, weights, FOUR))
    few = few_row_matvec.few_row_gate_up(x[:1], weights, FOUR, launcher)
    equal(few, whole[:1], "rows")


def added(launcher: Breaking) -> None:
    x, weights = normal((ROWS, WIDTH), 4), four_bits(13)
    for c in (normal((ROWS, 13), 5), normal((13,), 6)):
        mine = few_row_matvec.few_row_matvec_add(x, weights, FOUR, launcher, c)
        near(mine, few_row_matvec.add_reference(x, weights, c, FOUR))


def head_input(launcher: Breaking) -> None:
    half = WIDTH // 2
    e, h = normal((ROWS, half), 7) / 1000, normal((ROWS, half), 8)
    norms = mtp_input.MtpInputNorms(normal((half,), 9), normal((half,), 10), 1e-6)
    weights = four_bits(13)
    whole = mtp_input.mtp_input(e, h, norms, weights, FOUR, launcher)
    near(whole, mtp_input.reference(e, h, norms, weights, FOUR))
    few = mtp_input.mtp_input(e[:1], h[:1], norms, weights, FOUR, launcher)
    equal(few, whole[:1], "rows")


def norm(launcher: Breaking) -> None:
    """Rows of several SIMD-groups, the last of which has less to do."""
    x, weight = normal((ROWS, 1056), 32) / 1000, normal((1056,), 33)
    whole = wide_norm.wide_norm(x, weight, 1e-6, launcher)
    near(whole, wide_norm.reference(x, weight, 1e-6))
    equal(wide_norm.wide_norm(x[:1], weight, 1e-6, launcher), whole[:1], "rows")


def exchange(launcher: Breaking) -> None:
    """More rows than a threadgroup has threads."""
    raw, given = normal((40, 9), 34), (mx.array([0.7]), normal((3, 3), 35), 4, 1e-3)
    whole = stream_exchange.stream_exchange(raw, *given, launcher)
    near(whole, stream_exchange.reference(raw, *given))
    equal(stream_exchange.stream_exchange(raw[:1], *given, launcher), whole[:1], "rows")


def experts(launcher: Breaking) -> None:
    """One expert has five rows, so that its weights are read twice; one has four, one three."""
    x, weights = normal((6, WIDTH), 11), four_bits(5, 13)
    chosen = mx.array([[0, 3], [3, 1], [0, 1], [3, 0], [0, 3], [1, 0]], dtype=mx.int32)
    whole = expert_union_matvec.expert_union_matvec(x, chosen, weights, FOUR, launcher)
    near(whole, expert_union_matvec.reference(x, chosen, weights, FOUR))
    launcher.read_once("w", share=4 / 5, loads=16 / 13 * 4 / 5)
    few = expert_union_matvec.expert_union_matvec(x[:1], chosen[:1], weights, FOUR, launcher)
    equal(few, whole[:2], "rows")
    for more in ([[2, 2]], [[-1, 2]]):
        twice = mx.array(more, dtype=mx.int32)
        both = expert_union_matvec.expert_union_matvec(x[:1], twice, weights, FOUR, launcher)
        near(both, expert_union_matvec.reference(x[:1], twice, weights, FOUR))


def attention(launcher: Breaking) -> None:
    """257 keys, so that the last block is one that the first row does not see."""
    q, dense = normal((5, 2, 64), 12), (normal((1, 257, 64), 13), normal((1, 257, 64), 14))
    sinks, scale, place = normal((5,), 15), 0.125, KeyExtent(257)
    run, plain = few_query_attention.few_query_attention, few_query_attention.reference
    for where in (place, place._replace(window=50)):
        whole = run(q, dense, cache_format(), where, scale, launcher)
        near(whole, plain(q, dense, cache_format(), where, scale))
        first = where._replace(end=256)
        few = run(mx.contiguous(q[:, :1]), dense, cache_format(), first, scale, launcher)
        equal(few, whole[:, :1], "rows")
        if where == place:
            launcher.read_once("k", -4, loads=3)  # by three SIMD-groups of one threadgroup
    for where, its in ((place, sinks), (place._replace(window=2), None)):
        mine = run(q, dense, cache_format(), where, scale, launcher, its)
        near(mine, plain(q, dense, cache_format(), where, scale, its))
    spoilt = mx.array(dense[1])
    spoilt[:, 255] = mx.inf
    before, q = place._replace(end=256), q[:, :2]
    sound = run(q, dense, cache_format(), before, scale, launcher)
    equal(
        run(q, (dense[0], spoilt), cache_format(), before, scale, launcher)[:, :1],
        sound[:, :1],
        "rows",
    )
    form = cache_format(4, 32)
    packed = tuple(part for side in dense for part in mx.quantize(side, 32, 4))
    near(run(q, packed, form, place, scale, launcher), plain(q, packed, form, place, scale))
    latents = (dense[0][..., :32], dense[1])
    given = (q[..., 32:], latents, cache_format(is_latent=True), place, scale)
    near(run(*given, launcher, None, q), plain(*given, None, q))
    form = cache_format(8, 32, is_latent=True)
    packed = tuple(part for side in latents for part in form.store(side))
    given = (q[..., 32:], packed, form, place, scale)
    near(run(*given, launcher, None, q), plain(*given, None, q))


def delta_block(launcher: Breaking) -> None:
    shapes = ((4, 1, 32), (4, 1, 32), (4, 2, 33), (4, 2), (4, 2))
    parts = [normal(shape, seed) / 4 for seed, shape in enumerate(shapes, 16)]
    rows = gated_delta_block.DeltaRows(*parts[:3], mx.abs(parts[3]), parts[4])
    state, run = normal((2, 33, 32), 21), gated_delta_block.gated_delta_block
    last = gated_delta_block.ReplaySteps(rows.keys, normal((4, 2, 33), 22), rows.decay)
    counts = [mx.array([n], dtype=mx.int32) for n in range(4)]
    mine = run(state, counts[2], last, rows, launcher)
    for one, its in zip(mine, gated_delta_block.reference(state, 2, last, rows), strict=True):
        near(one, its)
    launcher.read_once("state", loads=64 / 33)
    few = gated_delta_block.DeltaRows(*(part[:1] for part in rows))
    equal(run(state, counts[2], last, few, launcher).y, mine.y[:1], "rows")
    # the second row, run after the first was replayed, is the second row run beside it
    done = gated_delta_block.ReplaySteps(rows.keys, mine.delta, rows.decay)
    second = gated_delta_block.DeltaRows(*(part[1:2] for part in rows))
    again = run(mine.settled, counts[1], done, second, launcher)
    equal(again.y, mine.y[1:2], "rows")


def delta_inputs(launcher: Breaking) -> None:
    module, channels = gated_delta_inputs, 2 * 48 + 2 * 40
    whole = normal((4, channels + 4), 23)  # with b and a behind the channels
    projected = module.ProjectedInputs(whole, whole, whole, channels + 2, channels)
    fixed = module.DeltaConstants(
        normal((channels, 4), 26), normal((2,), 27), -mx.exp(normal((2,), 28)), 1, 48, 40
    )
    before = normal((6, channels), 29)
    window = module.ConvolutionRows(before, mx.array([2], dtype=mx.int32))
    mine = module.gated_delta_inputs(projected, window, fixed, launcher)
    plain = module.reference(projected, before, 2, fixed)
    for one, its in zip((*mine.rows, mine.after), (*plain.rows, plain.after), strict=True):
        near(one, its)
    first = module.ProjectedInputs(*(part[:1] for part in projected[:3]), *projected[3:])
    few = module.gated_delta_inputs(first, window, fixed, launcher)
    for one, its in zip(few.rows, mine.rows, strict=True):
        equal(one, its[:1], "rows")


def pick(launcher: Breaking) -> None:
    random = np.random.default_rng(3)
    x, weights = normal((ROWS, WIDTH), 30), four_bits(90)
    keys = mx.array(random.integers(0, 2**32, (ROWS, 2), dtype=np.uint32))
    how = vocabulary_pick.PickOptions(keys, 0.3)
    mine = vocabulary_pick.vocabulary_pick(x, weights, FOUR, how, launcher)
    equal(mine, vocabulary_pick.reference(x, weights, FOUR, how), "numbers")
    launcher.read_once("w", -2, loads=96 / 90)
    few = vocabulary_pick.PickOptions(keys[:1], 0.3)
    equal(vocabulary_pick.vocabulary_pick(x[:1], weights, FOUR, few, launcher), mine[:1], "rows")
    alike = tuple(mx.broadcast_to(part[:1], part.shape) for part in weights)
    ties = vocabulary_pick.vocabulary_pick(x, alike, FOUR, vocabulary_pick.PickOptions(), launcher)
    equal(ties, mx.zeros((ROWS,), mx.int32), "numbers")
    scales = mx.array(weights[1])
    scales[17, 0] = mx.nan
    unsound = (weights[0], scales, weights[2])
    none = mx.full((ROWS,), -1)
    equal(vocabulary_pick.vocabulary_pick(x, unsound, FOUR, how, launcher), none, "numbers")


def pick_filtered(launcher: Breaking) -> None:
    """One likely token; others alike, of which some are kept, of unlike bits from one row on."""
    module, keys = filtered_pick, mx.array(np.arange(2, 22, dtype=np.uint32).reshape(10, 2))
    row = np.full(600, -4.1, dtype=np.float32)
    row[77] = 0
    alike = mx.array(np.tile(row, (10, 1)))
    apart = alike - mx.arange(600) / 1000 * (mx.arange(10)[:, None] > 6)
    for filters in (
        module.SamplingFilters(1.0, 0, 0.5),
        module.SamplingFilters(1.5, 300, 0.8, 0.03),
    ):
        mine = module.filtered_pick(apart, keys, filters.kernel_settings(), launcher)
        equal(mine, module.reference(apart, keys, filters), "numbers")
    settings = module.SamplingFilters(1.0, 0, 1.0, 0.5).kernel_settings(lowest_logit=-3e38)
    unsound = mx.where(mx.arange(600) == 333, mx.array([[mx.nan], [-mx.inf], [mx.inf]]), alike[:3])
    mine = module.filtered_pick(unsound, keys[:3], settings, launcher)
    equal(mine, mx.full((3,), -1), "numbers")


def position_noise(launcher: Breaking) -> None:
    keys = mx.array([[1, 2], [2**31, 7]], dtype=mx.uint32)
    equal(noise.gumbel_noise(keys, 300, launcher), noise.reference(keys, 300), "numbers")


def packed(form: WeightFormat, group: int, bits: int) -> Scenario:
    mode = form.name if form.name.endswith("fp4") else "affine"
    return product(form, tuple(mx.quantize(normal((16, 320), 1) / 16, group, bits, mode)))


def blocks(name: str) -> Scenario:
    count = 16 if name == "iq4_nl" else 2
    data = mx.array(random_blocks(name.upper(), 16, count, seed=3, scale=0.01))
    # lanes of a block fetch the same scales, of Q3_K the same high bits
    return product(BLOCK_FORMS[name], (data,), 512, loads=2)


def many_rows(launcher: Breaking) -> None:
    """More than a tile of rows and of outputs, neither a whole number of tiles."""
    for name in ("q2_k", "iq4_xs"):
        form, x = BLOCK_FORMS[name], normal((67, 256), 4)
        weights = (mx.array(random_blocks(name.upper(), 69, 1, 5)),)
        whole = many_row_product.many_row_product(x, weights, form, launcher)
        near(whole, many_row_product.reference(x, weights, form))
        few = many_row_product.many_row_product(x[62:], weights, form, launcher)
        equal(few, whole[62:], "rows")
        launcher.read_once("x", share=2, loads=4)  # by two tiles of outputs
        launcher.read_once("w", loads=12)  # some bits for each run and each lane beyond the last


def tiles(launcher: Breaking) -> None:
    """A tile of rows and some of a second; units that are no whole number of fours."""
    x, weights = normal((11, 352), 4), tuple(mx.quantize(normal((37, 352), 2), 32, 4))
    form = affine_format(4, 32)
    whole = tile_product.tile_product(x, weights, form, launcher)
    near(whole, few_row_matvec.reference(x, weights, form))
    equal(tile_product.tile_product(x[9:], weights, form, launcher), whole[9:], "rows")
    scaled = tuple(mx.quantize(normal((16, 352), 3), mode="mxfp4"))
    near(
        tile_product.tile_product(x, scaled, MXFP4, launcher),
        few_row_matvec.reference(x, scaled, MXFP4),
    )


def many_experts(launcher: Breaking) -> None:
    """One expert has no rows, one more than a tile."""
    form, chosen = BLOCK_FORMS["q6_k"], mx.array([0] * 3 + [1] * 67 + [3] * 5, dtype=mx.uint32)
    stack = (mx.array(random_blocks("Q6_K", 4 * 9, 1, 6)).reshape(4, 9, -1),)
    x = normal((75, 256), 7)
    mine = many_row_product.many_row_experts(x, chosen, stack, form, launcher)
    near(mine, many_row_product.experts_reference(x, chosen, stack, form))
    launcher.read_once("w", share=3 / 4, loads=40)


def embedded(launcher: Breaking) -> None:
    """Rows of K-quants, which have offsets, and of a format with a table in threadgroup memory."""
    for kind in ("Q2_K", "IQ4_XS"):
        form = BLOCK_FORMS[kind.lower()]
        data = mx.array(random_blocks(kind, 5, 2, seed=2).reshape(5, -1))
        tokens = mx.array([[4, 0, 4]])
        mine = block_embedding.block_embedding(tokens, data, form, mx.float32, launcher)
        near(mine, block_embedding.reference(tokens, data, form, mx.float32))
        few = block_embedding.block_embedding(tokens[:, :2], data, form, mx.float32, launcher)
        equal(few, mine[:, :2], "rows")


SCENARIOS: dict[str, Scenario] = {
    "few_row_gate_up": gate_up,
    "few_row_matvec_add": added,
    "mtp_input": head_input,
    "wide_norm": norm,
    "stream_exchange": exchange,
    "expert_union_matvec": experts,
    "few_query_attention": attention,
    "gated_delta_block": delta_block,
    "gated_delta_inputs": delta_inputs,
    "vocabulary_pick": pick,
    "filtered_pick": pick_filtered,
    "noise": position_noise,
    "few_row_matvec": packed(affine_format(4, 64), 64, 4),
    "affine3": packed(affine_format(3, 64), 64, 3),
    "affine6": packed(affine_format(6, 32), 32, 6),
    "dense": product(DENSE, (normal((16, 320), 1) / 16,)),
    "mxfp4": packed(MXFP4, 32, 4),
    "nvfp4": packed(NVFP4, 16, 4),
    **{name: blocks(name) for name in BLOCK_FORMS},
    "tile_product": tiles,
    "many_row_product": many_rows,
    "many_row_experts": many_experts,
    "block_embedding": embedded,
}
