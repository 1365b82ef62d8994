"""The check of heads: those that fit pass, spoilt ones are told, random models get no verdict."""

from pathlib import Path

import pytest
from shared_case import FOLDER, needs_case
from spoilt_heads import WAYS, fit_of
from tiny_qwen_experts import write_tiny_experts

import mlx_engine
from mlx_engine.drafting.head_check import MOST_TOKENS, TEXT, HeadFit, measure_fit, misfit

POCKET = Path(__file__).parents[3] / "assets" / "pocket_model"
MODELS = [POCKET, pytest.param(FOLDER / "hf", marks=needs_case)]
SEEN = ["norms - 1", "hidden state first", "foreign"]


@pytest.mark.parametrize("folder", MODELS)
def test_heads_that_fit(folder: Path) -> None:
    fit = fit_of(folder, WAYS["as it is"])
    assert fit.share > 0.3
    assert misfit(fit, "x") is None


@pytest.mark.parametrize("way", SEEN)
@pytest.mark.parametrize("folder", MODELS)
def test_spoilt_heads(folder: Path, way: str) -> None:
    fit = fit_of(folder, WAYS[way])
    assert fit.share < 0.1
    reason = misfit(fit, "some/file.gguf")
    assert reason is not None
    assert reason.code == "heads-implausible"
    for word in ("some/file.gguf", f"{fit.agreed} of {fit.judged}", "another model", "norm"):
        assert word in reason.words


def test_a_random_model_gets_no_verdict(tmp_path: Path) -> None:
    folder = write_tiny_experts(tmp_path / "m", "qwen3_next")
    engine = mlx_engine.load(folder)
    fit = measure_fit(engine.parts.adapter, engine.tokenize(TEXT))
    assert not fit.is_implausible


def test_few_rows_are_no_evidence() -> None:
    assert not HeadFit(11, 0).is_implausible
    assert HeadFit(12, 0).is_implausible
    assert HeadFit(50, 7).is_implausible
    assert not HeadFit(50, 8).is_implausible
    assert HeadFit(0, 0).share == 0.0


def test_the_check_reads_no_more_than_it_says() -> None:
    engine = mlx_engine.load(POCKET)
    adapter = engine.parts.adapter
    tokens = engine.tokenize(TEXT)
    assert len(tokens) > MOST_TOKENS
    assert measure_fit(adapter, tokens) == measure_fit(adapter, tokens[:MOST_TOKENS])
    assert measure_fit(adapter, tokens[:5]) == HeadFit(0, 0)
