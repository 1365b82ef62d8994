"""MLX's own verify-path kernels in the emulator: the baseline for counts.

    from metal_emulator import stock_kernels as stock
    (y,), report = stock.qmv_wide(x, w, scales, biases, group_size=64, bits=4)
    report.buffers["w"].times_read

The text is read from the installed wheel and never copied. Further arguments are the emulator's
options: arithmetic, lint, private. Every buffer keeps MLX's name: w,
scales, biases, x, y; queries, keys, values, out.
"""

import re
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

from metal_emulator.kernel import metal_kernel
from metal_emulator.report import Report

KERNELS = 32
MOST_WIDE_ROWS = 5
PLACE = "threadgroup_position_in_grid"
SIMD = "simdgroup_index_in_threadgroup, thread_index_in_simdgroup"

_BY_REFERENCE = re.compile(r"const constant (\w+)& ")
_CONSTANT = re.compile(r"constant (\w+) (\w+) \[\[function_constant\(\d+\)\]\];")
_INCLUDE = re.compile(r"^\s*#\s*(include|pragma once).*$", re.MULTILINE)


def kernels_folder() -> Path:
    """Where the wheel keeps them. Raises FileNotFoundError."""
    package = Path(mx.__file__).parent
    folder = package / "include" / "mlx" / "backend" / "metal" / "kernels"
    if not folder.is_dir():
        raise FileNotFoundError(f"this wheel of MLX has no Metal kernels at {folder}")
    return folder


def quantized_vector_kernels() -> str:
    """quantized.h as far as the matrix-vector kernels go; what follows needs the matrix headers."""
    text = (kernels_folder() / "quantized.h").read_text(encoding="utf-8")
    end = text.index("METAL_FUNC void qvm_impl(")
    return _INCLUDE.sub("", text[: text.rindex("template <", 0, end)])


def attention_kernels(**constants: int | bool) -> str:
    """sdpa_vector.h with its function constants set; those not named are 0.

    Numbers are taken by value, as here they do not lie in buffers.
    """
    text = (kernels_folder() / "sdpa_vector.h").read_text(encoding="utf-8")

    def fixed(match: re.Match[str]) -> str:
        value = int(constants.get(match.group(2), 0))
        return f"static constexpr {match.group(1)} {match.group(2)} = {value};"

    text = _BY_REFERENCE.sub(r"const \1 ", text)
    return _CONSTANT.sub(fixed, _INCLUDE.sub("", text))


class Stock(NamedTuple):
    """What MLX's kernel gave, and what it moved."""

    outputs: tuple[mx.array, ...]
    report: Report


def qmv(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array,
    *,
    group_size: int,
    bits: int,
    **options: bool,
) -> Stock:
    """One dispatch of M rows, each reading the weight: what M1 and M2 run for every M.

    x: (M, K). w, scales, biases: of mx.quantize of (N, K), all of x's dtype. y: (M, N). K must be a
    multiple of 512 (256 at 6 and 8 bits) for the fast kernel; another K takes the plain one.
    """
    rows, columns = _sizes(x, w)
    block = 256 if bits in (6, 8) else 512
    if x.shape[-1] % block == 0:
        partial = "true" if columns % 8 else "false"
        function = f"qmv_fast_impl<T, {group_size}, {bits}, {partial}>"
    else:
        function = f"qmv_impl<T, {group_size}, {bits}>"
    body = f"{function}(w, scales, biases, x, y, K, N, {PLACE}, {SIMD});"
    return _matvec("stock_qmv", body, x, [w, scales, biases], rows, columns, options)


def qmv_wide(
    x: mx.array,
    w: mx.array,
    scales: mx.array,
    biases: mx.array,
    *,
    group_size: int,
    bits: int,
    **options: bool,
) -> Stock:
    """M >= 2 rows, the weight read once for up to 5 of them: M3 and later. Shapes as of `qmv`."""
    rows, columns = _sizes(x, w)
    tiles = -(-rows // MOST_WIDE_ROWS)
    together = -(-rows // tiles)
    function = f"qmv_wide_impl<T, {group_size}, {bits}, {together}, 8>"
    body = f"{function}(w, scales, biases, x, y, K, N, M, {PLACE}, {SIMD});"
    return _matvec(
        "stock_qmv_wide", body, x, [w, scales, biases], -(-rows // together), columns, options
    )


def _sizes(x: mx.array, w: mx.array) -> tuple[int, int]:
    if x.ndim != 2 or w.ndim != 2:
        raise ValueError(f"x and w must be matrices, got {x.shape} and {w.shape}")
    return x.shape[0], w.shape[0]


def _matvec(
    name: str,
    body: str,
    x: mx.array,
    weight: list[mx.array],
    tiles: int,
    columns: int,
    options: dict[str, bool],
) -> Stock:
    kernel = metal_kernel(
        name,
        ["w", "scales", "biases", "x", "K", "N", "M"],
        ["y"],
        body,
        header=quantized_vector_kernels(),
        **options,
    )
    sizes = [mx.array(n, dtype=mx.int32) for n in (x.shape[1], columns, x.shape[0])]
    outputs = kernel(
        inputs=[*weight, x, *sizes],
        template=[("T", x.dtype)],
        grid=(tiles * KERNELS, -(-columns // 8) * 2, 1),
        threadgroup=(KERNELS, 2, 1),
        output_shapes=[(x.shape[0], columns)],
        output_dtypes=[x.dtype],
    )
    return Stock(tuple(outputs), kernel.last)


def sdpa_vector(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    causal: bool = False,
    **options: bool,
) -> Stock:
    """The one-pass kernel: each query row streams all keys of its head.

    queries: (B, heads, M, D). keys: (B, kv heads, length, D). values: the same with V. out:
    (B, heads, M, V). causal: the last query sees the last key.
    """
    batch, heads, rows, size = queries.shape
    body = f"""
        sdpa_vector<T, D, V>(queries, keys, values, out, gqa, length, size_t(length) * D, size_t(D),
            size_t(length) * V, size_t(V), scale, nullptr, nullptr, 0, 0, 0, nullptr, 0,
            {PLACE}, threadgroups_per_grid, {SIMD});
    """
    kernel = metal_kernel(
        "stock_sdpa_vector",
        ["queries", "keys", "values", "gqa", "length", "scale"],
        ["out"],
        body,
        header=attention_kernels(do_causal=causal and rows > 1),
        **options,
    )
    outputs = kernel(
        inputs=[queries, keys, values, heads // keys.shape[1], keys.shape[2], float(scale)],
        template=[("T", queries.dtype), ("D", size), ("V", values.shape[-1])],
        grid=(batch * heads * 1024, rows, 1),
        threadgroup=(1024, 1, 1),
        output_shapes=[(batch, heads, rows, values.shape[-1])],
        output_dtypes=[queries.dtype],
    )
    return Stock(tuple(outputs), kernel.last)


def sdpa_vector_two_pass(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    blocks: int,
    causal: bool = False,
    **options: bool,
) -> tuple[Stock, Stock]:
    """The two-pass kernels: (partials, sums, maxs) of each key block, then the merge of those.

    Shapes as of `sdpa_vector`. blocks: a multiple of 32; key i belongs to block i % blocks.
    """
    batch, heads, rows, size = queries.shape
    kv_heads, length, width = keys.shape[1], keys.shape[2], values.shape[-1]
    header = attention_kernels(do_causal=causal and rows > 1, blocks=blocks)
    first = metal_kernel(
        "stock_sdpa_vector_first_pass",
        ["queries", "keys", "values", "length", "scale"],
        ["partials", "sums", "maxs"],
        f"""
        sdpa_vector_2pass_1<T, D, V>(queries, keys, values, partials, sums, maxs, length,
            size_t(length) * D, size_t(D), size_t(length) * V, size_t(V), scale, nullptr, nullptr,
            0, 0, 0, nullptr, threads_per_threadgroup, thread_position_in_threadgroup, {PLACE},
            threadgroups_per_grid, thread_index_in_simdgroup);
        """,
        header=header,
        **options,
    )
    gqa = heads // kv_heads
    parts = (batch, heads, rows, blocks)
    partials = first(
        inputs=[queries, keys, values, length, float(scale)],
        template=[("T", queries.dtype), ("D", size), ("V", width)],
        grid=(kv_heads * KERNELS, batch * gqa, blocks * rows),
        threadgroup=(KERNELS, gqa, rows),
        output_shapes=[(*parts, width), parts, parts],
        output_dtypes=[queries.dtype, mx.float32, mx.float32],
    )
    second = metal_kernel(
        "stock_sdpa_vector_second_pass",
        ["partials", "sums", "maxs", "block_count"],
        ["out"],
        f"""
        sdpa_vector_2pass_2<T, V>(partials, sums, maxs, out, block_count, {PLACE},
            threadgroups_per_grid, {SIMD});
        """,
        header=header,
        **options,
    )
    outputs = second(
        inputs=[*partials, blocks],
        template=[("T", queries.dtype), ("V", width)],
        grid=(batch * heads * 1024, rows, 1),
        threadgroup=(1024, 1, 1),
        output_shapes=[(batch, heads, rows, width)],
        output_dtypes=[queries.dtype],
    )
    return Stock(tuple(partials), first.last), Stock(tuple(outputs), second.last)
