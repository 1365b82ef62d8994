"""Each fault a kernel can have at run time is reported as what it is, where it is."""

from typing import NamedTuple

import mlx.core as mx
import pytest
from metal_emulator import EmulatorError, metal_kernel


class Broken(NamedTuple):
    """A kernel of 64 floats in, 64 out, one threadgroup of 64; and what is to be said of it."""

    body: str
    kind: str
    line: int | None = None
    buffer: str | None = None


START = "uint i = thread_position_in_threadgroup.x;\n"
SHARED = START + "threadgroup float s[64];\ns[i] = inp[i];\n"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"
STORE = "out[i] = inp[i];\n"

FAULTS = {
    "an operation across some lanes": Broken(
        START + "float v = inp[i];\nif (i < 40) v = simd_sum(v);\nout[i] = v;", "divergence", 3
    ),
    "a barrier in a branch": Broken(START + "if (i < 32)\n" + BARRIER + STORE, "divergence", 3),
    "another barrier in each branch": Broken(
        START + STORE + "if (i < 32)\n" + BARRIER + "else\n" + BARRIER, "divergence", 4
    ),
    "a return before a barrier": Broken(
        START + "out[i] = 0;\nif (i == 63) return;\n" + BARRIER, "divergence", 4
    ),
    "loops of different length": Broken(
        START + STORE + "for (uint n = 0; n <= i % 2; n++)\n" + BARRIER, "divergence", 4
    ),
    "a read past the end": Broken(START + "out[i] = inp[i + 1];", "bounds", 2, "inp"),
    "a read before the start": Broken(START + "out[i] = inp[int(i) - 1];", "bounds", 2, "inp"),
    "a write past the end": Broken(START + STORE + "out[i + 60] = 1;", "bounds", 3, "out"),
    "past a threadgroup array": Broken(
        SHARED + BARRIER + "threadgroup float* p = s;\nout[i] = p[64 - i];", "bounds", 6, "s"
    ),
    "a write to an input": Broken(
        START + STORE + "((device float*)inp)[i] = 1;", "read-only", 3, "inp"
    ),
    "an output not written": Broken(START + "if (i != 9) " + STORE, "unwritten", None, "out"),
    "no barrier": Broken(SHARED + "out[i] = s[63 - i];", "race", 4, "s"),
    "a barrier that orders nothing": Broken(
        SHARED + "threadgroup_barrier(mem_flags::mem_device);\nout[i] = s[63 - i];", "race", 5, "s"
    ),
    "overwritten before it is read": Broken(
        SHARED + BARRIER + "float v = s[63 - i];\ns[i] = v;\n" + "out[i] = v;", "race", 6, "s"
    ),
    "overwritten while another SIMD-group reads": Broken(
        SHARED + BARRIER + "if (i < 32)\n  out[i] = s[i + 32];\nelse\n  s[i] = out[i] = 1;",
        "race",
        8,
        "s",
    ),
    "a SIMD-group's barrier for two": Broken(
        SHARED + "simdgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[63 - i];",
        "race",
        5,
        "s",
    ),
    "a threadgroup array not filled": Broken(
        START + "threadgroup float s[65];\ns[i] = inp[i];\n" + BARRIER + "out[i] = s[i + 1];",
        "uninitialised",
        5,
        "s",
    ),
    "an output read before it is written": Broken(
        START + "float v = out[i];\n" + "out[i] = v + 1;", "uninitialised", 2, "out"
    ),
    "too much threadgroup memory": Broken(
        START + "threadgroup float s[8193];\ns[i] = 0;\n" + STORE, "limit"
    ),
    "two threads store different values": Broken(
        START + STORE + "out[0] = float(i);", "race", 3, "out"
    ),
    "the other half of an output, no barrier": Broken(
        START + STORE + "out[i] = out[i ^ 32] * 2;", "race", 3, "out"
    ),
    "an endless loop that reads": Broken(
        START + STORE + "while (inp[i] < 1e9f)\n  out[i] = inp[i];", "endless"
    ),
    "an endless loop that does not": Broken(
        START + STORE + "uint n = i;\nwhile (true)\n  n = n * 3 + 1;", "endless"
    ),
    "past a private array": Broken(
        START + "float v[4] = {1, 2, 3, 4};\nout[i] = v[i];", "bounds", 3
    ),
    "past a row of a threadgroup array": Broken(
        START + "threadgroup float s[2][32];\nout[i] = s[0][i] = inp[i];", "bounds", 3
    ),
    "half a float": Broken(
        START + STORE + "out[0] = *(device float*)((device char*)inp + 2);", "alignment", 3
    ),
    "outside everything": Broken(
        START + STORE + "if (i == 3) out[3] = inp[1ul << 40];", "bounds", 3
    ),
    "not C++": Broken(START + "out[i] = inp[i]", "compile"),
    "more threads than fit": Broken(STORE.replace("i]", "0]"), "limit"),
}


def run(body: str, shuffle: int = 0, threads: int = 64) -> list[mx.array]:
    kernel = metal_kernel("broken", ["inp"], ["out"], body, shuffle=shuffle, seconds=0.2)
    return kernel(
        inputs=[mx.arange(64, dtype=mx.float32)],
        grid=(threads, 1, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )


@pytest.mark.parametrize("shuffle", [0, 5])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_reported(name: str, shuffle: int) -> None:
    broken = FAULTS[name]
    with pytest.raises(EmulatorError) as caught:
        run(broken.body, shuffle, threads=1025 if name == "more threads than fit" else 64)
    assert caught.value.kernel == "broken"
    assert caught.value.kind == broken.kind, caught.value
    place = caught.value.place
    if broken.line:
        assert place.file == "broken"
        assert broken.line in (place.line, place.other_line)
    if broken.buffer:
        assert place.buffer == broken.buffer


@pytest.mark.parametrize(
    "line",
    ["float4 v = *(device float4*)(inp + 1);\nout[0] = v.x + v.w;",
     "*(device float4*)(out + 1) = float4(inp[0]);"],
)  # fmt: skip
def test_an_address_of_no_float4(line: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(START + STORE + line)
    assert (caught.value.kind, caught.value.place.line) == ("alignment", 3)


CORRECT = {
    "a barrier": SHARED + BARRIER + "out[i] = s[63 - i];",
    "a SIMD-group's barrier for itself": SHARED
    + "simdgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[i ^ 31];",
    "read, barrier, overwrite": SHARED
    + BARRIER
    + "float v = s[63 - i];\n"
    + BARRIER
    + "s[i] = v;\nout[i] = v;",
    "the same value from all": START + STORE + "out[0] = 0;",
    "an array in a loop": START
    + "threadgroup float s[2][32], t;\nfor (uint n = 0; n < 3; n++) {\n"
    + "if (i == 0) t = float(n);\ns[i / 32][i % 32] = inp[i];\n"
    + BARRIER
    + "out[i] = s[0][0] + t;\n"
    + BARRIER
    + "}",
    "a whole SIMD-group returns": START
    + STORE
    + "if (i >= 32) return;\nout[i] = simd_sum(inp[i]);",
    "different branches of SIMD-groups": START
    + "if (i < 32) out[i] = simd_sum(inp[i]);\nelse out[i] = simd_max(inp[i]);",
    "the other half after a barrier": START
    + STORE
    + "threadgroup_barrier(mem_flags::mem_device);\nfloat v = out[i ^ 32];\n"
    + "threadgroup_barrier(mem_flags::mem_device);\nout[i] = v;",
    "a private array": START + "float v[64];\nfor (int n = 0; n < 64; n++) v[n] = inp[n];\n"
    "out[i] = v[i];",
}


@pytest.mark.parametrize("shuffle", [0, 5])
@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_kernel_passes(name: str, shuffle: int) -> None:
    run(CORRECT[name], shuffle)


def test_the_message_names_thread_buffer_and_line() -> None:
    with pytest.raises(EmulatorError) as caught:
        run(FAULTS["a read past the end"].body)
    said = str(caught.value)
    assert "thread (63, 0, 0) of threadgroup (0, 0, 0)" in said
    assert "byte 256 of buffer 'inp'" in said
    assert "[broken:2]" in said


def test_a_divergence_says_where_everybody_is() -> None:
    with pytest.raises(EmulatorError) as caught:
        run(FAULTS["an operation across some lanes"].body)
    assert "threads 0-31 40-63 returned" in str(caught.value)
    assert "threads 32-39 waiting at simd_sum (broken:3)" in str(caught.value)


def test_a_race_names_both_threads() -> None:
    with pytest.raises(EmulatorError, match=r"the other is thread \(\d+, 0, 0\)"):
        run(FAULTS["no barrier"].body)
