"""Memory of MLX arrays that NumPy writes to, which saves a copy of every weight."""

from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

_TYPES: dict[type[np.generic], mx.Dtype] = {
    np.uint8: mx.uint8,
    np.uint32: mx.uint32,
    np.float16: mx.float16,
    np.float32: mx.float32,
}


class MlxMemory:
    """Arrays handed out, each in NumPy's and in MLX's form; both are the same bytes."""

    def __init__(self) -> None:
        self._arrays: dict[int, mx.array] = {}

    def new(self, shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
        """An array of zeros to write to; nothing may be computed with it before it is written."""
        array = mx.zeros(shape, _TYPES[dtype])
        mx.eval(array)
        view = np.array(array, copy=False)
        self._arrays[view.ctypes.data] = array
        return view

    def array(self, values: NDArray[Any]) -> mx.array:
        """What `new` gave, for MLX; a copy of any other array."""
        own = self._arrays.get(values.ctypes.data)
        if own is not None and own.shape == values.shape and values.flags.c_contiguous:
            return own
        return mx.array(np.ascontiguousarray(values))
