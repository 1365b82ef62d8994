"""Products and every weight format, broken on purpose: for test_broken_kernels.py."""

import mlx.core as mx
import numpy as np
from gguf_blocks import random_blocks
from kernel_scenarios import Breaking, Broken, Scenario, equal, near, normal, product

from metal_kernels import many_row_product
from metal_kernels.weight_formats.affine import affine
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.dense import DENSE
from metal_kernels.weight_formats.fp4 import mxfp4, nvfp4
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS


def packed(form: WeightFormat, group: int, bits: int) -> Scenario:
    mode = form.name if form.name.endswith("fp4") else "affine"
    return product(form, tuple(mx.quantize(normal((16, 320), 1) / 16, group, bits, mode)))


def blocks(form: WeightFormat, size: int, *halves: int) -> Scenario:
    random = np.random.default_rng(size)
    count = 16 if form.name == "iq4_nl" else 2
    data = random.integers(0, 256, (16, count, size), dtype=np.uint8)
    for at in halves:
        steps = random.normal(0, 0.01, (16, count)).astype(np.float16)
        data[:, :, at : at + 2] = steps[..., None].view(np.uint8)
    # lanes of a block fetch the same scales, of Q3_K the same high bits
    return product(form, (mx.array(data.reshape(16, -1)),), 512, loads=2)


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


def many_experts(launcher: Breaking) -> None:
    """One expert has no rows, one more than a tile."""
    form, chosen = BLOCK_FORMS["q6_k"], mx.array([0] * 3 + [1] * 67 + [3] * 5, dtype=mx.uint32)
    stack = (mx.array(random_blocks("Q6_K", 4 * 9, 1, 6)).reshape(4, 9, -1),)
    x = normal((75, 256), 7)
    mine = many_row_product.many_row_experts(x, chosen, stack, form, launcher)
    near(mine, many_row_product.experts_reference(x, chosen, stack, form))
    launcher.read_once("w", share=3 / 4, loads=40)


SCENARIOS: dict[str, Scenario] = {
    "few_row_matvec": packed(affine(4, 64), 64, 4),
    "affine3": packed(affine(3, 64), 64, 3),
    "affine6": packed(affine(6, 32), 32, 6),
    "dense": product(DENSE, (normal((16, 320), 1) / 16,)),
    "mxfp4": packed(mxfp4(), 32, 4),
    "nvfp4": packed(nvfp4(), 16, 4),
    "q6_k": blocks(BLOCK_FORMS["q6_k"], 210, 208),
    "q3_k": blocks(BLOCK_FORMS["q3_k"], 110, 108),
    "q2_k": blocks(BLOCK_FORMS["q2_k"], 84, 80, 82),
    "iq4_nl": blocks(BLOCK_FORMS["iq4_nl"], 18, 0),
    "iq4_xs": blocks(BLOCK_FORMS["iq4_xs"], 136, 0),
    "iq2_xxs": blocks(BLOCK_FORMS["iq2_xxs"], 66, 0),
    "iq2_xs": blocks(BLOCK_FORMS["iq2_xs"], 74, 0),
    "iq2_s": blocks(BLOCK_FORMS["iq2_s"], 82, 0),
    "many_row_product": many_rows,
    "many_row_experts": many_experts,
}

BROKEN = [
    Broken(
        "few_row_matvec",
        "no guard at the last rows",
        "min(first + r, N - 1)",
        "(first + r)",
        "bounds",
    ),
    Broken(
        "few_row_matvec", "rows beyond N stored", "lane == 0 && first + r < N", "lane == 0", "race"
    ),
    Broken(
        "few_row_matvec",
        "nibbles swapped",
        "int from = i * BITS % 32",
        "int from = (i ^ 1) * BITS % 32",
        "numbers",
    ),
    Broken(
        "few_row_matvec",
        "last unit left out",
        "units = K / (8 * RUNS)",
        "units = K / (8 * RUNS) - 1",
        "numbers",
    ),
    Broken("few_row_matvec", "one unit too many", "unit < units", "unit <= units", "bounds"),
    Broken(
        "few_row_matvec", "lanes not added up", "simd_sum(total[r][m])", "total[r][m]", "numbers"
    ),
    Broken(
        "few_row_matvec",
        "offset forgotten",
        "fma(scale_offset[r].y, sum, total[r][m])",
        "fma(0.0f, sum, total[r][m])",
        "numbers",
    ),
    Broken(
        "few_row_matvec",
        "products in half precision",
        "total[r][m] = fma(scale_offset[r].x, dot, ",
        "total[r][m] = fma(scale_offset[r].x, float(half(dot)), ",
        "numbers",
    ),
    Broken(
        "few_row_matvec",
        "order of units by M",
        "int unit = lane;",
        "int unit = (lane + M) % 32;",
        "rows",
    ),
    Broken(
        "few_row_matvec",
        "weights fetched again for each row",
        "float dot = q[r][0]",
        (
            "auto its = FETCH(W_ROW((r + m) % R), unit, K);\n"
            "          for (int i = 0; i <= run; i++) {\n"
            "            decode(its, q[(r + m) % R]);\n"
            "          }\n"
            "          float dot = q[r][0]"
        ),
        "counts",
    ),
    Broken(
        "few_row_matvec",
        "a run decoded again",
        "it.words[i] = REST",
        "if (RUNS == 1) it.words[i] = REST",
        "numbers",
    ),
    Broken("few_row_matvec", "offset denied", "OFFSET = true", "OFFSET = false", "numbers"),
    Broken(
        "few_row_matvec",
        "order of runs by M",
        "run_start(unit, run);",
        "run_start(unit, run);\n    if (AT_ONCE == 1) { total[0][0] *= 1.0000001f; }",
        "rows",
    ),
    Broken(
        "affine3",
        "bits of the next word lost",
        "(after << (32 - REST) % 32)",
        "0",
        "numbers",
    ),
    Broken("affine3", "units of two runs", "RUNS = 4;", "RUNS = 2;", "numbers"),
    Broken("affine3", "five bits of shift", "8 * (BITS % 4)", "8 * (BITS % 2)", "numbers"),
    Broken(
        "affine6",
        "bits across words lost",
        "+ 1] << (32 - from)",
        "+ 1] << (31 - from)",
        "numbers",
    ),
    Broken("affine6", "group of the next unit", "+ unit * (8", "+ (unit ^ 2) * (8", "numbers"),
    Broken("affine6", "rows one word short", "at * WORDS + i", "at * WORDS + i - row", "numbers"),
    Broken(
        "dense", "values one off", "it.values[i] = from[i]", "it.values[i] = from[i ^ 1]", "numbers"
    ),
    Broken("dense", "scale forgotten", "float2(1.0f, 0.0f)", "float2(0.0f, 1.0f)", "numbers"),
    Broken(
        "dense",
        "row stride of another matrix",
        "size_t(row) * K + unit * 8",
        "size_t(row) * (K + 8) + unit * 8",
        "bounds",
    ),
    Broken("mxfp4", "sign dropped", "(code & 8) << 12", "0", "numbers"),
    Broken("mxfp4", "group of 16", "unit * 16 / GROUP", "unit", "bounds"),
    Broken("mxfp4", "exponent one off", "e << 23", "(e + 1) << 23", "numbers"),
    Broken("nvfp4", "mantissa without its one", "float(8 + m)", "float(m)", "numbers"),
    Broken("nvfp4", "group of 32", "unit * 16 / GROUP", "unit / 2", "numbers"),
    Broken("nvfp4", "nibbles swapped", ">> (4 * i)", ">> (4 * (i ^ 1))", "numbers"),
    Broken("q6_k", "zero point one off", "<< 4)) - 32", "<< 4)) - 31", "numbers"),
    Broken(
        "q6_k",
        "low planes swapped",
        "const Eight now = it.now",
        "const Eight now = it.next",
        "numbers",
    ),
    Broken("q6_k", "scale unsigned", "float(char(", "float(uchar(", "numbers"),
    Broken("q3_k", "high bit of the other half", ", 4 * at.half_of)", ", 0)", "numbers"),
    Broken("q3_k", "zero point one off", "<< 2)) - 4", "<< 2)) - 3", "numbers"),
    Broken(
        "q3_k",
        "scales' high bits lost",
        "uint(at.block[104 + group % 4])",
        "uint(at.block[104])",
        "numbers",
    ),
    Broken("q2_k", "scales of the run before", "it.scales >>= 8;", "", "numbers"),
    Broken("q2_k", "minimum added", "-it.dmin", "it.dmin", "numbers"),
    Broken(
        "q2_k", "scale and minimum swapped", "it.scales & 15", "(it.scales >> 4) & 15", "numbers"
    ),
    Broken(
        "q2_k",
        "second half read twice",
        "at.block + 16 + 32 * at.half_of",
        "at.block + 16 + 32",
        "numbers",
    ),
    Broken("iq4_nl", "a table entry off by one", "-127.0f, -104.0f", "-127.0f, -103.0f", "numbers"),
    Broken("iq4_nl", "high nibbles lost", "moved(now, 4)", "now", "numbers"),
    Broken(
        "iq4_nl",
        "table read before it stands",
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
        "",
        "race",
    ),
    Broken("iq4_nl", "blocks of 17 bytes", "+ unit) * 18", "+ unit) * 17", "alignment"),
    Broken("iq4_xs", "high scale bits lost", "low | (high << 4)", "low", "numbers"),
    Broken("iq4_xs", "low scales swapped", "4 * (which % 2)", "4 * (1 - which % 2)", "numbers"),
    Broken(
        "iq4_xs",
        "values of the next unit",
        "block + 8 + 16 * which",
        "block + 8 + 16 * (which ^ 1)",
        "numbers",
    ),
    Broken("iq2_xxs", "signs of six bits", "(7 * run)) & 127", "(7 * run)) & 63", "numbers"),
    Broken("iq2_xxs", "scale of the signs", "both >> 28)", "both >> 24)", "numbers"),
    Broken(
        "iq2_xxs",
        "indices swapped",
        "(8 * (run % 2))) & 255",
        "(8 * (1 - run % 2))) & 255",
        "numbers",
    ),
    Broken("iq2_xs", "no eighth sign", "(popcount(signs) & 1) << 7", "0", "numbers"),
    Broken("iq2_xs", "scales swapped", "* 0x0101 |", "* 0x01010000 |", "numbers"),
    Broken("iq2_xs", "an index of eight bits", "both & 511]", "both & 255]", "numbers"),
    Broken("iq2_s", "no half in a scale", "+ 0.5f", "+ 0.0f", "numbers"),
    Broken("iq2_s", "high bits of an index lost", "& 3) << 8", "& 0) << 8", "numbers"),
    Broken(
        "iq2_s",
        "signs of the first run",
        "block[34 + 4 * which + run]",
        "block[34 + 4 * which]",
        "numbers",
    ),
    Broken("iq2_s", "an entry a word", "it.entries[0] >> 16", "0", "numbers"),
    Broken("iq2_s", "signs of the run before", "it.signs >>= 8;", "", "numbers"),
    Broken(
        "many_row_product",
        "no guard at the last weights",
        "min(first + output, N - 1)",
        "(first + output)",
        "bounds",
    ),
    Broken(
        "many_row_product",
        "no guard at the last rows",
        "min(top + row, to - 1)",
        "(top + row)",
        "bounds",
    ),
    Broken(
        "many_row_product",
        "outputs beyond N stored",
        "if (n < N)",
        "if (true)",
        "race",
    ),
    Broken(
        "many_row_product",
        "last row left out",
        "at < here * TILE",
        "at < (here - 1) * TILE",
        "unwritten",
    ),
    Broken(
        "many_row_product",
        "weights not turned",
        "ulong2(0, 0), true)",
        "ulong2(0, 0), false)",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "another run",
        "if (STEPS == 1 && my_part > 0) {",
        "if (STEPS == 1 && my_part == 0) {",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "another unit",
        "(STEPS == 1 ? 0 : my_part + i), K)",
        "(STEPS == 1 ? 0 : 3 - my_part - i), K)",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "offset forgotten",
        "q[j], scale_offset.y)",
        "q[j], 0.0f)",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "a tile of sums forgotten",
        "left, right[n], total[m][n]);",
        "left, right[n], total[m][0]);",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "weights in half precision",
        ": scale_offset.x * q[j]",
        ": float(half(scale_offset.x)) * q[j]",
        "numbers",
    ),
    Broken(
        "many_row_product",
        "multiplied before it is laid out",
        "      threadgroup_barrier(mem_flags::mem_threadgroup);\n      UNROLL for (int part",
        "      UNROLL for (int part",
        "race",
    ),
    Broken(
        "many_row_product",
        "laid out before it is multiplied",
        "      threadgroup_barrier(mem_flags::mem_threadgroup);\n    }\n  }\n  UNROLL",
        "    }\n  }\n  UNROLL",
        "race",
    ),
    Broken(
        "many_row_product",
        "written before it is stored",
        "threadgroup_barrier(mem_flags::mem_threadgroup);\n  for (int at",
        "for (int at",
        "race",
    ),
    Broken(
        "many_row_product",
        "tiles passed over that have rows",
        "if (my_rows + 8 * m < here)",
        "if (my_rows + 8 * m + 8 < here)",
        "uninitialised",
    ),
    Broken(
        "many_row_product",
        "rows of a tile not laid out",
        "(here + 7) / 8 * 8",
        "here / 8 * 8",
        "uninitialised",
    ),
    Broken(
        "many_row_product",
        "order of steps by rows",
        "int span = 0; span < K; span += STEP * STEPS",
        (
            "int at = 0, span = 0; span = here < 8 ? K - STEP * STEPS - at : at, at < K; "
            "at += STEP * STEPS"
        ),
        "rows",
    ),
    Broken(
        "many_row_product",
        "a row too few in memory",
        "constexpr int PITCH = STEP + 4;",
        "constexpr int PITCH = STEP - 4;",
        "race",
    ),
    Broken("many_row_experts", "rows of the one before", "< sought", "<= sought", "unwritten"),
    Broken("many_row_experts", "all rows for each", "simd_shuffle(begin, 0)", "0", "race"),
    Broken(
        "many_row_experts",
        "one tile alone",
        "top < to; top += TILE",
        "top < min(to, from + TILE); top += TILE",
        "unwritten",
    ),
    Broken(
        "many_row_experts",
        "weights of the first",
        "const int w_start = expert * N;",
        "const int w_start = 0;",
        "numbers",
    ),
    Broken(
        "many_row_experts",
        "next tile laid out too early",
        "    }\n  }\n  threadgroup_barrier(mem_flags::mem_threadgroup);\n}",
        "    }\n  }\n}",
        "race",
    ),
]
