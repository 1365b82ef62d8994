"""Nothing that can wait stands before the first answer: kernels and costs come behind it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import mlx.core as mx
import pytest
from kernel_launchers import CountingLauncher
from kernel_models import FASTER, always_faster
from metal_emulator import EmulatorLauncher
from tiny_qwen3_5 import write_tiny_qwen3_5

from metal_kernels.kernel import pipeline_count
from mlx_engine.drafting.record import PassCosts
from mlx_engine.drafting.sources import Drafting
from mlx_engine.engine import Engine
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.self_check.between_answers import SelfCheck
from mlx_engine.self_check.kernel_record import ExactRows, KernelRecord, machine_and_versions
from mlx_engine.self_check.kernel_states import why_unused
from mlx_engine.self_check.kernel_trials import ModelTrials, make_kernels, try_all_kernels
from mlx_engine.self_check.pass_costs import CostMeter
from mlx_engine.values.conversation import GenerationFinished
from mlx_engine.values.errors import BadModelFile
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)

T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("passes_timed", "a_little_behind_answers")

OPTIONS = LoadOptions(check_heads=False)
PIPELINES_OF_ALL, PIPELINES_OF_ONE = 135, 23
SHORT = GenerationOptions(3, ignore_eos=True)
GREEDY = SamplingOptions(temperature=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dense and packed matrices, attention and recurrence, an MTP head; heads of 32."""
    path = tmp_path_factory.mktemp("tiny") / "model"
    return write_tiny_qwen3_5(path, layout="mlx", bits=4, layers=2)


@pytest.fixture
def launcher() -> CountingLauncher:
    return CountingLauncher(EmulatorLauncher(check=False))


@pytest.fixture
def engine(folder: Path, launcher: CountingLauncher) -> Iterator[Engine]:
    opened = open_on(folder, launcher)
    yield opened
    opened.close()


@pytest.fixture(scope="module", autouse=True)
def _no_clock() -> Iterator[None]:
    with always_faster():
        yield


def open_on(folder: Path, launcher: CountingLauncher) -> Engine:
    record = KernelRecord(None, machine_and_versions())
    kernels = make_kernels(launcher, "exact", record)
    return Engine(load_model(folder, OPTIONS, folder, kernels=kernels), OPTIONS, None, record)


def in_use(engine: Engine) -> set[str]:
    return {state.name for state in engine.description.kernels if state.is_in_use}


def test_the_first_answer_waits_for_no_trial(engine: Engine, launcher: CountingLauncher) -> None:
    session = engine.session(sampling=GREEDY, draft=DraftOptions(depth=2), generation=SHORT)
    for event in session.send("a"):
        assert launcher.pipelines == set()
        is_last = isinstance(event, GenerationFinished)
    assert is_last
    assert launcher.pipelines
    assert engine.measure_costs(lambda: False) is not None
    assert in_use(engine) >= {"products", "delta", "delta-inputs"}
    compiled = set(launcher.pipelines)
    launcher.pipelines.clear()
    texts = [
        engine.generate("ab", 5, GREEDY, DraftOptions(depth=depth), ignore_eos=True).tokens
        for depth in (0, 2)
    ]
    assert texts[0] == texts[1]
    assert set() < launcher.pipelines <= compiled  # the answer ran on them


def of_any_model(pipelines: set[tuple[object, ...]]) -> set[tuple[object, ...]]:
    """Leave out those of recurrent states: with four heads a row has an array of four elements,
    which is another pipeline, and no published model has fewer than eight.
    """
    return {one for one in pipelines if not str(one[0]).startswith("gated_delta_block")}


class AllKnown(KernelRecord):
    """A record of a machine on which every kernel was tried before, as at a program's later starts.

    Rows are exact there.
    """

    def __init__(self) -> None:
        super().__init__(None, machine_and_versions())
        self.trials, self.rows = Every(FASTER), Every(ExactRows())


class Every(dict[str, T]):
    """A dictionary that has the same value for every key but those of failures."""

    def __init__(self, value: T) -> None:
        super().__init__()
        self._value = value

    def get(self, key: str, default: object = None) -> T | None:
        return None if key.startswith("passes of") else self._value  # those that ended a program

    def __contains__(self, key: object) -> bool:
        return True


def test_an_answer_after_warming_up_compiles_nothing(
    tmp_path: Path, launcher: CountingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any depth, however many drafts are accepted; the head is packed otherwise than the trunk.

    Random drafts are not accepted, and none is longer than what is left of an answer: one at depth
    8 has rounds of every depth. A bias towards one token has all drafts accepted, in two rounds.
    """
    folder = write_tiny_qwen3_5(tmp_path / "m", layout="mlx", bits=4, layers=4, heads="none")
    write_tiny_qwen3_5(tmp_path / "plain", layout="mlx", layers=4, heads="sibling")
    (tmp_path / "plain-MTP").rename(tmp_path / "m-MTP")
    monkeypatch.setattr("mlx_engine.self_check.pass_costs.REPEATS", 1)
    cache = CacheOptions(head_bits=8)
    kernels = make_kernels(launcher, "exact", AllKnown())
    kernels.presumed = FASTER
    loaded = load_model(folder, OPTIONS, folder, kernels=kernels)
    engine = Engine(loaded, OPTIONS, None, AllKnown())
    launcher.pipelines.clear()  # lazy passes are computed at once here
    left = iter((False, False, True))
    assert not engine.warm_up(lambda: next(left), cache)
    some = set(launcher.pipelines)
    assert engine.warm_up(lambda: False, cache)
    assert in_use(engine) >= {"products", "attention", "pick", "filtered-pick", "noise"}
    before, made = set(launcher.pipelines), pipeline_count()
    assert before > some > set()
    noisy = SamplingOptions(temperature=0.8, seed=5)
    biased = replace(noisy, logit_bias={7: 100.0})
    deepest = DraftOptions(depth=8)
    filtered = replace(noisy, top_k=20, top_p=0.95)
    for sampling in (GREEDY, noisy, filtered):
        answer = engine.generate("ab", 9, sampling, deepest, ignore_eos=True, cache=cache)
        assert of_any_model(launcher.pipelines) <= before
        assert answer.stats.drafted_by_depth == (8, 7, 6, 5, 4, 3, 2, 1)
    answer = engine.generate("ab", 19, biased, deepest, ignore_eos=True, cache=cache)
    assert of_any_model(launcher.pipelines) <= before
    assert answer.stats.accepted == answer.stats.drafted == 16
    assert pipeline_count() == made
    engine.close()


def test_heads_that_cannot_be_read_stop_no_warming_up(
    folder: Path, launcher: CountingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer that drafts says why."""

    def gone(loaded: LoadedModel) -> None:
        raise BadModelFile("m: the heads are gone.")

    monkeypatch.setattr(LoadedModel, "read_heads", gone)

    kernels = make_kernels(launcher, "exact", AllKnown())
    kernels.presumed = FASTER
    loaded = load_model(folder, OPTIONS, folder, kernels=kernels)
    engine = Engine(loaded, OPTIONS, None, AllKnown())
    assert not engine.warm_up(lambda: len(launcher.pipelines) > 9)
    assert len(launcher.pipelines) > 9
    engine.close()


def test_drafts_are_no_longer_than_exact_kernels_take(
    folder: Path, launcher: CountingLauncher
) -> None:
    """Rows beyond nine are stock MLX's, so only fast numerics may check as many at once."""
    engine = open_on(folder, launcher)
    for numerics, deepest in (("exact", 8), ("fast", 15)):
        engine._self_check.description = replace(engine.description, numerics=numerics)
        assert engine._self_check.deepest_draft() == deepest
    engine.close()


def test_only_what_the_model_uses_is_compiled(folder: Path) -> None:
    """And nothing at all at the next load."""
    every, own, again = (CountingLauncher(EmulatorLauncher(check=False)) for _ in range(3))
    here = machine_and_versions()
    list(try_all_kernels(every, KernelRecord(None, here)))
    record = KernelRecord(None, here)
    loaded = load_model(folder, OPTIONS, folder, kernels=make_kernels(own, "exact", record))
    trials = ModelTrials(loaded.kernels, record, mx.float32)
    assert len({trials.run_trial(trial).trial.name for trial in trials.pending_trials()}) == 8
    assert (len(every.pipelines), len(own.pipelines)) == (PIPELINES_OF_ALL, PIPELINES_OF_ONE)
    loaded = load_model(folder, OPTIONS, folder, kernels=make_kernels(again, "exact", record))
    assert not ModelTrials(loaded.kernels, record, mx.float32).pending_trials()
    assert why_unused(loaded.kernels, "delta") == ""
    assert not again.pipelines


def test_no_answer_waits_for_the_clock(
    folder: Path, launcher: CountingLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dozens of passes are timed behind the first answer, in the time there is."""
    asked: list[bool] = []
    real = CostMeter.measure

    def measure(self: CostMeter, stop: object = None) -> PassCosts | None:
        asked.append(done)
        return real(self)

    monkeypatch.setattr(CostMeter, "measure", measure)
    engine = Engine(load_model(folder, OPTIONS, folder), OPTIONS)
    session = engine.session(sampling=GREEDY, generation=SHORT)
    done = False
    for event in session.send("a"):
        done = isinstance(event, GenerationFinished)
    assert asked == [True]
    engine.close()


@pytest.mark.parametrize("waits", [(Drafting, "begin"), (CostMeter, "use_heads")])
def test_time_to_the_first_token_includes_what_was_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, waits: tuple[type, str]
) -> None:
    """A draft model that is read before the prompt, heads that are read and tried."""
    engine = Engine(load_model(folder, OPTIONS, folder), OPTIONS)
    now = [0.0]
    monkeypatch.setattr("mlx_engine.decoding.answer.perf_counter", lambda: now[0])
    real = getattr(*waits)

    def slowly(*given: object) -> None:
        now[0] += 5.0
        real(*given)

    monkeypatch.setattr(*waits, slowly)
    made = engine.generate("a", 2, GREEDY, DraftOptions(depth=1), ignore_eos=True)
    assert made.stats.time_to_first_token_s >= 5.0
    engine.close()


def test_a_chore_is_left_and_taken_up_again(engine: Engine) -> None:
    left = [3]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    assert engine.measure_costs(stop) is None
    some = in_use(engine)
    assert some
    assert engine.measure_costs(lambda: False) is not None
    assert in_use(engine) > some


@pytest.mark.parametrize(("cost", "numerics"), [(0.01, "exact"), (0.2, "fast")])
def test_numerics_are_found_out_and_remembered(
    folder: Path, launcher: CountingLauncher, cost: float, numerics: str
) -> None:
    """Pending at the first load, known at the next, by timings that are given."""
    record = KernelRecord(None, machine_and_versions())
    loaded = load_model(folder, OPTIONS, folder, kernels=make_kernels(launcher, "auto", record))

    def timer_of(model: object) -> Callable[[int], float]:
        return lambda rows: 1 + cost if loaded.kernels.exact else 1.0

    check = SelfCheck(loaded, OPTIONS, record, timer_of)
    assert check.description.numerics == "fast"
    assert [reason.code for reason in check.description.declined] == ["rows-pending"]
    assert check.measure(lambda: False) is not None
    assert check.description.numerics == numerics
    assert len(check.description.declined) == (numerics == "fast")
    assert loaded.kernels.exact == (numerics == "exact")
    again = load_model(folder, OPTIONS, folder, kernels=make_kernels(launcher, "auto", record))
    assert SelfCheck(again, OPTIONS, record).description.numerics == numerics
    assert again.kernels.exact == (numerics == "exact")


@pytest.mark.parametrize(
    ("error", "told"), [(MemoryError("full"), "(full)"), (MemoryError(), "(MemoryError)")]
)
def test_what_goes_wrong_behind_an_answer_loses_none(
    engine: Engine, error: Exception, told: str
) -> None:
    def broken(trial: object, launcher: object) -> None:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelTrials, "run_trial", broken)
        assert engine.generate("a", 2, GREEDY, ignore_eos=True).stats.generated_tokens == 2
    assert engine.description.numerics == "fast"
    why = {reason.code: reason.words for reason in engine.description.declined}
    assert told in why["rows-unknown"]
    assert "rows-pending" not in why
