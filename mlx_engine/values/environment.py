"""Environment variables that this process sets or reads; no other file of the engine does."""

import os
import sys
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from mlx_engine.values.private_files import is_private


@cache
def use_private_temporary_folder() -> None:
    """Set TMPDIR to a folder that only this user can write, once a process.

    Linux only. MLX compiles fused operations into TMPDIR under predictable file names and loads a
    library that is there already, whoever wrote it. Nothing changes on a Mac, where TMPDIR is the
    user's own, or where no folder can be created. Libraries that MLX compiled earlier in this
    process came from the shared folder.
    """
    if sys.platform != "linux":
        return
    folder = Path(gettempdir()) / f"headstart-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not is_private(folder):
            folder = Path(mkdtemp(prefix="headstart-"))
    except FileExistsError:
        folder = Path(mkdtemp(prefix="headstart-"))
    except OSError:
        return
    os.environ["TMPDIR"] = str(folder)


def server_key() -> str | None:
    """Return the key that requests to the server must show, from HEADSTART_API_KEY."""
    return os.environ.get("HEADSTART_API_KEY") or None


def use_one_tokenizer_thread() -> None:
    """Switch off the thread pool of `tokenizers`, which one endless text would block."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
