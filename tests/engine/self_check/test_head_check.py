"""The check of heads: those that fit pass, spoilt ones are told, random models get no verdict."""

import shutil
from pathlib import Path

import mlx.core as mx
import pytest
from shared_case import FOLDER, needs_case
from spoilt_heads import WAYS, fit_of
from tiny_qwen_experts import write_tiny_experts

import mlx_engine
from mlx_engine import DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.engine import Engine
from mlx_engine.self_check.teacher_forced import MOST_TOKENS, TEXT, HeadFit, measure_fit

POCKET = Path(__file__).parents[3] / "assets" / "pocket_model"
MODELS = [POCKET, pytest.param(FOLDER / "hf", marks=needs_case)]
SEEN = ["norms - 1", "hidden state first", "foreign"]


@pytest.mark.parametrize("folder", MODELS)
def test_heads_that_fit(folder: Path) -> None:
    fit = fit_of(folder, WAYS["as it is"])
    assert fit.agreement_share > 0.3
    assert not fit.is_mismatched


@pytest.mark.parametrize("way", SEEN)
@pytest.mark.parametrize("folder", MODELS)
def test_spoilt_heads(folder: Path, way: str) -> None:
    fit = fit_of(folder, WAYS[way])
    assert fit.agreement_share < 0.1
    assert fit.is_mismatched


def test_a_random_model_gets_no_verdict(tmp_path: Path) -> None:
    folder = write_tiny_experts(tmp_path / "m", "qwen3_next")
    engine = mlx_engine.load(folder)
    fit = measure_fit(engine.parts.model, engine.tokenize(TEXT))
    assert not fit.is_mismatched


def test_few_rows_are_no_evidence() -> None:
    assert not HeadFit(11, 0).is_mismatched
    assert HeadFit(12, 0).is_mismatched
    assert HeadFit(50, 7).is_mismatched
    assert not HeadFit(50, 8).is_mismatched
    assert HeadFit(0, 0).agreement_share == 0.0


def test_the_check_reads_no_more_than_it_says() -> None:
    engine = mlx_engine.load(POCKET)
    model = engine.parts.model
    tokens = engine.tokenize(TEXT)
    assert len(tokens) > MOST_TOKENS
    assert measure_fit(model, tokens) == measure_fit(model, tokens[:MOST_TOKENS])
    for few in (0, 1, 5):
        assert measure_fit(model, tokens[:few]) == HeadFit(0, 0)


def spoilt_folder(folder: Path, place: Path) -> Path:
    """The model with the rows of its head's join in reverse order: sound, but no head for it."""
    shutil.copytree(folder, place)
    for file in place.glob("*.safetensors"):
        arrays = mx.load(str(file))
        assert isinstance(arrays, dict)
        parts = {n: a[::-1] for n, a in arrays.items() if "mtp.fc." in n or ".mtp.layers" in n}
        mx.save_safetensors(
            str(file), {n: mx.contiguous(parts.get(n, a)) for n, a in arrays.items()}
        )
    return place


def codes(engine: Engine) -> list[str]:
    return [reason.code for reason in engine.description.declined]


def test_given_heads_are_checked_at_once(tmp_path: Path) -> None:
    spoilt = spoilt_folder(POCKET, tmp_path / "spoilt")
    assert "heads-implausible" not in codes(mlx_engine.load(POCKET, heads=POCKET))
    engine = mlx_engine.load(POCKET, heads=spoilt)
    assert "heads-implausible" in codes(engine)
    for word in (str(spoilt), " of ", "another model", "another version"):
        assert word in engine.description.declined[-1].words
    silent = mlx_engine.load(POCKET, heads=spoilt, options=LoadOptions(check_heads=False))
    assert "heads-implausible" not in codes(silent)


def test_own_heads_are_checked_when_first_used(tmp_path: Path) -> None:
    engine = mlx_engine.load(spoilt_folder(POCKET, tmp_path / "spoilt"))
    plain, greedy = DraftOptions(source="none"), SamplingOptions(temperature=0)
    text = engine.generate("Yes", max_tokens=4, sampling=greedy, draft=plain).text
    assert "heads-implausible" not in codes(engine)
    draft = DraftOptions(depth=2)
    for _ in range(2):
        assert engine.generate("Yes", max_tokens=4, sampling=greedy, draft=draft).text == text
        assert codes(engine).count("heads-implausible") == 1
