"""Compiles Metal kernels as C++ and runs them on the CPU, strictly.

    from metal_emulator import EmulatorError, EmulatorLauncher, metal_kernel

    launcher = EmulatorLauncher(shuffle=3)          # a metal_kernels.kernel.Launcher
    (y,) = launcher.run(launch, inputs)
    launcher.last.buffers["w"].times_read           # 1.0: every line of w read by one threadgroup

    kernel = metal_kernel(name, input_names, output_names, source, header="", ...)
    outputs = kernel(inputs=..., template=..., grid=..., threadgroup=..., output_shapes=...,
                     output_dtypes=..., init_value=None)
    kernel.last                                     # Report of the last call
    kernel.with_options(shuffle=7, check=False)     # the same kernel, run otherwise

    Strided(base, shape, strides, offset)           # an input for ensure_row_contiguous=False
    stock_kernels.qmv_wide(...)                     # MLX's own kernels: outputs, report

Arguments and rules are those of mx.fast.metal_kernel; grid counts threads. Outputs are evaluated,
and hold NaN bits before the launch. Options, of the launcher too: shuffle, a seed for another order
of lanes and SIMD-groups; check, False for speed, no checks and no traffic; seconds, the time limit
of a launch; arithmetic, True to count it by type (no integers; write `c ? x : 0.0f`, not
`c ? x : 0`); lint, True to check address spaces, and that M1 and M2 have registers for it;
private, True to look at the variables of a thread instead of memory: what nobody wrote may not be
stored, decide a branch, be an address or cross lanes (place.buffer is the variable's name).

Any broken rule raises EmulatorError(kernel, kind, place), kind one of: compile, lint, divergence,
bounds, race, uninitialised, unwritten, limit, endless, read-only, alignment. place has file, line
(1 is the source's first line), buffer, offset, thread, threadgroup.

Report: buffers[name] -> Traffic (size, loads, stores, bytes_loaded, bytes_stored, lines_loaded,
lines_stored, lines, together, times_read, times_written), threads, simd_ops, barriers,
threadgroup_bytes, group_loads, group_stores, arithmetic, seconds. Assert on lines (64 bytes,
counted once for each threadgroup that touches them): loads depend on the compiler.

RegisterLauncher runs nothing and says what each run asks for: runs -> Counted (pipeline, threads,
need); need.count registers, need.in_memory bytes of variables that are in none, need.most_threads.

Stricter than Metal: operations across lanes need all lanes; `mem_none` orders nothing; a float
becomes a bfloat only by an explicit conversion. Not seen: occupancy, bank conflicts, time, other
threadgroups' reads of a buffer before it is written. simd_sum adds neighbours first; half and float
math is the C library's, without contraction: compare with tolerances.
"""

from metal_emulator.errors import KINDS, EmulatorError, Place
from metal_emulator.inputs import Strided
from metal_emulator.kernel import EmulatedKernel, metal_kernel
from metal_emulator.launcher import Counted, EmulatorLauncher, RegisterLauncher
from metal_emulator.registers import Registers
from metal_emulator.report import Report, Traffic
from metal_emulator.toolchain import NoCompilerError

__all__ = [
    "KINDS",
    "Counted",
    "EmulatedKernel",
    "EmulatorError",
    "EmulatorLauncher",
    "NoCompilerError",
    "Place",
    "RegisterLauncher",
    "Registers",
    "Report",
    "Strided",
    "Traffic",
    "metal_kernel",
]
