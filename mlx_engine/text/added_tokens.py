"""Tokens that the files beside tokenizer.json list, with the flags that transformers gives them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tokenizers import AddedToken, Tokenizer

from mlx_engine.text.tokenizer_library import ADDED_CHARACTERS, check_texts
from mlx_engine.values.errors import BadTokenizer

_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_USUAL = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_MOST_DIGITS = 20
Json = Mapping[str, object]


class TokenLists(NamedTuple):
    """The JSON objects of a folder that list tokens, empty where there is no such file."""

    config: Json
    special_tokens_map: Json
    added_tokens: Json


def add_listed_tokens(core: Tokenizer, lists: TokenLists, origin: str) -> None:
    """Add the tokens that `core` lacks, and give those it has the flags of the config.

    Ids in the lists tell the order and nothing else: where tokenizer.json contradicts them, it is
    right. What the lists call bos, eos, pad and so on becomes special. BadTokenizer, naming
    `origin`, when a token is not described.
    """
    names, extra = _names(lists), _extra(lists)
    named = [text for text in names.values() if text]
    described = _described(lists, {*named, *extra}, origin)
    check_texts([*(token.content for token in described), *named, *extra], ADDED_CHARACTERS, origin)
    for token in described:
        token.special = token.special or token.content in named
    known = {repr(token) for token in core.get_added_tokens_decoder().values()}
    core.add_tokens([token for token in described if repr(token) not in known])
    must_be_special = {names[name] for name in _USUAL}
    added = core.get_added_tokens_decoder().values()
    right = {t.content for t in added if t.special or t.content not in must_be_special}
    missing = [text for text in dict.fromkeys([*named, *extra]) if text not in right]
    core.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in missing])


def text_of(value: object) -> str:
    """A token written as a string or as an object with "content"; "" for anything else."""
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def described_tokens(config: Json, origin: str) -> dict[int, AddedToken]:
    """What `added_tokens_decoder` lists, by id. BadTokenizer when a token is not described."""
    listed = config.get("added_tokens_decoder")
    found: dict[int, AddedToken] = {}
    for key, entry in listed.items() if isinstance(listed, Mapping) else ():
        if not (key.isdecimal() and len(key) < _MOST_DIGITS and isinstance(entry, Mapping)):
            raise _not_described(key, origin)
        flags = {name: entry[name] for name in _FLAGS if entry.get(name) is not None}
        text = text_of(entry)
        if not text or not all(isinstance(flag, bool) for flag in flags.values()):
            raise _not_described(key, origin)
        found[int(key)] = AddedToken(text, **flags)
    return found


def _described(lists: TokenLists, special: set[str], origin: str) -> list[AddedToken]:
    """In the order of ids; of old folders, which describe none, the texts of added_tokens.json."""
    if "added_tokens_decoder" in lists.config:
        found = described_tokens(lists.config, origin)
        return [found[token] for token in sorted(found)]
    ids = {text: token for text, token in lists.added_tokens.items() if isinstance(token, int)}
    texts = [text for text in sorted(ids, key=ids.__getitem__) if text]
    return [AddedToken(text, special=text in special, normalized=False) for text in texts]


def _sources(lists: TokenLists) -> Iterator[Json]:
    """Of old folders special_tokens_map.json, too."""
    yield lists.config
    if "added_tokens_decoder" not in lists.config:
        yield lists.special_tokens_map


def _names(lists: TokenLists) -> dict[str, str]:
    """Name -> text, "" for none, in the order in which transformers adds them."""
    table: dict[str, str] = dict.fromkeys(_USUAL, "")
    for source in _sources(lists):
        table |= {name: text_of(source[name]) for name in source if name.endswith("_token")}
        extra = source.get("extra_special_tokens")
        if isinstance(extra, Mapping):
            table |= {name: text_of(value) for name, value in extra.items()}
    return table


def _extra(lists: TokenLists) -> list[str]:
    """Texts of the special tokens without a name."""
    keys = ("extra_special_tokens", "additional_special_tokens")
    values = [source.get(key) for source in _sources(lists) for key in keys]
    texts = [text_of(one) for value in values if isinstance(value, list) for one in value]
    return [text for text in texts if text]


def _not_described(key: str, origin: str) -> BadTokenizer:
    return BadTokenizer(
        "{config}: added token {key} is not described: correct it.",
        config=origin,
        key=ascii(key)[:60],
    )
