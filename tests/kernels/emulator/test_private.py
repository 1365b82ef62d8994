"""A variable of a thread that is used before it is written is reported, by its name and line."""

from typing import NamedTuple

import mlx.core as mx
import pytest
from metal_emulator import EmulatorError, metal_kernel


class Used(NamedTuple):
    """A kernel of 64 floats in, 64 out; the variable, the line where it is used, a thread."""

    body: str
    name: str
    line: int
    thread: int


START = "uint i = thread_position_in_threadgroup.x;\n"
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);\n"

USED = {
    "a number": Used("float v;\nif (i != 9) v = inp[i];\nout[i] = v + 1;", "v", 4, 9),
    "an element": Used(
        "float v[4];\nfor (int n = 0; n < 3; n++) v[n] = inp[n];\nout[i] = v[i % 4];", "v", 4, 3
    ),
    "a member": Used(
        "struct Two { float a, b; } two;\ntwo.a = inp[i];\nTwo its = two;\nout[i] = its.a + its.b;",
        "two",
        5,
        0,
    ),
    "a component": Used("float4 v;\nv.x = inp[i], v.y = 2;\nout[i] = v.x + v.z;", "v", 4, 0),
    "half a word": Used("half h[2];\nh[0] = half(inp[i]);\nout[i] = float(h[1]);", "h", 4, 0),
    "a bit": Used("bool b;\nif (i < 7) b = true;\nout[i] = b ? 1 : 2;", "b", 4, 7),
    "in a branch": Used(
        "int n;\nif (i < 40) n = 3;\nout[i] = 0;\nif (n == 3) out[i] = 1;", "n", 5, 40
    ),
    "as an index": Used("int n;\nif (i > 0) n = 0;\nout[i] = inp[n];", "n", 4, 0),
    "across lanes": Used(
        "float v;\nif (i != 3) v = inp[i];\nv = simd_sum(v);\nout[i] = v;", "v", 4, 3
    ),
    "each time round": Used(
        "float s = 0;\nfor (int n = 0; n < 3; n++) {\n  float v;\n  if (n == 0) v = 1;\n"
        "  s += v;\n}\nout[i] = s;",
        "v",
        8,
        0,
    ),
    "into threadgroup memory": Used(
        "threadgroup float s[64];\nfloat v;\ns[i] = v;\n" + BARRIER + "out[i] = s[i];", "v", 4, 0
    ),
    "by a helper": Used("float v[2];\nv[0] = 1;\nout[i] = second(v);", "v", 2, 0),
}  # fmt: skip
HEADER = "\ninline float second(thread float* p) { return p[1] > 0 ? p[0] : p[1]; }\n"


def run(body: str, private: bool) -> mx.array:
    kernel = metal_kernel("used", ["inp"], ["out"], START + body, HEADER, private=private)
    (out,) = kernel(
        inputs=[mx.arange(64, dtype=mx.float32)],
        grid=(64, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )
    return out


@pytest.mark.parametrize("name", USED)
def test_what_nobody_wrote_is_reported(name: str) -> None:
    used = USED[name]
    with pytest.raises(EmulatorError) as caught:
        run(used.body, private=True)
    place = caught.value.place
    assert (caught.value.kind, place.buffer) == ("uninitialised", used.name), caught.value
    assert place.line == used.line
    assert place.thread == (used.thread, 0, 0)
    assert f"private variable '{used.name}'" in str(caught.value)


FINE = {
    "all written": "float v[4], w;\nfor (int n = 0; n < 4; n++) v[n] = inp[n];\n"
    "w = i % 2 ? v[0] : v[1];\nout[i] = simd_sum(w) + metal::exp(v[3]);",
    "vectors": "float4 f = float4(inp[i], 1, 2, 3);\nfloat3 g = f.xyz;\nfloat4 h = f;\n"
    "h.xy += g.zy;\nout[i] = dot(h, f) + simd_shuffle_xor(g.x, 1);",
    "copied and never used": "struct Two { float a, b; } two;\ntwo.a = inp[i];\nTwo its = two;\n"
    "out[i] = its.a;",
    "written by a helper": "float v[2];\nv[1] = inp[i];\nv[0] = 1;\nout[i] = second(v);",
    "from memory": "threadgroup float s[64];\ns[i] = inp[i];\n" + BARRIER + "out[i] = s[63 - i];",
    "half floats": "half h = half(inp[i]);\nbfloat b = bfloat(h);\nout[i] = float(h) + float(b);",
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_what_is_written_first_passes(name: str) -> None:
    assert mx.allclose(run(FINE[name], private=True), run(FINE[name], private=False)).item()


@pytest.mark.parametrize("name", ["a number", "each time round"])
def test_what_the_compiler_sees_needs_no_watching(name: str) -> None:
    with pytest.raises(EmulatorError, match=f"'{USED[name].name}' is used uninitialized") as caught:
        run(USED[name].body, private=False)
    assert caught.value.kind == "compile"


def test_nothing_of_a_watched_run_is_left_for_the_next() -> None:
    with pytest.raises(EmulatorError):
        run(USED["across lanes"].body, private=True)
    assert run(FINE["all written"], private=False).shape == (64,)
