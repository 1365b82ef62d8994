"""Read chat template, special and added tokens of a model folder; repair_tokenizer tokenizers."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from mlx_engine.text.pre_tokenizers import pre_tokenizer_named
from mlx_engine.text.tokenizer_library import (
    ADDED_CHARACTERS,
    BYTE_LEVEL,
    SPACE,
    check_texts,
    pipeline_steps,
)
from mlx_engine.values.errors import BadChatTemplate, BadTokenizer
from mlx_engine.values.untrusted import TEMPLATE_BYTES, TOKENIZER_BYTES, read_json, read_text

CONFIG, SPECIAL_TOKENS_MAP = "tokenizer_config.json", "special_tokens_map.json"
Json = Mapping[str, object]
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_NAMES = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]
"""Names of special tokens, in the order in which transformers adds them."""
_MOST_DIGITS = 20
_COMMON_BYTES = [c for c, byte in BYTE_LEVEL.items() if 0x20 <= byte < 0x7F or byte >> 6 == 0b10]
"""Byte-level characters of printable ASCII and of UTF-8's continuation bytes."""
_MISTRALS = ("mistral", "mistral3", "voxtral", "ministral", "pixtral", None)
_FIXED_IN_MAJOR, _LARGE_VOCABULARY = 5, 100_000


class TemplateFile(NamedTuple):
    """The source of a chat template, and the path of its file."""

    source: str
    path: Path

    @classmethod
    def find_template(cls, folder: Path) -> "TemplateFile | None":
        """Find the chat template of a model folder, None without one.

        Searches chat_template.jinja, chat_template.json and tokenizer_config.json; the first that
        is not empty counts. Raises BadChatTemplate, BadTokenizer.
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
    """Token ids set in generation_config.json or, if unset or damaged there, in config.json.

    ends: tokens that end an answer. suppressed: tokens never sampled. first_suppressed: tokens
    never sampled first in an answer.
    """

    ends: frozenset[int]
    suppressed: frozenset[int]
    first_suppressed: frozenset[int]

    @classmethod
    def from_folder(cls, folder: Path) -> "ConfiguredTokens":
        """Read end and suppressed token ids of a model folder's configs. Raises BadTokenizer."""
        keys = ("eos_token_id", "suppress_tokens", "begin_suppress_tokens")
        return cls(*(_read_first_value(folder, key) for key in keys))


def _read_first_value(folder: Path, key: str) -> frozenset[int]:
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
    """Return the template in a config's `chat_template`, "" for none.

    value: a string, a dict of named templates, or a list of {"name", "template"}. Of several
    templates "default" counts, else the first that is not empty.
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
    """Map names that end in "_token" ("bos_token", "eos_token", ...) to the text of the token.

    tokenizer_config.json overrides special_tokens_map.json.
    """
    names: dict[str, str] = {}
    for file in (SPECIAL_TOKENS_MAP, CONFIG):
        texts = {name: token_content(value) for name, value in read_object(folder / file).items()}
        names |= {name: text for name, text in texts.items() if name.endswith("_token") and text}
    return names


def read_object(path: Path) -> dict[str, object]:
    """Read the JSON object in `path`, {} without such a file. Raises BadTokenizer when damaged."""
    return read_json(path, TOKENIZER_BYTES, BadTokenizer) if path.exists() else {}


def token_content(value: object) -> str:
    """Text of a token given as a string or an object with "content"; "" for anything else."""
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


class TokenLists(NamedTuple):
    """Contents of a model folder's JSON files that list tokens, {} for a missing file."""

    config: Json
    special_tokens_map: Json
    added_tokens: Json


def add_listed_tokens(core: Tokenizer, lists: TokenLists, origin: str) -> None:
    """Add to a tokenizer the tokens that the model's JSON files list, with their flags.

    Listed ids only give the order: tokenizer.json decides. Named tokens (bos, eos, pad, ...) become
    special. Raises BadTokenizer naming `origin` for a malformed entry.
    """
    names, extra = _special_token_names(lists), _unnamed_special_tokens(lists)
    named = [text for text in names.values() if text]
    described = _listed_tokens(lists, {*named, *extra}, origin)
    check_texts([*(token.content for token in described), *named, *extra], ADDED_CHARACTERS, origin)
    for token in described:
        token.special = token.special or token.content in named
    known = {repr(token) for token in core.get_added_tokens_decoder().values()}
    core.add_tokens([token for token in described if repr(token) not in known])
    must_be_special = {names[name] for name in _NAMES}
    added = core.get_added_tokens_decoder().values()
    right = {t.content for t in added if t.special or t.content not in must_be_special}
    missing = [text for text in dict.fromkeys([*named, *extra]) if text not in right]
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in missing])


def described_tokens(config: Json, origin: str) -> dict[int, AddedToken]:
    """Read `added_tokens_decoder` of tokenizer_config.json as id -> token. Raises BadTokenizer."""
    listed = config.get("added_tokens_decoder")
    found: dict[int, AddedToken] = {}
    for key, entry in listed.items() if isinstance(listed, Mapping) else ():
        if not (key.isdecimal() and len(key) < _MOST_DIGITS and isinstance(entry, Mapping)):
            raise _malformed_tokens_error(key, origin)
        flags = {name: entry[name] for name in _FLAGS if entry.get(name) is not None}
        text = token_content(entry)
        if not text or not all(isinstance(flag, bool) for flag in flags.values()):
            raise _malformed_tokens_error(key, origin)
        found[int(key)] = AddedToken(text, **flags)
    return found


def _listed_tokens(lists: TokenLists, special: set[str], origin: str) -> list[AddedToken]:
    """Return the added tokens that a model folder lists, ordered by id."""
    if "added_tokens_decoder" in lists.config:
        found = described_tokens(lists.config, origin)
        return [found[token] for token in sorted(found)]
    ids = {text: token for text, token in lists.added_tokens.items() if isinstance(token, int)}
    texts = [text for text in sorted(ids, key=ids.__getitem__) if text]
    return [AddedToken(text, special=text in special, normalized=False) for text in texts]


def _special_token_files(lists: TokenLists) -> Iterator[Json]:
    """Yield the configs that name special tokens; special_tokens_map.json only for old folders."""
    yield lists.config
    if "added_tokens_decoder" not in lists.config:
        yield lists.special_tokens_map


def _special_token_names(lists: TokenLists) -> dict[str, str]:
    """Map names of special tokens in a config ("bos_token") to their texts, "" for none."""
    table: dict[str, str] = dict.fromkeys(_NAMES, "")
    for source in _special_token_files(lists):
        table |= {name: token_content(source[name]) for name in source if name.endswith("_token")}
        extra = source.get("extra_special_tokens")
        if isinstance(extra, Mapping):
            table |= {name: token_content(value) for name, value in extra.items()}
    return table


def _unnamed_special_tokens(lists: TokenLists) -> list[str]:
    """Texts of special tokens in a config without a name such as "bos_token"."""
    keys = ("extra_special_tokens", "additional_special_tokens")
    values = [source.get(key) for source in _special_token_files(lists) for key in keys]
    texts = [token_content(token) for value in values if isinstance(value, list) for token in value]
    return [text for text in texts if text]


def _malformed_tokens_error(key: str, origin: str) -> BadTokenizer:
    return BadTokenizer(
        "{config}: added token {key} is not described: correct it.",
        config=origin,
        key=ascii(key)[:60],
    )


def repair_tokenizer(core: Tokenizer, config: Json, model_config: Json, origin: str) -> None:
    """Repair, in place, a tokenizer that a conversion tool saved wrongly. Raises BadTokenizer."""
    if config.get("fix_mistral_regex") is True and _is_old_mistral(core, model_config):
        _split_as_tekken(core)
    if _is_byte_level(core):
        _repair_byte_level(core, origin)


def _is_old_mistral(core: Tokenizer, config: Json) -> bool:
    """Whether a tokenizer needs transformers' fix_mistral_regex: Mistral, large vocabulary."""
    major = str(config.get("transformers_version") or 0).partition(".")[0]
    is_old = major.isdecimal() and int(major[:9]) < _FIXED_IN_MAJOR
    is_mistral = config.get("model_type") in _MISTRALS
    return is_old and is_mistral and core.get_vocab_size() > _LARGE_VOCABULARY


def _split_as_tekken(core: Tokenizer) -> None:
    """Make a tokenizer split texts with the pattern of Mistral's Tekken."""
    before = core.pre_tokenizer
    if before is None:
        return
    (pattern,) = pre_tokenizer_named("tekken", "").patterns
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    if isinstance(before, pre_tokenizers.Sequence):
        before[0] = split
        return
    is_metaspace = isinstance(before, pre_tokenizers.Metaspace)
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = pre_tokenizers.Sequence([split, rest if is_metaspace else before])


def _is_byte_level(core: Tokenizer) -> bool:
    def has_piece(piece: str) -> bool:
        return core.token_to_id(piece) is not None

    is_merged = isinstance(core.model, models.BPE)
    return is_merged and all(map(has_piece, _COMMON_BYTES)) and not has_piece(SPACE)


def _repair_byte_level(core: Tokenizer, origin: str) -> None:
    """Give a byte-level tokenizer its decoder where SentencePiece's was saved."""
    if not _is_byte_decoder(core.normalizer) and not _is_byte_decoder(core.pre_tokenizer):
        raise BadTokenizer(
            "{origin}: its vocabulary is of bytes, but its pre-tokenizer is of another kind and"
            " would lose all spaces: a tool that does not know it saved it again. Get"
            " tokenizer.json from where the model was first published.",
            origin=origin,
        )
    if not _is_byte_decoder(core.decoder):
        core.decoder = decoders.ByteLevel()


def _is_byte_decoder(part: Any) -> bool:
    return any(step["type"] == "ByteLevel" for step in pipeline_steps(part))
