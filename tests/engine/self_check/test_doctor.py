"""Checks say ok, warn or fail for the right reason, and one that breaks does not end the rest."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from kernel_models import FASTER, always_faster
from metal_emulator import EmulatorLauncher
from scripted_engine import DESCRIPTION, NO_HEADS, Answer, ScriptedEngine
from tiny_qwen3_5 import write_tiny_qwen3_5

from metal_kernels.kernel import KernelSource, pipeline
from mlx_engine.self_check import Finding, doctor
from mlx_engine.self_check.doctor import (
    Machine,
    check_built_in_model,
    check_kernels,
    check_machine,
    check_memory_plan,
    check_packages,
    check_python,
    run_checks,
    this_machine,
)
from mlx_engine.self_check.kernel_record import open_kernel_record
from mlx_engine.self_check.kernel_trials import TRIALS
from mlx_engine.values.conversation import Generation
from mlx_engine.values.errors import ModelNotFound
from mlx_engine.values.model_description import KernelState

MAC = Machine("Metal", "Apple M4 Max", 64 * 10**9, 48 * 10**9)
LINUX = Machine("CPU", "", 4 * 10**9, 0)


@pytest.mark.parametrize(
    ("python", "state"), [((3, 10), "fail"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "fail")]
)
def test_python(python: tuple[int, int], state: str) -> None:
    assert [finding.state for finding in check_python(python)] == [state]


def test_packages() -> None:
    found = {finding.name: finding for finding in check_packages()}
    assert {"mlx", "mlx-lm", "tokenizers", "PySide6-Essentials"} <= set(found)
    assert found["mlx"] == Finding("mlx", "ok", mx.__version__)
    (missing,) = check_packages(["no-such-package"])
    assert (missing.state, "not installed: the engine" in missing.words) == ("fail", True)


def test_machine() -> None:
    here = this_machine()
    assert here.memory_bytes > 10**8
    assert here.backend == ("Metal" if mx.metal.is_available() else "CPU")
    assert (MAC.words, LINUX.words) == ("Metal, Apple M4 Max", "CPU")
    backend, memory = check_machine(MAC)
    assert backend == Finding("backend", "ok", "Metal on Apple M4 Max")
    assert memory.words == "64.0 GB, 48.0 GB of it for the GPU"
    assert [finding.state for finding in check_machine(LINUX)] == ["warn", "warn"]


def test_built_in_model() -> None:
    engine = ScriptedEngine()
    answers, same = check_built_in_model(lambda: engine)
    assert (answers.state, same.state) == ("ok", "ok")
    assert "tok/s" in answers.words
    assert answers.words.endswith("numerics exact, float32")
    assert "2 of 2 drafted tokens accepted" in same.words
    assert engine.closed
    assert engine.answers_before_measuring == 0  # no kernel comes in between the two texts


def test_kernels_compiled_in_an_answer_are_told() -> None:
    known = replace(DESCRIPTION, kernels=(KernelState("products", "matrix products", ""),))
    _, compiled, _ = check_built_in_model(lambda: ScriptedEngine(description=known))
    assert compiled.state == "ok" and compiled.words.endswith("first answer, 0 in answers")

    class Late(ScriptedEngine):
        def generate(self, *given: Any, **named: Any) -> Generation:
            pipeline(KernelSource("late", (), ("y",), "", str(len(self.sessions))))
            return super().generate(*given, **named)

    _, compiled, _ = check_built_in_model(lambda: Late(description=known))
    assert compiled.state == "warn" and compiled.words.endswith("first answer, 2 in answers")


def test_drafting_that_changes_the_words_is_seen() -> None:
    engine = ScriptedEngine([Answer("A b."), Answer("A c.")])
    assert [finding.state for finding in check_built_in_model(lambda: engine)] == ["ok", "warn"]


def test_no_drafting_is_no_proof() -> None:
    engine = ScriptedEngine(description=NO_HEADS)
    _, same = check_built_in_model(lambda: engine)
    assert "nothing was drafted" in same.words


def test_a_built_in_model_that_says_nothing_fails() -> None:
    silent = ScriptedEngine([Answer("  "), Answer("  ")])
    assert [finding.state for finding in check_built_in_model(lambda: silent)] == ["fail"]


def test_a_check_that_raises_is_a_finding() -> None:
    def broken() -> list[Finding]:
        raise ZeroDivisionError("oh")

    def missing() -> ScriptedEngine:
        raise ModelNotFound("There is no built-in model.")

    fine = Finding("b", "ok", "fine")
    built_in = partial(check_built_in_model, missing)
    found = list(run_checks({"a": broken, "b": lambda: [fine], "c": built_in}))
    wrong = Finding("a", "fail", "ZeroDivisionError: oh")
    assert found == [wrong, fine, Finding("c", "fail", "There is no built-in model.")]


def test_kernels_are_told_honestly(tmp_path: Path) -> None:
    """Without Metal it is said what is used instead."""
    (finding,) = check_kernels(None, None)
    assert finding.state == "ok"
    assert f"no Metal here: {len(TRIALS)} kernels checked by the emulator" in finding.words
    file = tmp_path / "kernels.json"
    noise = [trial for trial in TRIALS if trial.kernel == "noise"]
    with always_faster():
        found = list(check_kernels(EmulatorLauncher(check=False), file, noise))
    assert [one.name for one in found] == ["noise", "kernels"]
    assert found[0].words.startswith("correct; faster than stock MLX at 9 of 9 row counts")
    assert "1 of 1 correct" in found[-1].words
    assert open_kernel_record(file).trials == {"noise float32": FASTER}


def test_the_memory_plan_of_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(write_tiny_qwen3_5(tmp_path / "tiny"))
    (finding,) = check_memory_plan(folder)
    assert (finding.name, finding.state) == ("plan", "ok")
    assert finding.words.startswith("tiny: ") and " model + " in finding.words
    monkeypatch.setattr(doctor, "usable_bytes", lambda: 10**6)
    (finding,) = check_memory_plan(folder)
    assert (finding.state, "does not fit" in finding.words) == ("fail", True)
    with pytest.raises(ModelNotFound):
        list(check_memory_plan(str(tmp_path / "none")))
