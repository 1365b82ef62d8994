"""Draft settings of a chat, and the line that says what is in effect."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.window.controls.choices import DropDown, Option, Segments
from app.window.controls.fields import NumberField, NumberKind
from app.window.controls.group import Group
from app.window.controls.labels import label, paragraph, say
from app.window.drafting.round_history import DraftingState
from app.window.session_panel.abilities import ModelAbilities, in_effect
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    DRAFT_VOCABULARY,
    MAX_DEPTH,
    DraftOptions,
    DraftOutput,
    DraftSourceName,
    Numerics,
)

NAME = "Draft model"
FILES = "Models (*.gguf *.safetensors)"


class DraftModelField(QWidget):
    """Signal `changed`(str): a path or hub id, "" for none."""

    changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._place = ""
        self._edit = QLineEdit()
        self._edit.setAccessibleName(NAME)
        self._edit.setPlaceholderText("None")
        self._edit.setToolTip("A file, a folder or a hub id of a small model of the same family")
        self._choose = QPushButton("Choose…")
        self._choose.setAccessibleName("Choose a draft model")
        menu = QMenu(self._choose)
        menu.addAction("File…", self._choose_file)
        menu.addAction("Folder…", self._choose_folder)
        menu.addSeparator()
        menu.addAction("None", lambda: self._take(""))
        self._choose.setMenu(menu)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._edit, 1)
        row.addWidget(self._choose)
        self._edit.editingFinished.connect(lambda: self._take(self._edit.text().strip()))

    def show_place(self, place: str) -> None:
        """Show a path or hub id, "" for none; nothing is emitted."""
        self._place = place
        self._edit.setText(place)
        self._edit.setToolTip(place or "A file, a folder or a hub id")

    def _take(self, place: str) -> None:
        if place != self._place:
            self.show_place(place)
            self.changed.emit(place)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self.window(), NAME, "", FILES)
        if path:
            self._take(path)

    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self.window(), NAME)
        if path:
            self._take(path)


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


SOURCES = {
    "mtp": "MTP heads",
    "prompt-lookup": "Prompt lookup",
    "model": "Draft model",
    "prompt-lookup+mtp": "Prompt lookup, else MTP heads",
    "prompt-lookup+model": "Prompt lookup, else draft model",
    "none": "None: decode plainly",
}
RULES = (Option("shared-noise", "Shared noise"), Option("greedy", "Greedy"))
NUMERICS = (Option("exact", "Exact"), Option("fast", "Fast"))


class DraftGroup(Group):
    """Signals: `changed`(DraftOptions), `numerics_changed`(str), `draft_model_changed`(str): a path
    or hub id, "" for none.
    """

    changed = Signal(object)
    numerics_changed = Signal(str)
    draft_model_changed = Signal(str)

    def __init__(self, shows_effect: bool = True) -> None:
        """shows_effect: False where the settings are of no chat that could draft."""
        super().__init__("Drafting")
        self._draft = DraftOptions()
        self._numerics: Numerics = "exact"
        self._abilities: ModelAbilities | None = None
        self._now: DraftingState = None
        self._effect = paragraph("", "effect")
        self._effect.setAccessibleName("In effect")
        self._source = DropDown("Draft source")
        self._why = paragraph("", "warning")
        self._others = paragraph("", "muted")
        self._depth = Segments("Depth")
        self._probability = NumberField(
            "Minimum probability",
            NumberKind(float, 0.05, off="off", neutral=0.0),
            "A draft ends before the first token its source finds less likely than this",
        )
        self._model = DraftModelField()
        self._output = OutputField()
        self._rule = Segments("Draft rule")
        self._numbers = Segments("Numerics")
        self._numbers_note = paragraph("", "muted")
        self._rule.show_options(RULES)
        self._numbers.show_options(NUMERICS)
        effect = named("In effect", self._effect)
        effect.setVisible(shows_effect)
        self.add(effect)
        self.add(named("Source", self._source, self._why, self._others))
        self._model_row = named("Draft model", self._model)
        self._model_row.setVisible(shows_effect)
        self.add(self._model_row)
        self.add(named("Depth", self._depth))
        self.add(self._probability)
        self.add(self._output)
        self.add(named("Rule", self._rule))
        self.add(named("Numerics", self._numbers, self._numbers_note))
        self._source.chosen.connect(lambda value: self._try("source", value))
        self._depth.chosen.connect(lambda value: self._try("depth", _depth(value)))
        self._probability.changed.connect(lambda value: self._try("min_probability", value))
        self._rule.chosen.connect(lambda value: self._try("rule", value))
        self._output.output_chosen.connect(lambda value: self._try("output", value))
        self._output.vocabulary_chosen.connect(self._try_vocabulary)
        self._model.changed.connect(self.draft_model_changed)
        self._numbers.chosen.connect(self._choose_numerics)
        self._refresh()

    def show_settings(self, draft: DraftOptions, numerics: Numerics, draft_model: str = "") -> None:
        """Show a chat's settings; nothing is emitted."""
        self._draft, self._numerics = draft, numerics
        self._model.show_place(draft_model)
        self._probability.show_number(draft.min_probability)
        self._refresh()

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show what the model in use can do, None for no model."""
        self._abilities = abilities
        self._refresh()

    def show_now(self, now: DraftingState) -> None:
        """Show the newest round."""
        self._now = now
        self._say_effect()

    def show_output(self, output: DraftOutput | None) -> None:
        """Show the output head that drafts go through now, None where that is not known."""
        self._output.show_in_effect(output)

    def _try(self, name: str, value: object) -> None:
        """Take one new value, or say what is wrong with it."""
        try:
            self._draft = replace(self._draft, **{name: value})  # type: ignore[arg-type]
        except BadOption as problem:
            self._probability.show_problem(str(problem))
            return
        self._probability.show_problem("")
        self._refresh()
        self.changed.emit(self._draft)

    def _try_vocabulary(self, value: int | None) -> None:
        try:
            self._draft = replace(self._draft, vocabulary=value or 0)
        except BadOption as problem:
            self._output.show_problem(str(problem))
            return
        self._output.show_problem("")
        self.changed.emit(self._draft)

    def _choose_numerics(self, value: str) -> None:
        self._numerics = "fast" if value == "fast" else "exact"
        self._refresh()
        self.numerics_changed.emit(value)

    def _refresh(self) -> None:
        """Every control from the settings, with reasons where it cannot be used."""
        ability = self._abilities.source(self._draft.source) if self._abilities else None
        sources = source_options(self._abilities)
        self._source.show_options(sources, self._draft.source)
        say(self._others, why_others_not(sources, self._draft.source))
        say(self._why, ability.why_not if ability and self._draft.source != "none" else "")
        self._output.setVisible("mtp" in self._draft.source)
        self._output.show_draft(self._draft)
        cannot = self._cannot()
        deepest = ability.max_depth if ability and not ability.why_not else MAX_DEPTH
        if isinstance(self._draft.depth, int):
            deepest = max(deepest, self._draft.depth)
        depths = [Option("auto", "Auto", cannot)]
        depths += [Option(str(n), str(n), cannot) for n in range(deepest + 1)]
        self._depth.show_options(depths, str(self._draft.depth))
        self._probability.forbid(cannot)
        rules = [replace(option, why_not=cannot) for option in RULES]
        self._rule.show_options(rules, self._draft.rule)
        self._numbers.show_options(NUMERICS, self._numerics)
        say(self._numbers_note, numerics_note(self._numerics, self._abilities))
        self._say_effect()

    def _cannot(self) -> str:
        """Why depth, rule and probability have no meaning now."""
        if self._abilities is None:
            return ""
        if self._draft.source == "none":
            return "Nothing is drafted: the source is none."
        return self._abilities.source(self._draft.source).why_not

    def _say_effect(self) -> None:
        self._effect.setText(in_effect(self._draft, self._abilities, self._now))


def source_options(abilities: ModelAbilities | None) -> list[Option]:
    """Every source the engine knows, with the reason where this model cannot use it."""
    names: tuple[DraftSourceName, ...] = get_args(DraftSourceName)
    return [
        Option(
            name,
            SOURCES.get(name, name),
            abilities.source(name).why_not if abilities and name != "none" else "",
        )
        for name in names
    ]


def why_others_not(options: Sequence[Option], chosen: str) -> str:
    """A line for each reason why sources cannot be chosen; "" when all can.

    The reason of the chosen one is said elsewhere; combinations share those of their parts.
    """
    said = {option.why_not for option in options if option.value == chosen}
    lines = []
    for option in options:
        if option.why_not and option.why_not not in said:
            said.add(option.why_not)
            lines.append(f"{option.words}: {option.why_not}")
    return "\n".join(lines)


def numerics_note(wanted: Numerics, abilities: ModelAbilities | None) -> str:
    """What is in effect where it is not what is set."""
    if abilities is None or wanted == abilities.numerics:
        return ""
    if abilities.numerics_why:
        return f"In effect: {abilities.numerics}. {abilities.numerics_why}"
    return f"In effect: {abilities.numerics}, until the model is loaded again."


def named(name: str, *widgets: QWidget) -> QWidget:
    """Controls under a small heading."""
    block = QWidget()
    column = QVBoxLayout(block)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(4)
    column.addWidget(label(name, "muted"))
    for widget in widgets:
        column.addWidget(widget)
    return block


def _depth(value: str) -> int | str:
    return value if value == "auto" else int(value)
