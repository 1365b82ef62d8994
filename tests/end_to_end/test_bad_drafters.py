"""Heads and draft models that do not fit: a clear reason, then plain decoding or refusal."""

import io
from pathlib import Path

import pytest
from model_edits import drop_tensors
from session_runs import PICKS, listen, session_of
from tiny_eagle3 import TinyEagle, write_tiny_eagle
from tiny_gemma4 import write_pair
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine
from mlx_engine.command_line.run import run_command_line
from mlx_engine.command_line.runtime import Runtime
from mlx_engine.self_check.doctor import Machine
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import DraftOptions, LoadOptions


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("target") / "t", heads="none")


@pytest.fixture(scope="module")
def plain(target):
    return mlx_engine.load(target).generate([1, 2, 3], 5, PICKS).tokens


def command(*arguments):
    """Status and what was said to the user."""
    out, err = io.StringIO(), io.StringIO()
    runtime = Runtime(
        stdin=io.StringIO(),
        stdout=out,
        stderr=err,
        load=mlx_engine.load,
        inspect=mlx_engine.inspect,
        examine=lambda _: (),
        machine=lambda: Machine("CPU", "", 0, 0),
    )
    status = run_command_line([str(argument) for argument in arguments], runtime)
    assert "Traceback" not in err.getvalue()
    return status, " ".join(err.getvalue().split())


def heads_of(folder, **changes):
    """A file of heads alone, from a model of these sizes."""
    write_tiny_qwen3_5(folder / "whole", heads="beside", **changes)
    return folder / "whole" / "mtp.safetensors"


def incomplete(folder):
    place = heads_of(folder)
    drop_tensors(place, "fc.weight")
    return place.rename(folder / "heads.safetensors")


GIVEN_HEADS = {
    "of a wider model": (lambda folder: heads_of(folder, hidden=128), "another model"),
    "a tensor is missing": (incomplete, "fc.weight"),
    "no heads in there": (
        lambda folder: write_tiny_qwen3_5(folder / "m", heads="none"),
        "no drafting heads in there",
    ),
    "not there": (lambda folder: folder / "nowhere.safetensors", "nowhere"),
}


@pytest.mark.parametrize("case", GIVEN_HEADS)
def test_given_heads_that_do_not_fit(target, plain, tmp_path, case):
    make, says = GIVEN_HEADS[case]
    place = make(tmp_path)
    status, said = command("generate", target, "--heads", place, "--prompt", "a")
    if status == 0:
        engine = mlx_engine.load(target, options=LoadOptions(heads=place))
        assert says in engine.description.mtp.words
        assert says in said
        assert engine.generate([1, 2, 3], 5, PICKS).tokens == plain
        return
    assert status == 2
    assert says in said
    with pytest.raises(EngineError, match=says):
        mlx_engine.load(target, options=LoadOptions(heads=place))


def other_tokens(folder):
    write_tiny_qwen3_5(folder / "small", heads="none")
    make_tiny_tokenizer(folder / "small", vocabulary=290)
    return folder / "small"


def assistant(folder):
    return write_pair(folder, ordered=False).assistant


DRAFT_MODELS = {
    "another tokenizer": (other_tokens, "their tokens differ"),
    "EAGLE-3 of a wider target": (
        lambda folder: write_tiny_eagle(folder / "d", TinyEagle(96, 300)),
        "a target whose hidden states are 96 wide",
    ),
    "EAGLE-3 with other tokens": (
        lambda folder: write_tiny_eagle(folder / "d", TinyEagle(64, 512)),
        "a target whose vocabulary is 512 wide",
    ),
    "assistant of a Gemma 4": (assistant, "assistant of a Gemma 4 model"),
    "not there": (lambda folder: folder / "nowhere", "nowhere"),
}


@pytest.mark.parametrize("case", DRAFT_MODELS)
def test_draft_models_that_do_not_fit(target, plain, tmp_path, case):
    make, says = DRAFT_MODELS[case]
    place: Path = make(tmp_path)
    status, said = command("generate", target, "--draft-model", place, "--prompt", "a")
    assert status == 2
    assert says in said
    assert place.name in said or "tokens" in said
    options = LoadOptions(draft_model=place, draft_misfit="plain")
    engine = mlx_engine.load(target, options=options)
    assert [r.code for r in engine.description.declined] == ["draft-model-misfit"]
    session = session_of(engine, depth=0, max_tokens=4)
    session.draft = DraftOptions(source="model", depth=2)
    assert session.why_not_drafting.code == "draft-model-misfit"
    rounds = listen(session, session.send("hi")).rounds
    assert {(r.drafted, r.why.code) for r in rounds} == {(0, "draft-model-misfit")}
    made = engine.generate([1, 2, 3], 5, PICKS, DraftOptions(source="model", depth=2))
    assert made.tokens == plain


def test_promised_heads_that_are_not_there(target):
    """Plain, and the chat says why."""
    status, said = command("chat", target, "--once", "hi", "--max-tokens", "4")
    assert status == 0
    assert "this copy of it has none" in said


def test_an_assistant_on_a_target_without_shared_layers(tmp_path):
    """Given to a model of another family that can lend features, too."""
    folder = publish("llama", tmp_path / "t").folder
    with pytest.raises(EngineError, match="assistant of a Gemma 4"):
        mlx_engine.load(folder, options=LoadOptions(draft_model=assistant(tmp_path / "pair")))


def test_a_source_without_its_draft_model(target):
    status, said = command("generate", target, "--source", "model", "--prompt", "a")
    assert status == 0
    assert "No draft model was given" in said
