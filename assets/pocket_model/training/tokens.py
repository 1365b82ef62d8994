"""Chats as token rows: the tokenizer, the chat format and which tokens are answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from corpus import Material, Turn, draw_chat, system_prompt
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 3072
END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END_OF_TEXT, IM_START, IM_END)
THINK = ("<think>", "</think>")
# The published pattern of Qwen2 and later: words, single digits, punctuation, line ends, spaces.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(
    texts: Iterable[str], size: int = VOCABULARY, special: Sequence[str] = SPECIAL
) -> Tokenizer:
    """A byte-level BPE of at most `size` tokens; the special tokens come last."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
    raw = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, raw])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(special) - len(THINK),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in special])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in THINK])
    return tokenizer


@dataclass(frozen=True, slots=True)
class Rows:
    """tokens [B, T] int64 and own [B, T] bool: whether a token is part of an answer."""

    tokens: np.ndarray
    own: np.ndarray


def opening(system: str | None) -> str:
    """The text of a system prompt, or nothing."""
    return f"{IM_START}system\n{system}{IM_END}\n" if system else ""


def asked(question: str) -> str:
    """The text of one question up to where the answer begins."""
    return f"{IM_START}user\n{question}{IM_END}\n{IM_START}assistant\n"


def pieces(turns: list[Turn], system: str | None) -> list[tuple[str, bool]]:
    """A chat as (text, whether it is the model's own)."""
    out = [(opening(system), False)]
    for turn in turns:
        out += [(asked(turn.question), False), (turn.answer + IM_END, True), ("\n", False)]
    return [piece for piece in out if piece[0]]


def draw_rows(
    tokenizer: Tokenizer, material: Material, draw: random.Random, count: int, length: int
) -> Rows:
    """`count` rows of `length` tokens; each begins with a fresh chat and is cut at the end."""
    tokens = np.zeros((count, length), np.int64)
    own = np.zeros((count, length), bool)
    for row in range(count):
        at, fresh = 0, True
        while at < length:
            parts = pieces(draw_chat(material, draw), system_prompt(draw) if fresh else None)
            # Half of the chats go on with another subject, half end here.
            fresh = draw.random() < 0.5
            if fresh:
                parts.append((END_OF_TEXT, False))
            for encoded, (_, mine) in zip(
                tokenizer.encode_batch([text for text, _ in parts]), parts, strict=True
            ):
                ids = encoded.ids[: length - at]
                tokens[row, at : at + len(ids)] = ids
                own[row, at : at + len(ids)] = mine
                at += len(ids)
    return Rows(tokens, own)
