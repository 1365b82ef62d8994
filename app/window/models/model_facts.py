"""A model in a few lines: what it is, whether it drafts, whether it fits."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QPushButton, QWidget

from app.values.models import ModelCard
from app.window.controls.chart import Part, ShareBar
from app.window.controls.icons import Sign
from app.window.controls.labels import ShortLabel, label, paragraph, say, set_role, set_tip, tabular
from app.window.controls.layouts import Wide, column, row
from app.window.language import said, tr
from mlx_engine.values.memory_plan import MemoryFit
from mlx_engine.values.model_description import TensorGroup
from mlx_engine.values.words import size_words


def memory_parts(memory: MemoryFit) -> tuple[Part, ...]:
    """Weights solid, caches paler; in the warning colour where it is tight or too much."""
    if not memory.usable:
        return ()
    colour = {"fits": "accent", "tight": "warning"}.get(memory.fit, "error")
    needed, weights = memory.short.total, memory.short.weights + memory.short.draft_model
    most = max(memory.usable, needed)
    return Part(needed / most, colour, 0.5), Part(weights / most, colour)


class ModelFacts(QWidget):
    """Shows a ModelCard: name, size, drafting heads and memory, and details on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._facts: ModelCard | None = None
        self._name = ShortLabel(Qt.TextElideMode.ElideMiddle)
        self._name.setProperty("role", "heading")
        self._what = paragraph("", "muted")
        self._heads_sign = Sign("close")
        self._heads = paragraph("", "note")
        self._bar = ShareBar(tr("Memory"))
        self._memory = paragraph("", "muted")
        self._warnings = paragraph("", "problem")
        self._details = paragraph("", "muted")
        self._toggle = QPushButton()
        self._toggle.setProperty("role", "disclosure")
        self._toggle.setCheckable(True)
        self._toggle.toggled.connect(self._show_details)
        self._storage = QWidget()
        heads = row(self._heads_sign, Wide(self._heads), spacing=6)
        heads.setAlignment(self._heads_sign, Qt.AlignmentFlag.AlignTop)
        memory = (self._bar, self._memory, self._warnings, self._toggle, self._details)
        self._lines = column(self._name, self._what, heads, *memory, of=self, spacing=6)
        self._lines.setAlignment(self._toggle, Qt.AlignmentFlag.AlignLeft)
        self._lines.addWidget(self._storage)
        self.show_facts(None)

    def show_facts(self, facts: ModelCard | None) -> None:
        """Show a model, None for no model."""
        self._facts = facts
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
        self._bar.setVisible(memory is not None)
        say(self._memory, memory_in_words(memory) if memory else "")
        set_role(self._memory, "problem" if memory and memory.fit == "too-large" else "muted")
        say(self._warnings, "\n".join(map(said, facts.warnings)) if facts else "")
        self._details.setText(details_in_words(facts) if facts else "")
        self._toggle.setVisible(bool(self._details.text()))
        self._toggle.setChecked(False)
        self._show_details(False)

    def show_name(self, name: str) -> None:
        """Nothing but a name is known yet."""
        self.show_facts(None)
        self._name.show_text(name)

    def _show_details(self, is_shown: bool) -> None:
        """Build the table of storage when it is first wanted, and forget it after."""
        self._toggle.setText(tr("Hide Details") if is_shown else tr("Details"))
        self._details.setVisible(is_shown)
        self._lines.removeWidget(self._storage)
        self._storage.deleteLater()
        groups = self._facts.groups if self._facts is not None and is_shown else ()
        self._storage = storage_table(groups)
        self._storage.setHidden(not groups)
        self._lines.addWidget(self._storage)


def what_in_words(facts: ModelCard) -> str:
    """Parameters, size and format in one line that does not break inside one of them."""
    unbroken = str.maketrans({" ": "\N{NO-BREAK SPACE}", "-": "\N{NON-BREAKING HYPHEN}"})
    parts = (facts.parameters, facts.size, facts.format)
    whole = (said(part).translate(unbroken) for part in parts if part)
    return "\N{NO-BREAK SPACE}· ".join(whole)


def memory_in_words(memory: MemoryFit) -> str:
    """A line for a model that fits; else the whole plan, which says what does not."""
    if memory.fit != "fits":
        return said(memory.words)
    return tr(
        "Uses {needed} of {usable} memory",
        needed=size_words(memory.short.total),
        usable=size_words(memory.usable),
    )


def details_in_words(facts: ModelCard) -> str:
    """Lines about architecture, storage, context and memory, and whatever else is worth knowing."""
    lines = {
        tr("Architecture: {words}"): facts.architecture,
        tr("Weights: {words}"): facts.quantisation,
        tr("Longest chat: {words}"): facts.context,
        tr("Memory: {words}"): facts.memory.words if facts.memory else "",
    }
    told = [line.format(words=said(words)) for line, words in lines.items() if words]
    return "\n".join((*told, *map(said, facts.notes)))


def storage_table(groups: tuple[TensorGroup, ...]) -> QWidget:
    """Name, storage and bytes of each group."""
    table = QWidget()
    table.setAccessibleName(tr("Storage by group of tensors"))
    grid = QGridLayout(table)
    grid.setContentsMargins(0, 0, 0, 0)
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(2)
    grid.setColumnStretch(1, 1)
    for line, group in enumerate(groups):
        size = label(size_words(group.nbytes), "note")
        size.setAlignment(Qt.AlignmentFlag.AlignRight)
        tabular(size)
        name = label(said(group.name), "note")
        set_tip(
            name,
            tr(
                "{n:,} tensors, {parameters:,} parameters",
                "1 tensor, {parameters:,} parameters",
                group.tensors,
                parameters=group.parameters,
            ),
        )
        grid.addWidget(name, line, 0, Qt.AlignmentFlag.AlignTop)
        storage = ShortLabel()
        storage.setProperty("role", "muted")
        storage.show_text(said(group.words))
        grid.addWidget(storage, line, 1)
        grid.addWidget(size, line, 2, Qt.AlignmentFlag.AlignTop)
    return table
