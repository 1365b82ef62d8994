"""What is found out about a loaded model behind its answers: one step after the other."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import mlx.core as mx

from mlx_engine.kernel_choice.kernels_here import TrialsOfModel, kernel_states
from mlx_engine.kernel_choice.verdict import Verdict
from mlx_engine.loading.load import LoadedModel
from mlx_engine.models.contract import Adapter
from mlx_engine.values.model_description import ModelDescription


class Chores:
    """On the engine's thread, left and taken up again between any two steps.

    verdict: what is known of this machine, None where there is nothing to find out. news: something
    that the description tells has changed.
    """

    def __init__(self, model: LoadedModel, verdict: Verdict | None) -> None:
        self._model = model
        self._is_done = verdict is None
        self.news = False
        self._steps: Iterator[None] = iter(())
        if verdict is not None:
            dtype = dtype_of(model.adapter)
            self._steps = self._all(TrialsOfModel(model.kernels, verdict, dtype))

    def go_on(self, stop: Callable[[], bool]) -> bool:
        """Until all is done or stop(), asked before every step; whether all is done."""
        while not self._is_done and not stop():
            self._is_done = next(self._steps, self) is self
        return self._is_done

    def told(self, description: ModelDescription) -> ModelDescription:
        """The description as it is now."""
        self.news = False
        return replace(description, kernels=kernel_states(self._model.kernels))

    def _all(self, trials: TrialsOfModel) -> Iterator[None]:
        for _ in trials.steps():
            self.news = True
            yield


def dtype_of(adapter: Adapter) -> mx.Dtype:
    """Of activations; nothing is computed."""
    token = mx.zeros((1, 1), dtype=mx.int32)
    return adapter.forward(token, adapter.make_caches()).dtype
