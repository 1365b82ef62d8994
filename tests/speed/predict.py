"""Predict what drafting gains on Macs: T(M)/T(1) and tokens a second, by a model with no Mac in it.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/predict.py

All of it is a prediction. A pass takes, for every matrix, the longer of moving its bytes and of its
instructions, which are counted in the kernels' own texts, ours and MLX's (metal_emulator compiles
them for another GPU: near Apple's, not equal); then the cache and its partial results, the
recurrent states, and the launches that a dry run counts (dry_run.py). What is not in the model:
waits of the host, heat, other programs, caches of the chip, and which experts texts choose.

Constants and where they come from: bandwidths and cores are Apple's; clocks of M1 and M2, and the
quarter rate of shifts and conversions there, are measured (philipturner/metal-benchmarks); clocks
from M3 on are those that comparison sites list (hmc-tech.com), and for M5 Max it is set so
that MLX PR 3791 comes out, since none is known. The reach of a chip is set by published speeds of
plain decoding on it, for M1 and M2 Ultra by those of the nearest chip; SHARE_OF_SLOTS and SOFTNESS
by MLX's T(M) on M4 Pro and M3 Max, LAUNCH_S by MLX issue 4521. So the errors told are of a fit, not
of a test. Acceptance is given, not predicted.

Found, of 4-bit weights and 1, 2, 4, 6, 8 and 9 rows: instructions a weight on M3 and later 5.2,
6.6, 9.5, 12.7, 16.6, 18.2 (MLX 4.9, 8.0, 12.5, 20.5, 25.1, 29.7), cycles on M1 and M2 5.0, 6.1,
8.5, 11.2, 14.0, 15.2 (MLX 4.5 a row; ours 8.6 for one row before nibbles were unpacked where they
lie). T(4) and T(8) of products over T(1): M1 Max 1.05, 1.27 (MLX 1.54, 2.94), M4 Pro 1.21, 1.88
(1.47, 2.80), M5 Max 1.16, 1.74 (1.38, 2.58). Tokens a second, plain > at the best depth with
ACCEPTANCE, 1,024 tokens:

| 4 bits | M1 | M1 Max | M2 Ultra | M3 Max | M4 Pro | M5 Max |
|---|---|---|---|---|---|---|
| 4B | 21 > 41 | 84 > 163 | 154 > 315 | 129 > 239 | 87 > 153 | 172 > 321 |
| 9B | 12 > 23 | 48 > 95 | 91 > 189 | 75 > 140 | 49 > 88 | 102 > 192 |
| 27B | 4 > 9 | 15 > 38 | 29 > 79 | 24 > 54 | 16 > 33 | 33 > 74 |
| 35B-A3B | 28 > 39 | 94 > 146 | 150 > 258 | 131 > 212 | 97 > 145 | 162 > 273 |

On published figures it is off by 21 % in the mean: 0 to 15 % on M4 Pro, M3 Max and M5 Max, +80 % on
M3 Ultra, whose kernels were timed hot, +26 to +74 % where others drafted on M1 Max. Gains come out
9 to 51 % higher than others' engines reach (most for 35B-A3B). So it ranks kernels and depths; it
promises no speed.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import prod
from typing import NamedTuple

import counts
import mlx.core as mx
import numpy as np
from counts import table_of
from dry_run import dry_run
from kernel_measures import OUTPUTS, instructions, stock_instructions
from metal_emulator import RegisterLauncher
from metal_emulator.instructions import Instructions
from published_configs import CONFIGS
from rich.console import Console

from metal_kernels.few_query_attention import KeyExtent, few_query_attention
from metal_kernels.key_value_formats import cache_format
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_bytes
from metal_kernels.weight_formats.mlx_formats import MXFP4, affine_format
from mlx_engine.models.feed_forward_specs import ExpertsSpec
from mlx_engine.models.layer_specs import AttentionSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.registry import family_for, text_model_type

ROWS = range(1, 10)
CONTEXTS = (1024, 16384, 65536)
ACCEPTANCE = 0.8
"""Chance that a draft is accepted when those before it were: code and prose lie at 0.9 and 0.5."""

SHARE_OF_SLOTS, LAUNCH_S, SOFTNESS = 0.95, 3e-6, 4
SLOW_CYCLES = 4
STOCK_LAUNCHES = 2.4
"""Launches of a pass in mlx-lm over ours: 1,500 to 2,000 are told of a hybrid of 64 layers."""

M3 = 15


class Chip(NamedTuple):
    """bandwidth: bytes a second; reach: the share of it that plain decoding is seen to reach.
    clock: Hz. generation: 13 is M1.
    """

    name: str
    bandwidth: float
    reach: float
    cores: int
    clock: float
    generation: int

    @property
    def slots(self) -> float:
        """Instructions of threads that start in a second."""
        return self.cores * 128 * self.clock * SHARE_OF_SLOTS

    def seconds(self, moved: float, slots: float) -> float:
        """Of work that moves so many bytes and starts so many instructions at the same time."""
        memory, arithmetic = moved / (self.bandwidth * self.reach), slots / self.slots
        return float(np.linalg.norm([memory, arithmetic], SOFTNESS))

    @property
    def dtype(self) -> mx.Dtype:
        """Of activations, by the engine's choice."""
        return mx.bfloat16 if self.generation >= M3 else mx.float16

    def slots_of(self, counted: Instructions) -> float:
        """Slots that instructions take: on M1 and M2 the slow ones run beside the others."""
        if self.generation >= M3:
            return counted.total
        return max(counted.total, SLOW_CYCLES * counted.slow)


CHIPS = {
    name: Chip(name, gigabytes * 1e9, reach, cores, ghz * 1e9, generation)
    for name, gigabytes, reach, cores, ghz, generation in (
        ("M1", 68.25, 0.8, 8, 1.278, 13),
        ("M1 Max", 400, 0.58, 32, 1.296, 13),
        ("M2 Ultra", 800, 0.58, 76, 1.398, 14),
        ("M3 Max", 400, 0.95, 40, 1.398, 15),
        ("M4 Pro", 273, 0.9, 20, 1.578, 16),
        ("M5 Max", 614, 0.88, 40, 1.9, 17),
        ("M3 Ultra", 819, 0.75, 80, 1.398, 15),  # this and the next for `published` alone
        ("M4", 120, 0.8, 10, 1.47, 16),
    )
}
SHOWN = ("M1", "M1 Max", "M2 Ultra", "M3 Max", "M4 Pro", "M5 Max")


def _quantised(form: WeightFormat, **how: int | str) -> tuple[WeightFormat, tuple[mx.array, ...]]:
    return form, tuple(mx.quantize(mx.ones((OUTPUTS, 32 * form.unit), mx.bfloat16), **how))


@cache
def matrix(form: str) -> tuple[WeightFormat, tuple[mx.array, ...]]:
    """A format and a small matrix in it."""
    if form in ("4-bit", "8-bit", "Q4_K"):  # which is kept as affine groups of 32
        bits, group = (4, 32) if form == "Q4_K" else (int(form[0]), 64)
        return _quantised(affine_format(bits, group), group_size=group, bits=bits)
    if form == "mxfp4":
        return _quantised(MXFP4, mode="mxfp4")
    kind = BLOCK_FORMS[form.lower()]
    width = block_bytes(kind.name, 32 * kind.unit)
    return kind, (mx.zeros((OUTPUTS, width), mx.uint8),)


BITS = {"4-bit": 4.5, "8-bit": 8.5, "Q4_K": 5.0, "Q6_K": 6.5625, "mxfp4": 4.25}
"""Of a weight, with its share of scales."""


@cache
def ours(form: str, rows: int, dtype: mx.Dtype) -> Instructions:
    """Instructions a weight in our kernel."""
    return instructions(*matrix(form), rows, dtype)


@cache
def mlx(bits: int, rows: int, generation: int, dtype: mx.Dtype) -> Instructions:
    """Instructions a weight in MLX's kernels: qmv a row on M1 and M2, qmv_wide from M3 on."""
    return stock_instructions(bits, rows, dtype, wide=generation >= M3)


def product_s(chip: Chip, weights: float, form: str, rows: int, *, stock: bool = False) -> float:
    """Seconds of products of so many weights and rows."""
    counted = ours(form, rows, chip.dtype)
    if stock and form in ("4-bit", "8-bit"):
        counted = mlx(int(form[0]), rows, chip.generation, chip.dtype)
    return chip.seconds(weights * BITS[form] / 8, weights * chip.slots_of(counted))


class Attention(NamedTuple):
    """layers: those with a cache of all tokens."""

    layers: int
    heads: int
    key_heads: int
    size: int

    def seconds(self, chip: Chip, rows: int, context: int) -> float:
        """Of all layers, for rows at the end of a context."""
        bytes_of_keys = context * self.key_heads * 2 * self.size * 2
        gqa, size = self.heads // self.key_heads, self.size
        partial = counts.Attention("", "", gqa, size, size).share(rows, context)
        moved = bytes_of_keys * (1 + partial)
        slots = self.key_heads * context * _slots_a_key(self, rows, chip)
        return self.layers * chip.seconds(moved, slots)


@cache
def _slots_a_key(attention: Attention, rows: int, chip: Chip) -> float:
    """Slots that a key of one key head takes in all rows of its heads."""
    launcher = RegisterLauncher()
    gqa, size = attention.heads // attention.key_heads, attention.size
    cache_of = tuple(mx.zeros((1, 64, size), chip.dtype) for _ in range(2))
    q = mx.zeros((gqa, rows, size), chip.dtype)
    few_query_attention(q, cache_of, cache_format(), KeyExtent(64), 1.0, launcher)
    first = launcher.runs[0]
    return chip.slots_of(first.need.loops[1]) * first.grid[0] / 4


class Model(NamedTuple):
    """dense, chosen: weights that every row reads, and those of one row's experts. head, output:
    weights of a head without and of the output matrix. states: bytes. launches, a_draft: of a plain
    round and of a draft.
    """

    dense: float
    chosen: float
    head: float
    output: float
    attention: Attention
    states: float
    launches: int
    a_draft: float

    def pass_s(self, chip: Chip, rows: int, context: int, form: str, *, stock: bool) -> float:
        """Seconds of a pass of so many rows; experts of several rows overlap as in EXPERTS."""
        weights = product_s(chip, self.dense, form, rows, stock=stock)
        weights += rows**EXPERTS * product_s(chip, self.chosen, form, 1, stock=stock)
        launches = self.launches * LAUNCH_S * (STOCK_LAUNCHES if stock else 1)
        states = chip.seconds(2 * self.states, 0)
        return weights + states + launches + self.attention.seconds(chip, rows, context)

    def draft_s(self, chip: Chip, form: str) -> float:
        """Seconds of a draft of one token."""
        weights = product_s(chip, self.head + self.output, form, 1)
        return weights + self.a_draft * LAUNCH_S


EXPERTS = 0.77
"""M rows choose M^0.77 times one row's experts: 39 of 64 at M = 8 (measured, lucebox PR 501)."""


@cache
def model_of(name: str) -> Model:
    """A published model, by its config."""
    config = CONFIGS[name]
    family = family_for(str(text_model_type(config)), config, name)
    assert isinstance(family, NativeFamily)
    spec = family.spec
    present = ["layers.0.join.weight"]
    trunk = spec.tensors(present)
    experts = next((b.feed for b in spec.blocks if isinstance(b.feed, ExpertsSpec)), None)
    matrices = {k: shape for k, shape in trunk.items() if len(shape) > 1 and "conv" not in k}
    stacks = sum(prod(shape) for shape in matrices.values() if len(shape) == 3)
    chosen = stacks * experts.per_token / experts.count if experts else 0
    output = spec.vocabulary * spec.hidden
    tables = ("embed_tokens.weight", "lm_head.weight")
    inside = sum(prod(shape) for key, shape in matrices.items() if key not in tables)
    head = sum(_read(shape, experts) for shape in spec.head_tensors(present).values())
    full = [m for b in spec.blocks for m in b.mixers if isinstance(m, AttentionSpec)]
    run = dry_run(config, "mlx-4bit")
    plain, drafted = run.phases["plain round"].launches, run.phases["drafted round"].launches
    return Model(
        inside - stacks + output,
        chosen,
        head,
        output,
        Attention(len(full), full[0].heads, full[0].kv_heads, full[0].key_dim),
        spec.cache.state_elements * 4,
        plain,
        (drafted - plain) / 3,
    )


def _read(shape: tuple[int, ...], experts: ExpertsSpec | None) -> float:
    share = experts.per_token / experts.count if experts and len(shape) == 3 else 1
    return prod(shape) * share if len(shape) > 1 else 0


class Best(NamedTuple):
    """Tokens a second."""

    plain: float
    depth: int
    drafted: float


def best(
    chip: Chip, model: Model, context: int, form: str = "4-bit", *, stock: bool = False
) -> Best:
    """Plain decoding, and the depth that is fastest."""
    speeds = {}
    for rows in ROWS:
        tokens = sum(ACCEPTANCE**n for n in range(rows))
        draft = (rows - 1) * model.draft_s(chip, form)
        speeds[rows - 1] = tokens / (draft + model.pass_s(chip, rows, context, form, stock=stock))
    depth = max(speeds, key=lambda depth: speeds[depth])
    return Best(speeds[0], depth, speeds[depth])


class Published(NamedTuple):
    """A figure that others measured, and this model's."""

    what: str
    source: str
    measured: float
    predicted: float


MODELS = ("Qwen3.5-4B", "Qwen3.5-9B", "Qwen3.6-27B", "Qwen3.6-35B-A3B")


def published() -> Iterator[Published]:
    """T(M)/T(1) and milliseconds of MLX's kernels, then tokens a second of others' engines."""

    def ratio(chip: Chip, rows: int) -> float:
        few, one = (product_s(chip, 1, "4-bit", n, stock=True) for n in (rows, 1))
        return few / one

    for rows, measured in {2: 1.03, 3: 1.22, 4: 1.47, 6: 2.07, 8: 2.69}.items():
        found = ratio(CHIPS["M4 Pro"], rows)
        yield Published(f"M4 Pro T({rows})/T(1)", "MLX issue 3839", measured, found)
    for name, source, table in (
        ("M3 Max", "MLX PR 3863", {1: 0.129, 4: 0.165, 6: 0.263, 8: 0.323}),
        ("M3 Ultra", "MLX issue 4265", {1: 0.060, 4: 0.060, 6: 0.077, 8: 0.094}),
    ):
        for rows, measured in table.items():
            found = 1e3 * product_s(CHIPS[name], 5120 * 17408, "4-bit", rows, stock=True)
            yield Published(f"{name}, 5120 x 17408, {rows} rows, ms", source, measured, found)
    for rows, measured in {1: 76.0, 3: 85.0, 5: 108.0, 8: 168.0}.items():
        found = 1e3 * product_s(CHIPS["M5 Max"], 70.6e9, "4-bit", rows, stock=True)
        yield Published(f"M5 Max, 70B, {rows} rows, ms", "MLX PR 3791", measured, found)
    for chip, name, form, context, source, plain in (
        ("M1 Max", "Qwen3.6-27B", "4-bit", 512, "Takuyan-labs", 13.89),
        ("M2 Ultra", "Qwen3.6-35B-A3B", "8-bit", 512, "vllm-mlx 170", 53.0),
        ("M4", "Qwen3.5-9B", "4-bit", 512, "MTPLX README", 14.4),
        ("M3 Ultra", "Qwen3.6-27B", "4-bit", 512, "oMLX 0.5.0", 35.0),
        ("M3 Ultra", "Qwen3.6-35B-A3B", "4-bit", 512, "oMLX 0.5.0", 89.6),
        ("M5 Max", "Qwen3.6-27B", "4-bit", 512, "mlx-vlm 1167", 35.0),
        ("M5 Max", "Qwen3.6-27B", "4-bit", 512, "MTPLX README", 30.4),
        ("M5 Max", "Qwen3.5-4B", "4-bit", 512, "mlx-vlm 1167", 145.0),
        ("M5 Max", "Qwen3.6-27B", "Q6_K", 512, "gmlx", 20.7),
        ("M5 Max", "Qwen3.6-27B", "Q6_K", 17000, "gmlx", 18.8),
        ("M5 Max", "Qwen3.6-27B", "Q6_K", 200000, "gmlx", 12.1),
        ("M5 Max", "Qwen3.5-9B", "Q6_K", 512, "gmlx", 70.3),
        ("M5 Max", "Qwen3.6-35B-A3B", "Q6_K", 512, "gmlx", 128.8),
    ):
        found = best(CHIPS[chip], model_of(name), context, form, stock=source != "gmlx").plain
        yield Published(f"{chip}, {name} {form} @{context}, tok/s", source, plain, found)
    for name, model_name, form, source, gain in (
        ("M5 Max", "Qwen3.6-27B", "4-bit", "mlx-vlm 1167", 60.7 / 35.0),
        ("M5 Max", "Qwen3.5-4B", "4-bit", "MTPLX README", 227.8 / 133.6),
        ("M5 Max", "Qwen3.6-27B", "Q6_K", "gmlx", 36.8 / 20.7),
        ("M5 Max", "Qwen3.5-9B", "Q6_K", "gmlx", 111.9 / 70.3),
        ("M5 Max", "Qwen3.6-35B-A3B", "Q6_K", "gmlx", 138.1 / 128.8),
        ("M3 Ultra", "Qwen3.6-35B-A3B", "4-bit", "oMLX 0.5.0", 140.4 / 89.6),
        ("M2 Ultra", "Qwen3.6-35B-A3B", "8-bit", "vllm-mlx 170", 71.5 / 53.0),
    ):
        speed = best(CHIPS[name], model_of(model_name), 512, form)
        what = f"{name}, {model_name} {form}, gain at an unknown acceptance"
        yield Published(what, source, gain, speed.drafted / speed.plain)
    chip, model = CHIPS["M1 Max"], model_of("Qwen3.6-27B")
    for depth, measured in {1: 21.9, 2: 21.7, 3: 35.4}.items():
        tokens = 1 + sum(np.cumprod([0.963, 0.955, 0.888])[:depth])
        took = depth * model.draft_s(chip, "4-bit")
        took += model.pass_s(chip, depth + 1, 512, "4-bit", stock=False)
        what = f"M1 Max, Qwen3.6-27B, {depth} drafted, tok/s"
        yield Published(what, "Takuyan-labs", measured, tokens / took)


def main() -> None:
    console = Console(width=150)
    cycles = table_of("instructions a weight (M1, M2: cycles)", *map(str, ROWS))
    ratios = table_of("T(M)/T(1) of products", *map(str, ROWS))
    for chip in (CHIPS["M4 Pro"], CHIPS["M1 Max"]):
        lines = {form: [ours(form, n, chip.dtype) for n in ROWS] for form in BITS}
        for bits in (4, 8):
            every = [mlx(bits, n, chip.generation, chip.dtype) for n in ROWS]
            lines[f"{bits}-bit, MLX"] = every
        for form, made in lines.items():
            cycles.add_row(f"{chip.name} {form}", *(f"{chip.slots_of(i):.1f}" for i in made))
    for chip in (CHIPS[name] for name in SHOWN):
        for form in BITS:
            for is_stock in (False, True) if form in ("4-bit", "8-bit") else (False,):
                times = [product_s(chip, 1e9, form, n, stock=is_stock) for n in ROWS]
                name = f"{chip.name} {form}{', MLX' if is_stock else ''}"
                ratios.add_row(name, *(f"{took / times[0]:.2f}" for took in times))
    console.print(cycles, ratios, sep="\n\n")
    speeds = table_of("4-bit, tok/s plain, depth: tok/s", "@", *SHOWN)
    for name, context in product(MODELS, CONTEXTS):
        found = [best(CHIPS[chip], model_of(name), context) for chip in SHOWN]
        cells = (f"{b.plain:.0f}  {b.depth}: {b.drafted:.0f}" for b in found)
        speeds.add_row(name, str(context), *cells)
    errors = table_of("published", "source", "measured", "predicted", "error")
    off = []
    for figure in published():
        off.append(figure.predicted / figure.measured - 1)
        numbers = (f"{figure.measured:.3g}", f"{figure.predicted:.3g}", f"{off[-1]:+.0%}")
        errors.add_row(figure.what, figure.source, *numbers)
    console.print("", speeds, "", errors, sep="\n")
    console.print(f"mean {np.mean(np.abs(off)):.0%}, worst {max(off, key=abs):+.0%}")


if __name__ == "__main__":
    main()
