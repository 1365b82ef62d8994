"""Streamed text against decoding everything at once, for any text, grouping and stop strings."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_tokenizer import make_tiny_tokenizer
from tokenizers import decoders, models, pre_tokenizers

from mlx_engine.text.channels import (
    THINKING,
    MessageHeader,
    StringMatcher,
    ThinkingMarkers,
    opens_thinking,
)
from mlx_engine.text.streaming_text import StreamingText
from mlx_engine.text.tokenizer import Tokenizer
from mlx_engine.text.tokenizer_folder import read_tokenizer
from mlx_engine.values.conversation import TextPiece


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read_tokenizer(make_tiny_tokenizer(tmp_path_factory.mktemp("tiny")))


TEXT = st.text(alphabet=st.sampled_from("abcd e\n<>/thinkü😀你é"), max_size=40) | st.text(
    max_size=20
)
STOPS = st.lists(st.text("abcd e\n😀", min_size=1, max_size=5), max_size=4).map(tuple)


def run(stream: StreamingText, ids: list[int]) -> list[TextPiece]:
    return stream.add(ids).pieces + stream.finish()


def shown(pieces: list[TextPiece], channel: str) -> str:
    return "".join(piece.text for piece in pieces if piece.channel == channel)


def cut_at_first_stop(text: str, stops: tuple[str, ...]) -> str:
    """The stop string that is complete first; of those that end together, the longest."""
    for end in range(len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@settings(max_examples=120)
@given(text=TEXT, stops=STOPS)
def test_pieces_are_the_decoded_text_up_to_the_first_stop(
    tokenizer: Tokenizer, text: str, stops: tuple[str, ...]
) -> None:
    ids = tokenizer.encode(text)
    whole = tokenizer.decode(ids)
    stream = StreamingText(tokenizer, stops, split_thinking=False)
    pieces = run(stream, ids)
    expected = cut_at_first_stop(whole, stops)
    assert shown(pieces, "answer") == expected == stream.text
    assert stream.ended_by_stop == (expected != whole)
    assert whole[len(expected) :].startswith(stream.stop_string)
    assert all("\ufffd" not in piece.text for piece in pieces) or "\ufffd" in whole
    assert all(piece.text for piece in pieces)


@settings(max_examples=100)
@given(ids=st.lists(st.integers(0, 299), max_size=40))
def test_any_ids_are_decoded_as_at_once(tokenizer: Tokenizer, ids: list[int]) -> None:
    pieces = run(StreamingText(tokenizer, split_thinking=False), ids)
    assert shown(pieces, "answer") == tokenizer.decode(ids)


@settings(max_examples=100)
@given(text=TEXT, stops=STOPS, opened=st.booleans())
def test_grouping_into_tokens_does_not_matter(
    tokenizer: Tokenizer, text: str, stops: tuple[str, ...], opened: bool
) -> None:
    text = f"<think>{text}</think>{text}" if not opened else f"{text}</think>{text}"
    large = StreamingText(tokenizer, stops, opened)
    small = StreamingText(tokenizer, stops, opened)
    # single bytes are the smallest tokens there are
    letters = [
        i for char in tokenizer.decode(tokenizer.encode(text)) for i in one_by_one(tokenizer, char)
    ]
    run(large, tokenizer.encode(text))
    run(small, letters)
    assert (large.text, large.thinking, large.ended_by_stop) == (
        small.text,
        small.thinking,
        small.ended_by_stop,
    )


def one_by_one(tokenizer: Tokenizer, character: str) -> list[int]:
    of_byte = {tokenizer.token_bytes.bytes_of([i], None)[0]: i for i in range(290)}
    return [of_byte[bytes([byte])] for byte in character.encode()]


def test_emoji_of_four_tokens_comes_whole(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer)
    emoji, end = one_by_one(tokenizer, "😀"), one_by_one(tokenizer, "!")
    assert stream.add(emoji[:2], 2, "mtp").pieces == []
    pieces = stream.add([*emoji[2:], *end, *end], 3, "mtp").pieces
    assert pieces == [
        TextPiece("😀", "answer", 2, "mtp"),
        TextPiece("!", "answer", 3, "mtp"),
        TextPiece("!"),
    ]


def test_incomplete_character_becomes_a_replacement_at_the_end(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer)
    for token in one_by_one(tokenizer, "😀")[:3]:
        assert stream.add([token]).pieces == []
    assert stream.finish() == [TextPiece("\ufffd")]


@pytest.mark.parametrize("marker", ["token", "spelled"])
def test_thinking_is_split_from_the_answer(tokenizer: Tokenizer, marker: str) -> None:
    text = "<think>\nthe fox\n</think>\n\nHello"
    ids = (
        tokenizer.encode(text)
        if marker == "token"
        else [i for char in text for i in one_by_one(tokenizer, char)]
    )
    stream = StreamingText(tokenizer)
    pieces = run(stream, ids)
    assert shown(pieces, "thinking") == "the fox\n" == stream.thinking
    assert shown(pieces, "answer") == "Hello" == stream.text


@pytest.mark.parametrize(
    ("words", "special"),
    [
        (["<|think:start|>", "", "fox", "<|think:end|>", "dog", "</think>"], (0, 3)),
        (["<|channel>", "thought", "\nfox", "<channel|>", "dog", "</think>"], (0, 3)),
        (["<|channel>", "thought", "\nfox", "<channel|>", "dog", "</think>"], ()),
    ],
)
def test_thinking_is_marked_as_the_vocabulary_has_it(
    words: list[str], special: tuple[int, ...]
) -> None:
    core = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    core.add_special_tokens([words[i] for i in special])
    core.decoder = decoders.Fuse()
    stream = StreamingText(Tokenizer(core))
    pieces = run(stream, [0, 1, 2, 3, 4, 5])
    assert shown(pieces, "thinking") == "fox" == stream.thinking
    assert shown(pieces, "answer") == "dog</think>" == stream.text


def marked_tokenizer(folder: Path, *markers: str, special: bool) -> Tokenizer:
    """The tiny tokenizer with `markers` instead of `<think>` and `</think>`."""
    path = make_tiny_tokenizer(folder) / "tokenizer.json"
    described = json.loads(path.read_text())
    for token, marker in zip(described["added_tokens"][-2:], markers, strict=True):
        token |= {"content": marker, "special": special}
    path.write_text(json.dumps(described))
    return read_tokenizer(folder)


def split(tokenizer: Tokenizer, text: str, **how: Any) -> tuple[str, str]:
    stream = StreamingText(tokenizer, **how)
    run(stream, tokenizer.encode(text))
    return stream.thinking, stream.text


@pytest.mark.parametrize("row", THINKING, ids=lambda row: row.opening)
def test_thinking_of_every_family(
    tmp_path: Path, tokenizer: Tokenizer, row: ThinkingMarkers
) -> None:
    """As special tokens, as ordinary ones, and spelled; by the model and by the template."""
    texts = [row.opening, row.closing]
    made = [marked_tokenizer(tmp_path / str(i), *texts, special=i == 1) for i in (0, 1)]
    begins, ends = (row.answer[0], row.answer[1]) if len(row.answer) > 1 else ("", "")
    for known, template in ((made[0], ""), (made[1], ""), (tokenizer, "".join(texts))):
        for opened in (None, True):
            written = f"{'' if opened else row.opening}\nplan it{row.closing}\n{begins}The answer"
            found = split(known, written + ends, thinking_open=opened, template=template)
            assert found == ("plan it", "The answer")
    assert opens_thinking(f"<|im_start|>assistant\n{row.opening}\n") is True
    assert opens_thinking(f"{row.opening}\n\n{row.closing}\n\n") is False


def test_words_that_any_model_may_write_are_no_markers(tokenizer: Tokenizer) -> None:
    for row in THINKING:
        if row.is_plain_text:
            text = f"{row.opening} a fox. {row.closing}"
            assert split(tokenizer, text) == ("", text)


@pytest.mark.parametrize(
    ("written", "thinking", "answer"),
    [
        ("a</think>b", "a", "b"),
        ("</think>\n\nb", "", "b"),
        ("<think><think>a</think>b", "a", "b"),
        ("<think>\n<think>\na</think>\n</think>\nb", "a", "b"),
        ("<think>a</think>b<think>c</think>d", "a\n\nc", "b\n\nd"),
        ("<think>a\n</think>b.\n\n<think>c</think>\n\nd", "a\n\nc", "b.\n\nd"),
        ("<think>a</think>b. <think>c", "a\n\nc", "b. "),
        ("<think>a</think>b</think>c", "a", "b</think>c"),
        ("<think>a</think><answer>b</answer>", "a", "b"),
        ("<answer>b</answer>", "", "<answer>b</answer>"),
        (" \n<think>a</think>b", "a", "b"),
        ("<think>a</think>", "a", ""),
        # markers that the text speaks of
        ("<think>a</think>write <think> and </think>.", "a", "write <think> and </think>."),
        ("Use `<think>` and `</think>`.", "", "Use `<think>` and `</think>`."),
        ("One:\n```\n<think>\n</think>\n```\n.", "", "One:\n```\n<think>\n</think>\n```\n."),
        ('It is "</think>".', "", 'It is "</think>".'),
        ("<think>no `</think>` here</think>b", "no `</think>` here", "b"),
        ("<think>call `a`</think>`b` it is", "call `a`", "`b` it is"),
        ("<think>a `</think>", "a `", ""),
    ],
)
def test_where_markers_count(
    tokenizer: Tokenizer, written: str, thinking: str, answer: str
) -> None:
    letters = [i for character in written for i in one_by_one(tokenizer, character)]
    for ids in (tokenizer.encode(written), letters):
        stream = StreamingText(tokenizer)
        run(stream, ids)
        assert (stream.thinking, stream.text) == (thinking, answer)


def test_a_template_opens_thoughts_in_another_way_than_the_vocabulary_has_it(
    tmp_path: Path,
) -> None:
    """Every Gemma has MedGemma's tokens, and a fine-tune may think in tags."""
    made = marked_tokenizer(tmp_path, "<unused94>", "<unused95>", special=True)
    for template, closing in (("<think>\n", "</think>"), ("<thought>", "</thought>")):
        found = split(made, f"a{closing}b", thinking_open=True, template=template)
        assert found == ("a", "b")
    assert split(made, "a</think>b") == ("a", "b")


def test_a_closing_marker_behind_a_closed_block_is_text(tokenizer: Tokenizer) -> None:
    assert split(tokenizer, "a</think>b", thinking_open=False) == ("", "a</think>b")
    assert split(tokenizer, " a</think>b", continued_from=1) == ("", " a</think>b")
    assert split(tokenizer, " a</think>b", continued_from=1, thinking_open=True) == (" a", "b")


HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|constrain|>"]
WORDS = ["assistant", "analysis", "final", "commentary", "Let", " me", " Hi", "!", "<think>", "é"]
WORDS += [" json", "json", " ", "\n", " to=functions.f"]


ANALYSIS = ["<|channel|>", "analysis", "<|message|>"]
FINAL = ["<|channel|>", "final", "<|message|>"]
NEXT = ["<|end|>", "<|start|>", "assistant"]


@pytest.mark.parametrize(
    ("said", "thinking", "answer"),
    [
        ([*ANALYSIS, "Let", " me", *NEXT, *FINAL, "Let", "!", "<|return|>"], "Let me", "Let!"),
        ([*FINAL, "Let", "<think>", "!", "<|return|>"], "", "Let<think>!"),
        (
            [*ANALYSIS, "Let", *NEXT, "<|channel|>", "commentary", "<|message|>", "!"],
            "Let\n\n!",
            "",
        ),
        ([*ANALYSIS, "Let", *NEXT, "<|message|>", " Hi"], "Let", "Hi"),
        (["Let", "!", "<|return|>"], "", "Let!"),
        ([*ANALYSIS[:2]], "", ""),
        ([*FINAL[:2], " json", "<|message|>", "Let"], "", "Let"),
        ([*FINAL[:2], " ", "<|constrain|>", "json", "<|message|>", "Let"], "", "Let"),
        ([*FINAL[:2], "<|constrain|>", "json", "<|message|>", "Let"], "", "Let"),
        ([*FINAL[:2], " ", "<|message|>", "Let", "!"], "", "Let!"),
        ([*FINAL[:2], " Hi", " me", "!"], "", "Hi me!"),
        ([*FINAL[:2], "\n", "Let", " me"], "", "Let me"),
        ([*FINAL[:2], " Hi", *NEXT, *FINAL, "!"], "", "Hi\n\n!"),
        ([*FINAL[:2], " Hi", "<|end|>", "é"], "", "Hié"),
        ([*ANALYSIS[:2], " Hi", " me", *NEXT, *FINAL, "!"], "Hi me", "!"),
        (
            [*ANALYSIS[:2], " to=functions.f", "<|constrain|>", "json", "<|message|>", "Let"],
            "Let",
            "",
        ),
        ([*FINAL, "Let", *NEXT, *FINAL, "!"], "", "Let\n\n!"),
    ],
)
def test_channels_of_gpt_oss(said: list[str], thinking: str, answer: str) -> None:
    words = [*HARMONY, *WORDS]
    core = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    core.add_special_tokens(HARMONY)
    core.decoder = decoders.Fuse()
    tokenizer = Tokenizer(core)
    stream = StreamingText(tokenizer)
    pieces = run(stream, [words.index(word) for word in said])
    assert (stream.thinking, stream.text) == (thinking, answer)
    assert (shown(pieces, "thinking"), shown(pieces, "answer")) == (thinking, answer)
    raw = StreamingText(tokenizer, split_thinking=False)
    run(raw, [words.index(word) for word in said])
    assert raw.text == "".join(word for word in said if word not in HARMONY)


@pytest.mark.parametrize("stop", HARMONY)
def test_a_special_token_that_is_a_stop_string_ends_the_text(stop: str) -> None:
    words = [*HARMONY, *WORDS]
    core = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    core.add_special_tokens(HARMONY)
    core.decoder = decoders.Fuse()
    said = [*ANALYSIS, "Let", *NEXT, *FINAL[:2], "<|constrain|>", "json", *FINAL[2:], " Hi"]
    shown_before = {"<|end|>": "Let", "<|start|>": "Let", "<|constrain|>": "Let"}
    stream = StreamingText(Tokenizer(core), stop=(stop,))
    run(stream, [words.index(word) for word in [*said, "<|return|>", "!"]])
    assert stream.stop_string == stop
    assert stream.thinking == shown_before.get(stop, "Let" if stop == "<|return|>" else "")
    assert stream.text == ("Hi" if stop == "<|return|>" else "")


def test_a_header_without_an_end_is_text_soon() -> None:
    assert MessageHeader.parse("final " + "x" * 500).contains_message_text
    assert MessageHeader.parse("x" * 500) == MessageHeader("", "x" * 500)


@pytest.mark.parametrize(
    "header",
    [
        ["<|channel|>", "commentary to=functions.f ", "<|constrain|>", "json"],
        [" to=functions.f", "<|channel|>", "commentary json"],
    ],
)
@pytest.mark.parametrize("shows", [True, False])
def test_a_call_of_gpt_oss_is_shown_with_its_marker_where_tools_are(header, shows) -> None:
    said = [*ANALYSIS, "Let", "<|end|>", "<|start|>", "assistant", *header, "<|message|>", "{}"]
    words = [*HARMONY, *dict.fromkeys(word for word in said if word not in HARMONY)]
    core = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    core.add_special_tokens(HARMONY)
    core.decoder = decoders.Fuse()
    stream = StreamingText(Tokenizer(core), shown_tokens=("<|call|>",) if shows else ())
    run(stream, [words.index(word) for word in said])
    if shows:
        assert (stream.thinking, stream.text) == ("Let", "<|start|>functions.f<|message|>{}")
    else:
        assert (stream.thinking, stream.text) == ("Let\n\n{}", "")


def test_texts_are_found_in_what_repeats_itself() -> None:
    long = "ab" * 500 + "c"
    matcher, state = StringMatcher((long, "bab" * 300, "bc", "c")), 0
    for character in "ab" * 2000:
        state = matcher.next_state(state, character)
        assert not matcher.matches(state)
    assert matcher.held_length(state) == 1000
    assert matcher.matches(matcher.next_state(state, "c")) == (long, "bc", "c")


def test_prompt_that_ends_in_an_open_block(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, thinking_open=True)
    run(stream, tokenizer.encode("fox</think> dog"))
    assert (stream.thinking, stream.text) == ("fox", "dog")


def test_markers_elsewhere_are_text(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer)
    run(stream, tokenizer.encode("write <think> and </think>."))
    assert (stream.thinking, stream.text) == ("", "write <think> and </think>.")


def test_special_tokens_are_not_shown(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer)
    run(stream, tokenizer.encode("dog<|endoftext|> fox<|im_end|>"))
    assert stream.text == "dog fox"


def test_stop_string_in_the_thinking_ends_the_text(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, stop=("STOP",), thinking_open=True)
    pieces = run(stream, tokenizer.encode("one STOP two</think> three"))
    assert pieces[-1].channel == "thinking"
    assert (stream.thinking, stream.text, stream.ended_by_stop) == ("one ", "", True)


def test_stop_string_wins_over_a_marker_that_ends_with_it(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, stop=("k>",), thinking_open=True)
    run(stream, tokenizer.encode("one</think>two"))
    assert (stream.thinking, stream.text) == ("one</thin", "")


def test_nothing_is_emitted_after_a_stop(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, stop=("b",))
    run(stream, tokenizer.encode("abc"))
    assert stream.add(tokenizer.encode("de")) == ([], 1, ("answer",))
    assert stream.finish() == []
    assert stream.text == "a"


def test_a_stop_string_ends_a_round_within_its_tokens(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, stop=("bc",))
    a, b, c, d = (one_by_one(tokenizer, character)[0] for character in "abcd")
    added = stream.add([a, b, c, d, d], 4, "mtp")
    assert added == ([TextPiece("a", "answer", 1, "mtp")], 3, ("answer",) * 3)


def test_held_back_text_comes_when_it_is_no_stop(tokenizer: Tokenizer) -> None:
    stream = StreamingText(tokenizer, stop=("abcabd",))
    a, b, c = (one_by_one(tokenizer, char)[0] for char in "abc")
    emitted = [
        "".join(p.text for p in stream.add([token]).pieces) for token in (a, b, c, a, b, c, c)
    ]
    assert emitted == ["", "", "", "", "", "abc", "abcc"]


@pytest.mark.parametrize(
    "words", [["▁the", "▁fox", "é", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "s"]]
)
def test_sentencepiece_like_decoders(words: list[str]) -> None:
    core = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer = Tokenizer(core)
    ids = [0, 1, 2, 3, 4, 5, 6, 7, 1]
    pieces = run(StreamingText(tokenizer), ids)
    assert shown(pieces, "answer") == tokenizer.decode(ids) == "the foxé😀s fox"


def test_decoders_without_bytes() -> None:
    words = ["un", "##do", "it", "all", "[UNK]"]
    core = tokenizers.Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    core.decoder = decoders.WordPiece(cleanup=False)
    tokenizer = Tokenizer(core)
    pieces = run(StreamingText(tokenizer), [0, 1, 2, 3])
    assert shown(pieces, "answer") == tokenizer.decode([0, 1, 2, 3]) == "undo it all"


def test_cost_per_token_does_not_grow(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Held text stays short, so a long answer is not looked at again."""
    stream = StreamingText(tokenizer, stop=("the end",))
    ids = tokenizer.encode("the quick brown fox " * 50)
    for token in ids:
        stream.add([token])
        assert len(stream._held) < len("the end")
