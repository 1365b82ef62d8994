"""A drafted word is the same word after rendering."""

import html as entities
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from app.values.chats import DraftedSpan
from app.window.transcript.drafted_spans import (
    GrowingAlignment,
    Run,
    Tint,
    aligned,
    in_utf16,
    tints,
    within,
)
from app.window.transcript.markdown_text import markdown_html

WORDS = st.lists(
    st.text(alphabet="abcdefghijklmnop", min_size=3, max_size=8), min_size=1, max_size=60
).map(lambda words: [f"{word}{index}" for index, word in enumerate(words)])
WRAPS = st.sampled_from(
    ["{}", "{}", "{}", "**{}**", "*{}*", "`{}`", "[{}](https://example.org/a-long/path?q=1)",
     "\n\n{}", "\n- {}", "\n\n## {}\n\n", "~~{}~~", "${}$", "\n\n> {}\n\n", "{},"]
)  # fmt: skip


def rendered(source: str) -> str:
    shown = markdown_html(source)
    return entities.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</(p|li|h2)>", "\n", shown)))


@settings(max_examples=80)
@given(WORDS, st.data())
def test_drafted_words_stay_the_same_words(words, data):
    source, spans, depths = "", [], {}
    for word in words:
        wrap = data.draw(WRAPS)
        depth = data.draw(st.integers(0, 4))
        before, after = wrap.split("{}")
        start = len(source) + len(before) + 1
        source += f" {before}{word}{after}" if "\n" not in before else f"{before} {word}{after}"
        start = source.rindex(word)
        depths[word] = depth
        if depth:
            spans.append(DraftedSpan(start, start + len(word), depth))
    text = rendered(source)
    found = {text[t.start : t.end]: t.depth for t in tints(aligned(source, text), spans)}
    assert found == {word: depth for word, depth in depths.items() if depth}


@settings(max_examples=100)
@given(st.text(alphabet="ab *_`[]()#\n<&$", max_size=80))
def test_the_walk_only_moves_forward_and_pairs_equal_text(source):
    text = rendered(source)
    last = (0, 0)
    for run in aligned(source, text):
        assert (run.rendered, run.source) >= last
        assert (
            text[run.rendered : run.rendered + run.length]
            == source[run.source : run.source + run.length]
        )
        last = (run.rendered + run.length, run.source + run.length)


@settings(max_examples=100)
@given(st.lists(WRAPS, max_size=60), st.integers(1, 90))
def test_a_growing_text_is_aligned_as_a_whole_one(wraps, size):
    source = " ".join(wrap.format(f"word{number}") for number, wrap in enumerate(wraps))
    growing = GrowingAlignment()
    for at in range(size, len(source) + size, size):
        part = source[:at]
        assert list(growing.of(part, rendered(part))) == list(aligned(part, rendered(part)))
    assert list(growing.of("other", "other")) == [Run(0, 0, 5)]


def test_a_word_with_markers_inside():
    runs = list(aligned("un**believ**able", "unbelievable"))
    assert sum(run.length for run in runs) == 12


def test_a_word_of_two_depths_has_two_tints():
    spans = [DraftedSpan(0, 5, 1), DraftedSpan(5, 8, 2)]
    assert tints(aligned("drafting", "drafting"), spans) == [Tint(0, 5, 1), Tint(5, 8, 2)]


def test_text_that_rendering_made_up_does_not_lead_astray():
    source = "one " + r"$\frac{p}{q}$" + " then a divided by b with an Image of it and then more"
    text = "one p⁄q Image: then a divided by b with an Image of it and then more"
    end = list(aligned(source, text))[-1]
    assert (end.rendered + end.length, end.source + end.length) == (len(text), len(source))


def test_spans_within_a_segment():
    spans = [DraftedSpan(0, 4, 1), DraftedSpan(8, 12, 2), DraftedSpan(20, 24, 3)]
    assert within(spans, 10, 20) == [DraftedSpan(0, 2, 2)]
    assert within(spans, 4, 8) == []
    assert within(spans, 10, 20, 5) == [DraftedSpan(5, 7, 2)]


@given(st.text(alphabet="a🙂é", max_size=20), st.data())
def test_ranges_in_utf16(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))

    def units(part: str) -> int:
        return len(part.encode("utf-16-le")) // 2

    assert in_utf16(text, [Tint(start, end, 1)]) == [
        Tint(units(text[:start]), units(text[:end]), 1)
    ]
