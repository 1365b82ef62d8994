"""What holds for a loaded model on this machine: are rows exact, do the heads fit."""

from dataclasses import replace

import mlx.core as mx

from metal_kernels.choice import KERNELS, Kernels
from mlx_engine.drafting.head_check import TEXT, measure_fit, misfit
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Adapter
from mlx_engine.values.errors import Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import Numerics

ROWS = 5
"""Of a block that is compared with passes of one row."""

ROWS_DIFFER = (
    "Exact numerics were asked for, but on this machine a row's logits change with the rows beside "
    "it: text with drafting may leave the plain text at near ties."
)


def with_numerics(model: LoadedModel, wanted: Numerics) -> ModelDescription:
    """The model's description with the numerics that are in effect here."""
    described = replace(model.description, numerics="fast")
    if wanted == "fast":
        return described
    if rows_are_exact(model.adapter):
        return replace(described, numerics="exact")
    return replace(described, declined=(*described.declined, rows_differ(model.kernels)))


def rows_are_exact(adapter: Adapter) -> bool:
    """Whether one pass of a few rows gives, bit for bit, what as many passes of one row give."""
    tokens = (mx.arange(2 * ROWS)[None] * 7 + 1) % adapter.vocabulary
    together, alone = adapter.make_caches(), adapter.make_caches()
    for caches in (together, alone):
        adapter.forward(tokens[:, :ROWS], caches)
        caches.keep(ROWS)
    block = adapter.logits(adapter.forward(tokens[:, ROWS:], together))
    singles: list[mx.array] = []
    for row in range(ROWS, 2 * ROWS):
        singles.append(adapter.logits(adapter.forward(tokens[:, row : row + 1], alone)))
        alone.keep(1)
    # NaN is a fault of the weights, found when a token is picked; not one of the rows
    alike = mx.array_equal(block, mx.concatenate(singles, axis=1), equal_nan=True)
    return bool(alike.item())


def rows_differ(kernels: Kernels) -> Reason:
    """Why numerics are not exact; names what has no kernel of ours, where others have one."""
    stock = [
        kernel.words
        for name, kernel in KERNELS.items()
        if kernel.is_exact and kernels.why_unused(name)
    ]
    told = f" Stock MLX runs its {' and '.join(stock)}." if stock and kernels.launcher else ""
    return Reason("rows-differ", ROWS_DIFFER + told)


def with_head_check(model: LoadedModel, description: ModelDescription) -> ModelDescription:
    """The description, with a reason when the MTP heads do not fit; reads the heads."""
    fit = measure_fit(model.adapter, model.tokenizer.encode(TEXT))
    reason = misfit(fit, model.head_origin)
    if reason is None:
        return description
    return replace(description, declined=(*description.declined, reason))
