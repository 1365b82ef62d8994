"""Titles are one line and not too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.chats import FIRST_WORDS, MAX_TITLE, clean_title, title_from
from app.values.attached_text import AttachedText, with_attachments


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello", "Hello"),
        ("\n\n  Hello   there \nsecond", "Hello there"),
        ("", ""),
        (" \n ", ""),
        ("word " * 40, "word " * 11 + "word…"),
        ("x" * 100, "x" * 60 + "…"),
        ("我" * 100, "我" * 60 + "…"),
        ("a " + "x" * 100, "a " + "x" * 58 + "…"),
        ("x" * 60, "x" * 60),
        (with_attachments("Why?", [AttachedText("a.py", "1")]), "Why?"),
        (with_attachments("", [AttachedText(n, "1") for n in ("a.py", "b")]), "a.py, b"),
    ],
)
def test_from_text(text, title):
    assert title_from(text) == title


@given(st.text())
def test_any_text(text):
    title = title_from(text)
    assert len(title) <= FIRST_WORDS + 1 and len(title.splitlines()) <= 1
    assert bool(title) == bool(text.split())
    assert len(clean_title(text * 50)) <= MAX_TITLE
