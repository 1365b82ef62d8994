"""A kernel that fails in the middle of an answer: stock MLX goes on, and the reason is on show."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import mlx.core as mx
import pytest
import tiny_deepseek4
from gguf import GGMLQuantizationType
from kept_gguf import OF_EXPERTS, write_kept_gguf
from kernel_models import FASTER, Kind, Off, always_faster, kernel_model
from metal_emulator import EmulatorLauncher
from tiny_deepseek4 import SLIDING
from tiny_gguf import write_tiny_gguf_experts
from tiny_qwen3_5 import write_tiny_qwen3_5

from metal_kernels.choice import KERNELS, NO_KERNELS, KernelName, Kernels
from metal_kernels.kernel import Launch, Launcher
from mlx_engine.decoding.state import SequenceState
from mlx_engine.engine import Engine
from mlx_engine.loading.load import LoadedModel, load_model
from mlx_engine.models.decoder import Decoder
from mlx_engine.self_check.kernel_record import (
    DIED,
    KernelRecord,
    machine_and_versions,
    open_kernel_record,
)
from mlx_engine.self_check.kernel_trials import TRIALS, ModelTrials, make_kernels
from mlx_engine.values.conversation import Event, PromptProgress, TextPiece
from mlx_engine.values.errors import NumericsError
from mlx_engine.values.options import DraftOptions, GenerationOptions, LoadOptions, SamplingOptions

OPTIONS = LoadOptions(check_heads=False, numerics="exact")
HERE = machine_and_versions()
PROMPT, LENGTH = [5, 17, 40, 2, 71], 5
KINDS: tuple[Kind, ...] = ("dense", "experts")
NOISY = SamplingOptions(temperature=0.8, seed=5)
FILTERED = SamplingOptions(temperature=0.8, top_k=20, top_p=0.95, seed=5)
SOURCES: dict[KernelName, str] = {
    "products": "few_row_matvec_affine4",
    "attention": "attention_parts",
    "delta": "gated_delta_block",
    "delta-inputs": "gated_delta_inputs",
    "gate-up": "few_row_gate_up",
    "product-add": "few_row_matvec_add",
    "experts": "expert_union_matvec",
    "mtp-input": "mtp_input",
    "pick": "vocabulary_candidates",
    "filtered-pick": "filtered_pick",
    "noise": "position_noise",
}
OTHERS: dict[KernelName, str] = {
    "prompt-products": "many_row_product",
    "tiles": "tile_product",
    "prompt-experts": "many_row_experts",
    "embedding": "block_embedding",
    "norms": "wide_norm",
    "exchange": "stream_exchange",
}
"""Those of blocks, in prompts longer than a round, of rows in 16 bits, and of residual streams."""

LONG_PROMPT = [7 * n % 90 for n in range(40)]
How = Literal["raises", "raises later", "NaN"]


class Failing:
    """Runs kernels in another launcher; `source` fails from its `at`-th run on, for `times` runs.

    A failure "later" is one that shows when the result is computed, as all of Metal's do.
    """

    def __init__(self, source: str, how: How, at: int, times: float = float("inf")) -> None:
        self._inner = EmulatorLauncher(check=False)
        self._source, self._how, self._times = source, how, times
        self.runs = 0
        self.fail_at(at)

    def fail_at(self, run: int) -> None:
        self._from, self._to = run, run + self._times

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        if not launch.pipeline.source.name.startswith(self._source):
            return self._inner.run(launch, inputs)
        self.runs += 1
        if not self._from <= self.runs < self._to:
            return self._inner.run(launch, inputs)
        if self._how == "raises":
            raise RuntimeError("[metal::Device] Unable to load kernel")
        shapes = zip(launch.shapes, launch.dtypes, strict=True)
        if self._how == "NaN":
            return [
                mx.full(shape, mx.nan if mx.issubdtype(dtype, mx.floating) else -2, dtype)
                for shape, dtype in shapes
            ]
        # the only operation that MLX's CPU backend records and then refuses
        square = mx.zeros((64, 64))
        refused = mx.qqmm(square, square, group_size=16, bits=4, mode="nvfp4")
        return mx.depends([mx.zeros(*one) for one in shapes], [refused])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a model comes with besides its layers."""
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("tiny") / "model", layout="mlx", layers=2)


@cache
def of_folder(folder: Path) -> LoadedModel:
    return load_model(folder, OPTIONS, folder)


def loaded(folder: Path, kind: Kind, kernels: Kernels) -> LoadedModel:
    model = kernel_model(kind, kernels, vocabulary=300)
    return replace(of_folder(folder), model=model, kernels=kernels)


@pytest.fixture(scope="module", autouse=True)
def _no_clock() -> Iterator[None]:
    with always_faster():
        yield


@pytest.fixture(scope="module")
def sound(folder: Path) -> dict[Kind, KernelRecord]:
    """All kernels tried and found to be right, and rows exact."""
    found: dict[Kind, KernelRecord] = {}
    for kind in KINDS:
        record = found[kind] = KernelRecord(None, HERE)
        engine = opened(folder, kind, EmulatorLauncher(check=False), record)
        assert engine.measure_costs(lambda: False) is not None
        assert engine.description.numerics == "exact"
        engine.close()
    return found


def opened(
    folder: Path, kind: Kind, launcher: Launcher | None, record: KernelRecord | None
) -> Engine:
    kernels = NO_KERNELS if launcher is None else make_kernels(launcher, "exact", record)
    return Engine(loaded(folder, kind, kernels), OPTIONS, None, record)


def copied(record: KernelRecord, file: Path | None = None) -> KernelRecord:
    made = KernelRecord(file, HERE)
    made.trials, made.rows = dict(record.trials), dict(record.rows)
    return made


def text(
    engine: Engine, sampling: SamplingOptions = NOISY, length: int = LENGTH
) -> tuple[int, ...]:
    made = engine.generate(PROMPT, length, sampling, DraftOptions(depth=2), ignore_eos=True)
    assert made.stats.generated_tokens == len(made.tokens) == length
    return made.tokens


@pytest.fixture(scope="module")
def stock(folder: Path) -> dict[Kind, tuple[int, ...]]:
    return {kind: text(opened(folder, kind, None, None)) for kind in KINDS}


@pytest.mark.parametrize(
    ("kernel", "how", "at"),
    [
        *((kernel, "raises later", 2) for kernel in SOURCES),
        *((kernel, "raises", 1) for kernel in [*SOURCES][::2]),
    ],
)
def test_stock_goes_on(
    folder: Path,
    sound: dict[Kind, KernelRecord],
    stock: dict[Kind, tuple[int, ...]],
    kernel: KernelName,
    how: How,
    at: int,
) -> None:
    kind: Kind = "experts" if kernel == "experts" else "dense"
    launcher = Failing(SOURCES[kernel], how, at)
    engine = opened(folder, kind, launcher, copied(sound[kind]))
    assert {one.name: one for one in engine.description.kernels}[kernel].is_in_use
    sampling, wanted = NOISY, stock[kind]
    if kernel == "filtered-pick":
        sampling, wanted = FILTERED, text(opened(folder, kind, None, None), FILTERED)
    assert text(engine, sampling) == wanted
    assert launcher.runs >= at
    states = {one.name: one for one in engine.description.kernels}
    assert "does not run" in states[kernel].details
    assert states["delta" if kernel != "delta" else "products"].is_in_use
    assert engine.description.numerics == "fast"
    ran = launcher.runs
    assert text(engine, sampling, 2) == wanted[:2]
    assert launcher.runs == ran
    engine.close()


@pytest.mark.parametrize("kernel", list(OTHERS))
def test_stock_goes_on_in_prompts_and_norms(
    folder: Path, tmp_path: Path, kernel: KernelName
) -> None:
    """With the words of a model on which this kernel had been off from the beginning."""
    file = folder if kernel == "norms" else blocks_for(kernel, tmp_path / "model.gguf")
    never: tuple[How, int] = ("raises", 10**9)
    wanted = words_of_prompt(file, kernel, *never, is_off=True)
    for how, at in (("raises", 1), ("raises later", 2)):
        assert words_of_prompt(file, kernel, how, at, is_off=False) == wanted, how


def words_of_prompt(
    file: Path, kernel: KernelName, how: How, at: int, *, is_off: bool
) -> tuple[int, ...]:
    launcher, record = Failing(OTHERS[kernel], how, 10**9), KernelRecord(None, HERE)
    kernels = make_kernels(launcher, "exact", record)
    kernels.presumed = FASTER
    if is_off:
        kernels.verdicts = Off({kernel: "for this test"})
    model = load_model(file, OPTIONS, file, kernels=kernels)
    if kernel == "norms":
        halves = kernel_model("dense", kernels, vocabulary=300, halves=True)
        model = replace(model, model=halves)
    engine = Engine(model, OPTIONS, None, record)
    launcher.fail_at(launcher.runs + at)
    prompt = LONG_PROMPT[:20] if kernel == "tiles" else LONG_PROMPT
    made = engine.generate(prompt, LENGTH, NOISY, DraftOptions(depth=2), ignore_eos=True)
    states = {one.name: one for one in engine.description.kernels}
    assert ("does not run" in states[kernel].details) != is_off
    assert states["products"].is_in_use
    engine.close()
    return made.tokens


def blocks_for(kernel: KernelName, file: Path) -> Path:
    """A GGUF whose matrices, or experts, are in blocks; or a folder with residual streams."""
    if kernel == "exchange":
        small = {"num_hidden_layers": 1, "layer_types": [SLIDING], "mlp_layer_types": ["moe"]}
        return tiny_deepseek4.publish(file.parent / "streams", **small).folder
    if kernel in ("prompt-products", "embedding", "tiles"):
        return write_kept_gguf(file, blocks=True, kind=GGMLQuantizationType.Q6_K)
    kind = GGMLQuantizationType.Q6_K
    return write_tiny_gguf_experts(file, "qwen3_5_moe", quantised=kind, sizes=OF_EXPERTS)


@pytest.mark.parametrize("kernel", ["products", "attention", "delta", "delta-inputs", "gate-up"])
def test_what_is_no_number_is_the_kernels_fault(
    folder: Path,
    sound: dict[Kind, KernelRecord],
    stock: dict[Kind, tuple[int, ...]],
    kernel: KernelName,
) -> None:
    """And remembered, for the trial shows it again."""
    record = copied(sound["dense"])
    engine = opened(folder, "dense", Failing(SOURCES[kernel], "NaN", 3), record)
    assert text(engine) == stock["dense"]
    assert any("off its reference" in verdict.wrong for verdict in record.trials.values())
    engine.close()


def test_a_failure_that_no_trial_shows_switches_all_off(
    folder: Path, sound: dict[Kind, KernelRecord], stock: dict[Kind, tuple[int, ...]]
) -> None:
    """For this load: the next one has them again."""
    record = copied(sound["dense"])
    engine = opened(folder, "dense", Failing("gated_delta_block", "raises", 3, 1), record)
    assert text(engine) == stock["dense"]
    assert not any(state.is_in_use for state in engine.description.kernels)
    assert any("a pass failed" in state.details for state in engine.description.kernels)
    engine.close()
    again = opened(folder, "dense", EmulatorLauncher(check=False), record)
    assert any(state.is_in_use for state in again.description.kernels)
    again.close()


def test_a_damaged_model_is_still_told(
    folder: Path, sound: dict[Kind, KernelRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock MLX makes no numbers of it either."""
    engine = opened(folder, "dense", EmulatorLauncher(check=False), copied(sound["dense"]))
    monkeypatch.setattr(
        Decoder, "logits", lambda model, hidden: mx.full((1, hidden.shape[1], 300), mx.nan)
    )
    monkeypatch.setattr(engine.parts.model, "output_matrix", None)
    with pytest.raises(NumericsError):
        text(engine)
    engine.close()


def test_chats_are_kept(
    folder: Path, sound: dict[Kind, KernelRecord], stock: dict[Kind, tuple[int, ...]]
) -> None:
    """What was said stays and is read again; another chat, whose state has steps to take that the
    kernel left, goes on as well.
    """
    launcher = Failing("gated_delta_block", "raises later", 10**9)
    engine = opened(folder, "dense", launcher, copied(sound["dense"]))
    plain = opened(folder, "dense", None, None)
    short = GenerationOptions(4, ignore_eos=True)
    draft = DraftOptions(depth=2)
    pairs = [
        [one.session(sampling=NOISY, draft=draft, generation=short) for one in (engine, plain)]
        for _ in range(2)
    ]

    def both_say(number: int, words: str) -> list[Event]:
        mine, its = pairs[number]
        events = list(mine.send(words))
        list(its.send(words))
        assert mine.messages == its.messages
        return events

    both_say(0, "a")
    both_say(1, "b")
    launcher.fail_at(launcher.runs + 3)
    events = both_say(0, "c")
    read = [event for event in events if isinstance(event, PromptProgress) and event.done == 0]
    assert len(read) == 1
    both_say(1, "d")
    both_say(0, "e")
    states = {one.name: one for one in engine.description.kernels}
    assert "does not run" in states["delta"].details
    assert states["products"].is_in_use
    engine.close()
    plain.close()


@pytest.mark.parametrize("kernel", list(KERNELS))
def test_a_trial_that_ends_the_program_is_not_begun_again(
    kernel: KernelName, tmp_path: Path
) -> None:
    """What stands on the disk while the kernel runs is all that its end would leave."""
    file, left = tmp_path / "kernels.json", tmp_path / "left.json"

    class Deadly:
        def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
            shutil.copy(file, left)
            raise KeyboardInterrupt

    record = open_kernel_record(file)
    (trial, *_) = [one for one in TRIALS if one.kernel == kernel]
    with pytest.raises(KeyboardInterrupt):
        ModelTrials(make_kernels(Deadly(), "exact", record), record, mx.float32).run_trial(trial)
    record = open_kernel_record(left)
    assert list(record.trials) == [f"{trial.name} float32"]
    kernels = make_kernels(Ending("", 1, AssertionError), "exact", record)
    assert DIED in kernels.verdicts[trial.name].wrong


class Ending(Failing):
    """The kernel's `at`-th run ends the program as a GPU's crash does, or raises what is given."""

    def __init__(self, source: str, at: int, raises: type[BaseException] | None = None) -> None:
        super().__init__(source, "raises", at)
        self._raises = raises

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        try:
            return super().run(launch, inputs)
        except RuntimeError:
            if self._raises is None:
                os._exit(9)
            raise self._raises from None


def first_passes(folder: Path, file: Path, raises: type[BaseException] | None = None) -> None:
    """A program that opens the model and goes through what follows its first answer."""
    launcher = Ending("gated_delta_block", 3, raises)
    engine = opened(folder, "dense", launcher, KernelRecord(file, HERE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mlx_engine.self_check.numerics.KEY_COUNTS", (40,))
        engine.measure_costs(lambda: False)
    engine.close()


def test_passes_that_end_the_program_are_not_begun_again(
    folder: Path, sound: dict[Kind, KernelRecord], tmp_path: Path
) -> None:
    """In the first passes with kernels that had passed their trials: they stay off, and it says so.

    Passes that were no more than interrupted are begun again.
    """
    file = tmp_path / "kernels.json"
    record = copied(sound["dense"], file)
    record.rows = {}
    record.write_record()
    with pytest.raises(KeyboardInterrupt):
        first_passes(folder, file, KeyboardInterrupt)
    assert KernelRecord(file, HERE).trials == record.trials
    for status in (9, 0):
        program = get_context("spawn").Process(target=first_passes, args=(folder, file))
        program.start()
        program.join()
        assert program.exitcode == status
    again = opened(folder, "dense", Ending("", 1, AssertionError), KernelRecord(file, HERE))
    whys = [state.details for state in again.description.kernels]
    assert any(DIED in why for why in whys)
    assert all(DIED in why or "No layer" in why for why in whys)
    assert text(again)
    again.close()


def test_no_word_is_lost_where_a_commit_fails(
    folder: Path, sound: dict[Kind, KernelRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens of a round are known by then, and were not yet handed out."""
    engine = opened(folder, "dense", EmulatorLauncher(check=False), copied(sound["dense"]))
    real, left = SequenceState.commit, [2]

    def commit(state: SequenceState, *rows: mx.array) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("[METAL] Command buffer execution failed")
        real(state, *rows)

    monkeypatch.setattr(SequenceState, "commit", commit)
    session = engine.session(sampling=NOISY, generation=GenerationOptions(6, ignore_eos=True))
    events = list(session.send("a"))
    pieces = "".join(event.text for event in events if isinstance(event, TextPiece))
    assert left[0] < 0
    assert pieces == session.messages[-1].text
    assert session.stats.generated_tokens == len(session.tokens) == 6
    engine.close()
