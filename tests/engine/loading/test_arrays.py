import mlx.core as mx
import pytest

from mlx_engine.loading.arrays import SLICE_BYTES, cast_floats, evaluate_arrays, half_dtype
from mlx_engine.loading.describe import cached_element_bytes
from mlx_engine.values.errors import BadModelFile, LoadStopped, OutOfMemory
from mlx_engine.values.options import AskedActivations


def lazy(parts: int) -> list[mx.array]:
    """Arrays of a third of a slice each; they cost no memory until evaluated."""
    return [mx.zeros((SLICE_BYTES // 3,), mx.uint8) for _ in range(parts)]


def test_progress_and_stop_between_slices() -> None:
    seen: list[tuple[int, int]] = []
    arrays = lazy(8)
    with pytest.raises(LoadStopped, match="folder/x"):
        evaluate_arrays(arrays, "folder/x", lambda *s: seen.append(s), lambda: len(seen) == 2)
    third = SLICE_BYTES // 3
    assert seen == [(0, 8 * third), (4 * third, 8 * third)]


def test_no_arrays() -> None:
    seen: list[tuple[int, int]] = []
    evaluate_arrays([], "x", lambda *step: seen.append(step), None)
    assert seen == [(0, 0)]


def test_a_file_that_shrinks_while_it_is_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("m") / "a.safetensors"
    mx.save_safetensors(str(file), {"a": mx.ones((1000,))})
    arrays = mx.load(str(file))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(BadModelFile, match="folder/x"):
        evaluate_arrays([arrays["a"] + 0], "folder/x", None, None)


@pytest.mark.parametrize(
    "told",
    [
        "[METAL] Command buffer execution failed: Insufficient Memory "
        "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
        "[metal::malloc] Attempting to allocate 22548578304 bytes which is greater than the "
        "maximum allowed buffer size of 17179869184 bytes.",
        "[malloc_or_wait] Unable to allocate 1073741824 bytes.",
        "std::bad_alloc",
    ],
)
def test_full_memory_is_no_damaged_file(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RuntimeError(told)

    monkeypatch.setattr(mx, "eval", full)
    with pytest.raises(OutOfMemory, match=r"folder/x.*does not fit"):
        evaluate_arrays(lazy(1), "folder/x", None, None)


def test_a_damaged_file_is_no_full_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("[read] Unable to read 64 bytes from file allocations/x.safetensors.")

    monkeypatch.setattr(mx, "eval", broken)
    with pytest.raises(BadModelFile, match="Download it again"):
        evaluate_arrays(lazy(1), "folder/x", None, None)


@pytest.mark.parametrize(
    ("asked", "architecture", "half"),
    [
        ("auto", "", mx.float32),
        ("auto", "applegpu_g13s", mx.float16),
        ("auto", "applegpu_g14d", mx.float16),
        ("auto", "applegpu_g15p", None),
        ("auto", "applegpu_g17g", None),
        ("auto", "sm_90", None),
        ("bfloat16", "applegpu_g13s", mx.bfloat16),
        ("float16", "", mx.float16),
    ],
)
def test_type_of_activations_by_chip(
    asked: AskedActivations, architecture: str, half: mx.Dtype | None
) -> None:
    """M1 is g13, M2 g14, M3 g15; a CPU has no architecture."""
    assert half_dtype(asked, architecture) == half


@pytest.mark.parametrize("half", [None, mx.float32, mx.float16, mx.bfloat16])
def test_types_after_loading(half: mx.Dtype | None) -> None:
    kinds = (mx.bfloat16, mx.float16, mx.float32, mx.float64, mx.uint32, mx.uint8)
    with mx.stream(mx.cpu):
        arrays = {str(kind): mx.ones((2,), kind) for kind in kinds}
        cast = [array.dtype for array in cast_floats(arrays, half).values()]
    first = [half, half] if half else [mx.bfloat16, mx.float16]
    assert cast == [*first, mx.float32, mx.float32, mx.uint32, mx.uint8]


@pytest.mark.parametrize(
    ("config", "with_metal"),
    [
        ({}, 2),
        ({"dtype": "float32"}, 4),
        ({"torch_dtype": "float16"}, 2),
        ({"dtype": "float32", "text_config": {"dtype": "bfloat16"}}, 2),
        ({"text_config": {}, "torch_dtype": "float32"}, 4),
        ({"dtype": 7}, 2),
    ],
)
def test_bytes_of_a_cached_element(config: dict, with_metal: int) -> None:
    assert cached_element_bytes(config, has_metal=True) == with_metal
    assert cached_element_bytes(config, has_metal=False) == 4
