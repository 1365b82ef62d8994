"""Sampling settings of a chat, and when its answers end."""

import re
from dataclasses import dataclass, replace
from operator import attrgetter

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.values.chat_settings import SamplingChoice
from app.window.controls.fields import Field, NumberField, NumberKind, TextField
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortButton, paragraph, say
from app.window.controls.layouts import Wide, column, row
from app.window.language import tr
from mlx_engine.values.options import GenerationOptions, SamplingOptions
from mlx_engine.values.words import Words

ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\"}
TYPED = str.maketrans({meant: typed for typed, meant in ESCAPES.items()})


def read_stop(text: str) -> tuple[str, ...]:
    r"""One stop string a line, with \n, \r, \t and \\ for characters that cannot be typed."""
    lines = (
        re.sub(r"\\[nrt\\]", lambda typed: ESCAPES[typed[0]], line) for line in text.split("\n")
    )
    return tuple(filter(None, lines))


def stop_text(stop: tuple[str, ...]) -> str:
    """The inverse of read_stop."""
    return "\n".join(text.translate(TYPED) for text in stop)


FIRST = 1
"""What locking takes before any answer was given."""


class SeedField(QWidget):
    """Signal `changed`(int | None): a seed to lock, None for a fresh one each time."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._last: int | None = None
        kind = NumberKind(int, 1, Words("random", "seed"))
        self.number = NumberField(
            tr("Seed"), kind, tr("The same seed and settings give the same answer")
        )
        self._lock = IconButton("unlock", "")
        self._lock.setCheckable(True)
        self._note = paragraph("", "muted")
        line = row(Wide(self.number), self._lock, spacing=4)
        line.setAlignment(self._lock, Qt.AlignmentFlag.AlignTop)
        column(line, self._note, of=self, spacing=2)
        self.number.changed.connect(self.changed)
        self._lock.clicked.connect(self._toggle)
        self.show_seed(None)

    def show_seed(self, seed: int | None) -> None:
        """Show a locked seed, None for fresh; nothing is emitted."""
        is_locked = seed is not None
        self.number.show_number(seed)
        self._lock.setChecked(is_locked)
        words = (
            tr("Locked: use a random seed for each answer") if is_locked else tr("Lock the seed")
        )
        self._lock.show_icon("lock" if is_locked else "unlock", words)
        self._say_last(is_locked)

    def show_last(self, seed: int | None) -> None:
        """The seed of the newest answer."""
        self._last = seed
        self._say_last(self._lock.isChecked())

    def _toggle(self, is_locked: bool) -> None:
        last = FIRST if self._last is None else self._last
        self.changed.emit(last if is_locked else None)

    def _say_last(self, is_locked: bool) -> None:
        is_news = self._last is not None and not is_locked
        say(self._note, tr("The last answer used {last}.", last=self._last) if is_news else "")


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A numeric field of SamplingOptions."""

    name: str
    words: str
    kind: NumberKind
    what: str


OFF = Words("off")
HEAT = NumberKind(float, 0.05, is_choice=True, ends=(0.0, 2.0))
COUNT = NumberKind(int, 1, OFF, 0, is_choice=True, ends=(0, 100))
LARGE_SHARE = NumberKind(float, 0.05, OFF, 1.0, is_choice=True, ends=(0.05, 1.0))
FACTOR = NumberKind(float, 0.05, OFF, 1.0, is_choice=True)
SMALL_SHARE = NumberKind(float, 0.01, OFF, 0.0, is_choice=True)
PENALTY = NumberKind(float, 0.1, OFF, 0.0, is_choice=True)

USUAL = (
    NumberRow(
        "temperature", Words("Temperature"), HEAT, Words("0 always takes the most likely token")
    ),
    NumberRow("top_k", Words("Top k"), COUNT, Words("Only the k most likely tokens")),
    NumberRow(
        "top_p", Words("Top p"), LARGE_SHARE, Words("Only the most likely tokens that add up to p")
    ),
)
RARE = (
    NumberRow(
        "min_p",
        Words("Min p"),
        SMALL_SHARE,
        Words("Only tokens at least this likely compared with the top token"),
    ),
    NumberRow(
        "repetition_penalty",
        Words("Repetition penalty"),
        FACTOR,
        Words("Above 1 avoids words of the prompt and the answer"),
    ),
    NumberRow(
        "presence_penalty",
        Words("Presence penalty"),
        PENALTY,
        Words("Above 0 avoids words already in the answer"),
    ),
    NumberRow(
        "frequency_penalty",
        Words("Frequency penalty"),
        PENALTY,
        Words("Above 0 avoids words frequent in the answer"),
    ),
)


class SamplingGroup(Group):
    """Three figures with sliders; the rest is in the group `advanced`.

    Signal `changed`(dict): `sampling` or `generation` of ChatSettings as the user wants it.
    """

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__(Words("Sampling"))
        self.advanced = Group(Words("Advanced"), is_open=False, of=Words("sampling"))
        self._sampling = SamplingChoice()
        self._generation = GenerationOptions()
        self._numbers = {
            number.name: NumberField(tr(number.words), number.kind, tr(number.what))
            for number in (*USUAL, *RARE)
        }
        self._seed = SeedField()
        self._limit = NumberField(
            tr("Max tokens"),
            NumberKind(int, 64, Words("no limit")),
            tr("Most tokens in an answer"),
        )
        self._stop = TextField(tr("Stop strings"), 2, tr("One a line; \\n is a newline"))
        self._own = ShortButton()
        self._own.show_text(tr("Use the model's recommendation"))
        self.add(paragraph(tr("Gray values are the model's recommendation."), "muted"))
        self.add(*(self._numbers[number.name] for number in USUAL), self._own, self.advanced)
        self.advanced.add(*(self._numbers[number.name] for number in RARE))
        self.advanced.add(self._seed, self._limit, self._stop)
        for name, field in self._numbers.items():
            field.show_recommended(None)
            field.changed.connect(
                lambda value, name=name, field=field: self._try_sampling(field, **{name: value})
            )
        self._seed.changed.connect(lambda seed: self._try_sampling(self._seed.number, seed=seed))
        self._limit.changed.connect(self._try_limit)
        self._stop.changed.connect(self._take_stop)
        self._own.clicked.connect(self._take_recommended)
        self.show_settings(self._sampling, self._generation)

    def show_settings(self, sampling: SamplingChoice, generation: GenerationOptions) -> None:
        """Show a chat's settings; nothing is emitted."""
        self._sampling, self._generation = sampling, generation
        for name, field in self._numbers.items():
            field.show_number(attrgetter(name)(sampling))
        self._seed.show_seed(sampling.seed)
        self._limit.show_number(generation.max_tokens)
        if read_stop(self._stop.text()) != generation.stop:
            self._stop.show_text(stop_text(generation.stop))
        self._allow_recommended()

    def show_recommended(self, recommended: SamplingOptions | None) -> None:
        """What the model's makers recommend, None when there is no model."""
        for name, field in self._numbers.items():
            field.show_recommended(None if recommended is None else attrgetter(name)(recommended))

    def show_last_seed(self, seed: int | None) -> None:
        """The seed of the newest answer: locking takes it."""
        self._seed.show_last(seed)

    def _try_sampling(self, field: Field, **changes: object) -> None:
        sampling = field.tried(lambda: replace(self._sampling, **changes))  # type: ignore[arg-type]
        if sampling is not None:
            self._take_sampling(sampling)

    def _try_limit(self, limit: int | None) -> None:
        generation = self._limit.tried(lambda: replace(self._generation, max_tokens=limit))
        if generation is not None:
            self._take_generation(generation)

    def _take_stop(self, text: str) -> None:
        self._take_generation(replace(self._generation, stop=read_stop(text)))

    def _take_generation(self, generation: GenerationOptions) -> None:
        self._generation = generation
        self.changed.emit({"generation": generation})

    def _take_sampling(self, sampling: SamplingChoice) -> None:
        self._sampling = sampling
        self._seed.show_seed(sampling.seed)
        self._allow_recommended()
        self.changed.emit({"sampling": sampling})

    def _take_recommended(self) -> None:
        sampling = replace(SamplingChoice(), seed=self._sampling.seed)
        self.show_settings(sampling, self._generation)
        self._take_sampling(sampling)

    def _allow_recommended(self) -> None:
        """Only where something was chosen; a locked seed stays."""
        self._own.setEnabled(replace(self._sampling, seed=None) != SamplingChoice())
