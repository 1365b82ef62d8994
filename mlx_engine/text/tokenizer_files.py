"""Reads what the small JSON files beside a tokenizer say."""

import json
from collections.abc import Mapping
from pathlib import Path

from mlx_engine.values.errors import BadTokenizer

CONFIG = "tokenizer_config.json"


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`, empty without such a file; BadTokenizer when it is damaged."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadTokenizer(
            f"{path} is not readable JSON ({error}): download the file again."
        ) from error
    if not isinstance(value, dict):
        raise BadTokenizer(f"{path} should hold a JSON object: download the file again.")
    return value


def named_special_tokens(folder: Path) -> dict[str, str]:
    """Name ("bos_token", "eos_token", ...) -> text, for the names ending in "_token".

    From special_tokens_map.json and tokenizer_config.json; the second wins. A token is written as a
    string or as an object with "content".
    """
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", CONFIG):
        for name, value in read_object(folder / file).items():
            text = value.get("content") if isinstance(value, Mapping) else value
            if name.endswith("_token") and isinstance(text, str):
                names[name] = text
    return names


def configured_end_ids(folder: Path) -> frozenset[int]:
    """All `eos_token_id` of generation_config.json and config.json, its text_config included."""
    ids: set[int] = set()
    for file in ("generation_config.json", "config.json"):
        config = read_object(folder / file)
        text_config = config.get("text_config")
        for source in (config, text_config if isinstance(text_config, Mapping) else {}):
            ids.update(_token_ids(source.get("eos_token_id"), folder / file))
    return frozenset(ids)


def _token_ids(value: object, path: Path) -> list[int]:
    ids: list[int] = []
    for token in value if isinstance(value, list) else [] if value is None else [value]:
        if type(token) is not int or token < 0:
            raise BadTokenizer(
                f"{path}: eos_token_id {value!r} is not a token id or a list of them: correct it."
            )
        ids.append(token)
    return ids
