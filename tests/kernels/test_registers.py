"""Every chip takes the threadgroups of our kernels, and their variables are in registers."""

import kernel_measures as measures
import pytest

from mlx_engine.self_check.kernel_trials import TRIALS, Trial

ROWS = 4
"""Where products hold most: four rows of the matrix, with their weights."""


IN_MEMORY = {"attention latent8": 12}
"""Bytes that lie there: beside the 106 numbers of four keys, a query and what comes of it, which a
thread holds of latents of 512 in any format, three have no place.
"""


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_a_threadgroup_fits(trial: Trial) -> None:
    most = IN_MEMORY.get(trial.name, 0)
    for run in measures.our_registers(trial, ROWS):
        assert run.fits(13) and run.need.in_memory <= most, (run.threads, run.need)


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9])
@pytest.mark.parametrize("kernel", ["products", "experts", "attention"])
def test_of_as_many_rows(kernel: str, rows: int) -> None:
    """Of the format or the size of heads with most."""
    most = {"products": "q6_k", "experts": "affine8"}
    trial = [t for t in TRIALS if t.kernel == kernel and t.checked.form == most.get(kernel, "")][-1]
    for run in measures.our_registers(trial, rows):
        assert run.fits(13) and not run.need.in_memory, (run.threads, run.need)
