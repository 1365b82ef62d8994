"""A bug of ours leaves its traceback in a file, and one line for the user."""

import time
import traceback
from pathlib import Path


def crash_note(error: BaseException, folder: Path | None) -> str:
    """Write the traceback below `folder` and say where; the traceback itself if that fails."""
    trace = "".join(traceback.format_exception(error))
    what = f"{type(error).__name__}: {error}".splitlines()[0]
    path = _written(trace, folder) if folder is not None else None
    details = trace if path is None else f"The details are in {path}"
    return f"headstart: this is a bug of ours, {what}\n{details}"


def _written(trace: str, folder: Path) -> Path | None:
    path = folder / time.strftime("crash-%Y%m%d-%H%M%S.log")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(trace, encoding="utf-8")
    except OSError:
        return None
    return path
