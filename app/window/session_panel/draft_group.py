"""Draft settings of a chat, and a line about what drafting does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.state.drafting import DraftingFigures
from app.state.round_history import SpeedBySetting
from app.window.controls.bound import Bound, Control
from app.window.controls.choices import DropDown, Option, Segments
from app.window.controls.icons import Sign
from app.window.controls.labels import ShortLabel, paragraph, say, set_tip
from app.window.controls.layouts import Group, Wide, column, named, row
from app.window.controls.numbers import NumberField, NumberKind
from app.window.language import DRAFTING, DRAFTING_HEADS, in_a_sentence, said, tr
from app.window.session_panel.abilities import ModelAbilities, in_effect
from mlx_engine.values.options import (
    MAX_DEPTH,
    DraftOptions,
    DraftOutput,
    DraftSourceName,
)
from mlx_engine.values.words import Words

OUTPUTS = (
    Option("full", Words("All tokens"), what=Words("As exact as the answer itself.")),
    Option(
        "4-bit",
        Words("All tokens, less exact"),
        what=Words("Uses a smaller copy of part of the model, with rounded numbers."),
    ),
    Option(
        "frequent",
        Words("Frequent tokens"),
        what=Words("Only the most frequent tokens, and those of the chat, can be guessed."),
    ),
)
VOCABULARY = NumberKind(256, 2**24, 1024)
PROBABILITY = NumberKind(0, 1, 0.05, 4, off=0)
TOKENS_AHEAD = NumberKind(1, MAX_DEPTH, slides_to=MAX_DEPTH)
FIRST_TOKENS_AHEAD = 3
WHAT_OUTPUT_DOES = Words(
    "Which tokens the drafting heads consider. Fewer of them, or less exact ones, are quicker, but "
    "a few more guesses are wrong. The text stays the same."
)
WHAT_PROBABILITY_DOES = Words(
    "Guessing stops before the first token that is less certain than this, from 0 to 1. Higher: "
    "fewer guesses, and more of them right."
)
WHAT_RULE_DOES = Words(
    "Which of the likely tokens is guessed: the most likely, or one picked at random as in the "
    "answer. The text stays the same."
)
WHAT_DEPTH_DOES = Words(
    "How many tokens are guessed at a time. More can be faster, but the further ahead, the more "
    "guesses are wrong."
)
WHAT_SOURCE_DOES = Words("What guesses the next tokens. The text stays the same.")


WHAT_SPEEDS_ARE = Words(
    "Tokens per second of drafting with this model, for each value used so far."
)


def speeds_in_words(speeds: SpeedBySetting, names: Mapping[object, str]) -> str:
    """Format speeds: "Speed so far: 41.3 tok/s (off), 44.0 tok/s (0.2)."; "" for none.

    names: labels of values.
    """
    known = (
        tr(
            "{speed:.1f} tok/s ({setting})",
            setting=in_a_sentence(names.get(value, value)),
            speed=speed,
        )
        for value, speed in speeds.known.items()
    )
    told = ", ".join(known)
    return tr("Speed so far: {told}.", told=told) if told else ""


def output_note(wanted: DraftOutput, in_effect: DraftOutput | None) -> str:
    """Say which output is in effect if it differs from the chosen one."""
    if in_effect is None or in_effect == wanted:
        return ""
    words = {option.value: option.words for option in OUTPUTS}[in_effect]
    return tr("In effect: {what}.", what=in_a_sentence(words))


REPEATS = Words(
    "If the latest words already appeared in the chat, guesses that the same words follow again."
)
SMALL_MODEL = Words("A second, much smaller model guesses. It is chosen in the load options.")
SOURCES: dict[DraftSourceName, Option] = {
    "mtp": Option("mtp", Words("Drafting heads"), what=DRAFTING_HEADS),
    "prompt-lookup": Option("prompt-lookup", Words("Repeats in the chat"), what=REPEATS),
    "model": Option("model", Words("Draft model"), what=SMALL_MODEL),
    "prompt-lookup+mtp": Option(
        "prompt-lookup+mtp",
        Words("Repeats, else drafting heads"),
        what=Words("{first} Elsewhere, the drafting heads guess.", first=REPEATS),
    ),
    "prompt-lookup+model": Option(
        "prompt-lookup+model",
        Words("Repeats, else draft model"),
        what=Words("{first} Elsewhere, the draft model guesses.", first=REPEATS),
    ),
    "none": Option("none", Words("None"), what=Words("Nothing is guessed: no drafting.")),
}
RULES = (
    Option(
        "shared-noise",
        Words("Like the answer"),
        what=Words("Picks as randomly as the answer does, so more guesses are right."),
    ),
    Option("greedy", Words("Most likely"), what=Words("Always the most likely token.")),
)
DEPTHS = (
    Option("auto", Words("Auto"), what=Words("As many tokens at a time as makes answers faster.")),
    Option("off", Words("Off"), what=Words("No drafting.")),
    Option("custom", Words("Custom"), what=Words("A number you choose.")),
)


class DepthField(Control):
    """The draft depth: automatic, off, or a number.

    Signal `chosen`("auto" | int): 0 is off.
    """

    def __init__(self) -> None:
        super().__init__()
        what = tr(WHAT_DEPTH_DOES)
        self._kind = Segments(tr("Guess ahead"), DEPTHS, what)
        self._tokens = NumberField(tr("Tokens ahead"), TOKENS_AHEAD, what)
        set_tip(self, what)
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
    """What drafting does, and the depth; further settings are in the group `advanced`."""

    def __init__(self, bound: Bound, of_chat: bool = True) -> None:
        """of_chat: False for the defaults of new chats."""
        super().__init__(Words("Drafting"), what=DRAFTING)
        rare = Words("What guesses the next tokens, and how.")
        self.advanced = Group(Words("Advanced drafting"), is_open=False, what=rare)
        self._bound = bound
        self._abilities: ModelAbilities | None = None
        self._figures: DraftingFigures | None = None
        self._dot, self._effect = Sign("dot"), ShortLabel(name=tr("In effect"), lines=2)
        self._effect.setProperty("role", "effect")
        self._effect.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self._source = bound.bind(
            "draft.source", DropDown(tr("Guesses come from"), tr(WHAT_SOURCE_DOES))
        )
        self._why, self._others = paragraph("", "warning"), paragraph("", "muted")
        self._depth = bound.bind("draft.depth", DepthField())
        self._probability = bound.bind(
            "draft.min_probability",
            NumberField(tr("Minimum certainty"), PROBABILITY, WHAT_PROBABILITY_DOES),
        )
        self._probability_note = paragraph("", "muted")
        self._output = bound.bind("draft.output", DropDown(tr("Guess among"), tr(WHAT_OUTPUT_DOES)))
        self._output.show_options(OUTPUTS)
        self._output_note = paragraph("", "muted")
        for note in (self._probability_note, self._output_note):
            set_tip(note, tr(WHAT_SPEEDS_ARE))
        what = tr("How many of the most frequent tokens can be guessed, beside those of the chat.")
        self._vocabulary = bound.bind(
            "draft.vocabulary", NumberField(tr("Tokens"), VOCABULARY, what)
        )
        self._rule = bound.bind(
            "draft.rule", Segments(tr("Which token is guessed"), RULES, tr(WHAT_RULE_DOES))
        )
        shown = QWidget()
        line = row(self._dot, Wide(self._effect), of=shown, spacing=6)
        line.setAlignment(self._dot, Qt.AlignmentFlag.AlignTop)
        about = paragraph(DRAFTING, "muted")
        self.add(about, shown, named(tr("Guess ahead"), self._depth), self.advanced)
        shown.setVisible(of_chat)
        source = named(tr("Guesses come from"), self._source, self._why, self._others)
        self._outputs = named(tr("Guess among"), self._output, self._vocabulary, self._output_note)
        rule = named(tr("Which token is guessed"), self._rule)
        probability = self._probability, self._probability_note
        self.advanced.add(source, *probability, self._outputs, rule)
        bound.listen(self._refresh)

    def watch(self, figures: DraftingFigures) -> None:
        """Show what drafting does."""
        self._figures = figures
        figures.changed.connect(self._show_figures)
        self._show_figures()

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show what the model in use can do, None for no model."""
        self._abilities = abilities
        self._refresh()

    def _show_figures(self) -> None:
        """Update what drafting does, and measured speeds of two settings."""
        figures, draft = self._figures, self._bound["draft"] or DraftOptions()
        state = figures.history.state if figures else None
        self._effect.show_text(in_effect(draft, self._abilities, state))
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
        """Enable and disable options, with reasons."""
        draft = self._bound["draft"] or DraftOptions()
        ability = self._abilities.source(draft.source) if self._abilities else None
        sources = source_options(self._abilities)
        self._source.show_options(sources, draft.source)
        say(self._others, why_others_not(sources, draft.source))
        cannot = ability.problem if ability else ""
        say(self._why, cannot if draft.source != "none" else "")
        if draft.source == "none":
            cannot = tr("Nothing is guessed: no source is chosen.")
        self._outputs.setVisible("mtp" in draft.source)
        self._vocabulary.setVisible(draft.output == "frequent")
        self._depth.forbid(cannot)
        self._probability.forbid(cannot)
        self._rule.show_options([replace(rule, why_not=cannot) for rule in RULES], draft.rule)
        self._show_figures()


def source_options(abilities: ModelAbilities | None) -> list[Option]:
    """Return options for all draft sources, with the reason if this model cannot use one."""
    return [
        replace(
            option,
            why_not=abilities.source(name).why_not if abilities and name != "none" else "",
        )
        for name, option in SOURCES.items()
    ]


def why_others_not(options: Sequence[Option], chosen: str) -> str:
    """Return a line for each reason why sources cannot be chosen, "" if all can.

    The chosen source's reason is shown elsewhere; combinations share those of their parts.
    """
    told = {option.why_not for option in options if option.value == chosen}
    lines = []
    for option in options:
        if option.why_not and option.why_not not in told:
            told.add(option.why_not)
            lines.append(f"{tr(option.words)}: {said(option.why_not)}")
    return "\n".join(lines)
