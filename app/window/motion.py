"""Quiet motion: what appears fades in, unless the user or the system wants none."""

from PySide6.QtCore import QEasingCurve, QPropertyAnimation
from PySide6.QtWidgets import QGraphicsOpacityEffect, QStyle, QWidget

FADE_MS = 120
MOVES = "moves"
"""The property of a window in which things fade in."""


def fade_in(widget: QWidget) -> None:
    """Let a widget that was just shown appear within FADE_MS.

    At once where its window does not move, or the system's style has no animations.
    """
    allowed = widget.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration)
    if not widget.window().property(MOVES) or not allowed or not widget.isVisible():
        return
    effect = QGraphicsOpacityEffect(widget)
    widget.setGraphicsEffect(effect)
    fade = QPropertyAnimation(effect, b"opacity", effect)
    fade.setDuration(min(FADE_MS, allowed))
    fade.setStartValue(0.0)
    fade.setEndValue(1.0)
    fade.setEasingCurve(QEasingCurve.Type.OutCubic)
    fade.finished.connect(lambda: widget.setGraphicsEffect(None))  # type: ignore[arg-type]
    fade.start()
