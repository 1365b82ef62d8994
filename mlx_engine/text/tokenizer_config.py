"""The chat template, special tokens and end tokens that the files of a model's folder name."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mlx_engine.values.errors import BadChatTemplate, BadTokenizer
from mlx_engine.values.untrusted import TEMPLATE_BYTES, TOKENIZER_BYTES, read_json, read_text

CONFIG, SPECIAL_TOKENS_MAP = "tokenizer_config.json", "special_tokens_map.json"


class TemplateFile(NamedTuple):
    """The source of a chat template, and the file it stands in."""

    source: str
    path: Path

    @classmethod
    def find(cls, folder: Path) -> "TemplateFile | None":
        """Find the template in chat_template.jinja, chat_template.json or tokenizer_config.json.

        The first that is not empty. Raises BadChatTemplate, BadTokenizer.
        """
        path = folder / "chat_template.jinja"
        if path.exists():
            source = read_text(path, TEMPLATE_BYTES, BadChatTemplate)
            if source.strip():
                return cls(source, path)
        for path in (folder / "chat_template.json", folder / CONFIG):
            source = _default_source(read_object(path).get("chat_template"), path)
            if source.strip():
                return cls(source, path)
        return None


class ConfiguredTokens(NamedTuple):
    """Token ids set by generation_config.json, else (unset or damaged) by config.json.

    ends: end an answer. suppressed: never sampled; first_suppressed: not as an answer's first.
    """

    ends: frozenset[int]
    suppressed: frozenset[int]
    first_suppressed: frozenset[int]

    @classmethod
    def of_folder(cls, folder: Path) -> "ConfiguredTokens":
        """Read the ids but null and negative ones, as transformers. Raises BadTokenizer."""
        keys = ("eos_token_id", "suppress_tokens", "begin_suppress_tokens")
        return cls(*(_first_configured(folder, key) for key in keys))


def _first_configured(folder: Path, key: str) -> frozenset[int]:
    for path in (folder / "generation_config.json", folder / "config.json"):
        try:
            config = read_object(path)
        except BadTokenizer:
            if path.name == "config.json":
                raise
            config = {}  # describe.py reports the damage
        text_config = config.get("text_config") or config.get("llm_config")
        tables = (config, text_config if isinstance(text_config, Mapping) else {})
        ids = {token for table in tables for token in _token_ids(table.get(key), f"{path}: {key}")}
        if ids:
            return frozenset(ids)
    return frozenset()


def _token_ids(value: object, setting: str) -> list[int]:
    ids: list[int] = []
    for token in value if isinstance(value, list) else [value]:
        if type(token) is int:
            ids += [token] * (token >= 0)
        elif token is not None:
            raise BadTokenizer(
                "{setting} {value} is not a token id or a list of them: correct it.",
                setting=setting,
                value=ascii(value)[:60],
            )
    return ids


def _default_source(value: object, path: Path) -> str:
    """The template in a config's `chat_template`, "" for none.

    value: a text, texts by name, or a list of {"name", "template"}. Of several, "default" or the
    first that is not empty.
    """
    if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
        value = {str(entry.get("name")): entry.get("template") for entry in value}
    if isinstance(value, dict):
        value = value.get("default") or next(filter(None, value.values()), None)
    if value is None or isinstance(value, str):
        return value or ""
    raise BadChatTemplate(
        "{path}: its chat_template is neither text nor a list of templates.", path=path
    )


def named_special_tokens(folder: Path) -> dict[str, str]:
    """Name ("bos_token", "eos_token", ...) -> text, for all names that end in "_token".

    tokenizer_config.json wins over special_tokens_map.json.
    """
    names: dict[str, str] = {}
    for file in (SPECIAL_TOKENS_MAP, CONFIG):
        texts = {name: text_of(value) for name, value in read_object(folder / file).items()}
        names |= {name: text for name, text in texts.items() if name.endswith("_token") and text}
    return names


def read_object(path: Path) -> dict[str, object]:
    """The JSON object in `path`, empty without such a file; BadTokenizer when it is damaged."""
    return read_json(path, TOKENIZER_BYTES, BadTokenizer) if path.exists() else {}


def text_of(value: object) -> str:
    """The text of a token written as a string or an object with "content"; "" for others."""
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""
