"""Stop strings survive being shown and read again."""

from hypothesis import given
from hypothesis import strategies as st

from app.window.session_panel.sampling_group import read_stop, stop_text

PLAIN = st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\t\\n ")


@given(st.lists(st.text(PLAIN, min_size=1), max_size=4))
def test_stop_strings_come_back(stop):
    assert read_stop(stop_text(tuple(stop))) == tuple(stop)


def test_empty_lines_are_no_stop_strings():
    assert read_stop("\n\nEND\n") == ("END",)
