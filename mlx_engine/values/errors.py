"""What can go wrong, as a tree of errors, and why something is off, as reasons.

EngineError
├── ModelNotFound          no such path, or a folder without a model in it
│   └── DownloadFailed     what the hub does not have, does not give, or has several of
├── BadModelFile           truncated, corrupt, or tensors that do not fit the config
│   └── UnsafeModelFile    a format that can run code when opened (.bin, .pt, pickle)
├── UnsupportedModel       a sound file of an architecture or format we cannot run
│   └── HeadsOnly          MTP heads, which run with the model they belong to
├── BadTokenizer           tokenizer missing, broken, or of another model
├── BadChatTemplate        a template that fails, never ends or reaches outside its sandbox
├── BadOption              a setting out of range
├── BadPrompt              nothing to read, or text that is not valid Unicode
│   └── PromptTooLong      more tokens than the context holds
├── LoadStopped            the user stopped a load before it was done
├── NumericsError          the model produced something that is not a number
├── OutOfMemory            the model or the cache does not fit
│   └── DoesNotFit         told by the memory plan, before weights are read
└── EngineMisuse           called from another thread, while busy, or after close

Every message names the file or setting, says what is wrong, and what to do. Anything that is not
an EngineError is a bug of ours.
"""

from dataclasses import dataclass
from errno import EISDIR, ENXIO
from pathlib import Path

from mlx_engine.values.words import ErrorInWords, Words


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something is off: one declined or changed path.

    `code` is stable, lower-case with hyphens ("no-heads", "parked-cost"); `words` is a sentence
    for the window.
    """

    code: str
    words: str


class EngineError(ErrorInWords):
    """Something the user can understand and act on."""


class ModelNotFound(EngineError):
    """There is no model at the given place."""


class DownloadFailed(ModelNotFound):
    """The hub does not have the model, does not give it, or has several of its name."""


class BadModelFile(EngineError):
    """A model file is damaged or contradicts its config."""


def why_not_read(path: Path, error: OSError) -> str:
    """A sentence about a file, or a folder, that the system does not give."""
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
    """A tensor that the config asks for and no file has."""
    return BadModelFile(
        "{origin}: the tensor {name} is missing. The file is incomplete or its config "
        "belongs to another model: get both again from the same place.",
        origin=origin,
        name=name,
    )


def tensor_misshapen(
    origin: str, name: str, shape: tuple[int, ...], wanted: tuple[int, ...]
) -> BadModelFile:
    """A tensor of another shape than the config asks for."""
    return BadModelFile(
        "{origin}: {name} has the shape {shape}, the config asks for {wanted}. The "
        "config does not belong to these weights.",
        origin=origin,
        name=name,
        shape=list(shape),
        wanted=list(wanted),
    )


def tensor_not_floating(origin: str, name: str, dtype: str) -> "BadModelFile":
    """A weight of whole numbers, which is none by itself."""
    return BadModelFile(
        "{origin}: {name} holds {dtype} where floating numbers belong. It may "
        "be packed without its scales: get the file again.",
        origin=origin,
        name=name,
        dtype=dtype,
    )


class UnsafeModelFile(BadModelFile):
    """A weight format that can run code when opened."""


class UnsupportedModel(EngineError):
    """The file is sound but this engine cannot run it."""


class HeadsOnly(UnsupportedModel):
    """The file holds MTP heads and no model: it is opened as heads of another."""


class BadTokenizer(EngineError):
    """The tokenizer is missing, damaged or belongs to another model."""


class BadChatTemplate(EngineError):
    """The chat template could not produce a prompt."""


class BadOption(EngineError):
    """A setting is out of its range."""


class BadPrompt(EngineError):
    """The prompt cannot be read."""


class PromptTooLong(BadPrompt):
    """The prompt has more tokens than the context holds."""


class LoadStopped(EngineError):
    """A load was stopped before it was done."""


class NumericsError(EngineError):
    """The model produced something that is not a number."""


class OutOfMemory(EngineError):
    """The model or its cache does not fit in memory."""


class DoesNotFit(OutOfMemory):
    """By its memory plan a model needs more than there is, or its context does."""


class EngineMisuse(EngineError):
    """The engine was called from another thread, while busy, or after close."""


_SIGNS_OF_FULL_MEMORY = (
    "malloc]",
    "bad_alloc",
    "Unable to allocate",
    "Insufficient Memory",
    "ErrorOutOfMemory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory was too small, which MLX tells by the words of a RuntimeError alone.

    Of mlx/backend/metal: "[metal::malloc] Attempting to allocate ...", and of a command buffer
    "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)".
    """
    words = str(error)
    return isinstance(error, MemoryError) or any(sign in words for sign in _SIGNS_OF_FULL_MEMORY)
