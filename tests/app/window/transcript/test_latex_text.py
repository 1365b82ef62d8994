"""Formulas read like formulas, and what is unknown stays as it was typed."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.window.transcript.latex import latex_html


def bare(source: str) -> str:
    return re.sub(r"</?[a-z]+>", "", latex_html(source)).replace("\u2009", " ")


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (r"\alpha + \Omega", "α + Ω"),
        (r"a \le b \neq c", "a ≤ b ≠ c"),
        (r"\frac{a}{b}", "a⁄b"),
        (r"\frac{a+b}{2n}", "(a + b)⁄2n"),
        (r"\frac12", "1⁄2"),
        (r"\sqrt{2}", "√2"),
        (r"\sqrt[3]{x+1}", "³√(x + 1)"),
        (r"x^{10}_1", "x¹⁰₁"),
        (r"10^23", "10²3"),
        (r"f'(x)", "f′(x)"),
        (r"\sin x", "sin x"),
        (r"\text{if } x", "if x"),
        (r"\mathbb{R}^n", "ℝⁿ"),
        (r"\left( x \right.", "(x"),
        (r"90^\circ", "90°"),
        (r"\hat{x}", "x̂"),
        (r"\unknown{x} y", r"\unknownxy"),
        (r"a & b", "a b"),
        (r"50\%", "50%"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", "(1 2; 3 4)"),
        (r"a < b", "a &lt; b"),
        (r"a = (b)", "a = (b)"),
        (r"\sin^2 (x)", "sin²(x)"),
        (r"x = -1 - 2", "x = −1 − 2"),
        (r"(-b, -c)", "(−b, −c)"),
        (r"\begin{bmatrix} 1 & -2 \\ -3 & 4 \end{bmatrix}", "[1 −2; −3 4]"),
        (r"\mathbb R \mathbf x", "ℝx"),
        (r"\text{learning\_rate}", "learning_rate"),
        (r"a \not< b", "a &lt;\u0338 b"),
        (r"x \not\in A \not= B", "x ∉ A ≠ B"),
    ],
)
def test_formulas(source, shown):
    assert bare(source) == shown


def test_letters_are_slanted_and_numbers_upright():
    assert latex_html("2x") == "2<i>x</i>"
    assert latex_html(r"e^{i\pi}") == "<i>e</i><sup><i>i</i><i>π</i></sup>"


def test_too_deep_is_shown_as_typed():
    source = "{" * 60 + "x" + "}" * 60
    assert latex_html(source) == source


@settings(max_examples=300)
@given(st.text(alphabet="\\{}[]^_&frac sqrtbeginot1x<>\"'", max_size=60))
def test_anything_is_escaped_and_nothing_raises(source):
    shown = re.sub(r"</?(?:i|b|sup|sub)>", "", latex_html(source))
    assert "<" not in shown and ">" not in shown
