"""What the tokens of a GGUF are for, where its metadata say it badly or not at all."""

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from mlx_engine.text.chat_template import ChatTemplate, fallback_template, tokenize_chat
from mlx_engine.text.gguf_tokenizer import tokenizer_from_gguf
from mlx_engine.text.pre_tokenizers import pre_tokenizer_named
from mlx_engine.values.conversation import Message
from mlx_engine.values.errors import BadTokenizer, UnsupportedModel

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
WORDS = ["a", "b", "ab", "<", "|", ">", "<|>", "[0]", "[", "0", "]", "[0"]
MARKERS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<start_of_turn>", "<|eot|>"]
TEMPLATE = "<|im_start|>{{ messages[0] }}<|im_end|><start_of_turn><think></think>{{ a[0] }} ab <|>"
MERGES = ["a b", "< |", "<| >", "[ 0", "[0 ]"]


def metadata(**changes: object) -> dict[str, object]:
    """A byte-level vocabulary; each marker has an id of its own after the words."""
    given: dict[str, object] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": [*WORDS, "<|", *MARKERS],
        "token_type": np.array([NORMAL] * (len(WORDS) + 1 + len(MARKERS)), np.int32),
        "merges": MERGES,
        "eos_token_id": len(WORDS) + 6,
    }
    named = {f"tokenizer.ggml.{key}": value for key, value in (given | changes).items()}
    return {k: v for k, v in named.items() if v is not None} | {"tokenizer.chat_template": TEMPLATE}


FIRST = len(WORDS) + 1
IDS = {text: FIRST + place for place, text in enumerate(MARKERS)}


@pytest.mark.parametrize("typed", [NORMAL, USER_DEFINED, None, CONTROL])
def test_markers_are_tokens_however_they_are_typed(typed: int | None) -> None:
    kinds = np.array([NORMAL] * FIRST + [typed or NORMAL] * len(MARKERS), np.int32)
    made = tokenizer_from_gguf(metadata(token_type=None if typed is None else kinds), "x")
    assert made.encode("".join(MARKERS)) == list(IDS.values())
    assert made.end_ids == {IDS["<|im_end|>"], IDS["<|eot|>"]}
    special = {IDS[text] for text in ("<|im_start|>", "<|im_end|>", "<|eot|>")}
    assert special <= made.special_ids
    if typed != CONTROL:
        assert IDS["<think>"] not in made.special_ids, "it is shown"


def test_what_pieces_make_stays_a_word() -> None:
    """Though it looks like a marker, and the template has it."""
    made = tokenizer_from_gguf(metadata(), "x")
    assert made.special_ids.isdisjoint(range(FIRST))
    assert made.encode("ab<|>") == [2, 6] and not made.control_ids(TEMPLATE) & set(range(FIRST))


def pieces(**changes: object) -> dict[str, object]:
    """SentencePiece's kind without types of tokens."""
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "a", "<", "s", ">", "\u2581a", "<s", "<|user|>"]
    scores = -np.arange(len(tokens), dtype=np.float32)
    given = {"model": "llama", "tokens": tokens, "scores": scores, "token_type": None}
    left_out = {"merges": None, "eos_token_id": None, "pre": None}
    return metadata(**given | left_out | changes)


@pytest.mark.parametrize("far", [None, 2**32 - 1, 11, -1])
def test_ids_that_no_token_has_count_for_nothing(far: int | None) -> None:
    """far: where SentencePiece's vocabulary has its usual ones instead."""
    names = ("bos", "eos", "unknown", "padding", "eot")
    made = tokenizer_from_gguf(pieces(**{f"{name}_token_id": far for name in names}), "x")
    assert (made.bos_id, made.opening_ids, made.end_ids) == (1, (1,), {2})
    assert made.encode("<s>a</s><|user|>") == [1, 8, 2, 10]
    far_away = metadata(**{f"{name}_token_id": 99 for name in names})
    assert tokenizer_from_gguf(far_away, "x").bos_id is None


def test_struck_through_ends_no_answer() -> None:
    tokens = ["<pad>", "<eos>", "<bos>", "a", "<s>", "</s>", "<end_of_turn>"]
    kinds = np.array([3, 3, 3, 1, 4, 4, 1], np.int32)
    given = pieces() | metadata(model="llama", tokens=tokens, token_type=kinds, eos_token_id=1)
    del given["tokenizer.ggml.scores"], given["tokenizer.ggml.merges"]
    made = tokenizer_from_gguf(given, "x")
    assert made.end_ids == {1, 6} and not made.special_ids & {4, 5}


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_a_chat_begins_with_bos_once(adds: bool, writes: bool) -> None:
    made = tokenizer_from_gguf(pieces(add_bos_token=adds), "x")
    source = "{{ bos_token }}" * writes + "{% for m in messages %}{{ m.content }}{% endfor %}"
    template = ChatTemplate(source, {"bos_token": "<s>"}, "x")
    tokens = tokenize_chat(template, made, [Message("user", "a")]).tokens
    assert tokens.count(1) == (adds or writes) and tokens[-1] == 8
    plain = tokenize_chat(fallback_template(made.opening_text), made, [Message("user", "a")])
    assert plain.tokens.count(1) == adds


@pytest.mark.parametrize("text", ["<|plamo:bos|>", "<$A>", "<b o s>", "bos"])
def test_bos_may_have_any_text(text: str) -> None:
    given = pieces()
    given["tokenizer.ggml.tokens"][1] = text
    made = tokenizer_from_gguf(given | {"tokenizer.ggml.bos_token_id": 1}, "x")
    assert made.opening_ids == (1,) and made.encode("a", add_special=True)[0] == 1


@pytest.mark.parametrize(
    ("named", "strips"),
    [
        ({"general.architecture": "phi3"}, True),
        ({"general.architecture": "phimoe", "general.name": "Phi-3.5 MoE"}, True),
        ({"general.architecture": "llama", "general.name": "Llama"}, False),
    ],
)
def test_white_space_after_the_roles_of_phi_3(named: dict[str, object], strips: bool) -> None:
    given = pieces()
    tokens, scores = given["tokenizer.ggml.tokens"], given["tokenizer.ggml.scores"]
    merges = [("\u2581", "a"), ("<", "s")]
    ids = {text: i for i, text in enumerate(tokens)}
    truth = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True))
    truth.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    truth.decoder = decoders.Fuse()
    added = {"<|user|>": strips, "</s>": strips, "<s>": False, "<unk>": False}
    truth.add_special_tokens([AddedToken(t, rstrip=r, normalized=False) for t, r in added.items()])
    made = tokenizer_from_gguf(given | named | {"tokenizer.ggml.scores": scores}, "x")
    for text in ("<|user|>\n a<|user|>a", "<s> a</s>  a", "<unk> a"):
        assert made.encode(text) == truth.encode(text, add_special_tokens=False).ids


def test_suppressed_tokens() -> None:
    made = tokenizer_from_gguf(metadata(suppress_tokens=np.array([3, -1, 99])), "x")
    assert made.suppressed_ids == {3}


@pytest.mark.parametrize("kind", [np.array([1, 2]), ["gpt2"], 3, None])
def test_an_odd_kind_is_told(kind: object) -> None:
    with pytest.raises(UnsupportedModel, match=r"x: its tokenizer\.ggml\.model is"):
        tokenizer_from_gguf(metadata() | {"tokenizer.ggml.model": kind}, "x")


def test_pieces_without_end_are_refused_at_once() -> None:
    given = pieces()
    given["tokenizer.ggml.tokens"] = ["<unk>", "<s>", "</s>", "a" * 2_000_000]
    given["tokenizer.ggml.scores"] = np.zeros(4, np.float32)
    with pytest.raises(BadTokenizer, match="longer than any words"):
        tokenizer_from_gguf(given, "x")


THREES = "x|\u0120|1|234|567"
CUTS = {
    "falcon-h1 midm-2.0": ("a's 1234", "a|'s|\u0120|123|4"),
    "gigachat a.x-4.0 mellum trillion granite-docling jais": ("a's 1234!", "a|'s|\u01201234|!"),
    "mellum2 minerva-7b": ("ab 12", "ab|\u0120|1|2"),
    "hunyuan solar-open grok-2 kormo": ("It'S 12\n\n", "It|'S|\u0120|1|2|\u010a\u010a"),
    "ufakzeka": ("It's 12", "It|'s|\u0120|1|2"),
    "laguna": ("a!\nb", "a|!|\u010a|b"),
    "minicpm5": ("x 1234567", "x|\u0120|123|456|7"),
    "jais-2": ("x" + " " * 11 + "y", "x|" + "\u0120" * 8 + "|\u0120\u0120|\u0120y"),
    "hy_v4": ("x 1234.com", "x|\u0120|123|4|.com"),
    "spark2_5": ("!\n\n1234", "!|\u010a|\u010a|1|2|3|4"),
    "youtu": ("fooBar 12", "foo|Bar|\u0120|1|2"),
    "exaone-moe": ("a b c!\n\n1", "a\u0120b\u0120c|!\u010a|\u010a|1"),
    "tiny_aya cohere2moe": ("x 1234567", THREES),
    "afmoe": ("x 1234567", THREES),
    "superbpe": ("a b1234567", "a\u0120b|1|234|567"),
    "llada-moe": ("a's\n\n\n1", "a|'s|\u010a\u010a\u010a|1"),
    "kimi-k25 talkie": ("fooBar 1234", "foo|Bar|\u0120|123|4"),
    "bloom poro-chat gpt3-finnish": ("a b, c", "a|\u0120b|,|\u0120c"),
    "viking": ("a12, c", "a|1|2|,|\u0120c"),
    "chameleon": ("a12.", "a|1|2|."),
}


@pytest.mark.parametrize("names", CUTS)
def test_pre_tokenizers_cut_as_their_patterns_say(names: str) -> None:
    text, wanted = CUTS[names]
    for name in names.split():
        cut = pre_tokenizer_named(name, "x").pre_tokenizer().pre_tokenize_str(text)
        assert "|".join(piece for piece, _ in cut) == wanted, name


def test_an_empty_name_is_the_usual_one() -> None:
    assert pre_tokenizer_named("", "x") == pre_tokenizer_named(None, "x")


def test_pieces_by_merges_under_the_name_of_bytes() -> None:
    tokens = ["<unk>", "\u2581", "a", "\u2581a", "<s>"]
    given = metadata(tokens=tokens, token_type=None, merges=["\u2581 a"], pre="sarvam-moe")
    made = tokenizer_from_gguf(given | {"tokenizer.ggml.bos_token_id": 4}, "x")
    assert (made.encode("a a"), made.opening_ids) == ([2, 3], ())
