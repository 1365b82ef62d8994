"""The peer to compare with: mlx-lm's own loading and plain decoding of the same folder."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx.utils import tree_flatten
from mlx_lm.generate import make_prompt_cache  # type: ignore[attr-defined]

from mlx_engine.bench.answers import PlainRun
from mlx_engine.bench.graph import Graph


class MlxLm:
    """A model as mlx-lm runs it.

    Parameters stay as they are in the file, or all floating ones become float32: on the CPU MLX
    computes in 16 bits slowly, so there only the latter compares programs rather than types.
    """

    def __init__(self, folder: Path, *, as_float32: bool) -> None:
        loaded: Any = mlx_lm.load(str(folder))
        self._model, self._tokenizer = loaded[0], loaded[1]
        self._tokenizer.eos_token_ids = set()
        if as_float32:
            self._model.set_dtype(mx.float32)
            mx.eval(self._model.parameters())
        words = "float32" if as_float32 else "as is"
        self.name = f"mlx-lm {version('mlx-lm')}, {words}"

    def run(self, prompt: Sequence[int], tokens: int) -> PlainRun:
        """Greedy, past every end of text."""
        got: list[int] = []
        started = first = perf_counter()
        first_cpu = process_time()
        for answer in mlx_lm.stream_generate(
            self._model, self._tokenizer, list(prompt), max_tokens=tokens
        ):
            if not got:
                first, first_cpu = perf_counter(), process_time()
            got.append(int(answer.token))
        ended = perf_counter()
        return PlainRun(tuple(got), first - started, ended - first, process_time() - first_cpu)

    def graph(self, prompt: Sequence[int]) -> Graph:
        """One decoding step after `prompt`, as mlx-lm takes it."""
        cache = make_prompt_cache(self._model)
        self._model(mx.array([list(prompt)]), cache=cache)
        mx.eval(_arrays(cache))
        started = perf_counter()
        logits = self._model(mx.array([[prompt[-1]]]), cache=cache)[:, -1]
        normal = logits - mx.logsumexp(logits, keepdims=True)
        outputs = [mx.argmax(normal, axis=-1), normal, *_arrays(cache)]
        return Graph(outputs, 1000 * (perf_counter() - started))


def _arrays(cache: Any) -> list[mx.array]:
    leaves: Any = tree_flatten([layer.state for layer in cache])
    return [leaf for _, leaf in leaves if isinstance(leaf, mx.array)]
