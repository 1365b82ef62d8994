"""Kernels are tried, a wrong one is switched off with a reason, and what is known is remembered."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.choice import (
    ALL_ROWS,
    KERNELS,
    MOST_ROWS,
    NO_KERNELS,
    Chip,
    Kernels,
    Measured,
    Work,
    chip_of,
)
from metal_kernels.kernel import Call, Source
from metal_kernels.trial_cases import Case
from metal_kernels.trials import TRIALS, Trial
from mlx_engine.check_model import rows_differ
from mlx_engine.doctor.examine import check_kernels
from mlx_engine.kernel_choice.kernels_here import kernel_states, kernels_here, try_all, verdict_of
from mlx_engine.kernel_choice.try_kernels import check, faster
from mlx_engine.kernel_choice.verdict import Verdict, circumstances, read_verdict, write_verdict

HERE = circumstances()
FOUND = Verdict(
    {"experts": "it is wrong"},
    {"products": (Measured(Work("affine4", 512, 256), frozenset({6, 7, 8, 9})),)},
)
FEW = tuple(t for t in TRIALS if t.words in ("products affine4", "delta 128", "noise"))


class Tampering:
    """Runs kernels in the emulator, some of them with their text changed."""

    def __init__(self, kernel: str, old: str, new: str) -> None:
        self.names: list[str] = []
        self._change = (kernel, old, new)
        self._inner = EmulatorLauncher(check=False)

    def run(self, source: Source, call: Call) -> tuple[mx.array, ...]:
        self.names.append(source.name)
        kernel, old, new = self._change
        if source.name.startswith(kernel):
            assert old in source.body
            source = replace(source, body=source.body.replace(old, new))
        return self._inner.run(source, call)


SOUND = ("nothing", "", "")


def trial(words: str) -> Trial:
    return next(one for one in TRIALS if one.words == words)


@pytest.mark.parametrize("one", TRIALS, ids=lambda one: one.words)
def test_every_kernel_passes_its_own_check(one: Trial) -> None:
    assert check(one, kernel_launcher(check=False), mx.float32) == ""


def test_every_kernel_is_tried() -> None:
    assert {one.kernel for one in TRIALS} == set(KERNELS)


@pytest.mark.parametrize(
    ("words", "tampering", "said"),
    [
        ("products affine4", ("few_row_matvec", "T(all)", "T(all * 1.01f)"), "off its reference"),
        ("products affine4", ("few_row_matvec", "T(all)", "T(all + M * 1e-6f)"), "a row of"),
        ("noise", ("position_noise", "value;", "value + 1e-6f;"), "not that of its reference"),
        ("delta 128", ("gated_delta", "t < kept[0]", "t + 1 < kept[0]"), "off its reference"),
        ("attention 64", ("attention_parts", "seen_to[r])", "seen_to[r] - 1)"), "off its refer"),
        ("products dense", ("few_row_matvec", "y[", "no_such_name["), "does not run"),
    ],
)
def test_a_wrong_kernel_is_seen(words: str, tampering: tuple[str, str, str], said: str) -> None:
    assert said in check(trial(words), Tampering(*tampering), mx.float32)


def test_a_wrong_kernel_is_switched_off_with_a_reason() -> None:
    launcher = Tampering("few_row_matvec", "T(all)", "T(all * 1.01f)")
    verdict = verdict_of(try_all(launcher, FEW, timed=False))
    assert set(verdict.off) == {"products"}
    kernels = Kernels(launcher, off=verdict.off)
    assert kernels.rows("products", Work("affine4", 64, 64)) == frozenset()
    assert kernels.rows("delta", Work("", 64, 64)) == ALL_ROWS
    (state,) = (one for one in kernel_states(kernels) if one.name == "products")
    assert not state.in_use
    assert "products affine4 is wrong" in state.why_not


def test_a_verdict_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "kernels.json"
    launcher = Tampering(*SOUND)
    first = kernels_here(launcher, "exact", file, FEW)
    assert launcher.names
    tried = len(launcher.names)
    again = kernels_here(launcher, "fast", file, FEW)
    assert len(launcher.names) == tried
    assert (first.off, first.exact, again.exact) == ({}, True, False)
    write_verdict(file, FOUND, HERE)
    assert read_verdict(file, HERE) == FOUND


def test_an_old_or_damaged_verdict_counts_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    assert read_verdict(file, HERE) is None
    for other in (replace(HERE, mlx="0.1"), replace(HERE, sources="x"), replace(HERE, chip="M9")):
        write_verdict(file, FOUND, other)
        assert read_verdict(file, HERE) is None
    write_verdict(file, FOUND, HERE)
    sound = json.loads(file.read_text())
    wrong_rows = {**sound, "kernels": {**sound["kernels"], "products": {"off": "", "measured": [
        {"form": "affine4", "outputs": 1, "inputs": 1, "rows": [99]}]}}}  # fmt: skip
    without = {**sound, "kernels": {}}
    for text in ("", "[]", "{", "null", json.dumps(wrong_rows), json.dumps(without), "\udcff"):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert read_verdict(file, HERE) is None, text
    launcher = Tampering(*SOUND)
    assert kernels_here(launcher, "exact", file, FEW).off == {}
    assert launcher.names
    assert read_verdict(file, HERE) is not None


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "taken" / "kernels.json"
    file.parent.write_text("a file where a folder belongs")
    launcher = Tampering(*SOUND)
    assert kernels_here(launcher, "exact", file, FEW).launcher is launcher
    last = list(check_kernels(launcher, file, FEW, timed=False))[-1]
    assert (last.state, "not remembered" in last.words) == ("warn", True)


def test_without_metal_stock_does_everything() -> None:
    assert kernels_here(None, "exact", None) is NO_KERNELS
    assert all("no Metal" in state.why_not for state in kernel_states(NO_KERNELS))


@pytest.mark.parametrize(
    ("stock_seconds", "wins"),
    [
        (lambda rows: 2.0, ALL_ROWS),
        (lambda rows: 0.5, frozenset()),
        (lambda rows: 2.0 if rows >= 4 else 1.0, frozenset(range(4, 10))),
    ],
)
def test_the_faster_one_is_kept(
    stock_seconds: Callable[[int], float], wins: frozenset[int]
) -> None:
    """By a clock that the two move themselves; the kernel takes a second."""
    now = [0.0]

    def taking(seconds: float, x: mx.array) -> mx.array:
        now[0] += seconds
        return x

    case = Case(
        x=lambda rows: mx.zeros((rows, 4)),
        ours=lambda x, by: taking(1.0, x),
        reference=lambda x: x,
        stock=lambda x: taking(stock_seconds(len(x)), x),
    )
    one = Trial("noise", Work(), (), lambda work, dtype, seed: case)
    found = faster(one, Work("", 9, 9), EmulatorLauncher(), mx.float32, lambda: now[0])
    assert found == Measured(Work("", 9, 9), wins)


def test_which_rows_go_through_a_kernel() -> None:
    launcher, work = EmulatorLauncher(), Work("affine4", 4096, 4096)
    measured = {
        "products": (Measured(work, frozenset({6, 7, 8, 9})),),
        "gate-up": (Measured(work, frozenset(range(3, 10))),),
    }
    exact, fast = (
        Kernels(launcher, exact=is_exact, measured=measured) for is_exact in (True, False)
    )
    assert exact.rows("products", work) == ALL_ROWS
    assert fast.rows("products", work) == {6, 7, 8, 9}
    assert exact.rows("gate-up", work) == ALL_ROWS
    assert exact.rows("experts", work) == frozenset()
    assert fast.rows("products", Work("affine4", 4096, 4097)) == frozenset()
    assert exact.served("attention", Work("", 80, 80)) is None
    assert exact.launcher_of("attention", Work("", 64, 64)) is launcher
    served = fast.served("products", work)
    assert served is not None
    assert [rows for rows in range(12) if rows in served] == [6, 7, 8, 9]
    assert exact.why_unused("products") == "No layer of this model can use it."
    assert exact.served("products", work) is not None
    assert exact.why_unused("products") == ""
    misfit = Kernels(launcher)
    misfit.served("attention", Work("", 80, 80))
    assert "heads of 80" in misfit.why_unused("attention")
    assert "No layer" in exact.why_unused("noise")


def test_layers_see_what_changes_while_they_run() -> None:
    """A trial passed, one failed, a whole kernel failed, and rows that need not be exact."""
    kernels = Kernels(EmulatorLauncher(), trusted=frozenset({"attention 64"}))
    works = {form: Work(form, 64, 64) for form in ("affine4", "dense")}
    four, plain = (kernels.served("products", work) for work in works.values())
    heads = kernels.served("attention", Work("", 64, 64), whole=True)
    assert four is not None
    assert plain is not None
    assert heads is not None
    assert (1 in four, 1 in plain, 1 in heads, 10 in heads) == (False, False, True, False)
    assert "waits to be tried" in kernels.why_unused("products")
    kernels.trust(["products affine4"])
    assert (1 in four, 1 in plain, kernels.why_unused("products")) == (True, False, "")
    kernels.trust(["products dense"])
    kernels.switch_off("products affine4", "it is wrong")
    assert (1 in four, 1 in plain) == (False, True)
    assert kernels.formats_off("products") == ("not products affine4: it is wrong",)
    kernels.want(exact=False)
    assert 1 not in plain
    kernels.switch_off("attention", "it is wrong")
    assert 1 not in heads
    assert "Switched off: it is wrong" in kernels.why_unused("attention")


def test_what_is_presumed_of_a_chip() -> None:
    old, new = chip_of("applegpu_g14s", "Apple M2 Max"), chip_of("applegpu_g16p", "Apple M4")
    assert (old.generation, new.letter, chip_of("?", "?").generation) == (14, "p", 0)
    work = Work("affine4", 4096, 4096)
    rows = {
        chip: Kernels(EmulatorLauncher(), False, chip).rows("products", work) for chip in (old, new)
    }
    assert (2 in rows[old], 2 in rows[new], MOST_ROWS in rows[new]) == (True, False, True)
    assert (
        Kernels(EmulatorLauncher(), False, Chip(16, "s", "")).rows("products", Work("dense", 8, 8))
        == set()
    )


def test_what_stock_mlx_runs_is_named_when_rows_differ() -> None:
    kernels = Kernels(EmulatorLauncher())
    kernels.served("products", Work("dense", 8, 8))
    words = rows_differ(kernels).words
    assert words.endswith("Stock MLX runs its attention and recurrent states.")
    assert rows_differ(NO_KERNELS).words.endswith("at near ties.")
