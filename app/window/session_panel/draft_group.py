"""Draft settings of a chat, and the line that says what is in effect."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from PySide6.QtWidgets import QWidget

from app.state.drafting import DraftingFigures
from app.state.round_history import SpeedBySetting
from app.window.controls.bound import Bound, Control
from app.window.controls.choices import DropDown, Option, Segments
from app.window.controls.icons import Sign
from app.window.controls.labels import SteadyWords, paragraph, say
from app.window.controls.layouts import Group, Wide, column, named, row
from app.window.controls.numbers import NumberField, NumberKind
from app.window.language import in_a_sentence, said, tr
from app.window.session_panel.abilities import ModelAbilities, in_effect
from mlx_engine.values.options import (
    MAX_DEPTH,
    DraftOptions,
    DraftOutput,
    DraftSourceName,
)
from mlx_engine.values.words import Words

OUTPUTS = (
    Option("full", Words("The model's own")),
    Option("4-bit", Words("A copy in 4 bits")),
    Option("frequent", Words("Frequent tokens only")),
)
VOCABULARY = NumberKind(256, 2**24, 1024)
PROBABILITY = NumberKind(0, 1, 0.05, 4, off=0)
TOKENS_AHEAD = NumberKind(1, MAX_DEPTH, slides_to=MAX_DEPTH)
FIRST_TOKENS_AHEAD = 3
WHAT_OUTPUT_DOES = Words(
    "Drafts can go through a smaller copy of the model's output layer: they come "
    "faster and are accepted a little less often, and the words stay the same."
)
WHAT_PROBABILITY_DOES = Words(
    "A draft counts up to the first token its source finds less likely than this: "
    "fewer tokens are drafted, and more of them accepted."
)


WHAT_RULE_DOES = Words(
    "How a drafted token is picked: with the randomness of the answer, which is accepted more "
    "often, or always the most likely one."
)


def speeds_in_words(speeds: SpeedBySetting, names: Mapping[object, str]) -> str:
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
    "mtp": Words("Drafting heads"),
    "prompt-lookup": Words("Prompt lookup"),
    "model": Words("Draft model"),
    "prompt-lookup+mtp": Words("Prompt lookup, else drafting heads"),
    "prompt-lookup+model": Words("Prompt lookup, else draft model"),
    "none": Words("None"),
}
RULES = (Option("shared-noise", Words("Shared noise")), Option("greedy", Words("Greedy")))


DEPTHS = (
    Option("auto", Words("Auto")),
    Option("off", Words("Off")),
    Option("custom", Words("Custom")),
)


class DepthField(Control):
    """How many tokens are drafted at a time: as many as pay, none, or a number of them.

    Signal `chosen`("auto" | int): 0 is off.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kind = Segments(tr("Depth"), DEPTHS)
        what = Words("How many tokens are drafted at a time")
        self._tokens = NumberField(tr("Tokens ahead"), TOKENS_AHEAD, what)
        column(self._kind, self._tokens, of=self, spacing=8)
        self._kind.chosen.connect(self._take)
        self._tokens.chosen.connect(self.chosen.emit)
        self._tokens.set_value(FIRST_TOKENS_AHEAD)

    def set_value(self, depth: object) -> None:
        """Show a depth without emitting it."""
        is_custom = isinstance(depth, int) and depth > 0
        self._kind.set_value("custom" if is_custom else "off" if depth == 0 else "auto")
        if isinstance(depth, int) and depth > 0:
            self._tokens.set_value(depth)
        self._tokens.setVisible(is_custom)

    def forbid(self, why: str) -> None:
        """Disable all choices with a reason, "" enables them."""
        kinds = [replace(option, why_not=why) for option in DEPTHS]
        self._kind.show_options(kinds, self._kind.value)
        self._tokens.forbid(why)

    def _take(self, kind: str) -> None:
        depth = {"auto": "auto", "off": 0}.get(kind, self._tokens.value)
        self.set_value(depth)
        self.chosen.emit(depth)


class DraftGroup(Group):
    """What is in effect, and the depth; the others are in the group `advanced`."""

    def __init__(self, bound: Bound, of_chat: bool = True) -> None:
        """of_chat: False where the settings are of no chat that could draft."""
        super().__init__(Words("Drafting"))
        self.advanced = Group(Words("Advanced"), is_open=False, of=Words("drafting"))
        self._bound = bound
        self._abilities: ModelAbilities | None = None
        self._figures: DraftingFigures | None = None
        self._dot, self._effect = Sign("dot"), SteadyWords(tr("In effect"))
        self._source = bound.bind("draft.source", DropDown(tr("Draft source")))
        self._why, self._others = paragraph("", "warning"), paragraph("", "muted")
        self._depth = bound.bind("draft.depth", DepthField())
        self._probability = bound.bind(
            "draft.min_probability",
            NumberField(tr("Minimum probability"), PROBABILITY, WHAT_PROBABILITY_DOES),
        )
        self._probability_note = paragraph("", "muted")
        self._output = bound.bind("draft.output", DropDown(tr("Output layer for drafts")))
        self._output.show_options(OUTPUTS)
        self._output_note = paragraph("", "muted")
        what = tr("How many of the most frequent tokens can be drafted, beside those of the chat")
        self._vocabulary = bound.bind(
            "draft.vocabulary", NumberField(tr("Tokens"), VOCABULARY, what)
        )
        self._rule = bound.bind("draft.rule", Segments(tr("Draft rule"), RULES))
        shown = QWidget()
        row(self._dot, Wide(self._effect), of=shown, spacing=6)
        self.add(shown, named(tr("Depth"), self._depth), self.advanced)
        shown.setVisible(of_chat)
        source = named(tr("Draft source"), self._source, self._why, self._others)
        self._outputs = named(
            tr("Output layer for drafts"),
            self._output,
            self._vocabulary,
            paragraph(WHAT_OUTPUT_DOES, "muted"),
            self._output_note,
        )
        about = paragraph(WHAT_PROBABILITY_DOES, "muted"), self._probability_note
        rule = named(tr("Draft rule"), self._rule, paragraph(WHAT_RULE_DOES, "muted"))
        self.advanced.add(source, self._probability, *about, self._outputs, rule)
        bound.listen(self._refresh)

    def watch(self, figures: DraftingFigures) -> None:
        """Show what drafting does, whenever there are other figures."""
        self._figures = figures
        figures.changed.connect(self._show_figures)
        self._show_figures()

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show what the model in use can do, None for no model."""
        self._abilities = abilities
        self._refresh()

    def _show_figures(self) -> None:
        """Say what is in effect, and what was measured with values of two settings."""
        figures, draft = self._figures, self._bound["draft"] or DraftOptions()
        state = figures.history.state if figures else None
        self._effect.show_words(in_effect(draft, self._abilities, state))
        is_drafting = figures is not None and figures.history.depth_in_use > 0
        self._dot.show_sign("dot", "accent" if is_drafting else "muted")
        if figures is None:
            return
        names = {option.value: option.words for option in OUTPUTS}
        say(
            self._probability_note,
            speeds_in_words(figures.speeds_by_probability, {"0": Words("off")}),
        )
        note = output_note(draft.output, figures.output)
        measured = speeds_in_words(figures.speeds_by_output, names)
        say(self._output_note, "\n".join(filter(None, (note, measured))))

    def _refresh(self) -> None:
        """Offer what can be chosen, with reasons where it cannot."""
        draft = self._bound["draft"] or DraftOptions()
        ability = self._abilities.source(draft.source) if self._abilities else None
        sources = source_options(self._abilities)
        self._source.show_options(sources, draft.source)
        say(self._others, why_others_not(sources, draft.source))
        cannot = ability.problem if ability else ""
        say(self._why, cannot if draft.source != "none" else "")
        if draft.source == "none":
            cannot = tr("Nothing is drafted: the source is none.")
        self._outputs.setVisible("mtp" in draft.source)
        self._vocabulary.setVisible(draft.output == "frequent")
        self._depth.forbid(cannot)
        self._probability.forbid(cannot)
        self._rule.show_options([replace(rule, why_not=cannot) for rule in RULES], draft.rule)
        self._show_figures()


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
