"""Kernels are tried, a wrong one is switched off with a reason, and what is known is remembered."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest
from kernel_launchers import CountingLauncher, kernel_launcher
from kernel_models import always_faster, kernel_model
from metal_emulator import EmulatorLauncher
from scripted_engine import DESCRIPTION

from metal_kernels.choice import (
    ALL_ROWS,
    KERNELS,
    NO_KERNELS,
    NO_ROWS,
    KernelRowCounts,
    Kernels,
    KernelWork,
    Verdict,
)
from metal_kernels.kernel import Launch, pipeline
from mlx_engine.self_check.doctor import check_kernels
from mlx_engine.self_check.kernel_cases import TrialInputs
from mlx_engine.self_check.kernel_record import (
    ExactRows,
    KernelRecord,
    machine_and_versions,
    rows_origin,
)
from mlx_engine.self_check.kernel_states import formats_off, kernel_states, why_unused
from mlx_engine.self_check.kernel_trials import (
    TRIALS,
    ModelTrials,
    Trial,
    TrialResult,
    check_kernel,
    make_kernels,
    trial_against_stock,
    try_kernel,
)

HERE = machine_and_versions()
EXACT = DESCRIPTION


@pytest.fixture(autouse=True)
def _no_clock() -> Iterator[None]:
    with always_faster():
        yield


FEW = tuple(t for t in TRIALS if t.name in ("products affine4", "delta 128", "noise"))


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


def try_pending(trials: ModelTrials) -> list[TrialResult]:
    return [trials.run_trial(one) for one in trials.pending_trials()]


def trial(words: str) -> Trial:
    return next(one for one in TRIALS if one.name == words)


@pytest.mark.parametrize("one", TRIALS, ids=lambda one: one.name)
def test_every_kernel_passes_its_own_check(one: Trial) -> None:
    assert check_kernel(one, kernel_launcher(check=False), mx.float32) == ""


@pytest.mark.parametrize("one", TRIALS, ids=lambda one: one.name)
def test_stock_mlx_does_the_same_work(one: Trial) -> None:
    """Else the clock would compare two things."""
    case = one.make_trial_inputs(mx.float32, kernel_launcher(check=False))
    for rows in (1, 2, case.most):
        x = case.x(rows)
        wanted = case.reference(x)
        apart = mx.abs(case.stock(x).reshape(wanted.shape) - wanted).max()
        assert apart.item() <= 1e-4 * mx.abs(wanted).max().item(), rows


def test_every_kernel_is_tried() -> None:
    assert {one.kernel for one in TRIALS} == set(KERNELS)


@pytest.mark.parametrize(
    ("words", "tampering", "said"),
    [
        ("products affine4", ("few_row_matvec", "T(sum)", "T(sum * 1.01f)"), "off its reference"),
        ("products affine4", ("few_row_matvec", "T(sum)", "T(sum + M * 1e-6f)"), "a row of"),
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
    record = KernelRecord(None, HERE)
    found = try_kernel(trial(words), Tampering(*tampering), mx.float32, record, with_timing=False)
    assert said in found.trouble
    assert bool(record.trials) == ("does not run" not in found.trouble)


def asking(kernels: Kernels) -> dict[str, KernelRowCounts]:
    """Layers of a model with two formats of matrices and recurrent states."""
    works = {
        "products affine4": KernelWork("affine4", 96, 192),
        "products q2_k": KernelWork("q2_k", 64, 256),
    }
    served = {name: kernels.served_row_counts("products", work) for name, work in works.items()}
    served["delta 64"] = kernels.served_row_counts("delta", KernelWork("", 64, 64))
    assert all(one is not None for one in served.values())
    return {name: one for name, one in served.items() if one is not None}


def test_a_format_that_is_wrong_is_switched_off_alone() -> None:
    launcher = Tampering("few_row_matvec_q2_k", "T(sum)", "T(sum * 1.01f)")
    record = KernelRecord(None, HERE)
    kernels = make_kernels(launcher, "exact", record)
    served = asking(kernels)
    trials = ModelTrials(kernels, record, mx.float32)
    assert {name for name, one in served.items() if 1 in one} == set()
    assert "Not tried on this GPU yet" in why_unused(kernels, "delta")
    assert list(dict.fromkeys(one.trial.name for one in try_pending(trials))) == list(served)
    assert {name for name, one in served.items() if 1 in one} == {"products affine4", "delta 64"}
    (state,) = (one for one in kernel_states(kernels) if one.name == "products")
    assert state.is_in_use
    assert "not products q2_k: on this GPU products q2_k is wrong: it lies" in state.details
    again = make_kernels(launcher, "exact", record)
    assert again.served_row_counts("products", KernelWork("q2_k", 64, 256)) is None
    assert why_unused(again, "products") == "Switched off after an error on this GPU."
    assert "q2_k is wrong" in formats_off(again, "products")[0]


def test_a_trial_is_as_wide_as_the_models_matrix() -> None:
    kernels = Kernels(EmulatorLauncher(check=False))
    for width in (32, 5000, 704):
        kernels.served_row_counts("products", KernelWork("affine4", 96, width))
    kernels.served_row_counts("attention", KernelWork("", 96, 128, 6))
    trials = ModelTrials(kernels, KernelRecord(None, HERE), mx.float32)
    checked = [one.checked for one in trials.pending_trials()]
    assert checked == [KernelWork("affine4", 46, 5120), KernelWork("", 96, 128, 6)]


def test_rows_are_told_apart_by_what_computes_them() -> None:
    """A kernel of the trunk, switched off or on; not one that only heads have asked for."""
    kernels = Kernels(EmulatorLauncher(check=False), presumed=Verdict())
    kernels.served_row_counts("products", KernelWork("affine4", 64, 256))
    origin = rows_origin(kernels)
    exact = origin(EXACT)
    assert {"chip", "mlx", "sources", "numerics", "kernels"} <= set(exact)
    assert origin(replace(EXACT, numerics="fast")) == exact
    kernels.set_exact_numerics(exact=False)
    assert origin(EXACT) != exact
    kernels.set_exact_numerics(exact=True)
    assert origin(replace(EXACT, activations="float16")) != exact
    kernels.served_row_counts("products", KernelWork("affine8", 64, 256))
    kernels.add_trial_verdicts({"products affine8": Verdict("it lies")})
    assert origin(EXACT) == exact
    kernels.add_trial_verdicts({"products affine4": Verdict("it lies")})
    assert origin(EXACT)["kernels"] != exact["kernels"]


@pytest.mark.parametrize("group", [32, 64, 128])
def test_a_trial_runs_the_pipelines_of_the_models_passes(group: int) -> None:
    """Weights of a scale are a parameter of the kernels."""
    launcher, record = CountingLauncher(EmulatorLauncher(check=False)), KernelRecord(None, HERE)
    kernels = make_kernels(launcher, "exact", record)
    model = kernel_model("dense", kernels, group=group)
    assert not any(one.trouble for one in try_pending(ModelTrials(kernels, record, mx.float32)))
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
    kernels = make_kernels(launcher, "exact", KernelRecord(file, HERE))
    asking(kernels)
    trials = ModelTrials(kernels, KernelRecord(file, HERE), mx.float32)
    assert len({one.trial.name for one in try_pending(trials)}) == 3
    ran = len(launcher.names)
    again = make_kernels(launcher, "fast", KernelRecord(file, HERE))
    served = again.served_row_counts("products", KernelWork("q2_k", 96, 256))
    trials = ModelTrials(again, KernelRecord(file, HERE), mx.float32)
    assert served is not None
    assert (1 in served, trials.pending_trials(), len(launcher.names)) == (True, [], ran)
    half = ModelTrials(again, KernelRecord(file, HERE), mx.float16).pending_trials()
    assert [one.name for one in half] == ["products q2_k"]


def test_what_stock_cannot_do_is_tried_when_it_is_asked_for() -> None:
    launcher = Tampering(*SOUND)
    kernels = make_kernels(launcher, "exact", KernelRecord(None, HERE))
    assert kernels.row_counts("products", KernelWork("q6_k", 64, 256)) == set()
    assert not launcher.names
    assert kernels.row_counts_after_trial("products", KernelWork("q6_k", 64, 256)) == ALL_ROWS
    assert set(launcher.names) == {"few_row_matvec_q6_k"}


def test_what_may_pass_is_asked_again(tmp_path: Path) -> None:
    """Memory that was full, say: off until the next load."""
    file = tmp_path / "kernels.json"
    broken = Tampering("few_row_matvec", "y[", "no_such_name[")
    for launcher, rows in ((broken, False), (Tampering(*SOUND), True)):
        record = KernelRecord(file, HERE)
        kernels = make_kernels(launcher, "exact", record)
        served = asking(kernels)
        try_pending(ModelTrials(kernels, record, mx.float32))
        assert (1 in served["products affine4"]) == rows
    assert "does not run" not in file.read_text()


def test_an_interrupted_trial_is_begun_again(tmp_path: Path) -> None:
    class Interrupting:
        def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
            raise KeyboardInterrupt

    record = KernelRecord(tmp_path / "kernels.json", HERE)
    with pytest.raises(KeyboardInterrupt):
        try_kernel(trial("noise"), Interrupting(), mx.float32, record)
    assert KernelRecord(tmp_path / "kernels.json", HERE).trials == {}


def filled(file: Path, here: dict[str, str] = HERE) -> KernelRecord:
    record = KernelRecord(file, here)
    record.trials["experts affine4 float32"] = Verdict("it is wrong")
    record.trials["products affine4 float32"] = Verdict("", frozenset({6, 7, 8, 9}), 1.25)
    record.trials["noise float32"] = Verdict()
    record.rows |= {"a model": ExactRows("", 0.25), "another": ExactRows("with 2 tokens at once")}
    assert record.write_record()
    return record


def test_an_old_or_damaged_verdict_counts_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "kernels.json"
    assert KernelRecord(file, HERE).trials == {}
    for other in ({**HERE, "mlx": "0.1"}, {**HERE, "sources": "x"}, {**HERE, "chip": "M9"}):
        filled(file, other)
        assert KernelRecord(file, HERE).trials == {}
    wanted = filled(file)
    read = KernelRecord(file, HERE)
    assert (read.trials, read.rows) == (wanted.trials, wanted.rows)
    sound = json.loads(file.read_text())
    verdict = sound["trials"]["products affine4 float32"]
    changed = [{**verdict, "faster": [99]}, {**verdict, "wrong": 1}, {**verdict, "share": "x"}, 1]
    changed += [{**verdict, "wrong": ["{a}", {"b": 1}]}, {**verdict, "faster": 1}, {"wrong": []}]
    wrong = [{**sound, "trials": {"products affine4 float32": one}} for one in changed]
    without = {name: value for name, value in sound.items() if name != "trials"}
    wrong_rows = {**sound, "rows": {"a model": [1, 2, 3]}}
    damaged = [json.dumps(one) for one in (*wrong, without, wrong_rows)]
    for text in ("", "[]", "{", "null", *damaged, "\udcff"):
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert KernelRecord(file, HERE).trials == {}, text
    assert filled(file).write_record()


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "taken" / "kernels.json"
    file.parent.write_text("a file where a folder belongs")
    record = KernelRecord(file, HERE)
    kernels = make_kernels(Tampering(*SOUND), "exact", record)
    served = asking(kernels)
    try_pending(ModelTrials(kernels, record, mx.float32))
    assert all(1 in one for one in served.values())
    last = list(check_kernels(Tampering(*SOUND), file, FEW))[-1]
    assert (last.state, "not kept" in last.words) == ("warn", True)


def test_without_metal_stock_does_everything() -> None:
    assert make_kernels(None, "exact", None) is NO_KERNELS
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

    case = TrialInputs(
        x=lambda rows: mx.zeros((rows, 4)),
        kernel=lambda x: taking(1.0, x),
        reference=lambda x: x,
        stock=lambda x: taking(stock_seconds(len(x)), x),
    )
    found = trial_against_stock(KernelWork("", 9, 9), lambda seed: case, lambda: now[0])
    assert found == Verdict("", wins, 1.0 / stock_seconds(1))


def test_which_rows_go_through_a_kernel() -> None:
    launcher, work = EmulatorLauncher(), KernelWork("affine4", 4096, 4096)
    verdicts = {
        "products affine4": Verdict("", frozenset({6, 7, 8, 9})),
        "gate-up affine4": Verdict("", frozenset(range(3, 10))),
    }
    exact, fast = (
        Kernels(launcher, exact=is_exact, verdicts=dict(verdicts), presumed=Verdict())
        for is_exact in (True, False)
    )
    assert exact.row_counts("products", work) == ALL_ROWS
    assert fast.row_counts("products", work) == {6, 7, 8, 9}
    assert exact.row_counts("gate-up", work) == ALL_ROWS
    assert exact.row_counts("experts", work) == frozenset()
    assert fast.row_counts("products", KernelWork("affine4", 4096, 4097)) == frozenset()
    assert exact.served_row_counts("attention", KernelWork("", 640, 640)) is None
    heads = exact.served_row_counts("attention", KernelWork("", 64, 64))
    assert heads is not None
    assert (heads.launcher, 1 in heads) == (launcher, True)
    served = fast.served_row_counts("products", work)
    assert served is not None
    assert [rows for rows in range(12) if rows in served] == [6, 7, 8, 9]
    assert why_unused(exact, "products") == "Not needed by this model."
    assert exact.served_row_counts("products", work) is not None
    assert why_unused(exact, "products") == ""
    misfit = Kernels(launcher)
    misfit.served_row_counts("attention", KernelWork("", 640, 640))
    assert why_unused(misfit, "attention") == "Not made for models like this one."
    told = next(state for state in kernel_states(misfit) if state.name == "attention")
    assert told.details == "it takes no sizes of 640 x 640"
    assert why_unused(exact, "noise") == "Not needed by this model."


def test_layers_see_what_changes_while_they_run() -> None:
    """A trial passed, one failed, a whole kernel failed, and rows that need not be exact."""
    kernels = Kernels(EmulatorLauncher(), verdicts={"attention 64": Verdict()})
    works = {form: KernelWork(form, 64, 64) for form in ("affine4", "dense")}
    four, plain = (kernels.served_row_counts("products", work) for work in works.values())
    heads = kernels.served_row_counts("attention", KernelWork("", 64, 64))
    assert four is not None
    assert plain is not None
    assert heads is not None
    assert (1 in four, 1 in plain, 1 in heads, 10 in heads) == (False, False, True, False)
    assert "Not tried on this GPU yet" in why_unused(kernels, "products")
    kernels.add_trial_verdicts({"products affine4": Verdict()})
    assert (1 in four, 1 in plain, why_unused(kernels, "products")) == (True, False, "")
    kernels.add_trial_verdicts(
        {"products dense": Verdict(), "products affine4": Verdict("it is wrong")}
    )
    assert (1 in four, 1 in plain) == (False, True)
    assert formats_off(kernels, "products") == ("not products affine4: it is wrong",)
    kernels.set_exact_numerics(exact=False)
    assert 1 not in plain
    kernels.set_exact_numerics(exact=True)
    kernels.disable_all_kernels("it died")
    assert 1 not in heads
    assert 1 not in plain
    assert why_unused(kernels, "attention") == "Switched off after an error on this GPU."
    assert "switched off: it died" in {state.details for state in kernel_states(kernels)}


@pytest.mark.parametrize("rows", [ALL_ROWS, frozenset({6, 7, 8, 9}), frozenset[int]()])
def test_nothing_is_faster_before_it_was_timed(
    rows: frozenset[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Then for as many rows as the clock says; exact rows need some kernels whatever it says."""
    timed: list[KernelWork] = []

    def clocked(work: KernelWork, make: object) -> Verdict:
        timed.append(work)
        return Verdict("", rows)

    monkeypatch.setattr("mlx_engine.self_check.kernel_trials.trial_against_stock", clocked)
    wide, file = KernelWork("affine4", 200_000, 512), tmp_path / "kernels.json"
    record = KernelRecord(file, HERE)
    exact, fast = (make_kernels(Tampering(*SOUND), asked, record) for asked in ("exact", "fast"))
    for kernels in (exact, fast):
        assert kernels.served_row_counts("products", wide) is not None
        assert kernels.served_row_counts("gate-up", wide) is not None
    fast.add_trial_verdicts(dict.fromkeys(["gate-up affine4", "products affine4"], Verdict()))
    assert fast.row_counts("products", wide) == set()
    assert "Not timed on this GPU yet" in why_unused(fast, "gate-up")
    done = try_pending(ModelTrials(exact, record, mx.float32))
    assert [one.verdict.faster for one in done] == [rows, rows]
    assert timed == [KernelWork("affine4", 2**25 // 512, 512)] * 2
    ModelTrials(fast, record, mx.float32)
    assert fast.row_counts("products", wide) == rows
    assert exact.row_counts("products", wide) == ALL_ROWS
    assert exact.row_counts("gate-up", wide) == (ALL_ROWS if rows == ALL_ROWS else frozenset())
    again = make_kernels(Tampering(*SOUND), "exact", KernelRecord(file, HERE))
    again.served_row_counts("gate-up", wide)
    assert not ModelTrials(again, KernelRecord(file, HERE), mx.float32).pending_trials()


def test_a_clock_that_fails_leaves_it_to_stock(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> Verdict:
        raise RuntimeError("[metal::malloc] Attempting to allocate")

    monkeypatch.setattr("mlx_engine.self_check.kernel_trials.trial_against_stock", full)
    record = KernelRecord(None, HERE)
    kernels = make_kernels(Tampering(*SOUND), "exact", record)
    kernels.served_row_counts("norms", KernelWork("", 64, 64))
    done = try_pending(ModelTrials(kernels, record, mx.float32))
    assert "cannot be timed" in done[-1].trouble
    assert kernels.row_counts("norms", KernelWork("", 64, 64)) == set()
    assert record.trials == {"norms 64 float32": Verdict()}


@pytest.mark.parametrize("rows", [ALL_ROWS, NO_ROWS])
def test_prompts_in_blocks_are_timed_against_stock(rows: frozenset[int]) -> None:
    """Which unpacks them; products of few rows by blocks are not, as it would in every pass."""
    work, record = KernelWork("q6_k", 64, 256), KernelRecord(None, HERE)
    kernels = make_kernels(Tampering(*SOUND), "exact", record)
    prompts, few = (
        kernels.served_row_counts("prompt-products", work),
        kernels.served_row_counts("products", work),
    )
    assert prompts is not None
    assert few is not None
    with always_faster(rows):
        names = [one.trial.name for one in try_pending(ModelTrials(kernels, record, mx.float32))]
    assert names == ["products q6_k", "prompt-products q6_k"]
    assert ((1 in prompts), 1 in few) == (rows == ALL_ROWS, True)
