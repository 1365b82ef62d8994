"""A kernel's bits do not hang on the compiler: with products and sums joined, with loops rolled up.

Metal's compiler may do either, and otherwise for one row than for eight: so nothing may change.
"""

from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx
import pytest
from metal_emulator import EmulatorLauncher

from metal_kernels.kernel import KernelSource, Launch, Launcher, pipeline
from mlx_engine.self_check.kernel_trials import TRIALS, Trial

CONTRACTED = "#pragma clang fp contract(fast)\n"
ROLLED = '#undef UNROLL\n#define UNROLL _Pragma("clang loop unroll(disable)")\n'

FORMS = ("affine3", "affine4", "mxfp4", "dense", "q6_k", "q2_k", "iq4_xs", "iq2_s")
"""One for each way in which units are unpacked."""


class OtherCompiler:
    """A launcher whose compiler is told something at the top of each kernel."""

    def __init__(self, told: str) -> None:
        self._inner = EmulatorLauncher(check=False)
        self._told = told

    def run(self, launch: Launch, inputs: Sequence[mx.array]) -> Sequence[mx.array]:
        """The outputs."""
        wanted = launch.pipeline
        source = replace(wanted.source, header=self._told + wanted.source.header)
        if ROLLED in self._told:
            source = replace(
                source, body=source.body.replace("unroll_count(AT_ONCE)", "unroll(disable)")
            )
        return self._inner.run(
            launch._replace(pipeline=pipeline(source, wanted.parameters)), inputs
        )


def one_of_each() -> list[Trial]:
    """Every kernel once, products and attention once a form."""
    products = [one for one in TRIALS if one.kernel == "products" and one.checked.form in FORMS]
    attention = {one.checked.form: one for one in TRIALS if one.kernel == "attention"}
    others = {one.kernel: one for one in TRIALS if one.kernel not in ("products", "attention")}
    return [*products, *attention.values(), *others.values()]


def result(trial: Trial, rows: int, by: Launcher) -> mx.array:
    """For the first rows of the longest pass."""
    case = trial.make_trial_inputs(mx.float32, by)
    return case.kernel(case.x(case.most)[:rows])


@pytest.mark.parametrize("trial", one_of_each(), ids=lambda trial: trial.name)
def test_nothing_is_left_to_the_compiler(trial: Trial) -> None:
    most = trial.make_trial_inputs(mx.float32, EmulatorLauncher(check=False)).most
    whole = result(trial, most, EmulatorLauncher(check=False, unrolled=True))
    for rows in (1, most):
        few = result(trial, rows, OtherCompiler(CONTRACTED + ROLLED))
        assert mx.array_equal(few, whole[:rows]).item(), rows


def test_a_compiler_that_is_told_to_joins() -> None:
    """Else the test above would show nothing."""
    source = KernelSource(
        "joined",
        ("x",),
        ("y",),
        "uint i = thread_position_in_grid.x;\ny[i] = x[i] * x[i] - x[i + 32];\n",
    )
    x = 1 + mx.arange(32) * 2.0**-20
    both = mx.concatenate([x, x * x])
    launch = Launch(pipeline(source), ((32,),), (mx.float32,), (32, 1, 1), (32, 1, 1))
    assert mx.all(EmulatorLauncher().run(launch, (both,))[0] == 0).item()
    assert mx.any(OtherCompiler(CONTRACTED).run(launch, (both,))[0] != 0).item()
