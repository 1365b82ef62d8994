"""Text is readable in both schemes: WCAG 2.2 contrast, 4.5 to 1 for text."""

import dataclasses

import pytest
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit

from app.window.look import DEEPEST_TINT, TypeSizes

CODE = ("code_keyword", "code_string", "code_number", "code_comment", "code_name", "text")
ON = {
    "page": ("text", "muted", "accent", "warning", "error"),
    "side": ("text", "muted", "accent", "warning", "error"),
    "bubble": ("text", "muted", "accent", "warning", "error"),
    "hover": ("text", "muted", "accent"),
    "selected": ("text", "muted", "accent"),
    "code": CODE,
    "accent": ("on_accent",),
}


def channels(colour: str) -> list[float]:
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def luminance(rgb: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(front: list[float], back: list[float]) -> float:
    light, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_on_every_ground(theme):
    colours = dataclasses.asdict(theme)
    for ground, texts in ON.items():
        for text in texts:
            assert contrast(channels(colours[text]), channels(colours[ground])) >= 4.5, (
                text,
                ground,
            )


def test_a_hint_in_an_empty_field_is_muted(qtbot, theme):
    for field in (QLineEdit(), QPlainTextEdit()):
        qtbot.addWidget(field)
        field.ensurePolished()
        hint = field.palette().color(QPalette.ColorRole.PlaceholderText)
        assert hint == QColor(theme.muted)


def test_text_on_tinted_words(theme):
    for depth in range(1, 9):
        strength = theme.tint_strength(depth)
        ground = [
            strength * tint + (1 - strength) * page
            for tint, page in zip(channels(theme.tint), channels(theme.page), strict=True)
        ]
        assert contrast(channels(theme.text), ground) >= 4.5


def test_tints_deepen_and_then_stay(theme):
    strengths = [theme.tint_strength(depth) for depth in range(1, 9)]
    assert strengths == sorted(strengths)
    assert strengths[0] == pytest.approx(0.10)
    assert len(set(strengths)) == DEEPEST_TINT
    assert strengths[-1] == pytest.approx(0.28)


def test_zoom():
    assert TypeSizes().zoomed(2) == TypeSizes(24, 26, 30, 38)
    assert TypeSizes().zoomed(0.1).small == 8
