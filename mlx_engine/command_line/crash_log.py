"""A bug of ours leaves its traceback in a file, and one line for the user."""

import time
import traceback
from pathlib import Path


def crash_note(error: BaseException, folder: Path) -> str:
    """Write the traceback below `folder` and say where; the traceback itself if that fails."""
    trace = "".join(traceback.format_exception(error))
    path = folder / time.strftime("crash-%Y%m%d-%H%M%S.log")
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        return f"headstart: this is a bug of ours, {what}\n{trace}"
    return f"headstart: this is a bug of ours, {what}\nThe details are in {path}"
