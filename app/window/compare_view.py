"""The Compare view: one prompt with drafting on and off, differences, and speeds."""

from itertools import zip_longest
from typing import Literal

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QFrame, QPushButton, QWidget
from typing_extensions import override

from app.start.threads import TURN_MS
from app.state.compare import Comparison, Side
from app.state.running_answer import Growth, RunningAnswer
from app.window.attachments import AttachmentRow, why_blind
from app.window.composer import LONGEST, MessageBox
from app.window.controls.chart import Part, ShareBar
from app.window.controls.choices import Option, Segments
from app.window.controls.icons import Sign
from app.window.controls.labels import label, paragraph, say, set_role, set_tip, tabular
from app.window.controls.layouts import STRETCH, Wide, column, row, scrolled
from app.window.language import number, percent, said, tr
from app.window.transcript.answer_view import AnswerView
from app.window.transcript.pinned_scroll import PinnedScroll
from app.window.transcript.reader import Reader
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.stats import GenerationStats
from mlx_engine.values.words import Words

LOWEST = 220
"""Lowest height of an answer in pixels; below it the page is scrolled."""


class ComparePane(QFrame):
    """One side: an answer below its figures. is_strong: its bar has the accent colour."""

    def __init__(self, title: str, is_strong: bool, reader: Reader) -> None:
        super().__init__()
        self._title, self._colour = title, "accent" if is_strong else "muted"
        self._reader = reader
        self._answer: RunningAnswer | None = None
        self.view: AnswerView | None = None
        self.setProperty("role", "card")
        self.setAccessibleName(title)
        self._speed, self._figures = paragraph("", "title"), paragraph("", "muted")
        for figures in (self._speed, self._figures):
            tabular(figures)
        self._bar = ShareBar(tr("{title}: speed", title=title))
        self._scroll = PinnedScroll()
        self._scroll.setAccessibleName(tr("{title}: answer", title=title))
        self._scroll.setMinimumHeight(LOWEST)
        self._lines = column(STRETCH, of=self._scroll.content)
        heading = paragraph(title, "heading")
        parts = (heading, self._speed, self._bar, self._figures, 6, Wide(self._scroll))
        column(*parts, of=self, margins=(16, 12, 16, 12), spacing=6)

    def show_answer(self, answer: RunningAnswer | None) -> None:
        """Show a new answer, None for none; the same one is kept."""
        if answer is self._answer:
            return
        if self.view is not None:
            self._lines.removeWidget(self.view)
            self.view.hide()
            self.view.deleteLater()
        self._answer, self.view = answer, None
        if answer is not None:
            self.view = AnswerView(self._reader, self._scroll.viewport().width())
            self._lines.insertWidget(0, self.view)
            self._scroll.follow()

    def grow(self, growth: Growth) -> None:
        """Append what was added to the answer."""
        if self.view is not None and self._answer is not None:
            self.view.append(growth.pieces)
            if growth.ends_thinking:
                self.view.finish_thinking(self._answer.thinking_seconds)

    def finish(self) -> None:
        """End the stream of the answer."""
        if self.view is not None and self._answer is not None:
            seconds = self._answer.thinking_seconds
            text = self._answer.answer.text
            self.view.finish(ShownMessage(0, "assistant", text, thinking_seconds=seconds))

    def show_figures(self, speed: float | None, fastest: float, words: str) -> None:
        """Show tokens a second, None for none, relative to the faster side, and `words`."""
        told = "" if speed is None else tr("{speed:.1f} tok/s", speed=speed)
        self._speed.setText(told)
        self._figures.setText(words)
        share = speed / fastest if speed and fastest else 0.0
        self._bar.show_parts(told, Part(share, self._colour))
        self.setAccessibleDescription(", ".join(filter(None, (self._title, told, words))))


def figures_in_words(stats: GenerationStats) -> str:
    """Format figures: "212 tokens · 2.91 tokens per step · 82% of guesses right (174 of 212)"."""
    parts = [
        tr("{n:,} tokens", "1 token", stats.generated_tokens),
        tr("{mean:.2f} tokens per step", mean=stats.tokens_per_pass),
    ]
    if stats.drafted:
        parts.append(
            tr(
                "{share} of guesses right ({accepted:,} of {drafted:,})",
                share=percent(stats.acceptance),
                accepted=stats.accepted,
                drafted=stats.drafted,
            )
        )
    return " · ".join(parts)


LETTERS_SHOWN = 24
"""Most letters shown of a differing word."""


def verdict(drafted: str, plain: str, on: GenerationStats, off: GenerationStats) -> str:
    """Compare two complete answers, character by character."""
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
    """Count the whole words that two unfinished answers share; None if they already differ."""
    length = min(len(drafted), len(plain))
    return len(plain[:length].split()) if drafted[:length] == plain[:length] else None


def gain(on: GenerationStats, off: GenerationStats, pinned: int | None = None) -> str:
    """Say what drafting gained or lost; "" if a speed was not measured. pinned: a fixed depth."""
    ratio = speed_ratio(on, off)
    if not ratio:
        return ""
    if not on.drafted:
        return tr("{ratio:.2f} times the speed, though nothing was guessed.", ratio=ratio)
    if ratio >= 1.005:
        return tr("{ratio:.2f} times as fast with drafting.", ratio=ratio)
    if ratio > 0.995:
        return tr("As fast with drafting as without.")
    slower = tr("{ratio:.2f} times as fast: drafting was slower here", ratio=ratio)
    if pinned is None:
        return f"{slower}."
    return tr(
        "{slower}. This chat guesses {n} tokens ahead in any case; Auto only as many as help.",
        "{slower}. This chat guesses 1 token ahead in any case; Auto only as many as help.",
        pinned,
        slower=slower,
    )


def speed_ratio(on: GenerationStats, off: GenerationStats) -> float:
    """Speed with drafting over speed without; 0 when one was not measured."""
    return on.tokens_per_second / off.tokens_per_second if off.tokens_per_second else 0.0


Verdict = Literal["", "check", "warning"]


class VerdictCard(QFrame):
    """The result of a comparison; hidden while there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "chip")
        self._sign = Sign("check", "accent")
        self._words = paragraph("", "heading")
        self._words.setAccessibleName(tr("Verdict"))
        self._gain, self._seed = paragraph("", "muted"), paragraph("", "muted")
        self._ratio = label("", "title")
        self._ratio.setAccessibleName(tr("Speed with drafting over speed without"))
        tabular(self._ratio)
        top = row(self._sign, Wide(self._words), self._ratio, spacing=10)
        column(top, self._gain, self._seed, of=self, margins=(16, 10, 16, 10), spacing=2)
        self.show_words("")

    def show_seed(self, seed: int | None) -> None:
        """Show the seed of both sides, None for none yet."""
        say(self._seed, "" if seed is None else tr("Seed {seed}", seed=seed))

    def show_words(self, words: str, sign: Verdict = "", gain: str = "", ratio: str = "") -> None:
        """Show progress, problem or result, and the gain."""
        set_role(self._words, "error-heading" if sign == "warning" else "heading")
        for target, text in ((self._words, words), (self._gain, gain), (self._ratio, ratio)):
            say(target, text)
        for named, text in ((self._words, words), (self._ratio, ratio)):
            named.setAccessibleDescription(text)
        if sign:
            self._sign.show_sign(sign, "error" if sign == "warning" else "accent")
        self._sign.setVisible(bool(sign))
        self.setVisible(bool(words))


AUTO, PINNED = "auto", "pinned"
INTRODUCTION = Words(
    "Answers one prompt twice, with drafting and without. The words "
    "must be the same; only the speed may differ."
)
TOO_LONG = Words("That text is too long to compare with: choose a shorter one.")
NO_MODEL = Words("Open or drop a model first.")
ENDINGS = {"stopped": Words("Stopped"), "failed": Words("Failed")}


class CompareView(QWidget):
    """Watches a Comparison; drafting is automatic unless the user chose the chat's fixed depth.

    reader: settings of both answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Compare"))
        self.reader = Reader(self)
        self._comparison: Comparison
        self._begun_with: tuple[int | None, int | None] = (None, None)
        self._prompt = MessageBox()
        self._prompt.setProperty("role", "field")
        self._prompt.setAccessibleName(tr("Prompt to compare with"))
        self._prompt.setPlaceholderText(tr("A prompt to run twice"))
        self._pictures = AttachmentRow()
        self._run = QPushButton(tr("Run"))
        self._run.setProperty("role", "primary")
        self._run.setAutoDefault(True)  # Return presses it too
        self._depth = Segments(tr("Guess ahead"))
        self._depth_row = QWidget()
        row(label(tr("Guess ahead"), "muted"), self._depth, STRETCH, of=self._depth_row, spacing=8)
        self._pinned: int | None = None
        self._verdict = VerdictCard()
        self._panes: dict[Side, ComparePane] = {
            "on": ComparePane(tr("Drafting on"), True, self.reader),
            "off": ComparePane(tr("Drafting off"), False, self.reader),
        }
        self._lay_out()
        self.setFocusProxy(self._prompt)
        self._prompt.long_text_pasted.connect(lambda _: self._verdict.show_words(TOO_LONG))
        self.show_pinned(None)

    def _lay_out(self) -> None:
        top = row(Wide(self._prompt), self._run)
        top.setAlignment(self._run, Qt.AlignmentFlag.AlignTop)
        panes = row(*map(Wide, self._panes.values()), spacing=16)
        asked = (self._pictures, top, self._depth_row)
        parts = (paragraph(INTRODUCTION, "muted"), *asked, 4, self._verdict, 4)
        body = QWidget()
        column(*parts, Wide(panes), of=body, margins=(24, 0, 24, 24), spacing=8)
        self._page = scrolled(body)
        self._look_down = QTimer(self, singleShot=True, interval=TURN_MS)
        self._look_down.timeout.connect(self._show_answers)
        column(Wide(self._page), of=self)

    def watch(self, comparison: Comparison) -> None:
        """Show this comparison."""
        self._comparison = comparison
        self._run.clicked.connect(self._press)
        self._prompt.send_wanted.connect(self._try_run)
        self._prompt.textChanged.connect(self._refresh_run)
        self._pictures.changed.connect(self._refresh_run)
        comparison.grown.connect(self._grow)
        comparison.changed.connect(self._look_down.start)
        for changed in (comparison.changed, comparison.models.changed):
            changed.connect(self._refresh)
        self._refresh()

    def begin(self) -> None:
        """Take the last question of the chat on show as the prompt, once for each question."""
        chat = self._comparison.chat
        asked = chat.last_question
        begun_with = (chat.chat_id, asked.id if asked else None)
        if begun_with != self._begun_with:
            self._begun_with = begun_with
            self.show_prompt(asked.text if asked else "")
            self._pictures.show_attachments((), asked.pictures if asked else ())
            self._prompt.selectAll()
        self.show_pinned(self._comparison.pinned)

    def show_prompt(self, prompt: str) -> None:
        """Put a prompt into the field, unless it is too long."""
        is_short = len(prompt) <= LONGEST
        self._prompt.setPlainText(prompt if is_short else "")
        self._prompt.moveCursor(QTextCursor.MoveOperation.End)
        if not is_short:
            self._verdict.show_words(TOO_LONG)

    def show_pinned(self, depth: int | None) -> None:
        """Offer to compare the chat's fixed draft depth; None for none."""
        if depth != self._pinned or depth is None:
            self._pinned = depth
            self._depth.show_options(
                (
                    Option(AUTO, tr("Auto")),
                    Option(PINNED, tr("As in this chat: {depth}", depth=depth)),
                ),
                AUTO,
            )
        self._depth_row.setVisible(depth is not None)

    def _grow(self, side: Side, growth: Growth) -> None:
        self._panes[side].grow(growth)
        self._refresh_answers()

    def _refresh(self) -> None:
        comparison = self._comparison
        for side, pane in self._panes.items():
            pane.show_answer(comparison.answers.get(side))
            if comparison.running != side:
                pane.finish()
        self._depth_row.setEnabled(not comparison.is_running)
        self._prompt.setReadOnly(comparison.is_running)
        self._verdict.show_seed(comparison.seed)
        self._refresh_run()
        self._refresh_answers()

    def _refresh_run(self) -> None:
        is_running = self._comparison.is_running
        self._run.setText(tr("Stop") if is_running else tr("Run"))
        self._pictures.show_vision(why_blind(self._comparison.models.description))
        can_run = self._has_prompt and not self._why_not
        self._run.setEnabled(is_running or can_run)
        set_tip(self._run, "" if is_running else said(self._why_not))

    @property
    def _has_prompt(self) -> bool:
        return bool(self._prompt.toPlainText().strip() or self._pictures.pictures())

    @property
    def _why_not(self) -> str:
        return self._pictures.unseen if self._comparison.models.can_answer else NO_MODEL

    def _refresh_answers(self) -> None:
        """Show the figures of both sides, and the words that they share so far."""
        comparison = self._comparison
        is_over = bool(comparison.ending)
        speeds = {
            side: None if is_over and comparison.stats(side) is None else answer.tokens_per_second
            for side, answer in comparison.answers.items()
        }
        fastest = max((speed for speed in speeds.values() if speed), default=0.0)
        for side, pane in self._panes.items():
            pane.show_figures(speeds.get(side), fastest, self._state_of(comparison, side))
        on, off = comparison.stats("on"), comparison.stats("off")
        if self._why_not and not comparison.is_running:
            self._verdict.show_words(said(self._why_not))
        elif comparison.problem:
            self._verdict.show_words(comparison.problem, "warning")
        elif on is not None and off is not None:
            texts, ratio = (comparison.said("on"), comparison.said("off")), speed_ratio(on, off)
            self._verdict.show_words(
                verdict(*texts, on, off),
                "check" if texts[0] == texts[1] else "warning",
                gain(on, off, comparison.depth),
                number(ratio, ".2f") + "×" if ratio else "",
            )
        else:
            self._verdict.show_words(*self._so_far(comparison))

    def _state_of(self, comparison: Comparison, side: Side) -> str:
        """Describe the state of a side."""
        stats = comparison.stats(side)
        if stats is not None:
            return figures_in_words(stats)
        if comparison.ending:
            return said(ENDINGS[comparison.ending])
        if comparison.running == side:
            return tr("Running") if comparison.said(side) else tr("Reading the prompt")
        return tr("Runs next") if comparison.is_running else tr("Not run yet")

    def _so_far(self, comparison: Comparison) -> tuple[str, Verdict]:
        """Compare texts that are not complete."""
        state = tr("Running") if comparison.is_running else said(ENDINGS.get(comparison.ending, ""))
        on, off = comparison.said("on"), comparison.said("off")
        if not on or not off:
            return state, ""
        words = common_words(on, off)
        if words is None:
            return tr("{state}. The texts differ.", state=state), "warning"
        told = tr("{state}. The first {words:,} words are the same.", state=state, words=words)
        return told, "check"

    def _show_answers(self) -> None:
        """Scroll to the verdict and the answers if the page does not fit."""
        self._page.verticalScrollBar().setValue(self._verdict.y())

    def _press(self) -> None:
        if self._comparison.is_running:
            self._comparison.stop()
        else:
            self._try_run()

    def _try_run(self) -> None:
        prompt, comparison = self._prompt.toPlainText().strip(), self._comparison
        if self._has_prompt and not comparison.is_running and not self._why_not:
            as_pinned = self._pinned is not None and self._depth.value == PINNED
            comparison.run(prompt, self._pictures.pictures(), as_pinned=as_pinned)

    # Qt

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self._comparison.is_running:
            self._comparison.stop()
        else:
            super().keyPressEvent(event)
