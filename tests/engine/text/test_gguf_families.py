"""Tokenizers of every family from GGUF metadata, against those the metadata were made of."""

import pytest
import tokenizers
from awkward_texts import awkward_texts
from tokenizers import decoders, models, normalizers
from trained_tokenizers import (
    STEPS,
    byte_level_metadata,
    piece_metadata,
    trained_byte_level,
    trained_pieces,
    with_added,
)
from transformers import GemmaTokenizer
from transformers.tokenization_utils_base import generate_merges

from mlx_engine.text.gguf_tokenizer import tokenizer_from_gguf
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import Tokenizer

AWKWARD = awkward_texts(3000)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"


def assert_same(made: Tokenizer, original: tokenizers.Tokenizer) -> None:
    wanted = [one.ids for one in original.encode_batch(AWKWARD, add_special_tokens=False)]
    differing = [
        text for text, ids in zip(AWKWARD, wanted, strict=True) if made.encode(text) != ids
    ]
    assert differing == []
    for ids in wanted[:500]:
        assert made.decode(ids, keep_special=True) == original.decode(ids, False)
        assert made.decode(ids) == original.decode(ids)


def streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    text = StreamingText(tokenizer, split_thinking=False)
    pieces = text.add(ids).pieces
    return "".join(piece.text for piece in [*pieces, *text.finish()])


@pytest.mark.parametrize("pre", STEPS)
def test_byte_level_ids_are_those_of_the_original(pre: str) -> None:
    original = trained_byte_level(pre)
    size = original.get_vocab_size() + 5
    made = tokenizer_from_gguf(byte_level_metadata(original, pre, size), "x.gguf")
    assert_same(made, original)
    for text in AWKWARD[:60]:
        ids = [i for i in made.encode(text) if i not in made.special_ids]
        assert streamed(made, ids) == made.decode(ids)


def test_other_names_of_the_same_pre_tokenizer() -> None:
    for name, same in (("llama-v3", "llama-bpe"), ("gpt-4o", "llama4"), ("glm5", "glm4")):
        original = trained_byte_level(same if same in STEPS else name)
        made = [
            tokenizer_from_gguf(byte_level_metadata(original, one, 0), "x") for one in (name, same)
        ]
        assert [made[0].encode(t) for t in AWKWARD[:300]] == [
            made[1].encode(t) for t in AWKWARD[:300]
        ]


def test_files_without_a_name_are_cut_as_llama_cpp_does() -> None:
    metadata = byte_level_metadata(trained_byte_level("gpt-2"), "default")
    named = tokenizer_from_gguf(metadata, "x")
    del metadata["tokenizer.ggml.pre"]
    unnamed = tokenizer_from_gguf(metadata, "x")
    assert unnamed.encode("12345 a.b") == named.encode("12345 a.b")
    assert [named.token_text(i) for i in named.encode("123456")][:1] == ["123"]


@pytest.mark.parametrize("pre", ["llama-bpe", "tekken", "qwen2", "glm4", "gpt-4o"])
def test_which_files_open_with_bos_without_saying_so(pre: str) -> None:
    core = trained_byte_level(pre)
    metadata = byte_level_metadata(core, pre)
    metadata["tokenizer.ggml.bos_token_id"] = core.token_to_id("<s>")
    usual = pre in ("llama-bpe", "tekken")
    assert bool(tokenizer_from_gguf(metadata, "x").opening_ids) is usual
    said = metadata | {"tokenizer.ggml.add_bos_token": not usual}
    assert bool(tokenizer_from_gguf(said, "x").opening_ids) is not usual


def scored(size: int = 900) -> list[str]:
    return ["<unk>", "<s>", "</s>", *BYTES, *trained_pieces(size)]


def llama_original(vocabulary: list[str]) -> tokenizers.Tokenizer:
    """As the tokenizer.json of Llama 2 is put together."""
    ids = {text: i for i, text in enumerate(vocabulary)}
    core = tokenizers.Tokenizer(
        models.BPE(ids, generate_merges(ids), unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    core.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )
    core.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    core.add_special_tokens(["<unk>"])
    return with_added(core)


def llama_metadata() -> dict[str, object]:
    original = llama_original(scored())
    scores = [-float(i) for i in range(original.get_vocab_size())]
    return piece_metadata(original, scores, space_first=True)


@pytest.mark.parametrize("tied", [False, True])
def test_pieces_of_llama(tied: bool) -> None:
    """tied: the file of a converter that knows no scores."""
    original = llama_original(scored())
    scores = [0.0 if tied else -float(i) for i in range(original.get_vocab_size())]
    metadata = piece_metadata(original, scores, space_first=True)
    metadata["tokenizer.ggml.bos_token_id"] = 1
    made = tokenizer_from_gguf(metadata, "x.gguf")
    assert_same(made, original)
    assert made.opening_ids
    assert original.token_to_id("<unk>") in made.special_ids
    for text in AWKWARD[:300]:
        ids = [i for i in made.encode(text) if i not in made.special_ids]
        assert streamed(made, ids) == made.decode(ids)


def test_half_a_character_in_byte_tokens() -> None:
    made = tokenizer_from_gguf(llama_metadata(), "x")
    ids, data = made.encode("\u2603")[-3:], "\u2603".encode()
    assert [made.token_text(i) for i in ids] == [f"<0x{byte:02X}>" for byte in data]
    text = StreamingText(made)
    shown = [[piece.text for piece in text.add([i]).pieces] for i in ids]
    assert shown == [[], [], ["\u2603"]]
    text = StreamingText(made)
    assert text.add(ids[:1]).pieces == []
    assert [piece.text for piece in text.finish()] == ["\ufffd"]


def test_pieces_of_gemma() -> None:
    """Blank runs and line ends are tokens of their own, as its tokenizer.json has them."""
    blanks = [SPACE * n for n in range(31, 1, -1)]
    lines = ["\n" * n for n in range(2, 12)]
    first = ["<pad>", "<eos>", "<bos>", "<unk>", *blanks, *lines, *BYTES]
    vocabulary = [*first, *(text for text in trained_pieces() if text not in first)]
    ids = {text: i for i, text in enumerate(vocabulary)}
    scores = {text: 0.0 if i < 44 else -float(i) for text, i in ids.items()}
    original = GemmaTokenizer(vocab=ids, merges=generate_merges(ids, scores, first[:4]))._tokenizer
    plain = [tokenizers.AddedToken(text, normalized=False) for text in [*blanks, *lines]]
    original.add_tokens(plain)
    with_added(original)
    metadata = piece_metadata(
        original, [-float(i) for i in range(original.get_vocab_size())], space_first=False
    )
    made = tokenizer_from_gguf(metadata | {"tokenizer.ggml.bos_token_id": 2}, "x.gguf")
    assert_same(made, original)
    assert made.decode(made.encode("  a   b ")) == "  a   b "
    for text in AWKWARD[:300]:
        kept = [i for i in made.encode(text) if i not in made.special_ids]
        assert streamed(made, kept) == made.decode(kept)


def test_ends_of_harmony() -> None:
    original = trained_byte_level("gpt-4o")
    original.add_special_tokens(["<|return|>", "<|call|>", "<|end|>"])
    metadata = byte_level_metadata(original, "gpt-4o")
    made = tokenizer_from_gguf(metadata, "x")
    texts = {made.token_text(i) for i in made.end_ids}
    assert texts >= {"<|return|>", "<|call|>"}
    assert "<|end|>" not in texts
