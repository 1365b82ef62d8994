"""Language models on MLX, drafting with their own MTP heads; importing this loads no MLX.

    import mlx_engine
    from mlx_engine import DraftOptions, SamplingOptions, TextPiece

    engine = mlx_engine.load("model.gguf")  # a GGUF, a folder, a hub id; nothing: the built-in one
    session = engine.session(system="Be brief.", sampling=SamplingOptions(temperature=0.7))
    for event in session.send("What does os.path.join do?"):
        if isinstance(event, TextPiece):
            print(event.text, end="")
    session.draft = DraftOptions(depth=3)  # changes the speed, never the text
    print(session.stats.tokens_per_second)
    print(engine.generate("def main():", max_tokens=64).text)  # without a chat template
    engine.generate_many(["def main():", "class A:"], max_tokens=64)  # in passes that both share
    engine.close()  # or: with mlx_engine.load() as engine

`load` returns an Engine, `Engine.session` a Session; `inspect` describes a model without a load.
Sessions share passes too, if their iterators take turns: read one up to an event of a class in
TURN_ENDS, then the next.
Options: SamplingOptions, DraftOptions, GenerationOptions, LoadOptions, CacheOptions.
Events of an answer: PromptProgress, TextPiece, ToolCall, RoundFinished, GenerationFinished;
together, Event.
Values: Message, Picture (made by read_picture), Tool, Generation, GenerationStats, RoundStats,
ModelDescription, TensorGroup, KernelState, Reason.
Errors, each an EngineError: ModelNotFound, DownloadFailed, SignInNeeded, BadModelFile,
UnsafeModelFile, UnsupportedModel, HeadsOnly, BadTokenizer, BadChatTemplate, BadOption, BadPrompt,
PromptTooLong, BadPicture, LoadStopped, NumericsError, OutOfMemory, DoesNotFit, EngineMisuse,
NoModel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlx_engine.values.conversation import (
    TURN_ENDS,
    Event,
    Generation,
    GenerationFinished,
    Message,
    PromptProgress,
    RoundFinished,
    TextPiece,
    Tool,
    ToolCall,
)
from mlx_engine.values.errors import (
    BadChatTemplate,
    BadModelFile,
    BadOption,
    BadPicture,
    BadPrompt,
    BadTokenizer,
    DoesNotFit,
    DownloadFailed,
    EngineError,
    EngineMisuse,
    HeadsOnly,
    LoadStopped,
    ModelNotFound,
    NoModel,
    NumericsError,
    OutOfMemory,
    PromptTooLong,
    Reason,
    SignInNeeded,
    UnsafeModelFile,
    UnsupportedModel,
)
from mlx_engine.values.model_description import (
    KernelState,
    ModelDescription,
    TensorGroup,
)
from mlx_engine.values.options import (
    CacheOptions,
    DraftOptions,
    GenerationOptions,
    LoadOptions,
    SamplingOptions,
)
from mlx_engine.values.picture import Picture, read_picture
from mlx_engine.values.stats import GenerationStats, RoundStats

__all__ = ["Engine", "Session", "inspect", "load"]
"""What `help` shows whole; everything else that is named above can be had as well."""

if TYPE_CHECKING:
    from mlx_engine.cache.prompt_folder import PromptFolder
    from mlx_engine.decoding.session import Session
    from mlx_engine.engine import Engine
else:
    _ON_USE = {
        "Engine": "mlx_engine.engine",
        "PromptFolder": "mlx_engine.cache.prompt_folder",
        "Session": "mlx_engine.decoding.session",
    }

    def __getattr__(name: str) -> type:
        """Import a class from its module on first use; importing the package loads no MLX."""
        from importlib import import_module

        if name not in _ON_USE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return vars(import_module(_ON_USE[name]))[name]

    def __dir__() -> list[str]:
        return [*globals(), *_ON_USE]


def load(
    path: str | Path | None = None,
    *,
    heads: str | Path | None = None,
    draft_model: str | Path | None = None,
    options: LoadOptions | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    kernel_verdict: Path | None = None,
    on_download: Callable[[int, int], None] | None = None,
) -> Engine:
    """Open a model: a folder, a file in it, or a hub id; None for the built-in model.

    To choose one of several GGUF models of a repository, write "org/model-GGUF:Q4_K_M". heads:
    file, folder or hub id of the MTP heads, when they are not in or beside the model. draft_model:
    path or hub id of a small model with the same tokenizer, or of one made for this model (EAGLE-3,
    DFlash, Gemma 4's assistant), for DraftOptions(source="model"). on_progress gets bytes done and
    in total; on_download gets bytes downloaded and in total, None to call on_progress instead.
    stop: called several times a second; when it returns True, LoadStopped is raised and downloaded
    files are kept.

    kernel_verdict: file that records which Metal kernels work on this machine, None for one in the
    user's caches. Kernels without a record are tested after the first answers; until then MLX's own
    operations are used. The engine may only be used in the thread that calls this. Raises
    EngineError.
    """
    from mlx_engine.engine import open_engine

    wanted = options or LoadOptions()
    if heads is not None:
        wanted = replace(wanted, heads=Path(heads))
    if draft_model is not None:
        wanted = replace(wanted, draft_model=draft_model)
    return open_engine(path, wanted, on_progress, stop, kernel_verdict, on_download)


def inspect(
    path: str | Path | None = None,
    *,
    heads: str | Path | None = None,
    vision: str | Path | None = None,
    on_download: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] | None = None,
    text: bool = False,
) -> ModelDescription:
    """Describe a model from its headers alone, without loading it.

    heads, vision: as in LoadOptions. Files of hub models are downloaded first; on_download and stop
    are as in `load`. text: read tokenizer and chat template too (up to two seconds), to raise their
    errors. Raises HeadsOnly for a file of MTP heads alone, and other EngineErrors.
    """
    from mlx_engine.built_in_model import built_in_model
    from mlx_engine.loading.describe import inspect_model
    from mlx_engine.loading.find import HubAccess

    wanted = None if heads is None else Path(heads)
    tower = None if vision is None else Path(vision)
    hub = HubAccess(None, on_download, stop)
    return inspect_model(path, built_in_model(), wanted, hub, vision=tower, reads_text=text)
