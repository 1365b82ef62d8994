"""Says how a comparison came out: same words or not, how much faster, with which seed."""

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from app.window.controls.icons import Sign
from app.window.controls.labels import label, paragraph, say, set_role, tabular

Verdict = Literal["", "check", "warning"]


class VerdictCard(QFrame):
    """Hidden while there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "chip")
        self._sign = Sign("check", "accent")
        self._words = paragraph("", "heading")
        self._words.setAccessibleName("Verdict")
        self._gain, self._seed = paragraph("", "muted"), paragraph("", "muted")
        self._ratio = label("", "figure")
        self._ratio.setAccessibleName("Speed with drafting over speed without")
        tabular(self._ratio)
        lines = QVBoxLayout()
        lines.setSpacing(2)
        for line in (self._words, self._gain, self._seed):
            lines.addWidget(line)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 10, 16, 10)
        row.setSpacing(10)
        row.addWidget(self._sign, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(lines, 1)
        row.addWidget(self._ratio)
        self.show_words("")

    def show_words(self, words: str, sign: Verdict = "") -> None:
        """What is known so far, or went wrong."""
        self._show(words, sign, "", "")

    def show_verdict(self, words: str, is_same: bool, gain: str, ratio: str) -> None:
        """Both sides are complete."""
        self._show(words, "check" if is_same else "warning", gain, ratio)

    def show_seed(self, seed: int | None) -> None:
        """The seed both sides use, None for none yet."""
        say(self._seed, "" if seed is None else f"Seed {seed}")

    def _show(self, words: str, sign: Verdict, gain: str, ratio: str) -> None:
        set_role(self._words, "error-heading" if sign == "warning" else "heading")
        for target, text in ((self._words, words), (self._gain, gain), (self._ratio, ratio)):
            say(target, text)
        if sign:
            self._sign.show_sign(sign, "error" if sign == "warning" else "accent")
        self._sign.setVisible(bool(sign))
        self.setVisible(bool(words))
