"""A copied answer reads well where markdown is not shown."""

import pytest

from app.window.transcript.markdown_text import plain_text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("# Title\n\nA **bold** `word`.", "Title\n\nA bold word."),
        ("1. one\n2. two\n   - in", "1. one\n2. two\n  • in"),
        ("3. three", "3. three"),
        ("| a | b |\n|---|---|\n| 1 | *2* |", "a\tb\n1\t2"),
        ("```py\nif x:\n    y\n```", "if x:\n    y"),
        ("[x](https://a.b) <https://c.d>", "x (https://a.b) https://c.d"),
        ("$x^2$ and $5", "$x^2$ and $5"),
        ("a[^1]\n\n[^1]: b", "a[1]\n\n[1] b"),
        ("a\nb", "a\nb"),
        ("<b>x</b>", "<b>x</b>"),
        ("", ""),
    ],
)
def test_plain_text(source, text):
    assert plain_text(source) == text
