"""The 16-bit type a model computes in: errors by type, and what happens where one overflows."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.values.conversation import GenerationFinished, RoundFinished
from mlx_engine.values.errors import BadOption, NumericsError
from mlx_engine.values.options import (
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)

FAMILIES = ["llama", "gemma3_text", "qwen3_moe", "falcon_h1", "lfm2"]
TOLERANCE = {"float16": 0.01, "bfloat16": 0.06}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_in_16_bits_are_near_those_in_float32(tmp_path: Path, family: str) -> None:
    """float16 has eight times the precision of bfloat16, in which the weights are stored.

    Of most rows: in some, rounding chooses another expert.
    """
    made = publish(family, tmp_path / "m", dtype="bfloat16")
    errors = {}
    for asked, most in TOLERANCE.items():
        options = LoadOptions(activations=asked, check_heads=False)  # type: ignore[arg-type]
        with mlx_engine.load(made.folder, options=options) as engine:
            assert engine.description.activations == asked
            apart = np.abs(engine.logits(made.tokens) - made.logits).max(axis=-1)
        errors[asked] = np.median(apart) / np.abs(made.logits).max()
        assert errors[asked] < most
    assert errors["float16"] < errors["bfloat16"]


@pytest.mark.parametrize("bits", [None, 8])
@pytest.mark.parametrize("asked", ["float16", "bfloat16"])
def test_the_same_words_with_drafting_in_16_bits(
    tmp_path: Path, asked: str, bits: int | None
) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", bits=bits, dtype=mx.bfloat16)
    options = LoadOptions(activations=asked)  # type: ignore[arg-type]
    with mlx_engine.load(folder, options=options) as engine:
        for temperature in (0.0, 0.8):
            plain, drafted = (
                engine.generate(
                    "The sea",
                    max_tokens=24,
                    sampling=SamplingOptions(temperature=temperature, seed=5),
                    draft=DraftOptions(depth=depth),
                    ignore_eos=True,
                )
                for depth in (0, 3)
            )
            assert drafted.tokens == plain.tokens
            assert drafted.stats.drafted > 36


def enlarge(folder: Path, factors: dict[str, float]) -> None:
    """Multiply the weights of a folder whose names end so."""
    file = folder / "model.safetensors"
    arrays = load_file(file)
    for ending, factor in factors.items():
        names = [name for name in arrays if name.endswith(ending)]
        assert names
        for name in names:
            arrays[name] = arrays[name] * factor
    save_file(arrays, file, {"format": "pt"})


OVERFLOWS = {
    "inner values of a feed-forward layer": (
        "llama",
        {"gate_proj.weight": 400, "up_proj.weight": 400},
    ),
    "residuals": ("llama", {"down_proj.weight": 3000, "up_proj.weight": 40}),
    "experts": ("mixtral", {"w2.weight": 4000, "w3.weight": 60}),
    "values": ("qwen3", {"v_proj.weight": 300, "o_proj.weight": 400}),
    "recurrent layers": ("falcon_h1", {"mamba.in_proj.weight": 400, "mamba.out_proj.weight": 400}),
}


@pytest.mark.parametrize("place", OVERFLOWS)
def test_what_outgrows_float16_goes_on_in_bfloat16(tmp_path: Path, place: str) -> None:
    """No word is lost, the reason is on show, and a second question is answered at once."""
    family, factors = OVERFLOWS[place]
    folder = publish(family, tmp_path / "m", dtype="bfloat16").folder
    enlarge(folder, factors)
    options = LoadOptions(activations="float16")
    with mlx_engine.load(folder, options=options) as engine:
        assert engine.description.activations == "float16"
        session = engine.session(
            sampling=SamplingOptions(temperature=0),
            generation=GenerationOptions(max_tokens=6, ignore_eos=True),
        )
        for question in ("one", "two"):
            *_, last = session.send(question)
            assert isinstance(last, GenerationFinished)
            assert last.stats.generated_tokens == 6
            assert engine.description.activations == "bfloat16"
            codes = [reason.code for reason in engine.description.declined]
            assert codes.count("float16-overflowed") == 1
        assert np.isfinite(engine.logits(session.prompt_tokens())).all()


def test_other_chats_go_on_when_the_type_changes(tmp_path: Path) -> None:
    """One at rest is read again; one that runs goes on, of the same length as ever."""
    folder = publish("llama", tmp_path / "m", dtype="bfloat16").folder
    with mlx_engine.load(folder, options=LoadOptions(activations="float16")) as engine:
        limits = GenerationOptions(max_tokens=8, ignore_eos=True)
        rests, runs = (engine.session(generation=limits) for _ in range(2))
        list(rests.send("one"))
        assert rests.nbytes
        events = runs.send("two")
        next(event for event in events if isinstance(event, RoundFinished))
        assert engine.parts.can_retry(NumericsError("It is too large."))
        assert not rests.nbytes
        for answer in (events, rests.send("three")):
            *_, last = answer
            assert isinstance(last, GenerationFinished)
            assert last.stats.generated_tokens == 8
        assert engine.description.activations == "bfloat16"


def test_a_damaged_model_is_told_of_in_every_type(tmp_path: Path) -> None:
    folder = publish("llama", tmp_path / "m", dtype="bfloat16").folder
    enlarge(folder, {"norm.weight": float("nan")})
    for asked in ("float16", "bfloat16"):
        options = LoadOptions(activations=asked)  # type: ignore[arg-type]
        with (
            mlx_engine.load(folder, options=options) as engine,
            pytest.raises(NumericsError, match=str(folder)),
        ):
            engine.generate("one", max_tokens=3)


def test_a_class_of_mlx_lm_computes_in_float32_without_a_gpu(tmp_path: Path) -> None:
    folder = publish("jamba", tmp_path / "m", dtype="bfloat16").folder
    with pytest.raises(BadOption, match='Use "auto"'):
        mlx_engine.load(folder, options=LoadOptions(activations="float16"))
    with mlx_engine.load(folder) as engine:
        assert engine.description.activations == "float32"
