"""Create files and folders that only their owner can read: modes 0600 and 0700."""

import os
import stat
from contextlib import suppress
from pathlib import Path

FILE_MODE, FOLDER_MODE = 0o600, 0o700
OTHERS = 0o077
"""Rights of the group and of everybody else."""


def make_private(*paths: Path) -> None:
    """Remove the access rights of group and others from existing paths that this user owns.

    Errors are ignored. A shared folder such as /tmp (sticky bit) stays as it is.
    """
    for path in paths:
        with suppress(OSError, ValueError):
            status = path.stat()
            mode = stat.S_IMODE(status.st_mode)
            is_ours = status.st_uid == os.geteuid() and not mode & stat.S_ISVTX
            if is_ours and mode & OTHERS:
                path.chmod(mode & ~OTHERS)


def is_private(folder: Path) -> bool:
    """Whether the path is a folder (no link) that this user owns and nobody else can access."""
    try:
        status = folder.lstat()
    except (OSError, ValueError):
        return False
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_ours and not status.st_mode & OTHERS


def make_private_file(path: Path) -> None:
    """Create an empty file with mode 0600, or restrict the one that exists.

    Errors are ignored: opening the file afterwards reports them.
    """
    with suppress(OSError, ValueError):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, FILE_MODE))
    make_private(path)


def make_private_folder(folder: Path) -> None:
    """Create a folder with mode 0700, or restrict the one that exists. Raises OSError."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    make_private(folder)
