"""Draft settings of a chat, and the line that says what is in effect."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QMenu, QPushButton, QWidget

from app.state.round_history import DraftingState, SpeedBySetting
from app.window.controls.choices import DropDown, Option, Segments
from app.window.controls.fields import NumberField, NumberKind
from app.window.controls.group import Group
from app.window.controls.labels import SteadyWords, paragraph, say, set_tip
from app.window.controls.layouts import Wide, named, row
from app.window.language import in_a_sentence, said, tr
from app.window.models.model_card_view import NUMERICS
from app.window.session_panel.abilities import ModelAbilities, in_effect
from mlx_engine.values.options import (
    DRAFT_VOCABULARY,
    MAX_DEPTH,
    AskedNumerics,
    DraftOptions,
    DraftOutput,
    DraftSourceName,
    LoadOptions,
    Numerics,
)
from mlx_engine.values.words import Words

NAME = Words("Draft model")
FILES = Words("Models (*.gguf *.safetensors)")


class DraftModelField(QWidget):
    """Signal `changed`(str): a path or hub id, "" for none."""

    changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._place = ""
        self._edit = QLineEdit()
        self._edit.setAccessibleName(tr(NAME))
        self._edit.setPlaceholderText(tr("None"))
        set_tip(self._edit, tr("A file, a folder or a hub id of a small model of the same family"))
        self._choose = QPushButton(tr("Choose…"))
        self._choose.setAccessibleName(tr("Choose a draft model"))
        menu = QMenu(self._choose)
        menu.addAction(tr("File…"), self._choose_file)
        menu.addAction(tr("Folder…"), self._choose_folder)
        menu.addSeparator()
        menu.addAction(tr("None"), lambda: self._take(""))
        self._choose.setMenu(menu)
        row(Wide(self._edit), self._choose, of=self, spacing=8)
        self._edit.editingFinished.connect(lambda: self._take(self._edit.text().strip()))

    def show_place(self, place: str) -> None:
        """Show a path or hub id, "" for none; nothing is emitted."""
        self._place = place
        self._edit.setText(place)
        set_tip(self._edit, place or tr("A file, a folder or a hub id"))

    def _take(self, place: str) -> None:
        if place != self._place:
            self.show_place(place)
            self.changed.emit(place)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self.window(), tr(NAME), "", tr(FILES))
        if path:
            self._take(path)

    def _choose_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self.window(), tr(NAME))
        if path:
            self._take(path)


OUTPUTS = (
    Option("full", Words("The model's own")),
    Option("4-bit", Words("A copy in 4 bits")),
    Option("frequent", Words("Frequent tokens only")),
)
VOCABULARY_STEP = 1024
WHAT_OUTPUT_DOES = Words(
    "Drafts can go through a smaller copy of the model's output layer: they come "
    "faster and are accepted a little less often, and the words stay the same."
)
WHAT_PROBABILITY_DOES = Words(
    "A draft counts up to the first token its source finds less likely than this: "
    "fewer tokens are drafted, and more of them accepted."
)


def speeds_in_words(speeds: SpeedBySetting, names: Mapping[str, str]) -> str:
    """ "Measured here: off 41.3 tok/s, 0.2 44.0 tok/s."; "" before anything is known.

    names: what values are called, where that is not what they are.
    """
    known = (
        tr(
            "{setting} {speed:.1f} tok/s",
            setting=in_a_sentence(names.get(value, value)),
            speed=speed,
        )
        for value, speed in speeds.known.items()
    )
    told = ", ".join(known)
    return tr("Measured here: {told}.", told=told) if told else ""


def output_note(wanted: DraftOutput, in_effect: DraftOutput | None) -> str:
    """What is in effect where it is not what is set."""
    if in_effect is None or in_effect == wanted:
        return ""
    words = {option.value: option.words for option in OUTPUTS}[in_effect]
    return tr("In effect: {what}.", what=in_a_sentence(words))


SOURCES = {
    "mtp": Words("MTP heads"),
    "prompt-lookup": Words("Prompt lookup"),
    "model": Words("Draft model"),
    "prompt-lookup+mtp": Words("Prompt lookup, else MTP heads"),
    "prompt-lookup+model": Words("Prompt lookup, else draft model"),
    "none": Words("None: decode plainly"),
}
RULES = (Option("shared-noise", Words("Shared noise")), Option("greedy", Words("Greedy")))


class DraftGroup(Group):
    """What is in effect, and the depth; the rest is in the group `advanced`.

    Signal `changed`(dict): `draft` or `load` of ChatSettings as the user wants it.
    """

    changed = Signal(object)

    def __init__(self, of_chat: bool = True) -> None:
        """of_chat: False where the settings are of no chat that could draft."""
        super().__init__(Words("Drafting"))
        self.advanced = Group(Words("Advanced"), is_open=False, of=Words("drafting"))
        self._of_chat = of_chat
        self._draft, self._load = DraftOptions(), LoadOptions()
        self._abilities: ModelAbilities | None = None
        self._now: DraftingState = None
        self._output_in_effect: DraftOutput | None = None
        self._effect = SteadyWords(tr("In effect"))
        self._source = DropDown(tr("Draft source"))
        self._why = paragraph("", "warning")
        self._others = paragraph("", "muted")
        self._model = DraftModelField()
        self._depth = Segments(tr("Depth"))
        self._probability = NumberField(
            tr("Minimum probability"),
            NumberKind(float, 0.05, off=Words("off"), neutral=0.0),
            WHAT_PROBABILITY_DOES,
        )
        self._probability_note = paragraph("", "muted")
        self._output = DropDown(tr("Output head for drafts"))
        self._output_note = paragraph("", "muted")
        self._vocabulary = NumberField(
            tr("Tokens"),
            NumberKind(int, VOCABULARY_STEP, off=str(DRAFT_VOCABULARY), neutral=DRAFT_VOCABULARY),
            tr("How many of the most frequent tokens can be drafted, beside those of the chat"),
        )
        self._rule = Segments(tr("Draft rule"))
        self._numerics = Segments(tr("Precision"))
        self._numerics_note = paragraph("", "muted")
        self._models = named(tr("Draft model"), self._model)
        outputs = self._output, self._vocabulary, paragraph(WHAT_OUTPUT_DOES, "muted")
        self._outputs = named(tr("Output head for drafts"), *outputs, self._output_note)
        shown = named(tr("In effect"), self._effect)
        self.add(shown, named(tr("Depth"), self._depth), self.advanced)
        shown.setVisible(of_chat)
        source = named(tr("Source"), self._source, self._why, self._others)
        what = paragraph(WHAT_PROBABILITY_DOES, "muted")
        self.advanced.add(source, self._models, self._probability, what, self._probability_note)
        numerics = self._numerics, self._numerics_note
        rule = named(tr("Rule"), self._rule)
        self.advanced.add(self._outputs, rule, named(tr("Precision"), *numerics))
        self.show_speeds(SpeedBySetting(), SpeedBySetting())
        self._source.chosen.connect(lambda value: self._take(source=value))
        self._depth.chosen.connect(lambda value: self._take(depth=_depth(value)))
        self._rule.chosen.connect(lambda value: self._take(rule=value))
        self._output.chosen.connect(lambda value: self._take(output=value))
        self._probability.changed.connect(
            lambda value: self._try(self._probability, min_probability=value)
        )
        self._vocabulary.changed.connect(
            lambda value: self._try(self._vocabulary, vocabulary=value or 0)
        )
        self._numerics.chosen.connect(lambda value: self._take_load(numerics=value))
        self._model.changed.connect(
            lambda place: self._take_load(draft_model=place or None, draft_misfit="plain")
        )
        self._refresh()

    def show_settings(self, draft: DraftOptions, load: LoadOptions) -> None:
        """Show a chat's settings; nothing is emitted."""
        self._draft, self._load = draft, load
        self._model.show_place(str(load.draft_model or ""))
        self._probability.show_number(draft.min_probability)
        self._vocabulary.show_number(draft.vocabulary)
        self._refresh()

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show what the model in use can do, None for no model."""
        self._abilities = abilities
        self._refresh()

    def show_now(self, now: DraftingState) -> None:
        """Show what drafting did in the newest round, None before the first one."""
        if now != self._now:
            self._now = now
            self._say_effect()

    def show_output(self, output: DraftOutput | None) -> None:
        """Show the output head that drafts go through now, None where that is not known."""
        self._output_in_effect = output
        self._say_output()

    def show_speeds(self, by_probability: SpeedBySetting, by_output: SpeedBySetting) -> None:
        """Show what was measured here with values of two settings: number_text and OUTPUTS."""
        self._speeds = by_output
        say(self._probability_note, speeds_in_words(by_probability, {"0": Words("off")}))
        self._say_output()

    def _try(self, field: NumberField, **changes: object) -> None:
        """Take a number, or say what is wrong with it."""
        draft = field.tried(lambda: replace(self._draft, **changes))  # type: ignore[arg-type]
        if draft is not None:
            self._draft = draft
            self._refresh()
            self.changed.emit({"draft": draft})

    def _take(self, **changes: object) -> None:
        self._try(self._probability, **changes)

    def _take_load(self, **changes: object) -> None:
        """The model is loaded anew; a draft model that does not fit is a reason, no failure."""
        self._load = replace(self._load, **changes)  # type: ignore[arg-type]
        self._refresh()
        self.changed.emit({"load": self._load})

    def _refresh(self) -> None:
        """Every control from the settings, with reasons where it cannot be used."""
        ability = self._abilities.source(self._draft.source) if self._abilities else None
        sources = source_options(self._abilities)
        self._source.show_options(sources, self._draft.source)
        say(self._others, why_others_not(sources, self._draft.source))
        say(self._why, ability.problem if ability and self._draft.source != "none" else "")
        self._models.setVisible(self._of_chat and "model" in self._draft.source)
        self._outputs.setVisible("mtp" in self._draft.source)
        self._output.show_options(OUTPUTS, self._draft.output)
        self._vocabulary.setVisible(self._draft.output == "frequent")
        self._say_output()
        cannot = self._cannot()
        deepest = ability.max_depth if ability and not ability.problem else MAX_DEPTH
        if isinstance(self._draft.depth, int):
            deepest = max(deepest, self._draft.depth)
        depths = [Option("auto", tr("Auto"), cannot)]
        depths += [Option(str(n), str(n), cannot) for n in range(deepest + 1)]
        self._depth.show_options(depths, str(self._draft.depth))
        self._probability.forbid(cannot)
        rules = [replace(option, why_not=cannot) for option in RULES]
        self._rule.show_options(rules, self._draft.rule)
        self._numerics.show_options(NUMERICS, self._load.numerics)
        say(self._numerics_note, numerics_note(self._load.numerics, self._abilities))
        self._say_effect()

    def _cannot(self) -> str:
        """Why depth, rule and probability have no meaning now."""
        if self._abilities is None:
            return ""
        if self._draft.source == "none":
            return tr("Nothing is drafted: the source is none.")
        return self._abilities.source(self._draft.source).problem

    def _say_effect(self) -> None:
        words = in_effect(self._draft, self._abilities, self._now)
        self._effect.show_words(words)

    def _say_output(self) -> None:
        note = output_note(self._draft.output, self._output_in_effect)
        measured = speeds_in_words(self._speeds, {option.value: option.words for option in OUTPUTS})
        say(self._output_note, "\n".join(filter(None, (note, measured))))


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
    told = {option.why_not for option in options if option.value == chosen}
    lines = []
    for option in options:
        if option.why_not and option.why_not not in told:
            told.add(option.why_not)
            lines.append(f"{tr(option.words)}: {said(option.why_not)}")
    return "\n".join(lines)


_NAMED: dict[Numerics, str] = {"exact": Words("exact"), "fast": Words("fast")}


def numerics_note(wanted: AskedNumerics, abilities: ModelAbilities | None) -> str:
    """What is in effect where it is not what is set."""
    if abilities is None or wanted == abilities.numerics:
        return ""
    if wanted == "auto" or abilities.numerics_why:
        return tr(
            "In effect: {what}. {why}", what=_NAMED[abilities.numerics], why=abilities.numerics_why
        ).rstrip()
    return tr(
        "In effect: {what}, until the model is loaded again.", what=_NAMED[abilities.numerics]
    )


def _depth(value: str) -> int | str:
    return value if value == "auto" else int(value)
