"""Kernels to try that multiply by a matrix, beside their references and stock MLX."""

from typing import NamedTuple

import mlx.core as mx

from metal_kernels import few_row_matvec as matvec
from metal_kernels import many_row_product as many
from metal_kernels import mtp_input as mtp
from metal_kernels import vocabulary_pick as picking
from metal_kernels.choice import Work
from metal_kernels.expert_union_matvec import expert_union_matvec
from metal_kernels.expert_union_matvec import reference as experts_reference
from metal_kernels.noise import reference as noise_reference
from metal_kernels.trial_cases import Case, noise_keys, normal
from metal_kernels.weight_formats.affine import GROUP, affine
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.dense import DENSE
from metal_kernels.weight_formats.fp4 import mxfp4, nvfp4
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS, block_bytes

CHOSEN = 2
"""Experts of a row."""


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
        lambda x, by: matvec.few_row_matvec_add(x, it.arrays, it.form, by, residual[: len(x)]),
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


def pick_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """An output head and its noise."""
    it = _matrix(work.form, (work.outputs, work.inputs), dtype, seed)

    def how(x: mx.array) -> picking.Choosing:
        return picking.Choosing(keys=noise_keys(x), temperature=0.8)

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
