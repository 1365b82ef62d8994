"""However an answer arrives, its segments are the same and lose no character."""

import html as entities
import re
from random import Random

import pytest
from fuzz_markdown import a_text, try_markdown
from hypothesis import given, settings
from hypothesis import strategies as st

from app.window.transcript.markdown_text import markdown_html
from app.window.transcript.streaming_markdown import LIMIT, LINE_LIMIT, StreamingMarkdown, settled

TABLE = "| a | b |\n|---|--:|\n| 1 | `2` |\n"

LINES = st.sampled_from(
    [
        "",
        "word " * 40,
        "# Heading",
        "- item",
        "  - inner",
        "1. one",
        "> quote",
        "```",
        "```python",
        "````md",
        "~~~",
        "  ```js",
        "- ```sh",
        "> ```",
        "    indented",
        "   \tindented",
        "[^1]: note",
        "| a | b |",
        "|---|---|",
        "$$",
        "x" * 3000,
        "*em* **bold** `code`",
        "\t",
        "```\r",
        "🙂 wide",
    ]
)

BLOCKS = st.sampled_from(
    [
        "Words *and* **more** of `them` [here](https://example.org/a).",
        "One line\nand another\n",
        "# Heading",
        "Under\n=====",
        "- one\n- two\n  - inner\n\n  loose\n- three",
        "1. one\n   ```sh\n   ls\n\n   cd\n   ```\n2. two",
        "> quoted\n> more\nlazily",
        "> ```\n> in a quote\n> ```",
        TABLE.rstrip("\n"),
        "```py\nx = 1\n\n# no heading\n```",
        "~~~\n```\n~~~",
        "    indented\n\n    code",
        "<b>tag</b> &amp; 1 < 2",
        "---",
        "long words " * 120,
        "\\(x^2\\) and $y$",
    ]
)
DOCUMENTS = st.lists(BLOCKS, max_size=20).map("\n\n".join)


def words(html: str) -> list[str]:
    """What is read of rendered text."""
    return entities.unescape(re.sub(r"<[^>]*>", " ", html)).split()


def streamed(pieces: list[str]) -> StreamingMarkdown:
    stream = StreamingMarkdown()
    for piece in pieces:
        stream.append(piece)
    stream.finish()
    return stream


def kinds(text: str) -> list[tuple[str, str]]:
    return [(s.kind, s.source) for s in streamed([text]).segments]


@settings(max_examples=80)
@given(st.lists(LINES, max_size=40), st.lists(st.integers(1, 4000), min_size=1, max_size=20))
def test_same_segments_in_any_pieces(lines, sizes):
    text = "\n".join(lines)
    pieces, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        pieces.append(text[at : at + size])
        at, turn = at + size, turn + 1
    whole = streamed([text]).segments
    assert streamed(pieces).segments == whole
    assert "".join(segment.source for segment in whole) == text
    assert [s.start for s in whole] == [0, *(s.end for s in whole)][:-1] if whole else True


@settings(max_examples=60)
@given(DOCUMENTS)
def test_segments_read_as_the_whole_does(text):
    html = markdown_html
    parts = (html(segment.source) for segment in streamed([text]).segments)
    assert [w for part in parts for w in words(part)] == words(html(text))


@settings(max_examples=60)
@given(st.lists(LINES, max_size=30), st.integers(1, 700))
def test_append_names_every_segment_that_changed(lines, size):
    stream, text, before = StreamingMarkdown(), "\n".join(lines), []
    for at in range(0, len(text), size):
        first = stream.append(text[at : at + size])
        assert stream.segments[:first] == before[:first]
        assert all(segment.closed for segment in stream.segments[:-1])
        before = list(stream.segments)


def test_fences_in_column_0_are_segments():
    assert kinds("a\n```py\nx = 1\n```\nb\n") == [
        ("prose", "a\n"),
        ("code", "```py\nx = 1\n```\n"),
        ("prose", "b\n"),
    ]


def test_language_and_code():
    (code,) = streamed(["```Python title=x\nx = 1\n\ny\n```"]).segments
    assert (code.language, code.code) == ("python", "x = 1\n\ny")
    assert code.source[code.code_parts[0].start :].startswith("x = 1")


def test_indented_lines_are_a_segment():
    """After a blank line; blank lines between them belong to it, those after it are not code."""
    before, code, after = streamed(["Run:\n\n    for x in y:\n\n    \tgo(x)  \n\n\nDone."]).segments
    assert (before.kind, code.kind, after.source) == ("prose", "code", "Done.")
    assert (code.code, code.language) == ("for x in y:\n\n\tgo(x)  ", "")
    for part in code.code_parts:
        assert code.source[part.start :].startswith(part.text)


@pytest.mark.parametrize("line", ["# Title", "###### Six", "---", "***"])
def test_code_needs_no_blank_line_beside_a_heading_or_a_rule(line):
    told = f"{line}\n    indented\n{line}\n```py\nfenced\n```\n{line}"
    assert [kind for kind, _ in kinds(told)] == ["prose", "code", "prose", "code", "prose"]


def test_what_is_indented_is_not_always_code():
    for text in (
        "A paragraph\n    that goes on.",
        "#No heading\n    that goes on.",
        "- An item\n\n    and its second paragraph.",
        "See[^1].\n\n[^1]: A note\n\n    and its second paragraph.",
        "Blank\n\n      \n\nlines.",
    ):
        assert [kind for kind, _ in kinds(text)] == ["prose"], text


def test_indented_code_is_code_from_its_first_letter_on():
    stream = StreamingMarkdown()
    seen = []
    for letter in "Run:\n\n    a\nEnd":
        stream.append(letter)
        seen.append([segment.kind for segment in stream.segments])
    assert seen[9:] == [["prose"]] * 1 + [["prose", "code"]] * 2 + [["prose", "code", "prose"]] * 3


def test_a_longer_fence_holds_a_shorter_one():
    (code,) = streamed(["````md\n```py\nx\n```\n````\n"]).segments
    assert code.code == "```py\nx\n```"


def test_a_closing_fence_does_not_flash_while_it_arrives():
    stream = StreamingMarkdown()
    stream.append("```py\nx = `a`\n``")
    assert stream.segments[-1].code == "x = `a`"
    stream.append(" no fence\n")
    assert stream.segments[-1].code == "x = `a`\n`` no fence"


def test_code_in_lists_is_code_and_what_follows_stands_where_it_did():
    text = (
        "1. First\n   - a\n     ```py\n     x = 1\n\n       y\n     ```\n     more\n   - b\n"
        "2. Second\n   ```\n   z\n   ```\n\n   End\n\nTop\n\n  ```sh\n  ls\n  ```\n- x\n"
        "  ```\n  unclosed\nafter\n"
    )
    found = streamed([text])
    shown = [
        (segment.level, segment.code if segment.kind == "code" else segment.markdown)
        for segment in found.segments
    ]
    assert shown == [
        (0, "1. First\n   - a\n"), (2, "x = 1\n\n  y"), (2, "more\n"), (1, "- b\n"),
        (0, "2. Second\n"), (1, "z"), (1, "\nEnd\n\n"), (0, "Top\n\n"), (0, "ls"),
        (0, "- x\n"), (1, "unclosed"), (0, "after\n"),
    ]  # fmt: skip
    assert [s.language for s in found.segments if s.kind == "code"] == ["py", "", "sh", ""]


def test_a_list_that_ends_ends_its_code():
    text = "1. do\n   ```sh\n   ls\n\nx\n   ```\n2. then\n"
    assert [kind for kind, _ in kinds(text)] == ["prose", "code", "prose", "code"]


def test_a_careless_end_of_a_fence_in_a_list_does_not_swallow_the_rest():
    text = "1. do\n   ```sh\n   ls\n```\n2. then\n\nmore\n"
    found = kinds(text)
    assert [kind for kind, _ in found] == ["prose", "code", "prose"]
    assert '<ol start="2">' in markdown_html(found[2][1])


def test_long_prose_is_split_at_blank_lines_only():
    paragraph = "words of a paragraph " * 20 + "\n"
    found = kinds((paragraph + "\n") * 60)
    assert len(found) > 3
    assert all(source.endswith("\n\n") for _, source in found)
    assert all(len(source) < LIMIT + len(paragraph) + 2 for _, source in found)


def test_long_lists_are_split_before_an_item():
    found = kinds("".join(f"{n}. item {n}\n" for n in range(1, 1500)))
    assert len(found) > 1
    assert all(source[0].isdigit() for _, source in found)


def test_a_long_table_goes_on_under_its_head():
    head = "| a | b |\n|---|--:|\n"
    rows = "".join(f"| row {number} | {number} |\n" for number in range(3000))
    segments = streamed(["words\n\n" + head + rows + "\nafter\n"]).segments
    assert max(len(segment.source) for segment in segments) < LIMIT + len(head)
    html = "".join(markdown_html(segment.markdown) for segment in segments)
    assert html.count("<td ") == 2 * 3000 and html.count("</th>") == 2 * html.count("<table")
    assert "|" not in html and "<p>after</p>" in html
    assert [segment.head for segment in segments] == ["", *[head] * (len(segments) - 1)]


def test_one_endless_line_is_cut():
    found = streamed(["ab" * 200_000]).segments
    assert max(len(segment.source) for segment in found) <= LINE_LIMIT


def test_a_finished_segment_is_never_parsed_again():
    stream = StreamingMarkdown()
    stream.append("a\n```\nx\n```\nb")
    kept = stream.segments[:2]
    assert stream.append("c") == 2
    assert all(old is new for old, new in zip(kept, stream.segments, strict=False))


def test_markers_do_not_flash():
    assert settled("text\n``") == "text"
    assert settled("text\n```pyth") == "text"
    assert settled("so **bol") == "so **bol**"
    assert settled("so **bold** x") == "so **bold** x"
    assert settled("so **") == "so **"
    assert settled("call `f(") == "call `f(`"


@pytest.mark.parametrize("seed", range(4))
def test_odd_texts_become_the_same_in_pieces_and_as_a_whole(seed):
    for n in range(12):
        random = Random(f"{seed}/{n}")
        try_markdown(a_text(random), random)


PIECES_OF_THIRTY = 0
"""Seed with which pieces have up to 30 characters; of three, long texts take half a minute."""


@pytest.mark.parametrize(
    "text",
    [
        "```math\n>```\n(\n", "\u2028\n---\n", "    a\x0b    b\n", "- > ```py\n  > # a\n  > ```\n",
        "> ```py\n" + "> x = 1\n" * 3000 + "> ```\n", "- ```py\n" + "  x = 1\n" * 3000 + "  ```\n",
        "\n" * 20_000 + "a", "*  " * 400 + "\n", "$\n\\[\n\n\\[o\\]\n",
    ],
)  # fmt: skip
def test_what_is_odd_or_long_is_bounded_and_the_same_in_pieces(text):
    try_markdown(text, Random(1 if len(text) < 1000 else PIECES_OF_THIRTY))
    stream = streamed([text])
    assert max(len(segment.markdown) for segment in stream.segments) <= LINE_LIMIT + 20
    shown = [
        segment.code if segment.kind == "code" else markdown_html(segment.markdown)
        for segment in stream.segments
    ]
    assert "".join(shown).count("x = 1") == text.count("x = 1")
    assert not any("```py" in words for words in shown)


WIDE = "| a | b | c | d | e |\n|---|--:|---|---|---|\n| 1 | 2 | 3 | 4 | 5 |\n"


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        (f"Before:\n\n{WIDE}\nAfter.\n", ["Before:\n\n", f"{WIDE}\n", "After.\n"]),
        (f"Before:\n{WIDE}", ["Before:\n", WIDE]),
        (f"{WIDE}\n{WIDE}\n- x\n", [f"{WIDE}\n", f"{WIDE}\n", "- x\n"]),
        (f"{WIDE}```py\nx\n```\n", [WIDE, "```py\nx\n```\n"]),
        ("x\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\ny\n", None),
        ("- x\n\n  | a | b | c | d | e |\n  |---|---|---|---|---|\n\n  y\n", None),
    ],
)
def test_a_wide_table_scrolls_alone(text, sources):
    whole, growing = StreamingMarkdown(), StreamingMarkdown()
    whole.append(text)
    for letter in text:
        growing.append(letter)
    for made in (whole, growing):
        made.finish()
        assert [segment.source for segment in made.segments] == (sources or [text])
