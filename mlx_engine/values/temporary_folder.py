"""A folder for temporary files that no other user can write to.

On Linux MLX compiles operations of mlx-lm's classes into the shared temporary folder, under names
anyone can foretell, and loads what lies there already, whoever wrote it. It asks TMPDIR each time.
"""

import os
import stat
import sys
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp


@cache
def use_private_temporary_folder() -> None:
    """Point TMPDIR at a folder of this user's alone within the temporary folder, once for all.

    What MLX compiled before, in a program that uses it by itself, came from the shared one. Nothing
    is done on a Mac, where each user has his own, or where no folder can be made.
    """
    if sys.platform != "linux":
        return
    folder = Path(gettempdir()) / f"headstart-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(folder):
            folder = Path(mkdtemp(prefix="headstart-"))
    except FileExistsError:
        folder = Path(mkdtemp(prefix="headstart-"))
    except OSError:
        return
    os.environ["TMPDIR"] = str(folder)


def _is_private(folder: Path) -> bool:
    told = folder.lstat()
    is_own = stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid()
    return is_own and not told.st_mode & 0o077
