"""The kernels to try, each with inputs of its own, beside its reference and stock MLX."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels import few_query_attention as attention
from metal_kernels import few_row_matvec as matvec
from metal_kernels import filtered_pick as filtering
from metal_kernels import gated_delta_block as delta
from metal_kernels import gated_delta_inputs as inputs
from metal_kernels import many_row_product as many
from metal_kernels import mtp_input as mtp
from metal_kernels import vocabulary_pick as picking
from metal_kernels.choice import Work
from metal_kernels.expert_union_matvec import expert_union_matvec
from metal_kernels.expert_union_matvec import reference as experts_reference
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import cache_form
from metal_kernels.noise import gumbel_noise
from metal_kernels.noise import reference as noise_reference
from metal_kernels.weight_formats.affine import GROUP, affine
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.dense import DENSE
from metal_kernels.weight_formats.fp4 import mxfp4, nvfp4
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_bytes
from metal_kernels.wide_norm import reference as norm_reference
from metal_kernels.wide_norm import wide_norm

NORM_EPS = 1e-6

CHOSEN = 2
"""Experts of a row."""

KEY_HEADS, TAPS = 2, 4
"""Heads of keys; rows that a convolution sees."""

Run = Callable[[mx.array], mx.array]


class Ours(Protocol):
    """A kernel that somebody runs."""

    def __call__(self, x: mx.array, by: Launcher) -> mx.array:
        """The result for x."""


class Case(NamedTuple):
    """A kernel with weights or a cache of its own, for x and results whose first axis is the row.

    x: rows -> inputs. exact_reference: the reference has the kernel's own bits, or picks tokens.
    most: rows of its longest pass.
    """

    x: Callable[[int], mx.array]
    ours: Ours
    reference: Run
    stock: Run
    exact_reference: bool = False
    most: int = 8


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Random numbers, the same for the same seed."""
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


class _Matrix(NamedTuple):
    """Weights as MLX packs them, or plain."""

    arrays: tuple[mx.array, ...]
    form: WeightFormat
    bits: int
    group: int
    mode: str

    @property
    def biases(self) -> mx.array | None:
        """Of affine packings."""
        return self.arrays[2] if self.mode == "affine" else None

    def stock(self, x: mx.array) -> mx.array:
        """x times it by stock MLX."""
        if self.mode == "dense":
            return x @ self.arrays[0].T
        if self.mode in BLOCK_FORMS:
            return x @ self.form.dequantise(self.arrays).astype(x.dtype).T
        return mx.quantized_matmul(
            x,
            self.arrays[0],
            self.arrays[1],
            self.biases,
            transpose=True,
            group_size=self.group,
            bits=self.bits,
            mode=self.mode,
        )


def _matrix(form: str, shape: tuple[int, ...], dtype: mx.Dtype, seed: int) -> _Matrix:
    values = (normal(shape, seed, dtype) * shape[-1] ** -0.5).astype(dtype)
    if form == "dense":
        return _Matrix((values,), DENSE, 0, 0, "dense")
    if form in BLOCK_FORMS:
        return _Matrix((_blocks(form, shape, seed),), BLOCK_FORMS[form], 0, 0, form)
    if form.startswith("affine"):
        size, _, of = form.removeprefix("affine").partition("g")
        bits, group = int(size), int(of or GROUP)
        packed = mx.quantize(values, group_size=group, bits=bits)
        return _Matrix(tuple(packed), affine(bits, group), bits, group, "affine")
    group, made = (32, mxfp4()) if form == "mxfp4" else (16, nvfp4())
    packed = mx.quantize(values, group_size=group, bits=4, mode=form)
    return _Matrix(tuple(packed), made, 4, group, form)


def _blocks(form: str, shape: tuple[int, ...], seed: int) -> mx.array:
    """Random bytes without the top bits that make a float16 large, infinite or no number."""
    width = block_bytes(form, shape[-1])
    return mx.random.randint(0, 32, (*shape[:-1], width), key=mx.random.key(seed)).astype(mx.uint8)


def product_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x times a matrix."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)
    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: matvec.few_row_matvec(x, it.arrays, it.form, by),
        lambda x: matvec.reference(x, it.arrays, it.form),
        it.stock,
    )


def product_add_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x times a matrix, onto a residual."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)
    residual = normal((9, work.outputs), 6, dtype)
    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: matvec.few_row_matvec_add(x, it.arrays, residual[: len(x)], it.form, by),
        lambda x: matvec.add_reference(x, it.arrays, residual[: len(x)], it.form),
        lambda x: residual[: len(x)] + it.stock(x),
    )


def gate_up_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Gates above ups."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)

    def stock(x: mx.array) -> mx.array:
        gate, up = mx.split(it.stock(x), 2, axis=-1)
        return gate * mx.sigmoid(gate) * up

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: matvec.few_row_gate_up(x, it.arrays, it.form, by),
        lambda x: matvec.gate_up_reference(x, it.arrays, it.form),
        stock,
    )


def experts_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Rows and the experts they chose."""
    count = 8
    it = _matrix(work.form, (count, work.outputs, work.inputs), dtype, seed)

    def chosen(x: mx.array) -> mx.array:
        first = mx.arange(len(x))[:, None] * 3
        return ((first + mx.arange(CHOSEN)[None]) % count).astype(mx.int32)

    def stock(x: mx.array) -> mx.array:
        experts, rows = chosen(x).astype(mx.uint32), x[:, None, None]
        if it.mode == "dense" or it.mode in BLOCK_FORMS:
            weights = it.form.dequantise(it.arrays).astype(x.dtype).swapaxes(-1, -2)
            return mx.gather_mm(rows, weights, rhs_indices=experts).reshape(len(x), -1)
        made = mx.gather_qmm(
            rows,
            it.arrays[0],
            it.arrays[1],
            it.biases,
            rhs_indices=experts,
            transpose=True,
            group_size=it.group,
            bits=it.bits,
            mode=it.mode,
        )
        return made.reshape(len(x), -1)

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: expert_union_matvec(x, chosen(x), it.arrays, it.form, by).reshape(len(x), -1),
        lambda x: experts_reference(x, chosen(x), it.arrays, it.form).reshape(len(x), -1),
        stock,
    )


PROMPT = 40
"""Rows of a trial: more than a SIMD-group takes, fewer than a threadgroup does."""


def prompt_product_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """More rows by a matrix in blocks."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)
    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: many.many_row_product(x, it.arrays, it.form, by),
        lambda x: many.reference(x, it.arrays, it.form),
        it.stock,
        most=PROMPT,
    )


def prompt_experts_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """More rows sorted by their experts, seven to each, in blocks."""
    it = _matrix(work.form, (8, work.outputs, work.inputs), dtype, seed)

    def chosen(x: mx.array) -> mx.array:
        return (mx.arange(len(x)) // 7).astype(mx.uint32)

    def plain(x: mx.array) -> mx.array:
        return many.experts_reference(x, chosen(x), it.arrays, it.form)

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: many.many_row_experts(x, chosen(x), it.arrays, it.form, by),
        plain,
        plain,
        most=PROMPT,
    )


def mtp_input_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Embeddings beside hidden states."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)
    half = work.inputs // 2
    norms = mtp.Norms(1 + normal((half,), 7) / 8, 1 + normal((half,), 8) / 8, 1e-6)

    def stock(x: mx.array) -> mx.array:
        e = mx.fast.rms_norm(x[:, :half], norms.embedding, norms.eps).astype(dtype)
        h = mx.fast.rms_norm(x[:, half:], norms.hidden, norms.eps).astype(dtype)
        return it.stock(mx.concatenate([e, h], axis=-1))

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: mtp.mtp_input(x[:, :half], x[:, half:], norms, it.arrays, it.form, by),
        lambda x: mtp.reference(x[:, :half], x[:, half:], norms, it.arrays, it.form),
        stock,
    )


def _noise_keys(x: mx.array) -> mx.array:
    return (mx.arange(2 * len(x)) * 77 + 5).astype(mx.uint32).reshape(-1, 2)


def pick_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """An output head and its noise."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)

    def how(x: mx.array) -> picking.Choosing:
        return picking.Choosing(keys=_noise_keys(x), temperature=0.8)

    def stock(x: mx.array) -> mx.array:
        logits, choosing = it.stock(x).astype(mx.float32), how(x)
        assert choosing.keys is not None
        noise = noise_reference(choosing.keys, work.outputs)
        return mx.argmax(logits / choosing.temperature + noise, axis=-1)

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: picking.vocabulary_pick(x, it.arrays, it.form, how(x), by),
        lambda x: picking.reference(x, it.arrays, it.form, how(x)),
        stock,
        exact_reference=True,
    )


def filtered_pick_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x are logits; filters as makers of models recommend them."""
    filters = filtering.Filters(0.6, top_k=20, top_p=0.95)
    settings = filters.settings()

    def plain(x: mx.array) -> mx.array:
        return filtering.reference(x, _noise_keys(x), filters)

    return Case(
        lambda rows: normal((rows, work.outputs), seed, dtype),
        lambda x, by: filtering.filtered_pick(x, _noise_keys(x), settings, by),
        plain,
        plain,
        exact_reference=True,
    )


class _Queries(NamedTuple):
    q: mx.array
    latent: mx.array | None


def attention_case(work: Work, dtype: mx.Dtype, seed: int, keys: int = 150) -> Case:
    """Over a cache of few keys; x are queries, of latents both parts side by side."""
    form = cache_form(work.form, work.inputs, work.outputs)
    heads = 1 if form.is_joined else KEY_HEADS
    sides = [
        normal((heads, keys, size), seed + n, dtype)
        for n, size in enumerate((work.inputs, work.outputs), 1)
    ]
    cache = tuple(part for side in sides for part in form.store(side))
    half = len(cache) // 2
    read = [form.dequantise(side).astype(dtype) for side in (cache[:half], cache[half:])]
    if form.is_joined:
        read[0] = mx.concatenate([read[1], read[0]], axis=-1)
    width = read[0].shape[2]
    scale = width**-0.5

    def place(x: mx.array) -> attention.Place:  # row m of every pass stands at the same position
        return attention.Place(keys - 9 + len(x))

    def parts(x: mx.array) -> _Queries:
        q = mx.contiguous(x.swapaxes(0, 1))
        if not form.is_joined:
            return _Queries(q, None)
        latent, turned = mx.split(q, [work.outputs], axis=-1)
        return _Queries(mx.contiguous(turned), mx.contiguous(latent))

    def stock(x: mx.array) -> mx.array:
        end = place(x).end
        mask = "causal" if len(x) > 1 else None
        seen = (side[None, :, :end] for side in read)
        y: mx.array = mx.fast.scaled_dot_product_attention(
            x.swapaxes(0, 1)[None], *seen, scale=scale, mask=mask
        )
        its: mx.array = y[0]
        return its.swapaxes(0, 1)

    def ours(x: mx.array, by: Launcher) -> mx.array:
        q, latent = parts(x)
        y = attention.few_query_attention(q, cache, form, place(x), scale, by, q_latent=latent)
        return y.swapaxes(0, 1)

    def reference(x: mx.array) -> mx.array:
        q, latent = parts(x)
        y = attention.reference(q, cache, form, place(x), scale, q_latent=latent)
        return y.swapaxes(0, 1)

    return Case(
        lambda rows: normal((rows, heads * work.shared, width), 5, dtype),
        ours,
        reference,
        stock,
        most=9,
    )


def long_attention_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Over as many keys as a long chat has."""
    return attention_case(work, dtype, seed, keys=8192)


def noise_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x are the keys."""
    del dtype

    def plain(x: mx.array) -> mx.array:
        return noise_reference(x, work.outputs)

    return Case(
        lambda rows: (mx.arange(2 * rows) * 991 + seed).astype(mx.uint32).reshape(rows, 2),
        lambda x, by: gumbel_noise(x, work.outputs, by),
        plain,
        plain,
        exact_reference=True,
    )


def norms_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """work.inputs: elements of a row."""
    weight = normal((work.inputs,), seed) + 1

    def stock(x: mx.array) -> mx.array:
        normed: mx.array = mx.fast.rms_norm(x, weight, NORM_EPS)
        return normed.astype(dtype)

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: wide_norm(x, weight, NORM_EPS, by),
        lambda x: norm_reference(x, weight, NORM_EPS),
        stock,
    )


def delta_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Three steps to replay, then the rows; x are the values."""
    del dtype
    heads = 2 * KEY_HEADS
    state = normal((heads, work.outputs, work.inputs), seed)

    def unit(shape: tuple[int, ...], seed: int) -> mx.array:
        normed: mx.array = mx.fast.rms_norm(normal(shape, seed), None, 1e-6)
        return normed * float(shape[-1] ** -0.5)

    last = delta.Steps(
        unit((3, KEY_HEADS, work.inputs), 11),
        normal((3, heads, work.outputs), 12),
        mx.exp(-mx.abs(normal((3, heads), 13))),
    )

    def rows_of(x: mx.array) -> delta.Rows:
        count = len(x)
        return delta.Rows(
            unit((9, KEY_HEADS, work.inputs), 14)[:count],
            unit((9, KEY_HEADS, work.inputs), 15)[:count],
            x,
            mx.exp(-mx.abs(normal((9, heads), 16)))[:count],
            mx.sigmoid(normal((9, heads), 17))[:count],
        )

    def stock(x: mx.array) -> mx.array:
        rows = [part[None] for part in rows_of(x)]
        queries, keys, values, decay, beta = rows
        y, _ = mx.fast.gated_delta_update(queries, keys, values, decay, beta, state[None])
        return y[0]

    kept = mx.array([3], dtype=mx.int32)
    return Case(
        lambda rows: normal((rows, heads, work.outputs), 5),
        lambda x, by: delta.gated_delta_block(state, kept, last, rows_of(x), by).y,
        lambda x: delta.reference(state, 3, last, rows_of(x)).y,
        stock,
    )


def delta_inputs_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """After a block of which two rows stand; x are the projected rows."""
    heads = 2 * KEY_HEADS
    channels = 2 * KEY_HEADS * work.inputs + heads * work.outputs
    fixed = inputs.Fixed(
        normal((channels, TAPS), seed, dtype),
        normal((heads,), 21),
        -mx.exp(normal((heads,), 22)),
        KEY_HEADS,
        work.inputs,
        work.outputs,
    )
    before, kept = normal((TAPS - 1 + 3, channels), 23, dtype), mx.array([2], dtype=mx.int32)
    gates = [normal((9, heads), side, dtype) for side in (24, 25)]

    def projected(x: mx.array) -> inputs.Projected:
        a, b = (part[: len(x)] for part in gates)
        return inputs.Projected(x, a, b)

    def flat(rows: delta.Rows) -> mx.array:
        return mx.concatenate([part.reshape(len(part), -1) for part in rows], axis=-1)

    def stock(x: mx.array) -> mx.array:
        its, side = projected(x), KEY_HEADS * work.inputs
        window = mx.concatenate([before[2 : TAPS + 1], x])
        made: mx.array = mx.conv1d(window[None], fixed.taps[..., None], groups=channels)
        made = (made * mx.sigmoid(made)).astype(mx.float32).squeeze(0)
        both = made[:, : 2 * side].reshape(len(x), 2 * KEY_HEADS, work.inputs)
        both = mx.fast.rms_norm(both, None, inputs.L2_EPS / work.inputs) * work.inputs**-0.5
        softplus = mx.logaddexp(its.a.astype(mx.float32) + fixed.decay_bias, mx.array(0.0))
        return flat(
            delta.Rows(
                both[:, :KEY_HEADS],
                both[:, KEY_HEADS:],
                made[:, 2 * side :],
                mx.exp(fixed.decay_rate * softplus),
                mx.sigmoid(its.b.astype(mx.float32)),
            )
        )

    def ours(x: mx.array, by: Launcher) -> mx.array:
        window = inputs.Window(before, kept)
        return flat(inputs.gated_delta_inputs(projected(x), window, fixed, by).rows)

    def plain(x: mx.array) -> mx.array:
        return flat(inputs.reference(projected(x), before, 2, fixed).rows)

    return Case(lambda rows: normal((rows, channels), 5, dtype), ours, plain, stock)
