"""Rows that depend on those beside them are found where they do: by length, by count, by kind."""

from pathlib import Path

import mlx.core as mx
import pytest
from kernel_models import kernel_model
from tiny_published import publish

from metal_kernels.choice import Kernels
from metal_kernels.stock import AttentionOptions, StockOperations
from mlx_engine.loading.load import load_model
from mlx_engine.models.decoder import Decoder
from mlx_engine.self_check.kernel_record import ExactRows
from mlx_engine.self_check.numerics import (
    ROWS_PENDING,
    compare_row_counts,
    exact_rows_cost,
    rows_that_differ,
    with_numerics,
)
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import AskedNumerics, LoadOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

CONTEXT = 10_000


class CutAnew(StockOperations):
    """Attention that adds in another order from `keys` keys on, in passes of these rows."""

    def __init__(self, keys: int, rows: tuple[int, ...]) -> None:
        super().__init__()
        self.keys, self.rows = keys, rows
        self.most = 0

    def attention(
        self, queries: mx.array, keys: mx.array, values: mx.array, how: AttentionOptions
    ) -> mx.array:
        made = super().attention(queries, keys, values, how)
        self.most = max(self.most, keys.shape[2])
        is_other = keys.shape[2] >= self.keys and queries.shape[2] in self.rows
        return made * (1 + 2e-7) if is_other else made


class SortedFromEight(StockOperations):
    """Something that goes another way at eight rows exactly."""

    def rms_norm(self, x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
        made = super().rms_norm(x, weight, eps)
        return made * (1 + 2e-7) if x.shape[:2] == (1, 8) else made


def model_on(stock: StockOperations, *, layers: int = 2) -> Decoder:
    return kernel_model("dense", Kernels(None, stock=stock), layers=layers)


@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_rows_of_this_backend_are_exact(kind: str) -> None:
    stock = CutAnew(10**6, ())
    model = kernel_model(kind, Kernels(None, stock=stock))
    found = list(compare_row_counts(model, CONTEXT))
    if not mx.metal.is_available():
        assert found == [""] * 9
    assert stock.most == 5009


@pytest.mark.parametrize(
    ("stock", "where"),
    [
        (CutAnew(4096, (2, 8, 9)), "with 2 tokens at once, after 5,000 tokens"),
        (CutAnew(1024, (9,)), "with 9 tokens at once, after 1,200 tokens"),
        (CutAnew(1024, (16,)), "with 16 tokens at once, after 1,200 tokens"),
        (CutAnew(4096, (8,)), "with 8 tokens at once, after 5,000 tokens"),
        (SortedFromEight(), "with 8 tokens at once, after 1,200 tokens"),
    ],
)
def test_where_rows_differ_is_found(stock: StockOperations, where: str) -> None:
    """None of these shows in five rows after five tokens."""
    assert rows_that_differ(model_on(stock), CONTEXT, longest_s=600) == where


def test_one_layer_of_each_kind_is_enough() -> None:
    few = model_on(StockOperations(), layers=12).with_distinct_layers()
    assert len(few.make_caches().layers) == 2


def test_no_row_is_read_beyond_the_context() -> None:
    stock = CutAnew(10**6, ())
    assert len(list(compare_row_counts(model_on(stock), 64))) == 6
    assert stock.most <= 64


def test_enough_is_enough() -> None:
    """What one comparison takes is all that stands before a first answer where time is short."""
    stock = CutAnew(1, (9,))
    assert rows_that_differ(model_on(stock), CONTEXT, longest_s=0) == ""
    assert stock.most == 1202


@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "gemma3_text", "phi3"])
def test_every_kind_of_memory_is_filled(family: str, tmp_path: Path) -> None:
    """Windows, latents, texts of two lengths."""
    folder = publish(family, tmp_path / "model").folder
    loaded = load_model(folder, LoadOptions(), folder)
    found = set(compare_row_counts(loaded.model, CONTEXT))
    if not mx.metal.is_available():
        assert found == {""}


@pytest.mark.parametrize(
    ("exact_ms", "fast_ms", "share"),
    [
        ({1: 10.0, 4: 12.0}, {1: 10.0, 4: 20.0}, 0.0),
        ({1: 10.4, 4: 12.0}, {1: 10.0, 4: 12.0}, 0.04),
        ({1: 10.0, 4: 15.0}, {1: 10.0, 4: 12.0}, 0.25),
    ],
)
def test_the_cost_of_exact_rows_is_that_of_the_worse_pass(
    exact_ms: dict[int, float], fast_ms: dict[int, float], share: float
) -> None:
    """By timings that are given, each with a slow first pass; rows are exact between steps."""
    kernels, asked = Kernels(None), list[tuple[int, bool]]()

    def pass_ms(rows: int) -> float:
        asked.append((rows, kernels.exact))
        is_first = asked.count(asked[-1]) == 1
        return (exact_ms if kernels.exact else fast_ms)[rows] + 100 * is_first

    steps, found_share = exact_rows_cost(kernels, pass_ms), None
    while found_share is None:
        try:
            next(steps)
        except StopIteration as end:
            found_share = end.value
        assert kernels.exact
    assert found_share == pytest.approx(share)
    assert len(asked) == 16


def test_measurement_decides_the_default(tmp_path: Path) -> None:
    folder = publish("llama", tmp_path / "model").folder
    described = load_model(folder, LoadOptions(), folder).description

    def told(asked: AskedNumerics, found: ExactRows | Reason) -> tuple[str, list[str]]:
        its = with_numerics(described, asked, found)
        again = with_numerics(its, asked, found)
        assert again == its  # reasons are replaced, not heaped up
        return its.numerics, [reason.code for reason in its.declined]

    assert told("auto", ROWS_PENDING) == ("fast", ["rows-pending"])
    assert told("auto", ExactRows("", 0.05)) == ("exact", [])
    assert told("exact", ExactRows("", 0.12)) == ("exact", [])
    assert told("auto", ExactRows("with 9 tokens at once")) == ("fast", ["rows-differ"])
    assert told("fast", ExactRows("", 0.0)) == ("fast", [])
    assert told("auto", ExactRows("", 0.12)) == ("fast", ["exact-costs"])
    words = with_numerics(described, "auto", ExactRows("", 0.12)).declined[0].words
    assert "12% slower on this computer" in words
