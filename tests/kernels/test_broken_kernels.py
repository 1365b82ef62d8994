"""Every kernel broken on purpose, one text at a time: something notices each mistake.

A row says in which scenario what is broken, the text and what stands in its place, and what has to
notice: a report of the emulator (bounds, race, unwritten, ...), wrong numbers, rows whose bits
depend on the rows beside them, or counts of what was read. A text that no kernel has any more is a
failure, too.
"""

import kernel_scenarios as scenarios
import mlx.core as mx
import pytest
from broken_products import BROKEN as BROKEN_PRODUCTS
from broken_products import SCENARIOS as PRODUCTS
from kernel_scenarios import Breaking, Broken, Scenario, caught_by
from metal_emulator import EmulatorLauncher

from metal_kernels.trials import TRIALS

SCENARIOS: dict[str, Scenario] = {
    "few_row_gate_up": scenarios.gate_up,
    "few_row_matvec_add": scenarios.added,
    "mtp_input": scenarios.head_input,
    "wide_norm": scenarios.norm,
    "expert_union_matvec": scenarios.experts,
    "few_query_attention": scenarios.attention,
    "gated_delta_block": scenarios.delta_block,
    "gated_delta_inputs": scenarios.delta_inputs,
    "vocabulary_pick": scenarios.pick,
    "filtered_pick": scenarios.pick_filtered,
    "noise": scenarios.position_noise,
}

BROKEN = [
    Broken(
        "few_row_gate_up",
        "gate and up swapped",
        "(r < R / 2 ? 0 : N)",
        "(r < R / 2 ? N : 0)",
        "numbers",
    ),
    Broken("few_row_gate_up", "gate times itself", "total[r + R / 2][m]", "total[r][m]", "numbers"),
    Broken("few_row_gate_up", "sigmoid of the other sign", "exp(-gate)", "exp(gate)", "numbers"),
    Broken(
        "few_row_gate_up",
        "no guard at the last rows",
        "min(first + r % (R / 2), N - 1)",
        "(first + r % (R / 2))",
        "bounds",
    ),
    Broken(
        "few_row_matvec_add",
        "a residual read as a bias",
        "EACH_ROW ? size_t(m) * N : 0",
        "0",
        "numbers",
    ),
    Broken(
        "few_row_matvec_add",
        "a bias read as a residual",
        "EACH_ROW ? size_t(m) * N : 0",
        "size_t(m) * N",
        "bounds",
    ),
    Broken(
        "few_row_matvec_add",
        "one output off",
        "size_t(m) * N : 0) + first + r",
        "size_t(m) * N : 0) + first",
        "numbers",
    ),
    Broken(
        "mtp_input",
        "the embedding twice",
        "norm_row<T, SIMDS>(h",
        "norm_row<T, SIMDS>(e",
        "numbers",
    ),
    Broken("mtp_input", "one norm for both", "h_norm, joined", "e_norm, joined", "numbers"),
    Broken("mtp_input", "second half on the first", "2 * H + H,", "2 * H,", "race"),
    Broken("mtp_input", "rows of one half", "row * 2 * H", "row * H", "race"),
    Broken("wide_norm", "eps forgotten", " + eps", "", "numbers"),
    Broken(
        "wide_norm",
        "half of the mean",
        "i < N; i += 32 * SIMDS",
        "i < N / 2; i += 32 * SIMDS",
        "unwritten",
    ),
    Broken("wide_norm", "mean of a lane", "simd_sum(sum)", "sum", "numbers"),
    Broken("wide_norm", "mean of a SIMD-group", "s = 0; s < SIMDS", "s = 0; s < 1", "numbers"),
    Broken(
        "wide_norm",
        "no barrier before sums are read",
        "threadgroup_barrier(mem_flags::mem_threadgroup);",
        "",
        "race",
    ),
    Broken(
        "expert_union_matvec",
        "each pair reads its expert",
        "pairs[m] >= 0 && pairs[m] < leader",
        "false",
        "counts",
    ),
    Broken(
        "expert_union_matvec",
        "first row left out",
        "pairs[m] >= 0 && p",
        "pairs[m] >= -1 && p",
        "unwritten",
    ),
    Broken("expert_union_matvec", "a row's first choice", "int(ctz(found))", "0", "unwritten"),
    Broken("expert_union_matvec", "choices of the next row", "lane < TOP && ", "", "bounds"),
    Broken(
        "expert_union_matvec", "all rows take the first expert", "(expert * N + ", "(", "numbers"
    ),
    Broken(
        "expert_union_matvec", "a row for each pair", "pairs[m] / PAIRS_PER_X", "pairs[m]", "bounds"
    ),
    Broken(
        "few_query_attention",
        "rows see one key too many",
        "mine_of_four < seen_to[r]",
        "mine_of_four <= seen_to[r]",
        "numbers",
    ),
    Broken(
        "few_query_attention", "window forgotten", "mine_of_four >= seen_from[r] && ", "", "numbers"
    ),
    Broken(
        "few_query_attention",
        "old values not scaled down",
        "out[r][i] *= keep",
        "out[r][i] *= 1",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "a lane's own keys counted alone",
        "quad_sum(sum[r])",
        "sum[r]",
        "numbers",
    ),
    Broken(
        "few_query_attention", "scores given to a neighbour", "lane & 2;", "lane & 4;", "numbers"
    ),
    Broken(
        "few_query_attention",
        "keys fetched again for each row",
        "    float4 dots;",
        "    float4 dots;\n    KEY(head, min(key + (r & 1), end - 1) - from, lane, its[r & 1]);",
        "counts",
    ),
    Broken(
        "few_query_attention",
        "steps begin at a window's first key",
        "oldest) / 4 * 4",
        "oldest)",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "values that no row sees, times 0",
        "if (its_weight != 0)",
        "if (true)",
        "rows",
    ),
    Broken(
        "few_query_attention",
        "no guard at the last row",
        "min(first + r, rows - 1)",
        "(first + r)",
        "bounds",
    ),
    Broken(
        "few_query_attention",
        "no guard at the newest key",
        "min(max(key + j, from), end - 1) - from",
        "key + j - from",
        "bounds",
    ),
    Broken(
        "few_query_attention",
        "last block left out",
        "block_of(newest) + 1 - first",
        "block_of(newest) - first",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "sink without its share",
        " + exp(sinks[row / M] - top)",
        "",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "nibbles of the cache swapped",
        "(i * BITS % (8 * WORD))",
        "((i ^ 1) * BITS % (8 * WORD))",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "a packed key's own part by the latent's scales",
        "k, k_scales, k_biases, (row) * k_strides[1]",
        "k, v_scales, v_biases, (row) * k_strides[1]",
        "numbers",
    ),
    Broken(
        "few_query_attention",
        "a latent's neighbour as its value",
        "values[i] = its[i];",
        "values[i] = its[i ^ 1];",
        "numbers",
    ),
    Broken(
        "gated_delta_block",
        "one step replayed too few",
        "t < kept[0]",
        "t < kept[0] - 1",
        "numbers",
    ),
    Broken(
        "gated_delta_block", "one step replayed too many", "t < kept[0]", "t <= kept[0]", "numbers"
    ),
    Broken(
        "gated_delta_block",
        "the state before the replay settles",
        "settled[state_at + (i / 4) * 16 + quarter * 4 + i % 4] = S[i];",
        (
            "settled[state_at + (i / 4) * 16 + quarter * 4 + i % 4] = state[state_at + "
            "(i / 4) * 16 + quarter * 4 + i % 4];"
        ),
        "numbers",
    ),
    Broken(
        "gated_delta_block",
        "replay rounds otherwise",
        "fma(d, k, g * S[i])",
        "fma(g, S[i], d * k)",
        "rows",
    ),
    Broken(
        "gated_delta_block", "decay forgotten", ("S[i] = g * S[i];\n    known"), "known", "numbers"
    ),
    Broken(
        "gated_delta_block",
        "two lanes not added",
        "known += simd_shuffle_xor(known, 2);",
        "",
        "numbers",
    ),
    Broken("gated_delta_block", "no guard at the last rows", "min(row, DV - 1)", "row", "bounds"),
    Broken(
        "gated_delta_block",
        "state fetched for each row",
        ("S[i] = g * S[i];\n    known"),
        (
            "S[i] = g * S[i] + 0.0f * state[state_at + (i / 4) * 16 + quarter * 4 + i % "
            "4];\n"
            "    known"
        ),
        "counts",
    ),
    Broken(
        "gated_delta_inputs", "window one row late", "t + j - (TAPS - 1)", "t + j - TAPS", "numbers"
    ),
    Broken(
        "gated_delta_inputs", "what was kept ignored", "stood = kept[0]", "stood = 0", "numbers"
    ),
    Broken("gated_delta_inputs", "length of a lane", "simd_sum(squares)", "squares", "numbers"),
    Broken(
        "gated_delta_inputs",
        "window passed on by another row",
        "if (t == 0)",
        "if (t == 1)",
        "unwritten",
    ),
    Broken("gated_delta_inputs", "softplus of one side", "max(step, 0.0f) + ", "", "numbers"),
    Broken("gated_delta_inputs", "decays of other columns", " + columns[0]", "", "numbers"),
    Broken(
        "gated_delta_inputs",
        "rows nearer than they lie",
        "row) * pitch",
        "row) * CHANNELS",
        "numbers",
    ),
    Broken(
        "vocabulary_pick",
        "highest id first among equals",
        "simd_min(among ? mine.token : 0x7fffffff)",
        "simd_max(among ? mine.token : -1)",
        "numbers",
    ),
    Broken(
        "vocabulary_pick",
        "one row's noise for all",
        "gumbel_of(keys[2 * m], keys[2 * m + 1], n)",
        "gumbel_of(keys[0], keys[1], n)",
        "numbers",
    ),
    Broken(
        "vocabulary_pick",
        "temperature ignored",
        "logit, inverse_temperature",
        "logit, 1.0f",
        "numbers",
    ),
    Broken("vocabulary_pick", "NaN not noticed", "isfinite(logit)", "true", "numbers"),
    Broken(
        "vocabulary_pick",
        "no barrier before the best is read",
        "threadgroup_barrier(mem_flags::mem_threadgroup);\nif (thread_id == 0) {",
        "if (thread_id == 0) {",
        "race",
    ),
    Broken("filtered_pick", "no carry", "before + lower < before ? 1u : 0u", "0u", "numbers"),
    Broken(
        "filtered_pick",
        "all of the last level kept",
        "found_all = count_left >= COUNT(bin);",
        "found_all = true;",
        "numbers",
    ),
    Broken("filtered_pick", "top_p ignored", "share != 0;\nfor", "false;\nfor", "numbers"),
    Broken(
        "filtered_pick",
        "temperature out of the masses",
        "(largest - LOGIT(n)) * inverse_temperature",
        "(largest - LOGIT(n))",
        "numbers",
    ),
    Broken("filtered_pick", "-inf not noticed", "logit >= lowest && ", "", "numbers"),
    Broken(
        "filtered_pick",
        "no barrier before the best is read",
        "threadgroup_barrier(mem_flags::mem_threadgroup);\nif (thread_id == 0) {",
        "if (thread_id == 0) {",
        "race",
    ),
    Broken("noise", "another multiplier", "0x7FEB352Du", "0x7FEB352Fu", "numbers"),
    Broken("noise", "second key left out", " + key1", "", "numbers"),
    Broken("noise", "half left out", " + 0.5f", "", "numbers"),
]

ALL = SCENARIOS | PRODUCTS


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_a_sound_one_passes_in_any_order_of_lanes(kernel: str, shuffle: int) -> None:
    assert caught_by(ALL[kernel], Breaking(shuffle=shuffle)) == "nothing"


@pytest.mark.parametrize("kernel", ALL)
def test_a_sound_one_uses_no_variable_before_it_is_written(kernel: str) -> None:
    assert caught_by(ALL[kernel], Breaking(private=True)) == "nothing"


@pytest.mark.parametrize("kernel", ["prompt-products", "prompt-experts"])
def test_nor_does_one_for_prompts(kernel: str) -> None:
    trial = next(one for one in TRIALS if one.kernel == kernel)
    case = trial.make(trial.checked, mx.float16, 1)
    case.ours(case.x(3), EmulatorLauncher(private=True))


@pytest.mark.parametrize(
    ("kernel", "old", "new"),
    [
        ("few_row_gate_up", "total[r][m] = 0;", ""),
        ("few_query_attention", "out[r][i] = 0;", ""),
        ("gated_delta_block", "float known = 0;", "float known;"),
    ],
)
def test_an_unsound_one_does(kernel: str, old: str, new: str) -> None:
    launcher = Breaking(old, new, private=True)
    assert caught_by(ALL[kernel], launcher) == "uninitialised"
    assert launcher.found


@pytest.mark.parametrize(
    "broken", BROKEN + BROKEN_PRODUCTS, ids=lambda one: f"{one.kernel}: {one.what}"
)
def test_a_broken_one_is_caught(broken: Broken) -> None:
    launcher = Breaking(broken.old, broken.new)
    caught = caught_by(ALL[broken.kernel], launcher)
    assert launcher.found, "no kernel has this text any more"
    assert caught == broken.caught


def test_each_is_broken_in_three_ways() -> None:
    counts = {
        kernel: sum(one.kernel == kernel for one in BROKEN + BROKEN_PRODUCTS) for kernel in ALL
    }
    assert min(counts.values()) >= 3, counts
