"""The matcher against looking at the whole text after every character."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_engine.text.pattern_matcher import PatternMatcher

LETTERS = st.text("ab", min_size=1, max_size=6)


@settings(max_examples=300, deadline=None)
@given(patterns=st.lists(LETTERS, max_size=4).map(tuple), text=st.text("abc", max_size=30))
def test_matches_and_open_length(patterns: tuple[str, ...], text: str) -> None:
    matcher = PatternMatcher(patterns)
    for end in range(1, len(text) + 1):
        seen = text[:end]
        ending = [pattern for pattern in patterns if seen.endswith(pattern)]
        begun = [n for p in patterns for n in range(1, len(p)) if seen.endswith(p[:n])]
        assert matcher.feed(text[end - 1]) == max(ending, key=len, default=None)
        assert matcher.open_length == max(begun, default=0)


def test_reset_forgets() -> None:
    matcher = PatternMatcher(("ab",))
    matcher.feed("a")
    matcher.reset()
    assert (matcher.open_length, matcher.feed("b")) == (0, None)
