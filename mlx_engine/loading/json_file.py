"""JSON objects beside the weights: config.json and its like, read with errors for people."""

import json
from pathlib import Path

from mlx_engine.values.errors import BadModelFile

_LARGEST = 50_000_000


def read_json_object(path: Path) -> dict[str, object]:
    """The object in the file; BadModelFile when it is missing or not one."""
    try:
        if path.stat().st_size > _LARGEST:
            raise BadModelFile(f"{path}: larger than {_LARGEST} bytes; this is no {path.name}.")
        value = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as error:
        raise BadModelFile(
            f"{path}: missing. A model folder needs it: get it from where the weights come from."
        ) from error
    except OSError as error:
        raise BadModelFile(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFile(
            f"{path}: not JSON. Get it again from where the weights come from."
        ) from error
    if not isinstance(value, dict):
        raise BadModelFile(f"{path}: not a JSON object. Get it again.")
    return value
