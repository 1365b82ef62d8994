"""The Compare view: one prompt with drafting on and off, the words checked, the speeds shown."""

from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.window.compare.compare_pane import ComparePane
from app.window.compare.same_words import common_words, gain, verdict
from app.window.composer.message_box import LONGEST, MessageBox
from app.window.controls.labels import label, paragraph, say, set_role
from app.window.theme import Theme, TypeSizes
from mlx_engine.values.stats import GenerationStats

Side = Literal["on", "off"]
INTRODUCTION = (
    "Runs one prompt twice with the same seed, with drafting and without. "
    "The words must be the same; only the speed may differ."
)
TOO_LONG = "That text is too long to compare with: choose a shorter one."


class CompareView(QWidget):
    """Signals: `run_wanted`(prompt), `stop_wanted`, `closed`.

    The owner calls `begin`, then for each side `begin_side`, `add_text`, `finish_side`; or
    `show_stopped`, `show_failed`.
    """

    run_wanted = Signal(str)
    stop_wanted = Signal()
    closed = Signal()

    def __init__(self, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__()
        self.setAccessibleName("Compare")
        self._is_running = False
        self._why_not = ""
        self._texts: dict[Side, str] = {"on": "", "off": ""}
        self._stats: dict[Side, GenerationStats] = {}
        self._prompt = MessageBox()
        self._prompt.setProperty("role", "field")
        self._prompt.setAccessibleName("Prompt to compare with")
        self._prompt.setPlaceholderText("A prompt to run twice")
        self._run = QPushButton("Run")
        self._run.setProperty("role", "primary")
        self._close = QPushButton("Back to the chat")
        self._verdict = paragraph("", "heading")
        self._verdict.setAccessibleName("Verdict")
        self._gain = paragraph("", "muted")
        self._panes: dict[Side, ComparePane] = {
            "on": ComparePane("Drafting on"),
            "off": ComparePane("Drafting off"),
        }
        self._lay_out()
        self._run.clicked.connect(self._press)
        self._prompt.send_wanted.connect(self._try_run)
        self._prompt.textChanged.connect(self._refresh)
        self._prompt.long_text_pasted.connect(lambda _: self._say(TOO_LONG, ""))
        self._close.clicked.connect(self.closed)
        self.set_theme(theme, sizes)
        self.show_ready()
        self._say("", "")

    def _lay_out(self) -> None:
        title, top, panes = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        title.addWidget(label("Compare", "title"), 1)
        title.addWidget(self._close)
        top.addWidget(self._prompt, 1)
        top.addWidget(self._run, 0, Qt.AlignmentFlag.AlignTop)
        panes.setSpacing(16)
        for pane in self._panes.values():
            panes.addWidget(pane, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 16, 24, 24)
        column.setSpacing(8)
        column.addLayout(title)
        column.addWidget(paragraph(INTRODUCTION, "muted"))
        column.addLayout(top)
        column.addSpacing(4)
        column.addWidget(self._verdict)
        column.addWidget(self._gain)
        column.addSpacing(4)
        column.addLayout(panes, 1)

    def show_prompt(self, prompt: str) -> None:
        """Put a prompt in the box, unless it is too long for it."""
        is_short = len(prompt) <= LONGEST
        self._prompt.setPlainText(prompt if is_short else "")
        self._say("" if is_short else TOO_LONG, "")

    def show_ready(self, why_not: str = "") -> None:
        """Nothing runs; why_not: the reason nothing can be run, "" when it can."""
        self._is_running, self._why_not = False, why_not
        self._refresh()

    def begin(self) -> None:
        """A comparison starts."""
        self._is_running = True
        self._texts = {"on": "", "off": ""}
        self._stats = {}
        for pane in self._panes.values():
            pane.wait()
        self._say("Running", "")
        self._refresh()

    def begin_side(self, side: Side) -> None:
        """This side's answer starts."""
        self._panes[side].begin()

    def add_text(self, side: Side, text: str) -> None:
        """More of a side's answer."""
        self._texts[side] += text
        self._panes[side].add_text(text)
        self._say_so_far("Running")

    def finish_side(self, side: Side, stats: GenerationStats) -> None:
        """A side is complete; after the second one the verdict is spoken."""
        self._stats[side] = stats
        self._panes[side].finish(stats)
        if len(self._stats) == 2:
            on, off = self._stats["on"], self._stats["off"]
            self._say(verdict(self._texts["on"], self._texts["off"], on, off), gain(on, off))
            same = self._texts["on"] == self._texts["off"]
            set_role(self._verdict, "heading" if same else "error-heading")
            self.show_ready(self._why_not)

    def show_stopped(self) -> None:
        """The user stopped it."""
        self._end("Stopped")

    def show_failed(self, words: str) -> None:
        """It could not go on; words say why."""
        self._end("Failed")
        self._say(words, "")
        set_role(self._verdict, "error-heading")

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Colours and sizes come from the style sheet; only the prompt's height follows them."""
        del theme, sizes
        self._prompt.fit()

    def _end(self, words: str) -> None:
        for pane in self._panes.values():
            pane.end(words)
        self._say_so_far(words)
        self.show_ready(self._why_not)

    def _say_so_far(self, state: str) -> None:
        on, off = self._texts["on"], self._texts["off"]
        if not (on and off):
            self._say(state, "")
            return
        words = common_words(on, off)
        same = f"{state}. The first {words:,} words are the same." if words is not None else ""
        self._say(same or f"{state}. The texts differ.", "")

    def _say(self, words: str, gain_words: str) -> None:
        set_role(self._verdict, "heading")
        say(self._verdict, words)
        say(self._gain, gain_words)

    def _press(self) -> None:
        if self._is_running:
            self.stop_wanted.emit()
        else:
            self._try_run()

    def _try_run(self) -> None:
        prompt = self._prompt.toPlainText().strip()
        if prompt and not self._is_running and not self._why_not:
            self.run_wanted.emit(prompt)

    def _refresh(self) -> None:
        self._run.setText("Stop" if self._is_running else "Run")
        can_run = bool(self._prompt.toPlainText().strip()) and not self._why_not
        self._run.setEnabled(self._is_running or can_run)
        self._run.setToolTip(self._why_not)
        self._prompt.setReadOnly(self._is_running)
        if self._why_not and not self._is_running:
            self._say(self._why_not, "")
