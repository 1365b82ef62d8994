"""The Compare view: one prompt with drafting on and off, the words checked, the speeds shown."""

from itertools import zip_longest
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from app.start.threads import TURN_MS
from app.window.compare.compare_pane import ComparePane
from app.window.composer.message_box import LONGEST, MessageBox
from app.window.controls.choices import Option, Segments
from app.window.controls.icons import Sign
from app.window.controls.labels import label, paragraph, say, set_role, set_tip, tabular
from app.window.controls.layouts import STRETCH, Wide, column, row, scrolled
from app.window.language import number, said, tr
from app.window.transcript.reader import Reader
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words

LETTERS_SHOWN = 24
"""Of a differing word, at most."""


def verdict(drafted: str, plain: str, on: GenerationStats, off: GenerationStats) -> str:
    """Both answers are complete: are they the same, character by character?"""
    if drafted == plain and on.generated_tokens == off.generated_tokens:
        return tr("Same {tokens:,} tokens.", tokens=on.generated_tokens)
    if drafted == plain:
        return tr(
            "Same text in other tokens: {tokens:,} with drafting, {others:,} without.",
            tokens=on.generated_tokens,
            others=off.generated_tokens,
        )
    pairs = zip_longest(drafted.split(), plain.split(), fillvalue="")
    for place, (one, other) in enumerate(pairs, 1):
        if one != other:
            return tr(
                "Differs from word {number}: {drafted} with drafting, {plain} without.",
                number=place,
                drafted=_shown(one),
                plain=_shown(other),
            )
    return tr("Differs in spaces or line breaks; the words are the same.")


def _shown(word: str) -> str:
    return tr("“{word}”", word=word[:LETTERS_SHOWN]) if word else tr("the end")


def common_words(drafted: str, plain: str) -> int | None:
    """Whole words both have so far while they are written; None when they already differ."""
    length = min(len(drafted), len(plain))
    return len(plain[:length].split()) if drafted[:length] == plain[:length] else None


def gain(on: GenerationStats, off: GenerationStats, pinned: int | None = None) -> str:
    """What drafting gained, in words that also fit a loss; "" when a speed was not measured.

    pinned: the depth it drafted at, None where it chose.
    """
    ratio = speed_ratio(on, off)
    if not ratio:
        return ""
    if not on.drafted:
        return tr("{ratio:.2f} times the speed, though nothing was drafted.", ratio=ratio)
    if ratio >= 1.005:
        return tr("{ratio:.2f} times as fast with drafting.", ratio=ratio)
    if ratio > 0.995:
        return tr("As fast with drafting as without.")
    slower = tr("{ratio:.2f} times as fast: drafting was slower here", ratio=ratio)
    if pinned is None:
        return f"{slower}."
    return tr(
        "{slower}. Depth {pinned} is pinned: Auto drafts only as deep as pays.",
        slower=slower,
        pinned=pinned,
    )


def speed_ratio(on: GenerationStats, off: GenerationStats) -> float:
    """Speed with drafting over speed without; 0 when one was not measured."""
    return on.tokens_per_second / off.tokens_per_second if off.tokens_per_second else 0.0


Verdict = Literal["", "check", "warning"]


class VerdictCard(QFrame):
    """Hidden while there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "chip")
        self._sign = Sign("check", "accent")
        self._words = paragraph("", "heading")
        self._words.setAccessibleName(tr("Verdict"))
        self._gain, self._seed = paragraph("", "muted"), paragraph("", "muted")
        self._ratio = label("", "figure")
        self._ratio.setAccessibleName(tr("Speed with drafting over speed without"))
        tabular(self._ratio)
        top = row(self._sign, Wide(self._words), self._ratio, spacing=10)
        column(top, self._gain, self._seed, of=self, margins=(16, 10, 16, 10), spacing=2)
        self.show_words("")

    def show_seed(self, seed: int | None) -> None:
        """The seed both sides use, None for none yet."""
        say(self._seed, "" if seed is None else tr("Seed {seed}", seed=seed))

    def show_words(self, words: str, sign: Verdict = "", gain: str = "", ratio: str = "") -> None:
        """What is known so far, went wrong or came out, and what was gained."""
        set_role(self._words, "error-heading" if sign == "warning" else "heading")
        for target, text in ((self._words, words), (self._gain, gain), (self._ratio, ratio)):
            say(target, text)
        if sign:
            self._sign.show_sign(sign, "error" if sign == "warning" else "accent")
        self._sign.setVisible(bool(sign))
        self.setVisible(bool(words))


Side = Literal["on", "off"]
AUTO, PINNED = "auto", "pinned"
INTRODUCTION = Words(
    "Runs one prompt twice with the same seed, with drafting and without. The words "
    "must be the same; only the speed may differ."
)
TOO_LONG = Words("That text is too long to compare with: choose a shorter one.")


class CompareView(QWidget):
    """Drafting chooses its depth, unless the user wants the one that the chat has pinned.

    Signals: `run_wanted`(prompt), `stop_wanted`. The owner calls `begin`, then for each side
    `begin_side`, `add_text`, `show_speed` and `finish_side`; or `show_stopped`, `show_failed`.
    reader: of both answers.
    """

    run_wanted = Signal(str)
    stop_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Compare"))
        self.reader = Reader(self)
        self._is_running = False
        self._why_not = ""
        self._stats: dict[Side, GenerationStats] = {}
        self._prompt = MessageBox()
        self._prompt.setProperty("role", "field")
        self._prompt.setAccessibleName(tr("Prompt to compare with"))
        self._prompt.setPlaceholderText(tr("A prompt to run twice"))
        self._run = QPushButton(tr("Run"))
        self._run.setProperty("role", "primary")
        self._run.setAutoDefault(True)  # Return presses it too
        self._depth = Segments(tr("Depth to compare"))
        self._depth_row = QWidget()
        row(label(tr("Depth"), "muted"), self._depth, STRETCH, of=self._depth_row, spacing=8)
        self._pinned: int | None = None
        self._compared: int | None = None
        self._verdict = VerdictCard()
        self._panes: dict[Side, ComparePane] = {
            "on": ComparePane(tr("Drafting on"), True, self.reader),
            "off": ComparePane(tr("Drafting off"), False, self.reader),
        }
        self._lay_out()
        self.setFocusProxy(self._prompt)
        self._run.clicked.connect(self._press)
        self._prompt.send_wanted.connect(self._try_run)
        self._prompt.textChanged.connect(self._refresh)
        self._prompt.long_text_pasted.connect(lambda _: self._verdict.show_words(TOO_LONG))
        self.show_pinned(None)
        self.show_ready()

    def _lay_out(self) -> None:
        top = row(Wide(self._prompt), self._run)
        top.setAlignment(self._run, Qt.AlignmentFlag.AlignTop)
        panes = row(*map(Wide, self._panes.values()), spacing=16)
        parts = (paragraph(INTRODUCTION, "muted"), top, self._depth_row, 4, self._verdict, 4)
        body = QWidget()
        column(*parts, Wide(panes), of=body, margins=(24, 0, 24, 24), spacing=8)
        self._page = scrolled(body)
        self._look_down = QTimer(self, singleShot=True, interval=TURN_MS)
        self._look_down.timeout.connect(self._show_answers)
        column(Wide(self._page), of=self)

    def _show_answers(self) -> None:
        """Where there is no room for all of the page: what came out, and the answers below it."""
        self._page.verticalScrollBar().setValue(self._verdict.y())
        if len(self._stats) == 2:
            for pane in self._panes.values():
                pane.text.go_to_mark()

    def show_prompt(self, prompt: str) -> None:
        """Put a prompt in the box, unless it is too long for it."""
        is_short = len(prompt) <= LONGEST
        self._prompt.setPlainText(prompt if is_short else "")
        self._prompt.moveCursor(QTextCursor.MoveOperation.End)
        self._verdict.show_words("" if is_short else TOO_LONG)

    def show_pinned(self, depth: int | None) -> None:
        """The depth that the chat has pinned, which can be compared too; None for none."""
        if depth != self._pinned or depth is None:
            self._pinned = depth
            self._depth.show_options(
                (Option(AUTO, tr("Auto")), Option(PINNED, tr("Pinned: {depth}", depth=depth))), AUTO
            )
        self._depth_row.setVisible(depth is not None)

    @property
    def wants_pinned(self) -> bool:
        """Whether the chat's own depth is to be compared, not the one that drafting chooses."""
        return self._depth.selected() == PINNED

    def show_ready(self, why_not: str = "") -> None:
        """Nothing runs; why_not: the reason nothing can be run, "" when it can."""
        if self._why_not and not why_not:
            self._verdict.show_words("")
        self._is_running, self._why_not = False, said(why_not)
        self._refresh()

    def begin(self, seed: int | None = None) -> None:
        """A comparison starts; both sides use this seed."""
        self._is_running, self._stats = True, {}
        self._compared = self._pinned if self.wants_pinned else None
        for pane in self._panes.values():
            pane.wait()
        self._verdict.show_seed(seed)
        self._verdict.show_words(tr("Running"))
        self._refresh()
        self._look_down.start()

    def begin_side(self, side: Side) -> None:
        """This side's answer starts."""
        self._panes[side].begin()

    def add_text(self, side: Side, text: str, is_thinking: bool = False) -> None:
        """More of a side's answer, or of the thinking before it."""
        self._panes[side].add_text(text, is_thinking)
        self._say_so_far(tr("Running"))

    def show_speed(self, side: Side, tokens_per_second: float) -> None:
        """A side's speed so far."""
        self._panes[side].show_speed(tokens_per_second)
        self._show_shares()

    def finish_side(self, side: Side, stats: GenerationStats) -> None:
        """A side is complete; after the second one the verdict is spoken."""
        self._stats[side] = stats
        self._panes[side].finish(stats)
        self._show_shares()
        if len(self._stats) == 2:
            self._judge()
            self.show_ready(self._why_not)

    def _judge(self) -> None:
        on, off = self._stats["on"], self._stats["off"]
        texts, ratio = self._said(), speed_ratio(on, off)
        self._verdict.show_words(
            verdict(texts["on"], texts["off"], on, off),
            "check" if texts["on"] == texts["off"] else "warning",
            gain(on, off, self._compared),
            number(ratio, ".2f") + "×" if ratio else "",
        )
        self._mark()
        self._look_down.start()

    def show_stopped(self) -> None:
        """The user stopped it."""
        self._end(tr("Stopped"))

    def show_failed(self, words: str) -> None:
        """It could not go on; words say why."""
        self._end(tr("Failed"))
        self._verdict.show_words(words, "warning")

    def _end(self, words: str) -> None:
        for pane in self._panes.values():
            pane.end(words)
        self._say_so_far(words)
        self.show_ready(self._why_not)

    def _said(self) -> dict[Side, str]:
        return {side: pane.text.said for side, pane in self._panes.items()}

    def _say_so_far(self, state: str) -> None:
        """The words are checked as they come."""
        texts = self._said()
        if not all(texts.values()):
            self._verdict.show_words(state)
            return
        words = common_words(texts["on"], texts["off"])
        if words is None:
            self._verdict.show_words(tr("{state}. The texts differ.", state=state), "warning")
        else:
            self._verdict.show_words(
                tr("{state}. The first {words:,} words are the same.", state=state, words=words),
                "check",
            )
        self._mark()

    def _mark(self) -> None:
        """Show where the texts part, if they do."""
        on, off = self._said().values()
        ended = len(self._stats) == 2 and on != off
        differ = ended or not (on.startswith(off) or off.startswith(on))
        pairs = enumerate(zip(on, off, strict=False))
        shorter = min(len(on), len(off))
        first = (
            next((at for at, (one, other) in pairs if one != other), shorter) if differ else None
        )
        for pane in self._panes.values():
            pane.text.mark_from(first)

    def _show_shares(self) -> None:
        fastest = max(pane.speed for pane in self._panes.values())
        for pane in self._panes.values():
            pane.show_share(fastest)

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
        self._run.setText(tr("Stop") if self._is_running else tr("Run"))
        can_run = bool(self._prompt.toPlainText().strip()) and not self._why_not
        self._run.setEnabled(self._is_running or can_run)
        set_tip(self._run, self._why_not)
        self._prompt.setReadOnly(self._is_running)
        self._depth_row.setEnabled(not self._is_running)
        if self._why_not and not self._is_running:
            self._verdict.show_words(self._why_not)

    # Qt

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape stops what runs; else it is for the page."""
        if event.key() == Qt.Key.Key_Escape and self._is_running:
            self.stop_wanted.emit()
        else:
            super().keyPressEvent(event)
