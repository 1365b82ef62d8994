"""A copied answer reads well where markdown is not shown."""

import pytest
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock

from app.window.transcript.markdown_text import Copied, copied, markdown_html, plain_text


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
        ("So\n\n$$\nx^2\n$$\n\nand $$y$$ end", "So\n\n$$x^2$$\n\nand $$y$$ end"),
        ("```math\nx^2\n```", "$$x^2$$"),
        ("a[^1]\n\n[^1]: b", "a[1]\n\n[1] b"),
        ("a\nb", "a\nb"),
        ("<b>x</b>", "<b>x</b>"),
        ("", ""),
    ],
)
def test_plain_text(source, text):
    assert plain_text(source) == text


def test_what_is_copied_is_parsed_once(monkeypatch):
    source = "- [x] A **bold** word[^1], $x$\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[^1]: Note\n"
    wanted, parsed, parse = Copied(plain_text(source), markdown_html(source)), [], MarkdownIt.parse
    monkeypatch.setattr(MarkdownIt, "parse", lambda *given: parsed.append(given) or parse(*given))
    assert copied(source) == wanted
    assert len(parsed) == 1


def test_a_formula_is_looked_for_in_its_own_paragraph(monkeypatch):
    lines, get_lines = [], StateBlock.getLines

    def counted(state, begin, end, *more):
        lines.append(end - begin)
        return get_lines(state, begin, end, *more)

    monkeypatch.setattr(StateBlock, "getLines", counted)
    markdown_html("$$a$$\n\n" * 50)
    assert len(lines) == 50 and max(lines) == 1
