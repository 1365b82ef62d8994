"""Environment variables that this process sets for libraries it uses; nothing else here does."""

import os
import sys
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp

from mlx_engine.values.private_files import is_private


@cache
def use_private_temporary_folder() -> None:
    """Point TMPDIR at a folder of this user's alone within the temporary folder, once for all.

    On Linux MLX compiles operations of mlx-lm's classes into the folder that TMPDIR names, under
    names anyone can foretell, and loads what lies there already, whoever wrote it. What MLX
    compiled before, in a program that uses it by itself, came from the shared one. Nothing is done
    on a Mac, where each user has his own, or where no folder can be made.
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


def use_one_tokenizer_thread() -> None:
    """Keep `tokenizers` off its pool of threads: texts come one by one, and a pool would be shared
    with a tokenizer that is stuck in a text.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
