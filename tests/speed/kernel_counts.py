"""Prints what our kernels move and compute beside MLX's own, counted by the emulator alike.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/kernel_counts.py

Weights: how often their lines are read in one launch; loads and floating point operations by
weight, 4 bits, groups of 64, float16 rows. "fused" counts a multiply and the addition behind it
once, as a compiler may join them in MLX's kernels; ours name every fused operation themselves.
Keys: one key head, 512 keys of 128; "-" is where MLX has no fused kernel. States: bytes of a
round over the state's own, whatever was accepted. Registers: of every launch of every trial, in
bfloat16; "in memory" are bytes of a thread's variables that 128 registers do not hold; the most
threads a chip takes in a threadgroup of such, and whether ours fits every chip with all in
registers.
"""

import kernel_measures as measures

from metal_kernels.trials import TRIALS

GENERATIONS = {"M1": 13, "M2": 14, "M3": 15, "M4": 16, "M5": 17}
"""As in Metal's architecture names."""


def main() -> None:
    """The tables, in the README's form."""
    for bits in (4, 2, 8):
        print(f"\nweights, {bits} bits | kernel | " + " | ".join(f"{m}" for m in range(1, 9)))
        for name, count in (
            ("M1/M2 stock", measures.stock_narrow),
            ("M3+ stock", measures.stock_wide),
            ("ours", measures.ours),
        ):
            done = [count(rows, bits) for rows in range(1, 9)]
            for field in measures.PerWeight._fields:
                figures = " | ".join(f"{getattr(one, field):.2f}" for one in done)
                print(f"{field} | {name} | {figures}")
    print("\nkeys: rows x heads | ours lines, loads, in flight | two passes | one pass")
    for rows, heads in ((1, 6), (2, 6), (4, 6), (5, 6), (8, 6), (4, 8), (8, 8), (8, 12)):
        figures = (
            measures.our_attention(rows, heads),
            measures.stock_attention(rows, heads, two_pass=True),
            measures.stock_attention(rows, heads, two_pass=False),
        )
        words = [
            "-" if one is None else f"{one.lines:.2f}, {one.loads:.2f}, {one.in_flight:.0f}"
            for one in figures
        ]
        print(f"{rows} x {heads} | " + " | ".join(words))
    print("\nstates: kept of 8 | read | written")
    for kept in (0, 3, 8):
        traffic = measures.our_state(8, kept)
        print(f"{kept} | {traffic.read:.2f} | {traffic.written:.2f}")
    memory = measures.state_memory(8)
    print(f"\nextra bytes a layer, 8 rows, 27B: steps {memory.steps}, snapshots {memory.snapshots}")
    chips = " | ".join(GENERATIONS)
    print(f"\nregisters: trial | rows | launch | threads | registers | in memory | {chips} | fits")
    for trial in TRIALS:
        for rows in (1, 4, 8):
            for one in measures.our_registers(trial, rows):
                most = [one.need.most_threads(generation) for generation in GENERATIONS.values()]
                fits = one.threads <= min(most) and not one.need.in_memory
                words = (trial.words, rows, one.pipeline.source.name, one.threads, *one.need, *most)
                print(" | ".join(map(str, words)), "|", "yes" if fits else "no")


if __name__ == "__main__":
    main()
