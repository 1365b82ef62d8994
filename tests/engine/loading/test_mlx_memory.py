import mlx.core as mx
import numpy as np
import pytest

from mlx_engine.loading.mlx_memory import MlxMemory


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.float16, np.float32])
def test_what_is_written_is_in_the_array(dtype: type[np.generic]) -> None:
    memory = MlxMemory()
    view, other = memory.new((3, 5), dtype), memory.new((3, 5), dtype)
    view[:], other[:] = np.arange(15).reshape(3, 5), 7
    array = memory.array(view)
    assert array.shape == (3, 5)
    np.testing.assert_array_equal(np.array(array), view)
    view[1, 2] = 99
    assert array[1, 2].item() == 99  # the same bytes


def test_other_arrays_are_copied() -> None:
    memory = MlxMemory()
    view = memory.new((4, 2), np.uint32)
    view[:] = np.arange(8).reshape(4, 2)
    for other in (
        view[:2],
        view[::-1],
        view[:, ::-1],
        view.reshape(2, 4),
        view.T,
        np.ones((2, 2), np.float32),
    ):
        array = memory.array(other)
        np.testing.assert_array_equal(np.array(array), other)
    assert mx.all(memory.array(view[:2]) == memory.array(view)[:2]).item()
