"""Attachments reach the model as named blocks; the fence always holds its text."""

import re

from hypothesis import given
from hypothesis import strategies as st

from app.values.attached_text import (
    AttachedText,
    SaidWith,
    fenced,
    said_with,
    tokens_about,
    with_attachments,
)


@given(st.text(st.sampled_from("`a\n~ "), max_size=40))
def test_the_fence_holds_its_text(text):
    block = fenced(AttachedText("a.py", text))
    fence = re.search(r"^(`{3,})py$", block, re.MULTILINE).group(1)
    inside = block.split(f"{fence}py\n", 1)[1]
    assert inside == f"{text.rstrip(chr(10))}\n{fence}"
    assert fence not in text


def test_names_cannot_break_out():
    block = fenced(AttachedText("a\n# Title `x`.py", "1"))
    assert block.startswith("Attachment a # Title 'x'.py:\n\n```py\n")
    assert AttachedText("a.p y`", "").language == ""


def test_the_question_comes_before_its_context():
    text = with_attachments("Why?", [AttachedText("a.txt", "1\n"), AttachedText("b", "2")])
    assert text == "Why?\n\nAttachment a.txt:\n\n```txt\n1\n```\n\nAttachment b:\n\n```\n2\n```"
    assert with_attachments("Why?", []) == "Why?"


TEXTS = st.text(st.sampled_from("`a:\n ~"), min_size=1, max_size=20)


@given(TEXTS, st.lists(st.tuples(st.sampled_from(("a.py", "b", "c:d.txt")), TEXTS), max_size=3))
def test_a_message_tells_what_was_attached(text, files):
    text = text.strip("\n")
    attached = [AttachedText(name, body) for name, body in files]
    said = said_with(with_attachments(text, attached))
    assert said.text == text
    kept = [(one.name, one.text.rstrip("\n")) for one in attached]
    assert [(one.name, one.text) for one in said.attachments] == kept


def test_what_only_looks_like_an_attachment_is_text():
    for text in (
        "Look:\n\n```py\nx\n```",
        "Attachment a.py:\n\n```py\nx\n```\nand more",
        "Attachment a.py:\n\n```py\nx",
        "Attachment a.py: see above",
    ):
        assert said_with(text) == SaidWith(text)


def test_tokens_are_guessed_to_two_digits():
    assert tokens_about(AttachedText("a.txt", "x" * 4900)) == 1200
    assert tokens_about(AttachedText("a", "x")) == 6


def test_it_is_as_large_in_the_composer_as_in_the_bubble():
    attached = AttachedText("a.py", "größe = 1\n\n")
    [said] = said_with(with_attachments("Why?", [attached])).attachments
    assert said.nbytes == attached.nbytes == len("größe = 1".encode())
