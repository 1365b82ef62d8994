"""Charts of the Drafting view."""

from collections.abc import Sequence
from math import ceil

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from app.state.round_history import DepthRow, Stages
from app.window.controls.chart import Chart
from app.window.language import number, percent, tr
from mlx_engine.values.words import Words

NO_STEPS = Words("Shown with the next answer.")
ROW = 1.6
"""Height of a row in lines of text."""
GAP = 8
"""Pixels between parts side by side."""


class DepthBars(Chart):
    """Acceptance by depth, a bar for each."""

    def __init__(self) -> None:
        super().__init__(ROW)
        self._rows: tuple[DepthRow, ...] = ()

    def show_rows(self, rows: Sequence[DepthRow]) -> None:
        """Show these rows."""
        self._rows = tuple(rows)
        self.refresh(is_empty=not rows)

    def words(self) -> str:
        """Every row in words."""
        if not self._rows:
            return tr("Shown once something is guessed.")
        return " ".join(
            tr(
                "Token {depth}: {accepted:,} of {drafted:,} right, {share}.",
                depth=row.depth,
                accepted=row.accepted,
                drafted=row.drafted,
                share=percent(row.share),
            )
            for row in self._rows
        )

    def height_wanted(self) -> int:
        """A row a depth."""
        return ceil(ROW * self.metrics.height()) * max(1, len(self._rows))

    def draw(self, painter: QPainter) -> None:
        """Label, bar on its track, figures."""
        metrics, height = self.metrics, self.height() / len(self._rows)
        label = metrics.horizontalAdvance("0") + GAP
        most = max((row.accepted, row.drafted) for row in self._rows)
        figures = metrics.horizontalAdvance(percent(1) + "{}/{}".format(*most)) + 2 * GAP
        for n, row in enumerate(self._rows):
            self._draw_row(
                painter, row, QRectF(0, n * height, self.width(), height), label, figures
            )

    def _draw_row(
        self, painter: QPainter, row: DepthRow, place: QRectF, label: float, figures: float
    ) -> None:
        """label, figures: pixels for the depth at the left and the figures at the right."""
        middle, right = Qt.AlignmentFlag.AlignVCenter, Qt.AlignmentFlag.AlignRight
        painter.setPen(self.colour("muted"))
        painter.drawText(place, middle, str(row.depth))
        painter.drawText(place, middle | right, f"{row.accepted}/{row.drafted}")
        numbers = QRectF(place.right() - figures, place.top(), figures, place.height())
        painter.setPen(self.colour("text"))
        painter.drawText(numbers, middle, percent(row.share))
        thick = place.height() / 3
        width = max(20.0, numbers.left() - GAP - label)
        track = QRectF(label, place.center().y() - thick / 2, width, thick)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self.colour("line"))
        painter.drawRoundedRect(track, 4, 4)
        if row.accepted:
            track.setWidth(max(8.0, track.width() * row.share))
            painter.setBrush(self.colour("accent"))
            painter.drawRoundedRect(track, 4, 4)


THINNEST, WIDEST, PASS_GAP = 3, 9, 1
"""Pixels: thinnest and widest bar of PassBars, and the gap between two."""


class PassBars(Chart):
    """Tokens of recent steps as bars; the model's own token is paler than drafted ones."""

    def __init__(self) -> None:
        super().__init__(4)
        self._tokens: tuple[int, ...] = ()

    def show_tokens(self, tokens: Sequence[int]) -> None:
        """Show tokens by pass, oldest first."""
        self._tokens = tuple(tokens)
        self.refresh(is_empty=not tokens)

    def words(self) -> str:
        """The mean in words."""
        if not self._tokens:
            return tr(NO_STEPS)
        mean = sum(self._tokens) / len(self._tokens)
        return tr(
            "The last {count} steps gave {mean:.2f} tokens each.",
            count=len(self._tokens),
            mean=mean,
        )

    def draw(self, painter: QPainter) -> None:
        """Bars from the left, thinner the more there are; the newest where not all have room."""
        room, base = self.width() // (THINNEST + PASS_GAP), self.height()
        shown = self._tokens[-room:]
        wide = min(WIDEST, self.width() // len(shown) - PASS_GAP)
        step, unit = wide + PASS_GAP, (base - 4) / max(4, *shown)
        bars = list(enumerate(shown))
        own = [QRectF(n * step, base - unit, wide, unit) for n, _ in bars]
        drafted = [
            QRectF(n * step, base - tokens * unit, wide, (tokens - 1) * unit - 1)
            for n, tokens in bars
            if tokens > 1
        ]
        painter.setBrush(self.colour("accent", 0.35))
        painter.drawRects(own)
        painter.setBrush(self.colour("accent"))
        painter.drawRects(drafted)


DOT = 4.0
"""Radius of the point in use, in pixels."""


class CostCurve(Chart):
    """Milliseconds of a pass by rows; a dashed line for plain decoding of as many tokens.

    Below the dashed line, drafting pays if every drafted token is accepted.
    """

    def __init__(self) -> None:
        super().__init__(9)
        self._costs: tuple[float, ...] = ()
        self._rows_in_use = 1

    def show_costs(self, verify_ms: Sequence[float], rows_in_use: int) -> None:
        """Show costs. verify_ms[r-1]: milliseconds of a pass of r rows; rows_in_use: from 1."""
        self._costs = tuple(verify_ms)
        self._rows_in_use = rows_in_use
        self.refresh(is_empty=not verify_ms)

    def words(self) -> str:
        """Costs relative to one row."""
        if not self._costs:
            return tr("Measured when drafting begins.")
        one, *more = self._costs
        rest = ", ".join(
            tr("{n} tokens {cost:.2f}", "1 token {cost:.2f}", rows, cost=cost / one)
            for rows, cost in enumerate(more, 2)
        )
        return tr("1 token: {one:.1f} ms. Times as long: {rest}.", one=one, rest=rest)

    def draw(self, painter: QPainter) -> None:
        """Axis, break-even line, curve, dots."""
        self._draw_axis(painter)
        one = self._costs[0]
        last = min(float(len(self._costs)), self._highest() / one)  # at the top of the chart
        painter.setPen(QPen(self.colour("muted"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(self._point(1, one), self._point(last, last * one))
        points = [self._point(rows, cost) for rows, cost in enumerate(self._costs, 1)]
        self.draw_line(painter, points)
        for rows, point in enumerate(points, 1):
            in_use = rows == self._rows_in_use
            painter.setBrush(self.colour("accent" if in_use else "page"))
            size = DOT if in_use else DOT - 1
            painter.drawEllipse(point, size, size)

    def _highest(self) -> float:
        return max(self._costs) * 1.1

    @property
    def _left(self) -> float:
        """Pixels at the left for the milliseconds."""
        return self.metrics.horizontalAdvance(number(max(self._costs), ".0f")) + GAP + DOT

    def _point(self, rows: float, cost: float) -> QPointF:
        across = (rows - 1) / max(1, len(self._costs) - 1)
        up, line = cost / self._highest(), self.metrics.height()
        width, height = self.width() - self._left - line, self.height() - 2 * line
        return QPointF(self._left + across * width, line / 2 + (1 - up) * height)

    def _draw_axis(self, painter: QPainter) -> None:
        line, metrics = self.metrics.height(), self.metrics
        centre, right = Qt.AlignmentFlag.AlignCenter, Qt.AlignmentFlag.AlignRight
        painter.setPen(self.colour("muted"))
        drawn = self.height() + line
        for cost in (self._costs[0], self._costs[-1]):
            y = self._point(1, cost).y()
            if abs(y - drawn) >= line:  # else one would cover the other
                place = QRectF(0, y - line / 2, self._left - DOT - GAP / 2, line)
                painter.drawText(place, right, number(cost, ".0f"))
                drawn = y
        wide = metrics.horizontalAdvance("00")
        for rows in range(1, len(self._costs) + 1):
            x = self._point(rows, 0).x()
            painter.drawText(
                QRectF(x - wide, self.height() - line, 2 * wide, line), centre, str(rows)
            )
        painter.setPen(QPen(self.colour("line"), 1))
        painter.drawLine(self._point(1, 0), self._point(len(self._costs), 0))


BAR = 18
"""Pixels of a bar and the gap below it."""


class StageBar(Chart):
    """Shares of four stages in one bar, with figures below it."""

    def __init__(self) -> None:
        super().__init__(2)
        self._shares: tuple[tuple[float, float], ...] = ()
        self._words = tr(NO_STEPS)

    def show_stages(self, stages: Stages) -> None:
        """Show these sums."""
        total = stages.total_ms
        parts = (
            (tr("Guessing", "stage of a step"), stages.draft_ms, 0.55),
            (tr("checking", "stage of a step"), stages.verify_ms, 1.0),
            (tr("choosing", "stage of a step"), stages.accept_ms, 0.4),
            (tr("the rest", "stage of a step"), stages.host_ms, 0.25),
        )
        if total:
            self._shares = tuple((ms / total, opacity) for _, ms, opacity in parts)
            said = (
                tr("{name} {share} ({ms:,.0f} ms)", name=name, share=percent(ms / total), ms=ms)
                for name, ms, _ in parts
            )
            self._words = ", ".join(said) + "."
        else:
            self._words = tr(NO_STEPS)
        self.refresh(is_empty=not total)

    def words(self) -> str:
        """Shares in words."""
        return self._words

    def draw(self, painter: QPainter) -> None:
        """The bar, then each stage's share under the next."""
        x = 0.0
        for share, opacity in self._shares:
            width = self.width() * share
            painter.setBrush(self.colour("accent", opacity))
            painter.drawRect(QRectF(x, 4, max(0.0, width - 1), 8))
            x += width
        painter.setPen(self.colour("muted"))
        below = QRectF(0, BAR, self.width(), self.height() - BAR)
        painter.drawText(below, Qt.TextFlag.TextWordWrap, self.words())

    def height_at(self, width: int) -> int:
        """The figures take the lines they need."""
        return self.words_height(width) + (0 if self.is_empty else BAR)
