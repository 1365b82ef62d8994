"""Opens mutated GGUF headers under a memory limit.

    PYTHONPATH=.:tests/helpers python tests/speed/fuzz_gguf.py [count]

Prints how many were refused and how many read, the time, and the peak of memory. Any exception that
is no EngineError ends it with the mutation's number, which is also its seed.
"""

import random
import resource
import struct
import sys
import time

from gguf_files import SAMPLE, survives

LIMIT = 2 * 2**30
WILD = [0, 1, 255, 2**16, 2**31, 2**32 - 1, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1]


def mutated(seed: int) -> bytes:
    """Flipped bits, wild numbers, cuts, insertions and deletions, one to six of them."""
    draw = random.Random(seed)
    content = bytearray(SAMPLE)
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(max(1, len(content) - 320))
        kind = draw.randrange(6)
        if kind < 2:
            content[place] ^= 1 << draw.randrange(8)
        elif kind == 2:
            content[place : place + 8] = struct.pack("<Q", draw.choice(WILD))
        elif kind == 3:
            content[place : place + 4] = struct.pack("<I", draw.choice(WILD) % 2**32)
        elif kind == 4:
            del content[place : place + draw.randint(1, 16)]
        else:
            content[place:place] = draw.randbytes(draw.randint(1, 16))
        if draw.random() < 0.1:
            del content[draw.randrange(len(content) + 1) :]
        content = content or bytearray(1)
    return bytes(content)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    start, read, slowest = time.perf_counter(), 0, 0.0
    for seed in range(count):
        content, began = mutated(seed), time.perf_counter()
        try:
            read += survives(content)
        except BaseException:
            print(f"mutation {seed}")
            raise
        slowest = max(slowest, time.perf_counter() - began)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count} mutations in {seconds:.0f} s: {count - read} refused, {read} read")
    print(f"slowest {slowest * 1e3:.1f} ms, peak {peak:.0f} MB of a limit of {LIMIT >> 20}")


if __name__ == "__main__":
    main()
