"""Sampling settings of a chat, and when its answers end."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.window.controls.fields import NumberField, NumberKind, TextField
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import paragraph, say
from mlx_engine.values.errors import BadOption
from mlx_engine.values.options import GenerationOptions, SamplingOptions

ESCAPES = {"\\n": "\n", "\\r": "\r", "\\t": "\t", "\\\\": "\\"}


def read_stop(text: str) -> tuple[str, ...]:
    r"""One stop string a line, with \n, \r, \t and \\ for characters that cannot be typed."""
    return tuple(_unescaped(line) for line in text.split("\n") if line)


def stop_text(stop: tuple[str, ...]) -> str:
    """The inverse of read_stop."""
    return "\n".join(_escaped(text) for text in stop)


def read_logit_bias(text: str) -> dict[int, float]:
    """A token's id and its bias a line: "1734: -5". Raises BadOption with the line's number."""
    biases: dict[int, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        token, colon, bias = (part.strip() for part in line.partition(":"))
        if not colon or not token.isascii() or not token.isdecimal() or len(token) > 9:
            raise BadOption(f"Line {number}: write a token's id and its bias, such as 1734: -5.")
        try:
            biases[int(token)] = float(bias)
        except ValueError:
            raise BadOption(f"Line {number}: “{bias[:20]}” is not a number.") from None
    return biases


def logit_bias_text(biases: Mapping[int, float]) -> str:
    """The inverse of read_logit_bias."""
    return "\n".join(f"{token}: {repr(bias).removesuffix('.0')}" for token, bias in biases.items())


def says_stop(text: str, stop: tuple[str, ...]) -> bool:
    """Whether a text that is being typed already means these stop strings."""
    return read_stop(text) == stop


def says_logit_bias(text: str, biases: Mapping[int, float]) -> bool:
    """Whether a text that is being typed already means these biases."""
    try:
        return read_logit_bias(text) == dict(biases)
    except BadOption:
        return False


def _escaped(text: str) -> str:
    for short, long in reversed(ESCAPES.items()):
        text = text.replace(long, short)
    return text


def _unescaped(line: str) -> str:
    parts, at = [], 0
    while at < len(line):
        pair = line[at : at + 2]
        parts.append(ESCAPES.get(pair, line[at]))
        at += 2 if pair in ESCAPES else 1
    return "".join(parts)


FIRST = 1
"""What locking takes before any answer was given."""


class SeedField(QWidget):
    """Signal `changed`(int | None): a seed to lock, None for a fresh one each time."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._last: int | None = None
        self._number = NumberField(
            "Seed", NumberKind(int, 1, "fresh"), "The same seed and settings give the same words"
        )
        self._lock = IconButton("unlock", "")
        self._lock.setCheckable(True)
        self._note = paragraph("", "muted")
        row = QHBoxLayout()
        row.setSpacing(4)
        row.addWidget(self._number, 1)
        row.addWidget(self._lock, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addLayout(row)
        column.addWidget(self._note)
        self._number.changed.connect(self.changed)
        self._lock.clicked.connect(self._toggle)
        self.show_seed(None)

    def show_seed(self, seed: int | None) -> None:
        """Show a locked seed, None for fresh; nothing is emitted."""
        is_locked = seed is not None
        self._number.show_number(seed)
        self._lock.setChecked(is_locked)
        words = "Locked: draw a fresh seed for each answer" if is_locked else "Lock the seed"
        self._lock.show_icon("lock" if is_locked else "unlock", words)
        self._say_last(is_locked)

    def show_last(self, seed: int | None) -> None:
        """The seed of the newest answer."""
        self._last = seed
        self._say_last(self._lock.isChecked())

    def show_problem(self, words: str) -> None:
        """Say what is wrong with the seed."""
        self._number.show_problem(words)

    def _toggle(self, is_locked: bool) -> None:
        last = FIRST if self._last is None else self._last
        self.changed.emit(last if is_locked else None)

    def _say_last(self, is_locked: bool) -> None:
        is_news = self._last is not None and not is_locked
        say(self._note, f"The last answer used {self._last}." if is_news else "")


@dataclass(frozen=True, slots=True)
class NumberRow:
    """A numeric field of SamplingOptions."""

    name: str
    words: str
    kind: NumberKind
    what: str


PLAIN = NumberKind(float, 0.05)
COUNT = NumberKind(int, 1, "off", 0)
SHARE = NumberKind(float, 0.05, "off", 1.0)
SMALL_SHARE = NumberKind(float, 0.01, "off", 0.0)
FACTOR = NumberKind(float, 0.05, "off", 1.0)
PENALTY = NumberKind(float, 0.1, "off", 0.0)

ROWS = (
    NumberRow("temperature", "Temperature", PLAIN, "0 always takes the likeliest token"),
    NumberRow("top_k", "Top k", COUNT, "Only the k likeliest tokens"),
    NumberRow("top_p", "Top p", SHARE, "Only the likeliest tokens that add up to p"),
    NumberRow("min_p", "Min p", SMALL_SHARE, "Only tokens of at least this share of the likeliest"),
    NumberRow(
        "repetition_penalty",
        "Repetition penalty",
        FACTOR,
        "Above 1 avoids what prompt and answer have",
    ),
    NumberRow(
        "presence_penalty", "Presence penalty", PENALTY, "Above 0 avoids what the answer has"
    ),
    NumberRow(
        "frequency_penalty",
        "Frequency penalty",
        PENALTY,
        "Above 0 avoids what the answer has often",
    ),
)


class SamplingGroup(Group):
    """Signals: `sampling_changed`(SamplingOptions), `generation_changed`(GenerationOptions)."""

    sampling_changed = Signal(object)
    generation_changed = Signal(object)

    def __init__(self) -> None:
        super().__init__("Sampling", is_open=False)
        self._sampling = SamplingOptions()
        self._generation = GenerationOptions()
        self._recommended: SamplingOptions | None = None
        self._numbers: Mapping[str, NumberField] = {
            row.name: NumberField(row.words, row.kind, row.what) for row in ROWS
        }
        self._seed = SeedField()
        self._limit = NumberField(
            "Max tokens", NumberKind(int, 64, "no limit"), "Tokens of an answer at most"
        )
        self._stop = TextField("Stop strings", 2, "One a line; \\n is a newline")
        self._bias = TextField("Logit bias", 2, "Token id: bias, one a line")
        self._own = QPushButton("Use the model's recommendation")
        for name, field in self._numbers.items():
            self.add(field)
            field.changed.connect(lambda value, name=name: self._try_number(name, value))
        for widget in (self._seed, self._limit, self._stop, self._bias, self._own):
            self.add(widget)
        self._seed.changed.connect(self._try_seed)
        self._limit.changed.connect(self._try_limit)
        self._stop.changed.connect(self._try_stop)
        self._bias.changed.connect(self._try_bias)
        self._own.clicked.connect(self._take_recommended)
        self.show_settings(self._sampling, self._generation)

    def show_settings(self, sampling: SamplingOptions, generation: GenerationOptions) -> None:
        """Show a chat's settings; nothing is emitted."""
        self._sampling, self._generation = sampling, generation
        values = {
            "temperature": sampling.temperature,
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
        }
        for name, field in self._numbers.items():
            field.show_number(values[name])
        self._seed.show_seed(sampling.seed)
        self._limit.show_number(generation.max_tokens)
        if not says_stop(self._stop.text(), generation.stop):
            self._stop.show_text(stop_text(generation.stop))
        if not says_logit_bias(self._bias.text(), sampling.logit_bias):
            self._bias.show_text(logit_bias_text(sampling.logit_bias))
        self._allow_recommended()

    def show_recommended(self, recommended: SamplingOptions | None) -> None:
        """What the model's makers recommend, None when there is no model."""
        self._recommended = recommended
        self._allow_recommended()

    def show_last_seed(self, seed: int | None) -> None:
        """The seed of the newest answer: locking takes it."""
        self._seed.show_last(seed)

    def _try_number(self, name: str, value: object) -> None:
        try:
            sampling = replace(self._sampling, **{name: value})  # type: ignore[arg-type]
        except BadOption as problem:
            self._numbers[name].show_problem(str(problem))
            return
        self._numbers[name].show_problem("")
        self._take(sampling)

    def _try_seed(self, seed: int | None) -> None:
        try:
            sampling = replace(self._sampling, seed=seed)
        except BadOption as problem:
            self._seed.show_problem(str(problem))
            return
        self._seed.show_seed(seed)
        self._take(sampling)

    def _try_bias(self, text: str) -> None:
        try:
            sampling = replace(self._sampling, logit_bias=read_logit_bias(text))
        except BadOption as problem:
            self._bias.show_problem(str(problem))
            return
        self._bias.show_problem("")
        self._take(sampling)

    def _try_limit(self, limit: int | None) -> None:
        try:
            self._generation = replace(self._generation, max_tokens=limit)
        except BadOption as problem:
            self._limit.show_problem(str(problem))
            return
        self._limit.show_problem("")
        self.generation_changed.emit(self._generation)

    def _try_stop(self, text: str) -> None:
        self._generation = replace(self._generation, stop=read_stop(text))
        self.generation_changed.emit(self._generation)

    def _take(self, sampling: SamplingOptions) -> None:
        self._sampling = sampling
        self._allow_recommended()
        self.sampling_changed.emit(sampling)

    def _take_recommended(self) -> None:
        if self._recommended is not None:
            sampling = replace(self._recommended, seed=self._sampling.seed)
            self.show_settings(sampling, self._generation)
            self._take(sampling)

    def _allow_recommended(self) -> None:
        """Only where it would change something; a locked seed stays."""
        own = self._recommended
        differs = own is not None and replace(own, seed=self._sampling.seed) != self._sampling
        self._own.setEnabled(differs)
        self._own.setToolTip("" if own is not None else "No model is loaded")
