"""Sampling settings of a chat, limits of answers, and arguments of the chat template."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from PySide6.QtWidgets import QWidget

from app.values.chat_settings import SamplingChoice
from app.window.controls.bound import Bound, Control
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import LineField, TextField
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortButton, describe, label, paragraph, say
from app.window.controls.layouts import Group, column, named
from app.window.controls.numbers import NumberField, NumberKind
from app.window.language import TOKEN, tr
from app.window.session_panel.abilities import ModelAbilities
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import (
    SamplingOptions,
    TemplateValue,
    read_template_value,
    template_value_text,
)
from mlx_engine.values.words import Words

ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\"}
TYPED = str.maketrans({meant: typed for typed, meant in ESCAPES.items()})


def read_stop(text: str) -> tuple[str, ...]:
    """Parse stop strings, one a line, with the escapes \\n, \\r, \\t and \\\\."""
    lines = (
        re.sub(r"\\[nrt\\]", lambda typed: ESCAPES[typed[0]], line) for line in text.split("\n")
    )
    return tuple(filter(None, lines))


def stop_text(stop: tuple[str, ...]) -> str:
    """Format stop strings as `read_stop` parses them."""
    return "\n".join(text.translate(TYPED) for text in stop)


FIRST_SEED = 1
"""The seed that the lock button takes before the first answer."""
WORST_SEED = Words("“{text}” isn't a valid seed. Use a whole number from 0 to 2⁶⁴ − 1.")


def read_seed(text: str) -> int | None:
    """Parse a seed, "" for a random one. Raises BadOption."""
    try:
        return SamplingChoice(seed=int(text)).seed if text else None
    except (ValueError, BadOption):
        raise BadOption(WORST_SEED.template, text=text) from None


class SeedField(LineField):
    """A field for a fixed seed, empty for a random one; `last` is that of the newest answer."""

    def __init__(self) -> None:
        super().__init__(
            tr("Seed"),
            tr(
                "The number that random choices start from: the same seed, settings and messages "
                "give the same answer. Empty: another seed for every answer."
            ),
            tr("random", "seed"),
            read_seed,
            lambda seed: "" if seed is None else str(seed),
        )
        self.last: int | None = None
        self._seed: int | None = None
        self._lock, self._note = IconButton("unlock", ""), paragraph("", "muted")
        self._lock.setCheckable(True)
        self.line.addWidget(self._lock)
        layout = self.layout()
        assert layout is not None
        layout.addWidget(self._note)
        self.chosen.connect(self._show_lock)
        self._lock.clicked.connect(self._toggle)
        self._show_lock(None)

    def set_value(self, value: object) -> None:
        """Show a fixed seed, None for random ones, without emitting it."""
        super().set_value(value)
        self._show_lock(read_seed(self.text()))

    def show_last(self, seed: int | None) -> None:
        """Set the seed of the newest answer, which the lock button takes."""
        self.last = seed
        self._show_lock(self._seed)

    def _show_lock(self, seed: int | None) -> None:
        self._seed, is_locked = seed, seed is not None
        locked = tr("The seed is locked. Click to use another one for every answer")
        unlocked = tr("Lock the seed of the last answer, so that answers can be repeated")
        self._lock.setChecked(is_locked)
        words = locked if is_locked else unlocked
        self._lock.show_icon("lock" if is_locked else "unlock", words)
        is_news = self.last is not None and not is_locked
        say(self._note, tr("The last answer used {last}.", last=self.last) if is_news else "")

    def _toggle(self, is_locked: bool) -> None:
        last = FIRST_SEED if self.last is None else self.last
        seed = last if is_locked else None
        self.set_value(seed)
        self.chosen.emit(seed)


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A number of SamplingOptions. what: its explanation."""

    name: str
    words: str
    kind: NumberKind
    what: str


HEAT = NumberKind(0, 10, 0.05, 4, slides_to=2)
COUNT = NumberKind(0, 10**6, off=0, slides_to=100)
LARGE_SHARE = NumberKind(0, 1, 0.05, 4, off=1, slides_to=1)
SMALL_SHARE = NumberKind(0, 1, 0.01, 4, off=0)
FACTOR = NumberKind(0.01, 10, 0.05, 4, off=1)
SHARE = NumberKind(0, 1, 0.05, 4)
REPEATS = NumberKind(0, 100, 0.1, 4, off=0)
PENALTY = NumberKind(-10, 10, 0.1, 4, off=0)
LIMIT = NumberKind(1, 2**31, 64)

USUAL = (
    NumberRow(
        "temperature",
        Words("Temperature"),
        HEAT,
        Words(
            "Higher: more varied and surprising answers. Lower: more predictable ones; 0 always "
            "takes the most likely next word."
        ),
    ),
    NumberRow(
        "top_k",
        Words("Top k"),
        COUNT,
        Words(
            "The model chooses among this many of the most likely next tokens. Higher: more "
            "varied. Lower: more predictable. Off: among all."
        ),
    ),
    NumberRow(
        "top_p",
        Words("Top p"),
        LARGE_SHARE,
        Words(
            "The model chooses among the most likely tokens that together have this much of the "
            "chance; 0.9 leaves out the unlikeliest tenth. Higher: more varied. Lower: more "
            "predictable. Off: among all."
        ),
    ),
)
RARE = (
    NumberRow(
        "min_p",
        Words("Min p"),
        SMALL_SHARE,
        Words(
            "Leaves out tokens whose chance is below this share of the likeliest one's. Higher: "
            "more predictable. Lower: more varied. Off: none is left out."
        ),
    ),
    NumberRow(
        "repetition_penalty",
        Words("Repetition penalty"),
        FACTOR,
        Words(
            "Higher: fewer repetitions of words in the chat, also of your own. Below 1: more of "
            "them. Off: no difference."
        ),
    ),
    NumberRow(
        "presence_penalty",
        Words("Presence penalty"),
        PENALTY,
        Words(
            "Higher: the answer avoids words that it already has, so it moves on to new things. "
            "Below 0: it stays with them. Off: no difference."
        ),
    ),
    NumberRow(
        "frequency_penalty",
        Words("Frequency penalty"),
        PENALTY,
        Words(
            "Higher: the answer avoids a word the more, the more often it has used it. Below 0: "
            "it prefers such words. Off: no difference."
        ),
    ),
    NumberRow(
        "dry_multiplier",
        Words("Repeated passages"),
        REPEATS,
        Words("Higher: the answer repeats whole passages less. Off: no difference."),
    ),
    NumberRow(
        "xtc_probability",
        Words("Skip obvious words"),
        SMALL_SHARE,
        Words("How often the likeliest words are skipped, to be more inventive. Off: never."),
    ),
    NumberRow(
        "xtc_threshold",
        Words("Chance of obvious words"),
        SHARE,
        Words(
            "Words with at least this chance, from 0 to 1, are obvious. The least likely of them "
            "can still be chosen."
        ),
    ),
)


WHAT_SAMPLING_IS = Words("How the model chooses the next token. {token}", token=TOKEN)


class SamplingGroup(Group):
    """Three numbers with sliders; further settings are in the group `advanced`."""

    def __init__(self, bound: Bound) -> None:
        super().__init__(Words("Sampling"), what=WHAT_SAMPLING_IS)
        rare = Words("Rarely changed settings: repetition, randomness, and where answers end.")
        self.advanced = Group(Words("Advanced sampling"), is_open=False, what=rare)
        self._bound = bound
        self._numbers = {
            number.name: bound.bind(
                f"sampling.{number.name}",
                NumberField(tr(number.words), number.kind, number.what, tr("default")),
            )
            for number in (*USUAL, *RARE)
        }
        self.seed = bound.bind("sampling.seed", SeedField())
        what = tr("The longest answer, in tokens. {token}", token=TOKEN)
        limit = NumberField(tr("Max tokens"), LIMIT, what, tr("no limit"))
        what = tr(
            "An answer ends as soon as it would write one of these texts, such as a word or a "
            "symbol. One per line; \\n is a line break."
        )
        hint = tr("One per line")
        stop = TextField(tr("Stop strings"), 2, hint, read_stop, stop_text, what=what)
        self._own = ShortButton()
        self._own.show_text(tr("Reset to Model Defaults"))
        describe(self._own, tr("Use what the model's makers recommend"))
        gray = tr("Gray values are the model's defaults.")
        self.add(paragraph(f"{tr(WHAT_SAMPLING_IS)} {gray}", "muted"))
        self.add(*(self._numbers[number.name] for number in USUAL), self._own, self.advanced)
        self.advanced.add(*(self._numbers[number.name] for number in RARE), self.seed)
        self.advanced.add(bound.bind("generation.max_tokens", limit))
        self.advanced.add(bound.bind("generation.stop", stop))
        self._own.clicked.connect(self._take_recommended)
        bound.listen(self._allow_recommended)

    def show_recommended(self, recommended: SamplingOptions | None) -> None:
        """Show the recommended options of the model, None for no model."""
        for name, field in self._numbers.items():
            field.recommend(None if recommended is None else attrgetter(name)(recommended))

    def _take_recommended(self) -> None:
        self._bound["sampling"] = SamplingChoice(seed=self._bound["sampling.seed"])

    def _allow_recommended(self) -> None:
        """Enable the reset button if an option other than the seed was chosen."""
        sampling = self._bound["sampling"]
        self._own.setEnabled(replace(sampling, seed=None) != SamplingChoice())


THINKING = (
    Option(None, Words("Model default")),
    Option(True, Words("On")),
    Option(False, Words("Off")),
)
WHAT = Words(
    "A setting that the model's makers have added; their page says what it does. A text, a number, "
    "true, false, or null. Empty: the model's default."
)
NOT_ASKED = Words("The model in use does not have this setting.")
SUCH_AS = Words("For example: Answer briefly, in plain words.")
"""An example of a system prompt."""
WHAT_THINKING_DOES = Words(
    "Whether the model thinks in writing before it answers. That takes longer and helps with hard "
    "questions."
)


class ArgumentField(LineField):
    """A field for an argument of the chat template. Signal `chosen`: a tuple of its value, ()
    for none.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            tr(WHAT),
            tr("default"),
            lambda text: (read_template_value(text),) if text else (),
            lambda value: template_value_text(*value) if value else "",
        )

    def tell_use(self, is_asked_for: bool) -> None:
        """Say whether the model's chat template uses the argument."""
        describe(self._edit, tr(WHAT if is_asked_for else NOT_ASKED))


class ArgumentFields(Control):
    """Fields for all arguments that the chat template uses or the chat sets.

    Signal `chosen`: names and values that are set.
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[str, ...] = ()
        self._given: Mapping[str, TemplateValue] = {}
        self._fields: dict[str, ArgumentField] = {}
        heading = label(tr("More settings of this model"), "muted")
        self._lines = column(heading, of=self, margins=(0, 4, 0, 0), spacing=4)
        self._have_fields()

    def ask(self, names: tuple[str, ...]) -> None:
        """Set the names that the chat template uses."""
        self._asked = names
        self._have_fields()

    def set_value(self, given: Mapping[str, TemplateValue]) -> None:
        """Show the arguments that a chat sets, without emitting them."""
        self._given = given
        self._have_fields()
        for name in self._fields:
            self._show(name)

    def _have_fields(self) -> None:
        """Add and remove fields; text being typed in others stays."""
        names = dict.fromkeys((*self._asked, *self._given))
        for name in [name for name in self._fields if name not in names]:
            field = self._fields.pop(name)
            self._lines.removeWidget(field)
            field.hide()
            field.deleteLater()
        for place, name in enumerate(names, 1):
            if name not in self._fields:
                self._fields[name] = field = ArgumentField(name)
                field.chosen.connect(lambda value, name=name: self._take(name, value))
                self._lines.insertWidget(place, field)
                self._show(name)
            self._fields[name].tell_use(name in self._asked)
        self.setVisible(bool(names))

    def _show(self, name: str) -> None:
        self._fields[name].set_value((self._given[name],) if name in self._given else ())

    def _take(self, name: str, value: tuple[TemplateValue, ...]) -> None:
        others = {key: given for key, given in self._given.items() if key != name}
        self._given = {**others, name: value[0]} if value else others
        self.chosen.emit(self._given)


class TemplateFields(QWidget):
    """Thinking, and the other arguments of the model's chat template."""

    def __init__(self, bound: Bound) -> None:
        super().__init__()
        thinking = Segments(tr("Thinking"), THINKING, tr(WHAT_THINKING_DOES))
        self._thinking = named(tr("Thinking"), bound.bind("thinking", thinking))
        self._arguments = bound.bind("template_arguments", ArgumentFields())
        column(self._thinking, self._arguments, of=self, spacing=8)

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show fields for the model's chat template; None for no model."""
        self._thinking.setVisible(abilities is not None and abilities.can_switch_thinking)
        self._arguments.ask(abilities.template_arguments if abilities else ())
