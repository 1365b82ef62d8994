"""The tree of errors that the engine raises, and reasons why a feature is off.

EngineError
├── ModelNotFound          no such path, or a folder without a model in it
│   └── DownloadFailed     missing on the hub, not accessible, or ambiguous
│       └── SignInNeeded   a model of the hub for those who signed in and agreed
├── BadModelFile           truncated, corrupt, or tensors that do not fit the config
│   └── UnsafeModelFile    a format that can run code when opened (.bin, .pt, pickle)
├── UnsupportedModel       a sound file of an architecture or format we cannot run
│   └── HeadsOnly          MTP heads, which run with the model they belong to
├── BadTokenizer           tokenizer missing, broken, or of another model
├── BadChatTemplate        a template that fails, never ends or reaches outside its sandbox
├── BadOption              a setting out of range
├── BadPrompt              nothing to read, or text that is not valid Unicode
│   ├── PromptTooLong      more tokens than the context holds
│   └── BadPicture         no picture, damaged, too large, or of a kind that models cannot see
├── LoadStopped            the user stopped a load before it was done
├── NumericsError          the model produced infinite or NaN values
├── OutOfMemory            the model or the cache does not fit
│   └── DoesNotFit         predicted by the memory plan, before weights are read
└── EngineMisuse           called from another thread, while busy, or after close

Every message names the file or setting, says what is wrong, and what to do. Any other exception is
a bug of the engine.
"""

from dataclasses import dataclass
from errno import EISDIR, ENXIO
from pathlib import Path

from mlx_engine.values.words import ErrorInWords, Words


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a feature is switched off or a file was not used, for the user.

    code: a stable identifier, lower-case with hyphens ("no-heads", "parked-cost"). words: a
    sentence shown in the window.
    """

    code: str
    words: str


class EngineError(ErrorInWords):
    """Base of all errors that the user can understand and act on."""


class ModelNotFound(EngineError):
    """There is no model at the given path or hub id."""


class DownloadFailed(ModelNotFound):
    """The model is missing on the hub, cannot be accessed, or its name is ambiguous."""


class SignInNeeded(DownloadFailed):
    """The hub wants a token: to know who accepted a model's terms, or a newer one."""


class BadModelFile(EngineError):
    """A model file is damaged or contradicts its config."""


def why_not_read(path: Path, error: OSError) -> str:
    """Describe an OSError for a file or folder as a sentence that says what to do."""
    if isinstance(error, FileNotFoundError):
        return Words("{path}: a broken link, or a file just deleted. Get it again.", path=path)
    if error.errno in (EISDIR, ENXIO):
        return Words(
            "{path}: a folder, a pipe or a device where a file belongs. Get it again.", path=path
        )
    if isinstance(error, PermissionError):
        return Words(
            "{path}: there is no permission to read it. Allow reading it and its folder.", path=path
        )
    return Words(
        "{path}: cannot be read ({strerror}). Check the disk it is on.",
        path=path,
        strerror=str(error.strerror or error),
    )


def tensor_missing(origin: str, name: str) -> BadModelFile:
    """Make the error for a tensor that the config requires and no file contains."""
    return BadModelFile(
        "{origin}: the tensor {name} is missing. The file is incomplete or its config "
        "belongs to another model: get both again from the same place.",
        origin=origin,
        name=name,
    )


def tensor_misshapen(
    origin: str, name: str, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> BadModelFile:
    """Make the error for a tensor whose shape differs from the one that the config requires."""
    return BadModelFile(
        "{origin}: {name} has the shape {shape}, the config asks for {wanted}. The "
        "config does not belong to these weights.",
        origin=origin,
        name=name,
        shape=list(shape),
        wanted=list(wanted),
    )


def tensor_not_floating(origin: str, name: str, dtype: str) -> "BadModelFile":
    """Make the error for a weight of integers without quantisation scales."""
    return BadModelFile(
        "{origin}: {name} holds {dtype} where floating numbers belong. It may "
        "be packed without its scales: get the file again.",
        origin=origin,
        name=name,
        dtype=dtype,
    )


class UnsafeModelFile(BadModelFile):
    """Error: a model file in a format that can run code when opened (.bin, .pt, pickle)."""


class UnsupportedModel(EngineError):
    """Error: the model file is sound, but the engine cannot run its architecture or format."""


class HeadsOnly(UnsupportedModel):
    """The file holds MTP heads without a model; it can be opened as the heads of another model."""


class BadTokenizer(EngineError):
    """The tokenizer is missing, damaged or belongs to another model."""


class BadChatTemplate(EngineError):
    """The chat template could not produce a prompt."""


class BadOption(EngineError):
    """Error: an option has a value that is not allowed."""


class BadPrompt(EngineError):
    """Error: the prompt is empty or no valid Unicode."""


class PromptTooLong(BadPrompt):
    """The prompt has more tokens than the context holds."""


class BadPicture(BadPrompt):
    """The picture is damaged, too large, or not in a format that is read."""


class LoadStopped(EngineError):
    """Error: the user stopped loading a model before it was done."""


class NumericsError(EngineError):
    """The model computed infinite or NaN values."""


class OutOfMemory(EngineError):
    """The model or its cache does not fit in memory."""


class DoesNotFit(OutOfMemory):
    """The memory plan of the model, or of the requested context, exceeds the available memory."""


class EngineMisuse(EngineError):
    """The engine was called from another thread, while busy, or after close."""


class NoModel(EngineMisuse):
    """No model is loaded."""


_SIGNS_OF_FULL_MEMORY = (
    "malloc]",
    "bad_alloc",
    "Unable to allocate",
    "Insufficient Memory",
    "ErrorOutOfMemory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that memory ran out; MLX raises RuntimeError with such a message.

    Messages of mlx/backend/metal: "[metal::malloc] Attempting to allocate ...", and for a command
    buffer "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)".
    """
    words = str(error)
    return isinstance(error, MemoryError) or any(sign in words for sign in _SIGNS_OF_FULL_MEMORY)
