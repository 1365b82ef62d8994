"""Models for the worker that need no files: scripted engines by path, loads that take time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from scripted_engine import DESCRIPTION, Answer, ScriptedEngine

from app.worker.model_in_use import ModelSource, Progress, Stop
from app.worker.requests import LoadModel
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadPicture, LoadStopped, ModelNotFound, Reason
from mlx_engine.values.memory_plan import CacheBytes
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.picture import Picture

MISFIT = Reason("heads-implausible", "The MTP heads seem not to fit this model.")


class ScriptedCosts(NamedTuple):
    verify_ms: tuple[float, ...] = (10.0, 11.0, 12.5)
    draft_ms: float = 1.5


@dataclass(slots=True)
class WorkerEngine(ScriptedEngine):
    """A scripted engine that also knows what passes cost, and takes words for tokens.

    passes_left, of pass_s each: what measuring takes.
    """

    pass_costs: ScriptedCosts = field(default_factory=ScriptedCosts)
    passes_left: int = 0
    pass_s: float = 0.0

    def measure_costs(self, stop: Stop) -> ScriptedCosts | None:
        while self.passes_left > 0:
            if stop():
                return None
            time.sleep(self.pass_s)
            self.passes_left -= 1
        return self.pass_costs

    def tokenize(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def picture_tokens(self, picture: Picture) -> int:
        if not picture.width:
            raise BadPicture("No picture.")
        return picture.width * picture.height


@dataclass(slots=True)
class Doubting(WorkerEngine):
    """Finds out in its first answer that its heads do not fit."""

    def next_answer(self, turns: list[Message]) -> Answer:
        if MISFIT not in self.description.declined:
            self.description = replace(self.description, declined=(MISFIT,))
        return Answer("a b c d e f g h", pause_s=0.05)


@dataclass(slots=True)
class Learning(WorkerEngine):
    """Finds out while it measures that rows are not exact here."""

    def measure_costs(self, stop: Stop) -> ScriptedCosts | None:
        self.description = replace(self.description, numerics="fast")
        return self.pass_costs


@dataclass(slots=True)
class ScriptedModels(ModelSource):
    """A ModelSource. broken: path -> what a load raises after half of the bytes.

    fetched_bytes: what a draft model brings from the hub in slices, after the model. on_hub: what
    is fetched in slices as well, before it can be looked at.
    """

    engines: dict[str, ScriptedEngine] = field(default_factory=dict)
    broken: dict[str, BaseException] = field(default_factory=dict)
    slices: int = 4
    pause_s: float = 0.0
    fetched_bytes: int = 0
    on_hub: frozenset[str] = frozenset()
    forgotten: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    before_inspect: Callable[[], None] = lambda: None
    before_load: Callable[[], None] = lambda: None

    def forget_files(self, chat_id: str) -> None:
        self.forgotten.append(chat_id)

    def inspect(self, request: LoadModel, on_download: Progress, stop: Stop) -> ModelDescription:
        self.before_inspect()
        path = str(request.path)
        if path in self.on_hub:
            self._fetch(self.engines[path].description.nbytes, path, on_download, stop)
        if path not in self.engines:
            raise ModelNotFound(f"{path}: no such file or folder.")
        return self.engines[path].description

    def load(
        self, request: LoadModel, on_progress: Progress, on_download: Progress, stop: Stop
    ) -> ScriptedEngine:
        path = str(request.path)
        size = self.engines[path].description.nbytes
        self.before_load()
        for step in range(self.slices + 1):
            on_progress(size * step // self.slices, size)
            if stop():
                raise LoadStopped(f"{path}: loading was stopped.")
            time.sleep(self.pause_s)
            if path in self.broken and step >= self.slices // 2:
                raise self.broken[path]
        if self.fetched_bytes:
            self._fetch(self.fetched_bytes, path, on_download, stop)
        self.loaded.append(path)
        return self.engines[path]

    def _fetch(self, size: int, path: str, on_download: Progress, stop: Stop) -> None:
        for step in range(self.slices + 1):
            on_download(size * step // self.slices, size)
            if stop():
                raise LoadStopped(f"{path}: loading was stopped.")
            time.sleep(self.pause_s)


def described(name: str, nbytes: int) -> ModelDescription:
    """A model of this size in 32 bits, with caches of a kilobyte a token."""
    cache = CacheBytes(values=500)
    return replace(DESCRIPTION, name=name, nbytes=nbytes, parameters=nbytes // 4, trunk_cache=cache)
