"""What the files of a model's folder say of its chat template and of tokens with a part to play."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mlx_engine.values.errors import BadChatTemplate, BadTokenizer
from mlx_engine.values.untrusted import TEMPLATE_BYTES, TOKENIZER_BYTES, read_json, read_text

CONFIG = "tokenizer_config.json"
_ENDS = frozenset(
    (
        *("<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>"),
        *("<|return|>", "<|call|>", "<end_of_turn>", "<turn|>", "<eos>", "</s>", "[EOS]", "[EOT]"),
        *("<|role_end|>", "[|endofturn|]", "<|endofresponse|>", "<end_of_utterance>", "<EOT>"),
        *("<|END_OF_TURN_TOKEN|>", "<|flush|>", "<|calls|>", "<|end_of_msg|>", "<|assistant_end|>"),
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
    )
)
_MESSAGE_END, _ENDS_OF_MESSAGES = "<|end|>", frozenset(("<|return|>", "<|flush|>"))


def known_ends(texts: Iterable[str]) -> set[str]:
    """Those of the tokens of a vocabulary that end an answer in some family.

    Where one of gpt-oss or Solar Open ends it, `<|end|>` ends a message: a thought, for instance.
    """
    known = set(texts) & _ENDS
    return known - {_MESSAGE_END} if known & _ENDS_OF_MESSAGES else known


class TemplateFile(NamedTuple):
    """The source of a chat template, and the file it stands in."""

    source: str
    path: Path

    @classmethod
    def find(cls, folder: Path) -> "TemplateFile | None":
        """Looks at chat_template.jinja, chat_template.json and tokenizer_config.json, in this
        order; an empty template is none. Raises BadChatTemplate, BadTokenizer.
        """
        path = folder / "chat_template.jinja"
        if path.exists():
            source = read_text(path, TEMPLATE_BYTES, BadChatTemplate)
            if source.strip():
                return cls(source, path)
        for path in (folder / "chat_template.json", folder / CONFIG):
            source = _default_source(_read(path).get("chat_template"), path)
            if source.strip():
                return cls(source, path)
        return None


class ConfiguredTokens(NamedTuple):
    """Token ids by generation_config.json, where it says nothing or is damaged by config.json.

    ends: those that end an answer. suppressed: those that are never written; first_suppressed: not
    as the first of an answer.
    """

    ends: frozenset[int]
    suppressed: frozenset[int]
    first_suppressed: frozenset[int]

    @classmethod
    def of_folder(cls, folder: Path) -> "ConfiguredTokens":
        """As transformers does, null and negative ids count for nothing. Raises BadTokenizer."""
        keys = ("eos_token_id", "suppress_tokens", "begin_suppress_tokens")
        return cls(*(_first_said(folder, key) for key in keys))


def _first_said(folder: Path, key: str) -> frozenset[int]:
    for path in (folder / "generation_config.json", folder / "config.json"):
        try:
            config = _read(path)
        except BadTokenizer:
            if path.name == "config.json":
                raise
            config = {}  # the description says so, of the sampling in it
        text_config = config.get("text_config")
        both = (config, text_config if isinstance(text_config, Mapping) else {})
        ids = {token for one in both for token in _token_ids(one.get(key), f"{path}: {key}")}
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
    """The template in a config's `chat_template`, "" for none: text, texts by name, or a list of
    {"name", "template"}; of several the one named "default", else the first that is not empty.
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


def _read(path: Path) -> dict[str, object]:
    return read_json(path, TOKENIZER_BYTES, BadTokenizer) if path.exists() else {}
