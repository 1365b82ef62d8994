"""Inputs for trials of each Metal kernel, a reference in plain MLX, and the stock MLX way."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels import block_embedding as embedding
from metal_kernels import expert_union_matvec as experts
from metal_kernels import few_query_attention as attention
from metal_kernels import few_row_matvec as matvec
from metal_kernels import filtered_pick as filtering
from metal_kernels import gated_delta_block as delta
from metal_kernels import gated_delta_inputs as delta_inputs
from metal_kernels import many_row_product as many
from metal_kernels import mtp_input as mtp
from metal_kernels import noise, stream_exchange, vocabulary_pick, wide_norm
from metal_kernels.choice import (
    ALL_ROWS,
    DECAYS_BY_CHANNEL,
    KernelName,
    Kernels,
    KernelWork,
    Verdict,
)
from metal_kernels.few_query_attention import KeyExtent
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import named_cache_format
from metal_kernels.stock import AttentionOptions
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.tile_product import tile_product
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_bytes, block_name_for
from metal_kernels.weight_formats.mlx_formats import GROUP
from mlx_engine.models.experts import ExpertLinear
from mlx_engine.models.kernel_matrices import FewRowMatrix, ManyRowMatrix
from mlx_engine.models.layers import Linear, silu
from mlx_engine.models.matrix import Matrix

EPS = 1e-6
KEY_HEADS, TAPS = 2, 4
EXPERTS, CHOSEN, ROWS_OF_EXPERT = 8, 2, 7
TILED = 17
"""Rows of a checked product by tiles of eight."""

PROMPT = 40
"""Rows of a checked prompt: more than a SIMD-group takes, fewer than a threadgroup does."""

Run = Callable[[mx.array], mx.array]


class TrialInputs(NamedTuple):
    """Inputs and reference of a trial of a Metal kernel; rows are the first axis of all arrays.

    x: makes the input of n rows. kernel: runs the kernel. reference: plain ops that add in the
    kernel's order. stock: what layers do without the kernel. is_exact: the reference has the bits,
    or tokens, of the kernel. most: rows of the longest checked pass. timed: rows of timed passes.
    other: another way that the kernel has to be faster than.
    """

    x: Callable[[int], mx.array]
    kernel: Run
    reference: Run
    stock: Run
    is_exact: bool = False
    most: int = 8
    timed: tuple[int, ...] = (1, 2, 4, 8)
    other: Run | None = None


MakeCase = Callable[[KernelWork, mx.Dtype, int, Launcher], TrialInputs]
"""Makes a case from sizes, the type of activations, and the seed of weights and caches."""


def random_normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Draw an array of normal random numbers, the same for the same seed."""
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def _random_rows(size: int, dtype: mx.Dtype) -> Callable[[int], mx.array]:
    return lambda rows: random_normal((rows, size), 5, dtype)


def _noise_keys(x: mx.array) -> mx.array:
    """Make sampling noise keys, uint32 [R, 2], for the rows of x."""
    return (mx.arange(2 * len(x)) * 77 + 5).astype(mx.uint32).reshape(-1, 2)


def _random_matrix(work: KernelWork, dtype: mx.Dtype, seed: int, *exit_stack: int) -> Matrix:
    form, shape = work.form, (*exit_stack, work.outputs, work.inputs)
    if form in BLOCK_FORMS:
        width = block_bytes(form, work.inputs)
        block = block_name_for(width, work.inputs)
        assert block is not None
        # bytes without the top bits that make a float16 large, infinite or no number
        blocks = mx.random.randint(0, 32, (*shape[:-1], width), key=mx.random.key(seed))
        return Matrix(blocks.astype(mx.uint8), None, None, 0, 0, block, dtype)
    values = (random_normal(shape, seed, dtype) * shape[-1] ** -0.5).astype(dtype)
    if form == "dense":
        return Matrix(values, None, None, 0, 8 * dtype.size, "dense")
    if form.startswith("affine"):
        bits, _, group = form.removeprefix("affine").partition("g")
        packed = mx.quantize(values, int(group or GROUP), int(bits))
        return Matrix(*packed, int(group or GROUP), int(bits), "affine")
    mode: Literal["mxfp4", "nvfp4"] = "mxfp4" if form == "mxfp4" else "nvfp4"
    weight, scales, *_ = mx.quantize(values, mode=mode)
    return Matrix(weight, scales, None, 32 if mode == "mxfp4" else 16, 4, mode)


def _untried_kernels(launcher: Launcher) -> Kernels:
    """Kernels that are all used at all row counts, without a trial before."""
    return Kernels(launcher, presumed=Verdict(faster=ALL_ROWS))


def _few_row_product(matrix: Matrix, launcher: Launcher) -> FewRowMatrix:
    few_rows = FewRowMatrix.from_matrix(matrix, _untried_kernels(launcher), "products")
    assert few_rows is not None
    return few_rows


def _matrix_product_trial(
    kernel: Callable[[FewRowMatrix, mx.array], mx.array],
    plain_product: Callable[[FewRowMatrix, mx.array], mx.array],
    stock: Callable[[Linear, mx.array], mx.array],
    *,
    is_exact: bool = False,
) -> MakeCase:
    """Make trial cases of a Metal kernel that multiplies few rows by one matrix."""

    def make_trial_inputs(
        work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
    ) -> TrialInputs:
        matrix = _random_matrix(work, dtype, seed)
        few = _few_row_product(matrix, launcher)
        return TrialInputs(
            _random_rows(work.inputs, dtype),
            partial(kernel, few),
            partial(plain_product, few),
            partial(stock, Linear(matrix)),
            is_exact,
        )

    return make_trial_inputs


_products = _matrix_product_trial(
    FewRowMatrix.product, lambda few, x: matvec.reference(x, few.arrays, few.form), Linear.__call__
)


def _tiles(work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher) -> TrialInputs:
    matrix = _random_matrix(work, dtype, seed)
    few = _few_row_product(matrix, launcher)
    return TrialInputs(
        _random_rows(work.inputs, dtype),
        lambda x: tile_product(x, few.arrays, few.form, launcher),
        lambda x: many.reference(x, few.arrays, few.form),
        few.product,
        most=TILED,
        timed=(6, 9),
        other=None if work.form in BLOCK_FORMS else Linear(matrix),
    )


_gate_up = _matrix_product_trial(
    FewRowMatrix.gate_up,
    lambda few, x: matvec.gate_up_reference(x, few.arrays, few.form),
    lambda linear, x: MLX.compile_elementwise(_silu_gate)(*mx.split(linear(x), 2, axis=-1)),
)


def _silu_gate(gate: mx.array, up: mx.array) -> mx.array:
    return silu(gate) * up


_pick = _matrix_product_trial(
    lambda few, x: few.pick_argmax(x, _pick_settings(x)),
    lambda few, x: vocabulary_pick.reference(x, few.arrays, few.form, _pick_settings(x)),
    lambda linear, x: _pick_from_logits(linear(x).astype(mx.float32)),
    is_exact=True,
)


def _pick_settings(x: mx.array) -> vocabulary_pick.PickOptions:
    return vocabulary_pick.PickOptions(keys=_noise_keys(x), temperature=0.8)


def _pick_from_logits(logits: mx.array) -> mx.array:
    return mx.argmax(logits / 0.8 + noise.reference(_noise_keys(logits), logits.shape[1]), axis=-1)


def _product_add_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    residual = random_normal((9, work.outputs), 6, dtype)
    return _matrix_product_trial(
        lambda few, x: few.product_plus_residual(residual[: len(x)], x),
        lambda few, x: matvec.add_reference(x, few.arrays, residual[: len(x)], few.form),
        lambda linear, x: residual[: len(x)] + linear(x),
    )(work, dtype, seed, launcher)


def _mtp_input_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    half = work.inputs // 2
    norms = mtp.MtpInputNorms(
        1 + random_normal((half,), 7) / 8, 1 + random_normal((half,), 8) / 8, EPS
    )

    def stock_result(linear: Linear, x: mx.array) -> mx.array:
        e = MLX.make_rms_norm(norms.embedding, EPS)(x[None, :, :half]).astype(dtype)
        h = MLX.make_rms_norm(norms.hidden, EPS)(x[None, :, half:]).astype(dtype)
        return linear(mx.concatenate([e, h], axis=-1))[0]

    return _matrix_product_trial(
        lambda few, x: few.project_mtp_input(x[:, :half], x[:, half:], norms),
        lambda few, x: mtp.reference(x[:, :half], x[:, half:], norms, few.arrays, few.form),
        stock_result,
    )(work, dtype, seed, launcher)


def _expert_products_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    matrix = _random_matrix(work, dtype, seed, EXPERTS)
    few, product = _few_row_product(matrix, launcher), ExpertLinear(matrix)

    def expert_ids(x: mx.array) -> mx.array:
        first = mx.arange(len(x))[:, None] * 3
        return ((first + mx.arange(CHOSEN)[None]) % EXPERTS).astype(mx.uint32)

    def reference(x: mx.array) -> mx.array:
        made = experts.reference(x, expert_ids(x), few.arrays, few.form)
        return made.reshape(len(x), CHOSEN, -1)

    return TrialInputs(
        _random_rows(work.inputs, dtype),
        lambda x: few.expert_product(x, expert_ids(x)),
        reference,
        lambda x: product(x[:, None], expert_ids(x), is_sorted=False),
    )


def _many_row_products_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    matrix = _random_matrix(work, dtype, seed)
    rows = ManyRowMatrix.from_matrix(matrix, _untried_kernels(launcher), "prompt-products")
    assert rows is not None
    return TrialInputs(
        _random_rows(work.inputs, dtype),
        rows.product,
        lambda x: many.reference(x, (rows.blocks,), rows.form),
        Linear(matrix),
        most=PROMPT,
        timed=(512,),
    )


def _many_row_experts_trial(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    matrix = _random_matrix(work, dtype, seed, EXPERTS)
    rows, product = (
        ManyRowMatrix.from_matrix(matrix, _untried_kernels(launcher), "prompt-experts"),
        ExpertLinear(matrix),
    )
    assert rows is not None

    def expert_ids(x: mx.array) -> mx.array:
        return (mx.arange(len(x)) // ROWS_OF_EXPERT).astype(mx.uint32)[:, None]

    return TrialInputs(
        _random_rows(work.inputs, dtype),
        lambda x: rows.expert_product(x[:, None], expert_ids(x)),
        lambda x: many.experts_reference(x, expert_ids(x).squeeze(1), (rows.blocks,), rows.form),
        lambda x: product(x[:, None], expert_ids(x), is_sorted=True),
        most=PROMPT,
        timed=(EXPERTS * ROWS_OF_EXPERT,),
    )


def _block_embedding_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    blocks, form = _random_matrix(work, dtype, seed).weight, BLOCK_FORMS[work.form]

    def stock_result(tokens: mx.array) -> mx.array:
        return embedding.reference(tokens, blocks, form, dtype)

    return TrialInputs(
        lambda rows: mx.arange(7, 7 + 5 * rows, 5, dtype=mx.int32) % work.outputs,
        lambda tokens: embedding.block_embedding(tokens, blocks, form, dtype, launcher),
        stock_result,
        stock_result,
    )


def _filtered_pick_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    """Make a trial case of sampling tokens from logits x, with top-k, top-p and the like."""
    filters = filtering.SamplingFilters(0.6, top_k=20, top_p=0.95)
    settings = filters.kernel_settings()

    return _bit_equal_case(
        lambda rows: random_normal((rows, work.outputs), seed, dtype),
        lambda x: filtering.filtered_pick(x, _noise_keys(x), settings, launcher),
        lambda x: filtering.reference(x, _noise_keys(x), filters),
    )


def _noise_case(work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher) -> TrialInputs:
    """Make a trial case of drawing sampling noise for noise keys x."""
    del dtype
    return _bit_equal_case(
        lambda rows: (mx.arange(2 * rows) * 991 + seed).astype(mx.uint32).reshape(rows, 2),
        lambda x: noise.gumbel_noise(x, work.outputs, launcher),
        lambda x: noise.reference(x, work.outputs),
    )


def _bit_equal_case(x: Callable[[int], mx.array], kernel: Run, stock_run: Run) -> TrialInputs:
    """Make a kernel's trial case whose reference is the stock operation, equal bit for bit."""
    return TrialInputs(x, kernel, stock_run, stock_run, is_exact=True)


def _wide_norm_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    weight = random_normal((work.inputs,), seed) + 1
    norm = MLX.make_rms_norm(weight, EPS)
    return TrialInputs(
        _random_rows(work.inputs, dtype),
        lambda x: wide_norm.wide_norm(x, weight, EPS, launcher),
        lambda x: wide_norm.reference(x, weight, EPS),
        lambda x: norm(x[None])[0].astype(dtype),
    )


def _stream_exchange_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    del dtype
    scale, base = mx.array([0.7]), random_normal((work.inputs, work.inputs), seed)
    given = scale, base, 5, EPS
    return TrialInputs(
        _random_rows(work.inputs**2, mx.float32),
        lambda x: stream_exchange.stream_exchange(x, *given, launcher),
        lambda x: stream_exchange.reference(x, *given),
        lambda x: stream_exchange.reference(x, *given),
    )


def _attention_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher, keys: int = 150
) -> TrialInputs:
    """Make a trial case of attention over `keys` keys with queries x.

    For latents both parts of a query lie side by side. Row m has the same position in passes of any
    number of rows.
    """
    form = named_cache_format(work.form, work.inputs, work.outputs)
    heads = 1 if form.is_joined else KEY_HEADS
    sides = [
        random_normal((heads, keys, size), seed + n, dtype)
        for n, size in enumerate((work.inputs, work.outputs), 1)
    ]
    cache = tuple(part for side in sides for part in form.store(side))
    half = len(cache) // 2
    seen = [form.dequantise(side).astype(dtype) for side in (cache[:half], cache[half:])]
    if form.is_joined:
        seen[0] = mx.concatenate([seen[1], seen[0]], axis=-1)
    width = seen[0].shape[2]
    scale = width**-0.5

    def query_parts(x: mx.array) -> list[mx.array]:
        """Split x into queries [heads, R, size] and, for latents, the queries' latent part."""
        q = x.swapaxes(0, 1)
        turned = mx.split(q, [work.outputs], axis=-1)[::-1] if form.is_joined else [q]
        return [mx.contiguous(part) for part in turned]

    def key_position(x: mx.array) -> KeyExtent:
        return KeyExtent(keys - 9 + len(x))

    def attention_output(run: Callable[..., mx.array], x: mx.array) -> mx.array:
        q, *latent = query_parts(x)
        made = run(q, cache, form, key_position(x), scale, q_latent=latent[0] if latent else None)
        return made.swapaxes(0, 1)

    def stock_result(x: mx.array) -> mx.array:
        k, v = (side[None, :, : key_position(x).end] for side in seen)
        how = AttentionOptions(scale, "causal" if len(x) > 1 else None)
        return MLX.attention(x.swapaxes(0, 1)[None], k, v, how)[0].swapaxes(0, 1)

    return TrialInputs(
        lambda rows: random_normal((rows, heads * work.shared, width), 5, dtype),
        partial(attention_output, partial(attention.few_query_attention, launcher=launcher)),
        partial(attention_output, attention.reference),
        stock_result,
        most=9,
    )


def _delta_rule_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    """Make a trial case of the delta rule: replay three steps, then run rows of values x."""
    del dtype
    heads = 2 * KEY_HEADS
    decays = (heads, work.inputs) if work.form == DECAYS_BY_CHANNEL else (heads,)
    state = random_normal((heads, work.outputs, work.inputs), seed)

    def unit_rows(count: int, seed: int) -> mx.array:
        return MLX.l2_norm(
            random_normal((1, count, KEY_HEADS * work.inputs), seed), KEY_HEADS, EPS
        )[0]

    last = delta.ReplaySteps(
        unit_rows(3, 11),
        random_normal((3, heads, work.outputs), 12),
        mx.exp(-mx.abs(random_normal((3, *decays), 13))),
    )
    queries, keys = unit_rows(9, 14), unit_rows(9, 15)
    decay = mx.exp(-mx.abs(random_normal((9, *decays), 16)))
    beta = mx.sigmoid(random_normal((9, heads), 17))

    def delta_rows(x: mx.array) -> delta.DeltaRows:
        count = len(x)
        return delta.DeltaRows(queries[:count], keys[:count], x, decay[:count], beta[:count])

    def stock_result(x: mx.array) -> mx.array:
        batch = delta.DeltaRows(*(part[None] for part in delta_rows(x)))
        return MLX.delta_rule(batch, delta.replayed_state(state, 3, last)[None])[0][0]

    kept = mx.array([3], dtype=mx.int32)
    return TrialInputs(
        lambda rows: random_normal((rows, heads, work.outputs), 5),
        lambda x: delta.gated_delta_block(state, kept, last, delta_rows(x), launcher).y,
        lambda x: delta.reference(state, 3, last, delta_rows(x)).y,
        stock_result,
    )


def _delta_inputs_case(
    work: KernelWork, dtype: mx.Dtype, seed: int, launcher: Launcher
) -> TrialInputs:
    """Make a trial case of the kernel that computes the delta rule's inputs from rows x.

    The convolution starts from a window that two accepted rows of the last block end.
    """
    heads, side = 2 * KEY_HEADS, KEY_HEADS * work.inputs
    channels = 2 * side + heads * work.outputs
    fixed = delta_inputs.DeltaConstants(
        random_normal((channels, TAPS), seed, dtype),
        random_normal((heads,), 21),
        -mx.exp(random_normal((heads,), 22)),
        KEY_HEADS,
        work.inputs,
        work.outputs,
    )
    before, kept = random_normal((TAPS - 1 + 3, channels), 23, dtype), mx.array([2], dtype=mx.int32)
    a, b = random_normal((9, heads), 24, dtype), random_normal((9, heads), 25, dtype)
    convolve = MLX.make_convolution(fixed.taps)

    def projected_inputs(x: mx.array) -> delta_inputs.ProjectedInputs:
        return delta_inputs.ProjectedInputs(x, a[: len(x)], b[: len(x)])

    def flatten_rows(rows: delta.DeltaRows) -> mx.array:
        return mx.concatenate([part.reshape(len(part), -1) for part in rows], axis=-1)

    def stock_result(x: mx.array) -> mx.array:
        window = mx.concatenate([before[2 : TAPS + 1], x])
        made = silu(convolve(window[None])).astype(mx.float32)
        both = MLX.l2_norm(made[..., : 2 * side], 2 * KEY_HEADS, delta_inputs.L2_EPS)
        softplus = mx.logaddexp(a[: len(x)].astype(mx.float32) + fixed.decay_bias, mx.array(0.0))
        beta = mx.sigmoid(b[: len(x)].astype(mx.float32))
        queries, keys = mx.split(both[0], 2, axis=1)
        values = made[0, :, 2 * side :]
        return flatten_rows(
            delta.DeltaRows(queries, keys, values, mx.exp(fixed.decay_rate * softplus), beta)
        )

    window = delta_inputs.ConvolutionRows(before, kept)
    return TrialInputs(
        _random_rows(channels, dtype),
        lambda x: flatten_rows(
            delta_inputs.gated_delta_inputs(projected_inputs(x), window, fixed, launcher).rows
        ),
        lambda x: flatten_rows(delta_inputs.reference(projected_inputs(x), before, 2, fixed).rows),
        stock_result,
    )


CASES: Mapping[KernelName, MakeCase] = MappingProxyType(
    {
        "products": _products,
        "tiles": _tiles,
        "attention": _attention_case,
        "delta": _delta_rule_case,
        "delta-inputs": _delta_inputs_case,
        "gate-up": _gate_up,
        "product-add": _product_add_case,
        "experts": _expert_products_case,
        "prompt-products": _many_row_products_case,
        "prompt-experts": _many_row_experts_trial,
        "embedding": _block_embedding_case,
        "mtp-input": _mtp_input_case,
        "pick": _pick,
        "filtered-pick": _filtered_pick_case,
        "noise": _noise_case,
        "norms": _wide_norm_case,
        "exchange": _stream_exchange_case,
    }
)
TIMED_CASES: Mapping[KernelName, MakeCase] = MappingProxyType(
    {**CASES, "attention": partial(_attention_case, keys=8192)}
)
"""Cases for timing: attention over as many keys as a long chat has."""
