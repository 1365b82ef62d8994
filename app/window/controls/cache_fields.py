"""In how many bits keys and values are kept: those of the model, and those of what drafts."""

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.values.chat_settings import CacheChoice
from app.window.controls.choices import Option, Segments
from app.window.controls.labels import label, paragraph, say
from app.window.controls.layouts import column
from app.window.language import tr
from mlx_engine.values.words import Words, joined

BITS = ("16", "8", "4")
USUAL = "usual"
WHAT = Words(
    "Fewer bits use less memory and change answers slightly. For drafting heads only speed changes."
)
READ_AGAIN = Words("After a change, your next message reads the whole chat again.")


class CacheFields(QWidget):
    """`choice` is what its user wants. Signal `changed`: it is another."""

    changed = Signal()

    def __init__(self, usual: str) -> None:
        """usual: what is said of a value that is left open."""
        super().__init__()
        self.choice = CacheChoice()
        self._usual, self._why_not = usual, ""
        self._bits = Segments(tr("Bits of the KV cache"))
        self._head_bits = Segments(tr("Bits of the drafting heads' KV cache"))
        self._note = paragraph("", "muted")
        trunk = label(tr("KV cache"), "muted"), self._bits
        heads = label(tr("KV cache of drafting heads"), "muted"), self._head_bits
        column(*trunk, *heads, self._note, of=self, spacing=4)
        self._bits.chosen.connect(lambda value: self._take(bits=_read(value)))
        self._head_bits.chosen.connect(lambda value: self._take(head_bits=_read(value)))
        self.show_choice(self.choice)

    def show_choice(self, choice: CacheChoice, why_not: str = "") -> None:
        """Show this; why_not: why the model in use has no choice. Nothing is emitted."""
        self.choice, self._why_not = choice, why_not
        options = [Option(USUAL, self._usual)]
        options += [Option(bits, bits, why_not if bits != "16" else "") for bits in BITS]
        self._bits.show_options(options, str(choice.bits or USUAL))
        self._head_bits.show_options(options, str(choice.head_bits or USUAL))
        words = (
            tr("In effect: {what}. {why}", what=16, why=why_not)
            if why_not
            else joined((WHAT, READ_AGAIN), " ")
        )
        say(self._note, words)

    def _take(self, **changes: object) -> None:
        self.show_choice(replace(self.choice, **changes), self._why_not)  # type: ignore[arg-type]
        self.changed.emit()


def _read(value: str) -> int | None:
    return None if value == USUAL else int(value)
