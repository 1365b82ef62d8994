"""The output head that drafts go through: the one wanted, and the one in effect."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.controls.choices import DropDown, Option
from app.window.controls.labels import label, paragraph, say
from app.window.controls.number_field import NumberField, NumberKind
from mlx_engine.values.options import DRAFT_VOCABULARY, DraftOptions, DraftOutput

OUTPUTS = (
    Option("full", "The model's own"),
    Option("4-bit", "A copy in 4 bits"),
    Option("3-bit", "A copy in 3 bits"),
    Option("frequent", "Frequent tokens only"),
    Option("auto", "Whichever is measured fastest"),
)
VOCABULARY_STEP = 1024


class OutputField(QWidget):
    """Signals: `output_chosen`(str), `vocabulary_chosen`(int)."""

    output_chosen = Signal(str)
    vocabulary_chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._wanted: DraftOutput = "full"
        self._in_effect: DraftOutput | None = None
        self._output = DropDown("Output head for drafts")
        self._note = paragraph("", "muted")
        self._vocabulary = NumberField(
            "Tokens",
            NumberKind(int, VOCABULARY_STEP, off=str(DRAFT_VOCABULARY), neutral=DRAFT_VOCABULARY),
            "How many of the most frequent tokens can be drafted, beside those of the chat",
        )
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(label("Output head for drafts", "muted"))
        column.addWidget(self._output)
        column.addWidget(self._note)
        column.addWidget(self._vocabulary)
        self._output.chosen.connect(self.output_chosen)
        self._vocabulary.changed.connect(self.vocabulary_chosen)

    def show_draft(self, draft: DraftOptions) -> None:
        """Show what is wanted; nothing is emitted."""
        self._wanted = draft.output
        self._output.show_options(OUTPUTS, draft.output)
        self._vocabulary.setVisible(draft.output == "frequent")
        self._vocabulary.show_number(draft.vocabulary)
        self._say_effect()

    def show_in_effect(self, output: DraftOutput | None) -> None:
        """Show what drafts go through now, None where that is not known."""
        self._in_effect = output
        self._say_effect()

    def show_problem(self, words: str) -> None:
        """Say what is wrong with the number of tokens, "" for nothing."""
        self._vocabulary.show_problem(words)

    def _say_effect(self) -> None:
        say(self._note, output_note(self._wanted, self._in_effect))


def output_note(wanted: DraftOutput, in_effect: DraftOutput | None) -> str:
    """What is in effect where it is not what is set."""
    if in_effect is None or in_effect == wanted:
        return "Measured with the first draft." if wanted == "auto" else ""
    words = {option.value: option.words for option in OUTPUTS}[in_effect]
    return f"In effect: {words[0].lower()}{words[1:]}."
