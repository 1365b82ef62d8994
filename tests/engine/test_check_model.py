"""Rows that depend on those beside them are found where they do: by length, by count, by kind."""

from pathlib import Path

import mlx.core as mx
import pytest
from kernel_models import kernel_model
from tiny_published import publish

from metal_kernels.choice import Kernels
from metal_kernels.stock import MlxStock
from mlx_engine.check_model import compare_rows, rows_that_differ
from mlx_engine.loading.load import load_model
from mlx_engine.models.decoder import Decoder
from mlx_engine.values.options import LoadOptions

CONTEXT = 10_000


class CutAnew(MlxStock):
    """Attention that adds in another order from `keys` keys on, in passes of these rows."""

    def __init__(self, keys: int, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.keys, self.rows = keys, rows
        self.most = 0

    def attention(
        self,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        *,
        scale: float,
        mask: mx.array | str | None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        made = super().attention(queries, keys, values, scale=scale, mask=mask, sinks=sinks)
        self.most = max(self.most, keys.shape[2])
        is_other = keys.shape[2] >= self.keys and queries.shape[2] in self.rows
        return made * (1 + 2e-7) if is_other else made


class SortedFromEight(MlxStock):
    """Something that goes another way at eight rows exactly."""

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        made = super().rms_norm(x, weight, eps)
        return made * (1 + 2e-7) if x.shape[:2] == (1, 8) else made


def model_on(stock: MlxStock, *, layers: int = 2) -> Decoder:
    return kernel_model("dense", Kernels(None, stock=stock), layers=layers)


@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_rows_of_this_backend_are_exact(kind: str) -> None:
    stock = CutAnew(10**6, ())
    model = kernel_model(kind, Kernels(None, stock=stock))
    found = list(compare_rows(model, CONTEXT))
    if not mx.metal.is_available():
        assert found == [""] * 9
    assert stock.most == 5009


@pytest.mark.parametrize(
    ("stock", "where"),
    [
        (CutAnew(4096, (2, 8, 9)), "in a pass of 2 rows after 5,000 tokens"),
        (CutAnew(1024, (9,)), "in a pass of 9 rows after 1,200 tokens"),
        (CutAnew(4096, (8,)), "in a pass of 8 rows after 5,000 tokens"),
        (SortedFromEight(), "in a pass of 8 rows after 1,200 tokens"),
    ],
)
def test_where_rows_differ_is_found(stock: MlxStock, where: str) -> None:
    """None of these shows in five rows after five tokens."""
    assert rows_that_differ(model_on(stock), CONTEXT, enough_s=600) == where


def test_one_layer_of_each_kind_is_enough() -> None:
    few = model_on(MlxStock(), layers=12).one_of_each_kind()
    assert len(few.make_caches().layers) == 2


def test_no_row_is_read_beyond_the_context() -> None:
    stock = CutAnew(10**6, ())
    assert len(list(compare_rows(model_on(stock), 64))) == 6
    assert stock.most <= 64


def test_enough_is_enough() -> None:
    """What one comparison takes is all that stands before a first answer where time is short."""
    stock = CutAnew(1, (9,))
    assert rows_that_differ(model_on(stock), CONTEXT, enough_s=0) == ""
    assert stock.most == 1202


@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "gemma3_text", "phi3"])
def test_every_kind_of_memory_is_filled(family: str, tmp_path: Path) -> None:
    """Windows, latents, texts of two lengths."""
    folder = publish(family, tmp_path / "model").folder
    model = load_model(folder, LoadOptions(), folder)
    found = set(compare_rows(model.adapter, CONTEXT))
    if not mx.metal.is_available():
        assert found == {""}
