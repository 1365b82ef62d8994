"""The list of downloads, in the order of the queue, with progress and buttons."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QScrollArea, QWidget

from app.state.card import OfferedModel
from app.state.downloads import Downloads
from app.state.hub import HubState
from app.values.models import DownloadFigures, Phase
from app.window.controls.icons import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, tabular
from app.window.controls.layouts import Wide, column, row
from app.window.controls.scroll_bar import overlay_bar
from app.window.language import in_a_sentence, number, said, tr
from mlx_engine.values.words import Words, size_words

STEPS = 1000
GAP = 8
STATES: dict[Phase, str] = {
    "waiting": Words("Waiting"),
    "paused": Words("Paused"),
    "failed": Words("Stopped"),
}
DOWNLOADED = Words("{size} · downloaded")
RUNS: tuple[Phase, ...] = ("waiting", "looking", "running")


class BytesBar(QProgressBar):
    """A progress bar for bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.setTextVisible(False)

    def show_bytes(self, done: int, total: int) -> None:
        """total: 0 if not known."""
        self.setRange(0, STEPS if total else 0)
        self.setValue(STEPS * done // total if total else 0)


class DownloadList(QScrollArea):
    """A list as high as its rows, up to a limit; it scrolls beyond that."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, DownloadRow] = {}
        inner = QWidget()
        self._column = column(of=inner, spacing=GAP)
        self.setWidgetResizable(True)
        self.setWidget(inner)
        overlay_bar(self)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.hide()

    def watch(self, downloads: Downloads, offered: OfferedModel, hub: HubState) -> None:
        """Show these downloads. offered, hub: to load a model, and to sign in."""
        self._downloads, self._offered, self._hub = downloads, offered, hub
        downloads.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        figures = self._downloads.figures
        for key in self._rows.keys() - {one.key for one in figures}:
            row = self._rows.pop(key)
            self._column.removeWidget(row)
            row.deleteLater()
        for one in figures:
            if one.key not in self._rows:
                self._rows[one.key] = DownloadRow(self._downloads, self._offered, self._hub)
                self._column.addWidget(self._rows[one.key])
            self._rows[one.key].show_figures(one)

    def fit(self, most: int) -> None:
        """Limit the height to so many pixels."""
        rows = [row.heightForWidth(self.width()) for row in self._rows.values()]
        wanted = sum(rows) + GAP * (len(rows) - 1)
        self.setFixedHeight(max(0, min(wanted, most)))
        self.setVisible(bool(rows))


class DownloadRow(QFrame):
    """One download, with buttons for what can be done with it."""

    def __init__(self, downloads: Downloads, offered: OfferedModel, hub: HubState) -> None:
        super().__init__()
        self._downloads = downloads
        self.setProperty("role", "card")
        self._figures = DownloadFigures("", "", "waiting")
        self._name = ShortLabel()
        self._bytes = label("", "muted")
        self._bytes.setWordWrap(True)
        tabular(self._bytes)
        self._bar = BytesBar()
        self._problem = paragraph("", "problem")
        self._go = QPushButton(tr("Load"))
        self._go.setProperty("role", "primary")
        self._sign_in = QPushButton(tr("Sign In…"))
        self._pause = IconButton("pause", tr("Pause"))
        self._cancel = IconButton("close", tr("Cancel the download"))
        buttons = (self._go, self._sign_in, self._pause, self._cancel)
        top = row(Wide(self._name), *buttons, spacing=6)
        lines = (self._bytes, self._bar, self._problem)
        column(top, *lines, of=self, margins=(12, 8, 8, 10), spacing=4)
        self._go.clicked.connect(lambda: offered.offer(self._figures.path))
        self._sign_in.clicked.connect(lambda: hub.ask_sign_in(self._figures.key))
        self._pause.clicked.connect(self._pause_or_resume)
        self._cancel.clicked.connect(lambda: downloads.cancel(self._figures.key))

    def show_figures(self, figures: DownloadFigures) -> None:
        """Show the progress."""
        self._figures, phase = figures, figures.phase
        self._name.show_text(figures.name)
        self.setAccessibleName(tr("Download of {name}", name=figures.name))
        words = progress_in_words(figures)
        self._bytes.setText(words)
        self.setAccessibleDescription(words)
        self._bar.show_bytes(figures.done, figures.total or STEPS)
        self._bar.setAccessibleName(tr("{name}, downloaded", name=figures.name))
        self._bar.setVisible(phase != "done")
        say(self._problem, figures.words if phase == "failed" else "")
        self._go.setVisible(phase == "done")
        self._sign_in.setVisible(figures.needs_sign_in)
        self._pause.setVisible(phase != "done")
        runs = phase in RUNS
        self._pause.show_icon("pause" if runs else "resume", tr("Pause") if runs else tr("Resume"))
        self._cancel.show_icon("close", tr("Cancel") if runs else tr("Remove from this list"))

    def _pause_or_resume(self) -> None:
        if self._figures.phase in RUNS:
            self._downloads.pause(self._figures.key)
        else:
            self._downloads.resume(self._figures.key)


def progress_in_words(figures: DownloadFigures) -> str:
    """Format progress: "4.1 of 18.2 GB · 32.1 MB/s · 7 min left"."""
    how_much = bytes_of(figures.done, figures.total) if figures.total else ""
    if figures.phase == "running":
        return _running_words(figures, how_much)
    if figures.phase in STATES:
        state = said(STATES[figures.phase])
        return f"{how_much} · {in_a_sentence(state)}" if how_much else state
    if figures.phase == "looking":
        return tr("Getting files and sizes")
    return tr(DOWNLOADED, size=size_words(figures.total))


def _running_words(figures: DownloadFigures, how_much: str) -> str:
    speed = figures.bytes_per_second
    parts = [how_much or said(size_words(figures.done))]
    if speed > 0:
        parts.append(tr("{size}/s", size=size_words(speed)))
        if figures.total:
            parts.append(
                tr("{time} left", time=duration_in_words((figures.total - figures.done) / speed))
            )
    return " · ".join(parts)


def bytes_of(done: int, total: int) -> str:
    """Format a part of a size in its unit: "4.10 of 18.2 GB"."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if total >= 0.9995 * size:
            digits = 2 if total < 9.995 * size else 1
            part, whole = (number(nbytes / size, f".{digits}f") for nbytes in (done, total))
            return tr("{part} of {whole} {unit}", part=part, whole=whole, unit=unit)
    return tr("{part} of {whole} {unit}", part=done, whole=total, unit="B")


def duration_in_words(seconds: float) -> str:
    """Format a duration: "40 s", "3 min", "2 h 5 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return tr("{minutes} min", minutes=minutes)
    return tr("{hours} h {minutes} min", hours=minutes // 60, minutes=minutes % 60)
