"""An exception as a value the window can show and a report can carry."""

import traceback

from app.worker.replies import Problem
from mlx_engine.values.errors import EngineError


def problem_of(error: Exception) -> Problem:
    """Known when the engine says in words what to do, else a bug with its traceback."""
    code = type(error).__name__
    if isinstance(error, EngineError):
        return Problem("known", code, str(error))
    words = f"Headstart made a mistake ({code}: {error}). What was answered so far is kept."
    return Problem("bug", code, words, "".join(traceback.format_exception(error)))


def no_model() -> Problem:
    """Asked for an answer before any model was loaded."""
    return Problem("known", "NoModel", "No model is loaded: open one, then ask again.")
