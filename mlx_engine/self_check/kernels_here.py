"""The kernels a load may use on this machine: those known to be sound, others once tried."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

import mlx.core as mx

from metal_kernels.choice import KERNELS, NO_KERNELS, KernelName, Kernels, Work
from metal_kernels.kernel import Launcher, MetalLauncher
from metal_kernels.stock import computes_on_gpu
from metal_kernels.trials import TRIALS, Trial, trial_of
from mlx_engine.self_check.kernel_record import Verdict, circumstances, typed, wrong_here
from mlx_engine.self_check.kernel_trials import FEWER, Tried, check, faster
from mlx_engine.values.options import AskedNumerics
from mlx_engine.values.words import Words


def launcher_here() -> Launcher | None:
    """Of the GPU; None without Metal."""
    return MetalLauncher() if mx.metal.is_available() else None


def kernels_here(
    launcher: Launcher | None, numerics: AskedNumerics, verdict: Verdict | None
) -> Kernels:
    """Stock MLX without a launcher; else all that `verdict` does not know to be wrong.

    Nothing is used before it was tried with the types of the model (see TrialsOfModel), but what
    stock MLX cannot do at all is tried when the model asks for it, with bfloat16.
    """
    if launcher is None or verdict is None:
        return NO_KERNELS
    kernels = Kernels(
        launcher, numerics != "fast", verdict.off(), verdict.measured, trusted=NONE_YET
    )
    dtype = mx.bfloat16 if computes_on_gpu() else mx.float32

    def try_now(name: KernelName, work: Work) -> None:
        TrialsOfModel(kernels, verdict, dtype).run(trial_of(name, work))

    kernels.try_now = try_now
    return kernels


NONE_YET = frozenset[str]()


class TrialsOfModel:
    """What a loaded model's layers asked for, tried with its own types at its own widths.

    dtype: of its activations. Kernels that pass are used from the next pass on.
    """

    def __init__(self, kernels: Kernels, verdict: Verdict, dtype: mx.Dtype) -> None:
        self._kernels, self._verdict, self._dtype = kernels, verdict, dtype
        kernels.trust(verdict.sound(dtype))

    def pending(self) -> list[Trial]:
        """Those that nobody has run yet, or timed."""
        asked = self._asked(self._kernels.may_serve)
        return [
            one for one in asked if self._name(one) not in self._verdict.tried or self._untimed(one)
        ]

    def steps(self) -> Iterator[Tried]:
        """Try them one by one, and time those that are right."""
        for trial in self.pending():
            tried = self.run(trial)
            yield tried
            if not tried.wrong and self._untimed(trial):
                yield self._time(trial)

    def run(self, trial: Trial) -> Tried:
        """Try one that may have been tried before."""
        assert self._kernels.launcher is not None
        name, words = self._name(trial), trial.words
        if name not in self._verdict.tried:
            tried = remembered(trial, self._kernels.launcher, self._dtype, self._verdict)
        else:
            tried = Tried(trial, self._verdict.tried[name])
        if tried.wrong:
            self._kernels.switch_off(words, wrong_here(words, tried.wrong))
        else:
            self._kernels.trust([words])
        return tried

    def _untimed(self, trial: Trial) -> bool:
        return any(not self._kernels.is_measured(trial.kernel, work) for work in trial.timed)

    def _time(self, trial: Trial) -> Tried:
        """What was faster is used from the next pass on."""
        launcher, verdict = self._kernels.launcher, self._verdict
        assert launcher is not None
        verdict.begin(self._name(trial))
        try:
            timed = [faster(trial, work, launcher, self._dtype) for work in trial.timed]
        except Exception as error:
            wrong = Words("it cannot be timed ({error})", error=ascii(error)[:160])
            return Tried(trial, wrong, is_lasting=False)
        finally:
            verdict.end(None)
        verdict.note_speed(trial.kernel, [*verdict.measured.get(trial.kernel, ()), *timed])
        self._kernels.trust([trial.words])
        return Tried(trial, measured=tuple(timed))

    def blame(self, error: Exception) -> bool:
        """Switch off what may have raised this in a pass: kernels in use that fail their trial now,
        else all of them; whether there were any.

        MLX tells what went wrong in a command buffer or a compiler, seldom in which kernel. What
        fails here may be over at the next load, and is tried again then.
        """
        used = self._asked(lambda name, work: bool(self._kernels.rows(name, work)))
        for trial in used:
            self._verdict.tried.pop(self._name(trial), None)
        wrong = [trial for trial in used if self.run(trial).wrong]
        if not wrong:
            why = Words(
                "a pass failed with it in use, and no kernel fails alone ({error})",
                error=ascii(error)[:160],
            )
            for name in {trial.kernel for trial in used}:
                self._kernels.switch_off(name, why)
        return bool(used)

    def _asked(self, wanted: Callable[[KernelName, Work], object]) -> list[Trial]:
        """Trials of work that layers asked for: one a kernel and format, the widest of each."""
        found = dict[str, Trial]()
        for name in KERNELS:
            for work in sorted(self._kernels.asked.get(name, ()), key=lambda work: work.inputs):
                if wanted(name, work):
                    trial = trial_of(name, work)
                    found[trial.words] = trial
        return list(found.values())

    def _name(self, trial: Trial) -> str:
        return typed(trial.words, self._dtype)


def remembered(
    trial: Trial, launcher: Launcher, dtype: mx.Dtype, verdict: Verdict, *, timed: bool = False
) -> Tried:
    """Check a kernel, and time it if it is right and `timed`; the verdict knows throughout."""
    verdict.begin(typed(trial.words, dtype))
    wrong: str | None = None
    try:
        tried = check(trial, launcher, dtype, FEWER if timed else FEWER[:1])
        works = trial.timed if timed and not tried.wrong else ()
        measured = tuple(faster(trial, work, launcher, dtype) for work in works)
        wrong = tried.wrong if tried.is_lasting else None
    finally:  # whoever interrupts it, it did not end the program
        verdict.end(wrong)
    return tried._replace(measured=measured)


def try_all(
    launcher: Launcher, verdict: Verdict, trials: Iterable[Trial] = TRIALS, *, timed: bool
) -> Iterator[Tried]:
    """Every kernel anew, whatever the verdict says by now."""
    dtype = mx.bfloat16 if computes_on_gpu() else mx.float32
    found: dict[KernelName, list[Tried]] = {}
    verdict.tried.clear()
    for trial in trials:
        tried = remembered(trial, launcher, dtype, verdict, timed=timed)
        found.setdefault(trial.kernel, []).append(tried)
        yield tried
    for name, its in found.items():
        verdict.note_speed(name, (measured for one in its for measured in one.measured))


class RowsHere:
    """What the rows of a loaded trunk are computed by: files of rows are of use where it is alike.

    Layers of the trunk have asked for their kernels when this is made. Heads, which are read later,
    ask for more; whatever computes theirs, no word is another.
    """

    def __init__(self, kernels: Kernels) -> None:
        asked = [(name, work) for name, works in kernels.asked.items() for work in works]
        self._kernels, self._works = kernels, sorted(asked)
        self._here = asdict(circumstances())

    def computed_by(self, numerics: str) -> dict[str, str]:
        """By name, as of now; numerics: those in effect."""
        rows = [(name, work, sorted(self._kernels.rows(name, work))) for name, work in self._works]
        used = hashlib.sha256(repr(rows).encode()).hexdigest()[:8]
        return {**self._here, "numerics": numerics, "kernels": used if rows else "none"}
