"""A `tokenizers` tokenizer as llama.cpp's converter writes it into the metadata of a GGUF."""

import json

import numpy as np
import tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def looks_special(text: str) -> bool:
    pairs = (("<|", "|>"), ("<\uff5c", "\uff5c>"), ("<unused", ">"))
    return text == "<pad>" or any(text.startswith(a) and text.endswith(b) for a, b in pairs)


def byte_level_metadata(core: tokenizers.Tokenizer, pre: str, size: int = 0) -> dict[str, object]:
    """As its `_set_vocab_gpt2`; size: of the model's vocabulary, the rest is padding."""
    names = {i: text for text, i in core.get_vocab(with_added_tokens=True).items()}
    added = core.get_added_tokens_decoder()
    tokens, kinds = [], []
    for i in range(max(size, max(names) + 1)):
        text = names.get(i, f"[PAD{i}]")
        if i in added:
            special = added[i].special or looks_special(text)
            text = text if special else text.replace("\u2581", " ")
            kinds.append(CONTROL if special else USER_DEFINED)
        else:
            kinds.append(NORMAL if i in names else UNUSED)
        tokens.append(text)
    merges = json.loads(core.to_str())["model"]["merges"]
    return _keyed(
        model="gpt2",
        pre=pre,
        tokens=tokens,
        token_type=np.array(kinds, np.int32),
        merges=[pair if isinstance(pair, str) else " ".join(pair) for pair in merges],
    )


def piece_metadata(
    core: tokenizers.Tokenizer, scores: list[float], *, space_first: bool
) -> dict[str, object]:
    """As its `_set_vocab_sentencepiece`: what is in no table of scores gets -1000."""
    names = {i: text for text, i in core.get_vocab(with_added_tokens=True).items()}
    added = core.get_added_tokens_decoder()
    tokens, kinds = [], []
    for i in range(max(names) + 1):
        text = names[i]
        if text == "<unk>":
            kinds.append(UNKNOWN)
        elif i in added:
            special = added[i].special or looks_special(text)
            text = text if special else text.replace("\u2581", " ")
            kinds.append(CONTROL if special else USER_DEFINED)
        else:
            kinds.append(BYTE if text.startswith("<0x") else NORMAL)
        tokens.append(text)
    filled = [
        score if kind == NORMAL else -1000.0 for score, kind in zip(scores, kinds, strict=True)
    ]
    return _keyed(
        model="llama",
        pre="default",
        tokens=tokens,
        scores=np.array(filled, np.float32),
        token_type=np.array(kinds, np.int32),
        add_space_prefix=space_first,
    )


def _keyed(**values: object) -> dict[str, object]:
    return {f"tokenizer.ggml.{key}": value for key, value in values.items()}
