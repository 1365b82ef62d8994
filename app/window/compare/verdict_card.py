"""Says how a comparison came out: same words or not, how much faster, with which seed."""

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout

from app.window.controls.icon_button import icon_size
from app.window.controls.labels import label, paragraph, say, set_role, tabular
from app.window.icons import pixmap
from app.window.theme import Theme, TypeSizes

Sign = Literal["", "check", "warning"]


class VerdictCard(QFrame):
    """Hidden while there is nothing to say."""

    def __init__(self, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__()
        self._theme, self._sizes = theme, sizes
        self._sign_name: Sign = ""
        self.setProperty("role", "chip")
        self._sign = QLabel()
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

    def show_words(self, words: str, sign: Sign = "") -> None:
        """What is known so far, or went wrong."""
        self._show(words, sign, "", "")

    def show_verdict(self, words: str, is_same: bool, gain: str, ratio: str) -> None:
        """Both sides are complete."""
        self._show(words, "check" if is_same else "warning", gain, ratio)

    def show_seed(self, seed: int | None) -> None:
        """The seed both sides use, None for none yet."""
        say(self._seed, "" if seed is None else f"Seed {seed}")

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._theme, self._sizes = theme, sizes
        self._show_sign()

    def _show(self, words: str, sign: Sign, gain: str, ratio: str) -> None:
        self._sign_name = sign
        set_role(self._words, "error-heading" if sign == "warning" else "heading")
        for target, text in ((self._words, words), (self._gain, gain), (self._ratio, ratio)):
            say(target, text)
        self._show_sign()
        self.setVisible(bool(words))

    def _show_sign(self) -> None:
        self._sign.setVisible(bool(self._sign_name))
        if self._sign_name:
            colour = self._theme.error if self._sign_name == "warning" else self._theme.accent
            size = icon_size(self._sizes)
            picture = pixmap(self._sign_name, colour, size, self.devicePixelRatioF())
            self._sign.setPixmap(picture)
