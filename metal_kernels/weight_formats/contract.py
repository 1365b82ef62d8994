"""WeightFormat: what kernels need to know about the storage of a matrix [N, K]."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from metal_kernels.kernel import Parameter


@dataclass(frozen=True, slots=True, eq=False)
class WeightFormat:
    """Format in which a weight matrix is stored, with MSL and plain operations that unpack it.

    A *unit* is what a lane fetches of a row at once: `RUNS` runs of eight values, each with one
    scale, so that a value is scale * q. Formats with offsets decode their values whole (scale 1):
    an fma for all rows of x costs less than to sum each row's x for the offset.

    buffers: names of the kernel's inputs that hold the matrix, rows first. unit: values of a unit;
    K is a multiple. header: MSL that defines

        constant constexpr int RUNS;                       // unit == 8 * RUNS
        struct Unit { ... };                               // the bits of a unit, in registers
        FETCH(row, unit, K) -> Unit                        // a macro over the buffers' names
        int run_start(int unit, int run);                  // index of the run's first value in K
        float decode(thread Unit&, thread float* q);       // the next run: its scale; q[0..7]

    A loop over runs may stay a loop, and an array whose index is not known when a kernel is
    compiled lies in memory, not in registers. So decode knows no number of a run: it takes the
    first one off its unit and moves the others up.

    Units of 32 have `constant constexpr int RUN_STEP` too, what lies between the starts of a run
    and the next: 8 values where a unit's runs adjoin, or 32 where those of four neighbouring units
    do, the first runs of all, then the second ones.

    setup: MSL at the beginning of a kernel, for what its threads share; it may name a table that
    FETCH knows. parameters: template arguments the header needs. dequantise: the stored arrays ->
    float32 [N, K]. table: MSL before the header that takes a while to be made.
    """

    name: str
    buffers: tuple[str, ...]
    unit: int
    header: str
    parameters: tuple[Parameter, ...]
    dequantise: Callable[[tuple[mx.array, ...]], mx.array]
    setup: str = ""
    table: Callable[[], str] = str
