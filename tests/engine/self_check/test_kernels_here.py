"""Kernels are tried, a wrong one is switched off with a reason, and what is known is remembered."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from kernel_launchers import CountingLauncher, kernel_launcher
from kernel_models import all_faster, kernel_model
from metal_emulator import EmulatorLauncher

from metal_kernels.choice import (
    ALL_ROWS,
    KERNELS,
    NO_KERNELS,
    Kernels,
    Measured,
    Served,
    Work,
)
from metal_kernels.kernel import Launch, pipeline
from metal_kernels.trial_cases import Case
from metal_kernels.trials import TRIALS, Trial
from mlx_engine.self_check.doctor import check_kernels
from mlx_engine.self_check.kernel_record import Circumstances, Verdict, circumstances
from mlx_engine.self_check.kernel_states import formats_off, kernel_states, why_unused
from mlx_engine.self_check.kernel_trials import check, faster
from mlx_engine.self_check.kernels_here import (
    RowsHere,
    TrialsOfModel,
    kernels_here,
    remembered,
)
from mlx_engine.self_check.numerics import rows_differ

HERE = circumstances()
FEW = tuple(t for t in TRIALS if t.words in ("products affine4", "delta 128", "noise"))


class Tampering:
    """Runs kernels in the emulator, some of them with their text changed."""

    def __init__(self, kernel: str, old: str, new: str) -> None:
        self.names: list[str] = []
        self._change = (kernel, old, new)
        self._inner = EmulatorLauncher(check=False)

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        source = launch.pipeline.source
        self.names.append(source.name)
        kernel, old, new = self._change
        if source.name.startswith(kernel):
            assert old in source.body
            source = replace(source, body=source.body.replace(old, new))
            launch = launch._replace(pipeline=pipeline(source, launch.pipeline.parameters))
        return self._inner.run(launch, inputs)


SOUND = ("nothing", "", "")


def trial(words: str) -> Trial:
    return next(one for one in TRIALS if one.words == words)


@pytest.mark.parametrize("one", TRIALS, ids=lambda one: one.words)
def test_every_kernel_passes_its_own_check(one: Trial) -> None:
    assert check(one, kernel_launcher(check=False), mx.float32).wrong == ""


def test_every_kernel_is_tried() -> None:
    assert {one.kernel for one in TRIALS} == set(KERNELS)


@pytest.mark.parametrize(
    ("words", "tampering", "said"),
    [
        ("products affine4", ("few_row_matvec", "T(all)", "T(all * 1.01f)"), "off its reference"),
        ("products affine4", ("few_row_matvec", "T(all)", "T(all + M * 1e-6f)"), "a row of"),
        ("noise", ("position_noise", "value;", "value + 1e-6f;"), "not that of its reference"),
        ("delta 128", ("gated_delta", "t < kept[0]", "t + 1 < kept[0]"), "off its reference"),
        (
            "attention 64",
            ("attention_parts", "four < seen_to", "four + 1 < seen_to"),
            "off its refer",
        ),
        ("products dense", ("few_row_matvec", "y[", "no_such_name["), "does not run"),
    ],
)
def test_a_wrong_kernel_is_seen(words: str, tampering: tuple[str, str, str], said: str) -> None:
    tried = check(trial(words), Tampering(*tampering), mx.float32)
    assert said in tried.wrong
    assert tried.is_lasting == ("does not run" not in tried.wrong)


def as_if_timed(file: Path | None = None) -> Verdict:
    verdict = Verdict(file, HERE)
    verdict.measured = all_faster()
    return verdict


def asking(kernels: Kernels) -> dict[str, Served]:
    """Layers of a model with two formats of matrices and recurrent states."""
    works = {"products affine4": Work("affine4", 96, 192), "products q2_k": Work("q2_k", 64, 256)}
    served = {name: kernels.served("products", work) for name, work in works.items()}
    served["delta 64"] = kernels.served("delta", Work("", 64, 64), whole=True)
    assert all(one is not None for one in served.values())
    return {name: one for name, one in served.items() if one is not None}


def test_a_format_that_is_wrong_is_switched_off_alone() -> None:
    launcher = Tampering("few_row_matvec_q2_k", "T(all)", "T(all * 1.01f)")
    verdict = as_if_timed()
    kernels = kernels_here(launcher, "exact", verdict)
    served = asking(kernels)
    trials = TrialsOfModel(kernels, verdict, mx.float32)
    assert {name for name, one in served.items() if 1 in one} == set()
    assert "waits to be tried" in why_unused(kernels, "delta")
    assert [one.trial.words for one in trials.steps()] == list(served)
    assert {name for name, one in served.items() if 1 in one} == {"products affine4", "delta 64"}
    (state,) = (one for one in kernel_states(kernels) if one.name == "products")
    assert state.in_use
    assert "not products q2_k: on this GPU products q2_k is wrong: it lies" in state.words
    again = kernels_here(launcher, "exact", verdict)
    assert again.served("products", Work("q2_k", 64, 256)) is None
    assert "q2_k is wrong" in why_unused(again, "products")


def test_a_trial_is_as_wide_as_the_models_matrix() -> None:
    kernels = Kernels(EmulatorLauncher(check=False), trusted=frozenset())
    for width in (32, 5000, 704):
        kernels.served("products", Work("affine4", 96, width))
    kernels.served("attention", Work("", 96, 128, 6))
    verdict = Verdict(None, HERE)
    checked = [one.checked for one in TrialsOfModel(kernels, verdict, mx.float32).pending()]
    assert checked == [Work("affine4", 46, 5120), Work("", 96, 128, 6)]


def test_rows_are_told_apart_by_what_computes_them() -> None:
    """A kernel of the trunk, switched off or on; not one that only heads have asked for."""
    kernels = Kernels(EmulatorLauncher(check=False))
    kernels.served("products", Work("affine4", 64, 256))
    rows = RowsHere(kernels)
    exact = rows.computed_by("exact")
    assert {"chip", "mlx", "sources", "numerics", "kernels"} <= set(exact)
    assert rows.computed_by("fast") != exact
    kernels.served("products", Work("affine8", 64, 256))
    kernels.switch_off("products affine8", "it lies")
    assert rows.computed_by("exact") == exact
    kernels.switch_off("products affine4", "it lies")
    assert rows.computed_by("exact")["kernels"] != exact["kernels"]


@pytest.mark.parametrize("group", [32, 64, 128])
def test_a_trial_runs_the_pipelines_of_the_models_passes(group: int) -> None:
    """Weights of a scale are a parameter of the kernels."""
    launcher, verdict = CountingLauncher(EmulatorLauncher(check=False)), as_if_timed()
    kernels = kernels_here(launcher, "exact", verdict)
    model = kernel_model("dense", kernels, group=group)
    assert not any(one.wrong for one in TrialsOfModel(kernels, verdict, mx.float32).steps())
    tried = {name for name, _ in launcher.pipelines}
    launcher.pipelines.clear()
    caches = model.make_caches()
    for rows in (8, 1):
        mx.eval(model.logits(model.forward(mx.arange(rows)[None], caches)))
        caches.commit(rows)
    ran = {name for name, _ in launcher.pipelines}
    assert any("affine4" in name for name in ran)
    assert ran <= tried


def test_what_is_sound_is_remembered_by_type(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "kernels.json"
    launcher = Tampering(*SOUND)
    kernels = kernels_here(launcher, "exact", as_if_timed(file))
    asking(kernels)
    assert len(list(TrialsOfModel(kernels, as_if_timed(file), mx.float32).steps())) == 3
    ran = len(launcher.names)
    again = kernels_here(launcher, "fast", as_if_timed(file))
    served = again.served("products", Work("q2_k", 96, 256))
    trials = TrialsOfModel(again, as_if_timed(file), mx.float32)
    assert served is not None
    assert (1 in served, trials.pending(), len(launcher.names)) == (True, [], ran)
    half = TrialsOfModel(again, as_if_timed(file), mx.float16).pending()
    assert [one.words for one in half] == ["products q2_k"]


def test_what_stock_cannot_do_is_tried_when_it_is_asked_for() -> None:
    launcher = Tampering(*SOUND)
    kernels = kernels_here(launcher, "exact", Verdict(None, HERE))
    assert kernels.rows("products", Work("q6_k", 64, 256)) == set()
    assert not launcher.names
    assert kernels.rows_now("products", Work("q6_k", 64, 256)) == ALL_ROWS
    assert set(launcher.names) == {"few_row_matvec_q6_k"}


def test_what_may_pass_is_asked_again(tmp_path: Path) -> None:
    """Memory that was full, say: off until the next load."""
    file = tmp_path / "kernels.json"
    broken = Tampering("few_row_matvec", "y[", "no_such_name[")
    for launcher, rows in ((broken, False), (Tampering(*SOUND), True)):
        verdict = as_if_timed(file)
        kernels = kernels_here(launcher, "exact", verdict)
        served = asking(kernels)
        list(TrialsOfModel(kernels, verdict, mx.float32).steps())
        assert (1 in served["products affine4"]) == rows
    assert "does not run" not in file.read_text()


def test_an_interrupted_trial_is_begun_again(tmp_path: Path) -> None:
    class Interrupting:
        def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
            raise KeyboardInterrupt

    verdict = Verdict(tmp_path / "kernels.json", HERE)
    with pytest.raises(KeyboardInterrupt):
        remembered(trial("noise"), Interrupting(), mx.float32, verdict)
    assert Verdict(tmp_path / "kernels.json", HERE).tried == {}


def filled(file: Path, here: Circumstances = HERE) -> Verdict:
    verdict = Verdict(file, here)
    verdict.begin("experts affine4 float32")
    verdict.end("it is wrong")
    verdict.note_rows("a model", "exact")
    verdict.note_speed("products", [Measured(Work("affine4", 512, 256), frozenset({6, 7, 8, 9}))])
    assert verdict.write()
    return verdict


def test_an_old_or_damaged_verdict_counts_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    assert Verdict(file, HERE).tried == {}
    for other in (replace(HERE, mlx="0.1"), replace(HERE, sources="x"), replace(HERE, chip="M9")):
        filled(file, other)
        assert Verdict(file, HERE).tried == {}
    wanted = filled(file)
    read = Verdict(file, HERE)
    assert (read.tried, read.rows, read.measured) == (wanted.tried, wanted.rows, wanted.measured)
    sound = json.loads(file.read_text())
    size = {"form": "affine4", "outputs": 1, "inputs": 1, "shared": 1, "rows": [99], "at_one": 1.0}
    wrong_rows = {**sound, "measured": {"products": [size]}}
    without = {name: value for name, value in sound.items() if name != "tried"}
    wrong_words = {**sound, "tried": {"products affine4 float32": 1}}
    damaged = [json.dumps(one) for one in (wrong_rows, without, wrong_words)]
    for text in ("", "[]", "{", "null", *damaged, "\udcff"):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert Verdict(file, HERE).tried == {}, text
    assert filled(file).write()


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "taken" / "kernels.json"
    file.parent.write_text("a file where a folder belongs")
    verdict = as_if_timed(file)
    kernels = kernels_here(Tampering(*SOUND), "exact", verdict)
    served = asking(kernels)
    list(TrialsOfModel(kernels, verdict, mx.float32).steps())
    assert all(1 in one for one in served.values())
    last = list(check_kernels(Tampering(*SOUND), file, FEW, timed=False))[-1]
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
    assert found == Measured(Work("", 9, 9), wins, 1.0 / stock_seconds(1))


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
    assert exact.served("attention", Work("", 640, 640)) is None
    heads = exact.served("attention", Work("", 64, 64), whole=True)
    assert heads is not None
    assert (heads.launcher, 1 in heads) == (launcher, True)
    served = fast.served("products", work)
    assert served is not None
    assert [rows for rows in range(12) if rows in served] == [6, 7, 8, 9]
    assert why_unused(exact, "products") == "No layer of this model can use it."
    assert exact.served("products", work) is not None
    assert why_unused(exact, "products") == ""
    misfit = Kernels(launcher)
    misfit.served("attention", Work("", 640, 640))
    assert "heads of 640" in why_unused(misfit, "attention")
    assert "No layer" in why_unused(exact, "noise")


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
    assert "waits to be tried" in why_unused(kernels, "products")
    kernels.trust(["products affine4"])
    assert (1 in four, 1 in plain, why_unused(kernels, "products")) == (True, False, "")
    kernels.trust(["products dense"])
    kernels.switch_off("products affine4", "it is wrong")
    assert (1 in four, 1 in plain) == (False, True)
    assert formats_off(kernels, "products") == ("not products affine4: it is wrong",)
    kernels.want(exact=False)
    assert 1 not in plain
    kernels.switch_off("attention", "it is wrong")
    assert 1 not in heads
    assert "Switched off: it is wrong" in why_unused(kernels, "attention")


@pytest.mark.parametrize("rows", [ALL_ROWS, frozenset({6, 7, 8, 9}), frozenset[int]()])
def test_nothing_is_faster_before_it_was_timed(
    rows: frozenset[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then for as many rows as the clock says; exact rows need some kernels whatever it says."""
    timed: list[Work] = []

    def clocked(one: Trial, work: Work, launcher: object, dtype: mx.Dtype) -> Measured:
        timed.append(work)
        return Measured(work, rows)

    monkeypatch.setattr("mlx_engine.self_check.kernels_here.faster", clocked)
    wide, file = Work("affine4", 200_000, 512), tmp_path / "kernels.json"
    verdict = Verdict(file, HERE)
    exact, fast = (kernels_here(Tampering(*SOUND), asked, verdict) for asked in ("exact", "fast"))
    for kernels in (exact, fast):
        assert kernels.served("products", wide) is not None
        assert kernels.served("gate-up", wide) is not None
    fast.trust(["gate-up affine4", "products affine4"])
    assert fast.rows("products", wide) == set()
    assert "waits to be timed" in why_unused(fast, "gate-up")
    done = list(TrialsOfModel(exact, verdict, mx.float32).steps())
    assert [bool(one.measured) for one in done] == [False, True, False, True]
    assert timed == [Work("affine4", 2**25 // 512, 512)] * 2
    assert fast.rows("products", wide) == rows
    assert exact.rows("products", wide) == ALL_ROWS
    assert exact.rows("gate-up", wide) == (ALL_ROWS if rows == ALL_ROWS else frozenset())
    again = kernels_here(Tampering(*SOUND), "exact", Verdict(file, HERE))
    again.served("gate-up", wide)
    assert not TrialsOfModel(again, Verdict(file, HERE), mx.float32).pending()


def test_a_clock_that_fails_leaves_it_to_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> Measured:
        raise RuntimeError("[metal::malloc] Attempting to allocate")

    monkeypatch.setattr("mlx_engine.self_check.kernels_here.faster", full)
    verdict = Verdict(None, HERE)
    kernels = kernels_here(Tampering(*SOUND), "exact", verdict)
    kernels.served("norms", Work("", 64, 64), whole=True)
    done = list(TrialsOfModel(kernels, verdict, mx.float32).steps())
    assert "cannot be timed" in done[-1].wrong
    assert kernels.rows("norms", Work("", 64, 64)) == set()
    assert verdict.off() == {}


def test_what_stock_mlx_runs_is_named_when_rows_differ() -> None:
    kernels = Kernels(EmulatorLauncher())
    kernels.served("products", Work("dense", 8, 8))
    words = rows_differ(kernels, "in a pass of 9 rows").words
    assert words.endswith("Stock MLX runs its attention, recurrent states.")
    assert rows_differ(NO_KERNELS, "in a pass of 9 rows").words.endswith(
        "(Seen in a pass of 9 rows.)"
    )
