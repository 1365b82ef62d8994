"""A model in a few lines: size, drafting, memory, and details on demand."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget

from app.values.models import ModelCard
from app.window.controls.chart import Part, ShareBar
from app.window.controls.icons import Sign
from app.window.controls.labels import ShortLabel, describe, paragraph, say, set_role, set_tip
from app.window.controls.layouts import Wide, column, row
from app.window.language import DRAFTING, DRAFTING_HEADS, PARAMETERS, said, tr
from mlx_engine.values.memory_plan import MemoryFit
from mlx_engine.values.words import Words, size_words

WHAT_NUMBERS_MEAN = Words(
    "{parameters} Bits say how precisely each is stored: fewer make it smaller and a little less "
    "exact. GGUF, MLX and Safetensors are kinds of files.",
    parameters=PARAMETERS,
)
WHAT_FORMATS_ARE = Words(
    "The format says how the numbers of the model are rounded. Q4, IQ4 or mxfp4: to about 4 bits. "
    "K, IQ, fp, _0, _1: ways to round. XS, S, M, L: from smallest to largest. bfloat16, float16: "
    "16 bits each. A model can have parts in several formats."
)
WHAT_MEMORY_IS_FOR = Words(
    "Memory for the model itself, for a chat, and to work in. It grows as a chat gets longer."
)


def memory_parts(memory: MemoryFit) -> tuple[Part, ...]:
    """Return the parts of the memory bar: weights, and paler caches; coloured if tight or too
    much.
    """
    if not memory.usable:
        return ()
    colour = {"fits": "accent", "tight": "warning"}.get(memory.fit_in_memory, "error")
    needed, weights = memory.short.total_bytes, memory.short.weights + memory.short.draft_model
    most = max(memory.usable, needed)
    return Part(needed / most, colour, 0.5), Part(weights / most, colour)


class ModelFacts(QWidget):
    """Shows a ModelCard: name, size, drafting heads and memory, and details on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: str | None = None
        self._name = ShortLabel(Qt.TextElideMode.ElideMiddle)
        self._name.setProperty("role", "heading")
        self._what = paragraph("", "muted")
        describe(self._what, tr(WHAT_NUMBERS_MEAN))
        self._heads_sign = Sign("close")
        self._heads = paragraph("", "note")
        describe(self._heads, f"{tr(DRAFTING)}\n{tr(DRAFTING_HEADS)}")
        self._bar = ShareBar(tr("Memory"))
        self._memory = paragraph("", "muted")
        describe(self._memory, tr(WHAT_MEMORY_IS_FOR))
        self._warnings = paragraph("", "problem")
        self._details = paragraph("", "muted")
        describe(self._details, tr(WHAT_FORMATS_ARE))
        self._toggle = QPushButton()
        describe(self._toggle, tr("More about this model"))
        self._toggle.setProperty("role", "disclosure")
        self._toggle.setCheckable(True)
        self._toggle.toggled.connect(self._show_details)
        heads = row(self._heads_sign, Wide(self._heads), spacing=6)
        heads.setAlignment(self._heads_sign, Qt.AlignmentFlag.AlignTop)
        memory = (self._bar, self._memory, self._warnings, self._toggle, self._details)
        self._lines = column(self._name, self._what, heads, *memory, of=self, spacing=6)
        self._lines.setAlignment(self._toggle, Qt.AlignmentFlag.AlignLeft)
        self.show_facts(None)

    def show_facts(self, facts: ModelCard | None) -> None:
        """Show a model, None for no model."""
        self._name.show_text(facts.name if facts else tr("No model is loaded"))
        say(self._what, what_in_words(facts) if facts else "")
        say(self._heads, facts.heads if facts else "")
        self._heads_sign.setVisible(facts is not None)
        if facts is not None and facts.has_heads:
            self._heads_sign.show_sign("check", "accent")
        else:
            self._heads_sign.show_sign("close", "muted")
        memory = facts.memory if facts else None
        if memory is not None:
            self._bar.show_parts(said(memory.words), *memory_parts(memory))
            set_tip(self._bar, f"{said(memory.words)}\n{tr(WHAT_MEMORY_IS_FOR)}")
        self._bar.setVisible(memory is not None)
        say(self._memory, memory_in_words(memory) if memory else "")
        set_role(
            self._memory, "problem" if memory and memory.fit_in_memory == "too-large" else "muted"
        )
        say(self._warnings, "\n".join(map(said, facts.warnings)) if facts else "")
        self._details.setText(details_in_words(facts) if facts else "")
        self._toggle.setVisible(bool(self._details.text()))
        name = facts.name if facts else ""
        if name != self._shown:
            self._shown = name
            self._toggle.setChecked(False)
        self._show_details(self._toggle.isChecked())

    def show_name(self, name: str) -> None:
        """Show a name while nothing else is known."""
        self.show_facts(None)
        self._name.show_text(name)

    def _show_details(self, is_shown: bool) -> None:
        self._toggle.setText(tr("Hide Details") if is_shown else tr("Details"))
        self._details.setVisible(is_shown)


def what_in_words(facts: ModelCard) -> str:
    """Format parameters, size, format and sight in one line, which breaks only between them."""
    unbroken = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})
    size = tr("{size} on disk", size=facts.size) if facts.size else ""
    sees = tr("sees pictures") if facts.sees else ""
    parts = (facts.parameters, size, facts.format, sees)
    whole = (said(part).translate(unbroken) for part in parts if part)
    return "\N{NO-BREAK SPACE}· ".join(whole)


def memory_in_words(memory: MemoryFit) -> str:
    """Return a line for a model that fits, else the whole memory plan."""
    if memory.fit_in_memory != "fits":
        return said(memory.words)
    return tr(
        "Needs {needed} of {usable} memory",
        needed=size_words(memory.short.total_bytes),
        usable=size_words(memory.usable),
    )


def memory_details(memory: MemoryFit) -> str:
    """Say what a short and the longest chat need, for a model that fits, else the whole plan."""
    if memory.fit_in_memory != "fits":
        return said(memory.words)
    return tr(
        "Needs {short} for a chat of {tokens:,} tokens ({parts}), {longest} for the longest. "
        "Fits in {usable}.",
        parts=memory.short.sum_in_words,
        short=size_words(memory.short.total_bytes),
        tokens=memory.short.context,
        longest=size_words(memory.full.total_bytes),
        usable=size_words(memory.usable),
    )


def details_in_words(facts: ModelCard) -> str:
    """Return lines about family, format, longest chat, memory, and notes."""
    lines = {
        tr("Model family: {words}"): facts.architecture,
        tr("Format: {words}"): facts.quantisation,
        tr("Longest chat: {words}"): facts.context,
        tr("Memory: {words}"): memory_details(facts.memory) if facts.memory else "",
        tr("Pictures: {words}"): facts.pictures,
    }
    told = [line.format(words=said(words)) for line, words in lines.items() if words]
    return "\n".join((*told, *map(said, facts.notes)))
