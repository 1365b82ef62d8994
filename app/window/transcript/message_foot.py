"""The line under a message: figures of an answer, and buttons."""

from PySide6.QtCore import QPoint, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QSizePolicy, QWidget
from typing_extensions import override

from app.window.controls.icons import IconButton
from app.window.controls.labels import label, paragraph, set_tip, tabular
from app.window.controls.layouts import STRETCH, column, row
from app.window.language import DRAFTING, STEP, TOKEN, percent, tr
from app.window.look import look
from app.window.transcript.reader import ActionButton, CopyButton, QuietButton
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.stats import GenerationStats


def footer_figures(stats: GenerationStats) -> tuple[str, ...]:
    """Return the two figures on the line below an answer."""
    return (
        tr("{speed:.1f} tok/s", speed=stats.tokens_per_second),
        tr("{n:,} tokens", "1 token", stats.generated_tokens),
    )


def _drafting(stats: GenerationStats) -> tuple[str, ...]:
    if not stats.drafted:
        return (tr("Written without drafting"),)
    by_place = zip(stats.accepted_by_depth, stats.drafted_by_depth, strict=False)
    return (
        tr(
            "{share} of guesses right ({accepted:,} of {drafted:,})",
            share=percent(stats.acceptance),
            accepted=stats.accepted,
            drafted=stats.drafted,
        ),
        tr(
            "{mean:.1f} tokens per step (without drafting: 1)",
            mean=stats.tokens_per_pass,
        ),
        _tokens_ahead(stats),
        *(
            tr(
                "Guess {place} of a step: {accepted:,} of {drafted:,} right ({share})",
                place=place,
                accepted=accepted,
                drafted=drafted,
                share=percent(accepted / drafted if drafted else 0),
            )
            for place, (accepted, drafted) in enumerate(by_place, 1)
        ),
    )


def _tokens_ahead(stats: GenerationStats) -> str:
    """Describe the draft depth: one number if constant, else mean and maximum."""
    deepest = len(stats.drafted_by_depth)
    if stats.drafted_by_depth[-1:] == stats.drafted_by_depth[:1]:
        return tr("Guessed {n} tokens ahead", "Guessed 1 token ahead", deepest)
    rounds = stats.drafted_by_depth[0] if stats.drafted_by_depth else 1
    return tr(
        "Guessed {mean:.1f} tokens ahead, {deepest} at most",
        mean=stats.drafted / max(1, rounds),
        deepest=deepest,
    )


def all_figures(stats: GenerationStats) -> str:
    """Return all figures of an answer, one a line, with acceptance by depth, and explanations."""
    lines = [
        tr("{speed:.1f} tokens per second", speed=stats.tokens_per_second),
        tr("{n:,} tokens", "1 token", stats.generated_tokens),
    ]
    if stats.time_to_first_token_s:
        lines.append(tr("{seconds:.2f} s to the first token", seconds=stats.time_to_first_token_s))
    read = tr("Read {n:,} tokens", "Read 1 token", stats.prompt_tokens)
    if stats.reused_tokens:
        reused = tr("{reused:,} of them remembered from before", reused=stats.reused_tokens)
        read = f"{read}, {reused}"
    lines += ["", read]
    if stats.head_rows:
        lines.append(
            tr(
                "{rows:,} of them read once more, for drafting ({share} of reading time)",
                rows=stats.head_rows,
                share=percent(stats.head_share),
            )
        )
    told = (tr(words) for words in ((TOKEN, DRAFTING, STEP) if stats.drafted else (TOKEN,)))
    return "\n".join((*lines, "", *_drafting(stats), "", *told))


SEPARATOR = "  ·  "
HEIGHT = 24
"""Height of the line of figures in pixels."""


class FiguresPopover(QFrame):
    """All figures of an answer; a click beside it or Escape closes it."""

    def __init__(self, figures: str, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setProperty("role", "card")
        self.setAccessibleName(tr("Figures of this answer"))
        self.setAccessibleDescription(figures)
        column(paragraph(figures, "note"), of=self, margins=(12, 10, 12, 10))
        width = round(POPOVER_WIDTH * look().zoom)
        self.ensurePolished()
        self.setFixedSize(width, self.heightForWidth(width))


POPOVER_WIDTH = 320


class MessageFooter(QuietButton):
    """Two figures of an answer, and its model; a click shows all figures."""

    def __init__(self) -> None:
        super().__init__()
        self._figures: tuple[str, ...] = ()
        self._all = ""
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.clicked.connect(self._open)

    def show_stats(self, stats: GenerationStats, model: str = "") -> None:
        """Show figures, and the model's name if given."""
        self._figures = (*filter(None, [model]), *footer_figures(stats))
        self._all = "\n".join(filter(None, [model, all_figures(stats)]))
        set_tip(self, self._all)
        self.setAccessibleName(tr("Figures: {figures}", figures=", ".join(self._figures)))
        self.setAccessibleDescription(self._all)
        self.update()

    def shown(self) -> str:
        """The figures as one line."""
        return SEPARATOR.join(self._figures)

    def fitting(self) -> str:
        """The figures that fit on the line."""
        metrics = QFontMetrics(look().small_font())
        for count in range(len(self._figures), 1, -1):
            line = SEPARATOR.join(self._figures[:count])
            if metrics.horizontalAdvance(line) + 4 <= self.width():
                return line
        return self._figures[0] if self._figures else ""

    def _open(self) -> None:
        popover = FiguresPopover(self._all, self)
        place = self.mapToGlobal(QPoint(0, -4 - popover.height()))
        if place.y() < self.window().mapToGlobal(QPoint()).y():  # below, as far as the screen goes
            below = self.mapToGlobal(QPoint(0, self.height() + 4)).y()
            lowest = self.screen().availableGeometry().bottom() - popover.height()
            place.setY(min(below, lowest))
        popover.move(place)
        popover.show()

    # Qt

    @override
    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(look().small_font())
        return QSize(metrics.horizontalAdvance(self.shown()) + 4, HEIGHT)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setFont(look().small_font())
            self.paint_words(painter, self.fitting(), left=2)


class MessageActions(QWidget):
    """The buttons of a message, to be connected by its view; two lines if one is too short."""

    def __init__(self) -> None:
        super().__init__()
        self.previous = IconButton("chevron_left", tr("Previous version"), colour="muted")
        self.number = label("", "muted")
        tabular(self.number)
        self.next = IconButton("chevron_right", tr("Next version"), colour="muted")
        self.copy = CopyButton("copy", tr("Copy"))
        self.edit = ActionButton("edit", tr("Edit and send again"))
        self.regenerate = ActionButton("regenerate", tr("Answer Again"))
        self.more = ActionButton("more", tr("More"))
        self.go_on = IconButton("continue", tr("Continue this answer"), colour="muted")
        self.go_on.setText(tr("Continue"))
        self.go_on.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.drop = IconButton(
            "continue",
            tr("Continue. The oldest messages stay here but are no longer read"),
            colour="muted",
        )
        self.drop.setText(tr("Continue without the oldest messages"))
        self.drop.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        versions = (self.previous, self.number, self.next, self.go_on, self.drop)
        self._words = words = (self.copy, self.edit, self.regenerate, self.more)
        self._parts = row(STRETCH, *versions, spacing=2), row(STRETCH, *words, spacing=2)
        self._lines = row(*self._parts, of=self, spacing=2)

    def show_message(self, message: ShownMessage) -> None:
        """Show the buttons that suit a message."""
        is_answer, has_branches = message.role == "assistant", message.branch_count > 1
        self.copy.setVisible(bool(message.text or message.pictures))
        self.regenerate.setVisible(is_answer)
        self.go_on.setVisible(is_answer and message.can_continue)
        self.drop.setVisible(is_answer and message.can_drop)
        self.edit.show_icon(
            "edit", tr("Edit this answer") if is_answer else tr("Edit and send again")
        )
        for widget in (self.previous, self.number, self.next):
            widget.setVisible(has_branches)
        self.number.setText(f"{message.branch_index + 1}/{message.branch_count}")
        self.number.setAccessibleName(
            tr(
                "Version {version} of {versions}",
                version=message.branch_index + 1,
                versions=message.branch_count,
            )
        )
        self.previous.setEnabled(message.branch_index > 0)
        self.next.setEnabled(message.branch_index < message.branch_count - 1)

    def paint_all(self, are_shown: bool) -> None:
        """Paint or hide the buttons that are not needed while reading."""
        for button in self._words:
            button.is_shown = are_shown
            button.update()

    def _widths(self) -> list[int]:
        return [part.sizeHint().width() for part in self._parts]

    def _arrange(self) -> None:
        way = QBoxLayout.Direction
        fits = self.width() >= self.sizeHint().width()
        self._lines.setDirection(way.LeftToRight if fits else way.TopToBottom)

    # Qt

    @override
    def sizeHint(self) -> QSize:
        width = sum(self._widths()) + self._lines.spacing()
        return QSize(width, self._lines.sizeHint().height())

    @override
    def minimumSizeHint(self) -> QSize:
        return QSize(max(self._widths()), self._lines.minimumSize().height())

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()
