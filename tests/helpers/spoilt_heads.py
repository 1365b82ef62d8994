"""Models whose MTP heads are read the wrong way, or are not theirs."""

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np

from mlx_engine.loading.arrays import cast_floats
from mlx_engine.loading.describe import read_text_parts
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.headers import read_headers
from mlx_engine.loading.load_tensors import load_tensors
from mlx_engine.models.contract import Model
from mlx_engine.models.matrix import columns_for_cpu
from mlx_engine.models.weights import WeightTable
from mlx_engine.self_check.teacher_forced import TEXT, HeadFit, measure_fit

Arrays = dict[str, mx.array]


def spoilt(folder: Path, spoil: Callable[[Arrays], Arrays]) -> Model:
    """The model with its head's canonical arrays changed."""
    headers = read_headers(locate_model(folder, folder))
    trunk = headers.family.canonical_trunk(load_tensors(headers.parts.trunk, mx.float32), "trunk")
    tensors = load_tensors(headers.heads.tensors, mx.float32)
    head = headers.family.canonical_head(tensors, "head", trunk.norm_shift)
    arrays = (cast_floats(part, mx.float32) for part in (trunk.arrays, spoil(head.arrays)))
    tables = [WeightTable(part, "model", layout=columns_for_cpu) for part in arrays]
    return headers.family.build(*tables)


def shifted(by: float) -> Callable[[Arrays], Arrays]:
    """Norm weights with a number added."""
    return lambda head: {n: a + by if "norm" in n else a for n, a in head.items()}


def hidden_first(head: Arrays) -> Arrays:
    """Halves of the join swapped."""
    return {
        n: mx.concatenate(mx.split(a, 2, axis=1)[::-1], axis=1)
        if n.startswith("layers.0.join.")
        else a
        for n, a in head.items()
    }


def foreign(head: Arrays) -> Arrays:
    """Rows of every matrix in another order: as large, and about nothing this model knows."""
    draw = np.random.default_rng(0)
    orders = {a.shape[0]: draw.permutation(a.shape[0]) for a in head.values()}
    return {n: a[mx.array(orders[a.shape[0]])] if a.ndim > 1 else a for n, a in head.items()}


WAYS: dict[str, Callable[[Arrays], Arrays]] = {
    "as it is": lambda head: head,
    "norms + 1": shifted(1),
    "norms - 1": shifted(-1),
    "hidden state first": hidden_first,
    "foreign": foreign,
}


def fit_of(folder: Path, spoil: Callable[[Arrays], Arrays]) -> HeadFit:
    """The verdict on a head spoilt this way."""
    tokenizer = read_text_parts(read_headers(locate_model(folder, folder)))[0]
    return measure_fit(spoilt(folder, spoil), tokenizer.encode(TEXT))
