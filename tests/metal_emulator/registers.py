"""How many threads of a kernel a chip takes in one threadgroup, by the registers each needs.

Registers are counted by another GPU's compiler (clang's for gfx1030), whose threads have registers
of 32 bits as Apple's have, from the same text and in its order. The count is near, not equal: of
MLX's sdpa_vector an M1 Max takes 1,024 threads at head size 256 and 832 at 512 (MLX issue 3885),
which is what counting says; a compiler that moves loads up needs more. What all threads share and
know before they start costs nothing here, as it costs none of Apple's.

Chips up to M2 share out a register file when a kernel is built: the threads that fit are those of
Mesa's table (src/asahi/compiler/agx_performance.c, which counts 16 bits), and no thread gets more
than 128. From M3 on they are given out while a kernel runs (Apple, "Explore GPU advancements in M3
and A17 Pro"): 1,024 threads are taken whatever they need (mlx-vlm PR 1799: what an M2 Ultra refuses
runs on an M4 Max), of which fewer run at a time.
"""

from typing import NamedTuple

from metal_emulator.instructions import Instructions

MOST_THREADS = 1024
MOST_REGISTERS = 128
SHARED_OUT = (
    *((52, 1024), (56, 896), (64, 832), (68, 768), (72, 704)),
    *((80, 640), (92, 576), (104, 512), (116, 448), (MOST_REGISTERS, 384)),
)
"""Registers of a thread, threads of a threadgroup that may have so many."""

M1, M3 = 13, 15
"""Generations, as in Metal's names of architectures."""


class Registers(NamedTuple):
    """Of one thread. count: of 32 bits. in_memory: bytes of its variables that are in none.

    loops: its instructions outside of loops, in loops, in the loops of those, and so on.
    """

    count: int
    in_memory: int
    loops: tuple[Instructions, ...] = ()

    def most_threads(self, generation: int) -> int:
        """Of a threadgroup on a chip of this generation."""
        if generation >= M3:
            return MOST_THREADS
        return next(threads for most, threads in SHARED_OUT if self.count <= most)
