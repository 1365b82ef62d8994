"""Files and folders that hold conversations, for their owner alone: modes 0600 and 0700."""

import os
import stat
from contextlib import suppress
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = 0o077
"""Rights of the group and of everybody else."""


def make_private(*paths: Path) -> None:
    """Take rights of others away from what is there and ours, as far as that can be done.

    A folder that everybody may use, such as /tmp (sticky), stays as it is.
    """
    for path in paths:
        with suppress(OSError, ValueError):
            its = path.stat()
            mode = stat.S_IMODE(its.st_mode)
            is_ours = its.st_uid == os.geteuid() and not mode & stat.S_ISVTX
            if is_ours and mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def is_private(folder: Path) -> bool:
    """Whether this is a folder, no link, of this user that nobody else has a right to."""
    try:
        its = folder.lstat()
    except (OSError, ValueError):
        return False
    is_ours = stat.S_ISDIR(its.st_mode) and its.st_uid == os.geteuid()
    return is_ours and not its.st_mode & OTHERS


def make_private_file(path: Path) -> None:
    """Make an empty file where there is none, and keep others from the one that is there.

    Raises nothing: whoever opens it next says what is wrong.
    """
    with suppress(OSError, ValueError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, FILE_MODE))
    make_private(path)


def make_private_folder(folder: Path) -> None:
    """Make a folder where there is none, and keep others from the one that is there. Raises OSError
    where it cannot be made.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    make_private(folder)
