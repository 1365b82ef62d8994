"""One download: bytes, speed, and buttons to pause, go on or give up."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QGridLayout, QProgressBar

from app.window.controls.figures import bytes_in_words, bytes_of, duration_in_words
from app.window.controls.icon_button import IconButton
from app.window.controls.labels import ShortLabel, label, paragraph, say, tabular
from app.window.models.model_values import DownloadFigures
from app.window.theme import Theme, TypeSizes

STEPS = 1000


class DownloadRow(QFrame):
    """Signals `pause_wanted`, `resume_wanted`, `cancel_wanted`, each with the download's key."""

    pause_wanted = Signal(str)
    resume_wanted = Signal(str)
    cancel_wanted = Signal(str)

    def __init__(self, theme: Theme, sizes: TypeSizes) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._figures = DownloadFigures("", "", "waiting")
        self._name = ShortLabel()
        self._bytes = label("", "muted")
        tabular(self._bytes)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, STEPS)
        self._problem = paragraph("", "problem")
        self._pause = IconButton("pause", "Pause", theme, sizes)
        self._cancel = IconButton("close", "Cancel the download", theme, sizes)
        grid = QGridLayout(self)
        grid.setContentsMargins(12, 8, 8, 10)
        grid.setVerticalSpacing(4)
        grid.addWidget(self._name, 0, 0)
        grid.addWidget(self._pause, 0, 1)
        grid.addWidget(self._cancel, 0, 2)
        grid.addWidget(self._bytes, 1, 0, 1, 3)
        grid.addWidget(self._bar, 2, 0, 1, 3)
        grid.addWidget(self._problem, 3, 0, 1, 3)
        self._pause.clicked.connect(self._pause_or_resume)
        self._cancel.clicked.connect(lambda: self.cancel_wanted.emit(self._figures.key))

    def show_figures(self, figures: DownloadFigures) -> None:
        """Show how far it is."""
        self._figures = figures
        self._name.show_text(figures.name)
        self.setAccessibleName(f"Download of {figures.name}")
        words = progress_in_words(figures)
        self._bytes.setText(words)
        self.setAccessibleDescription(words)
        self._bar.setValue(STEPS * figures.done // figures.total if figures.total else 0)
        self._bar.setAccessibleName(f"{figures.name}, downloaded")
        self._bar.setVisible(figures.phase != "done")
        say(self._problem, figures.words if figures.phase == "failed" else "")
        self._pause.setVisible(figures.phase != "done")
        runs = figures.phase in ("running", "waiting")
        self._pause.show_icon("pause" if runs else "resume", "Pause" if runs else "Resume")
        is_done = figures.phase == "done"
        self._cancel.show_icon("close", "Remove from this list" if is_done else "Cancel")

    def set_theme(self, theme: Theme, sizes: TypeSizes) -> None:
        """Take other colours and sizes."""
        self._pause.set_theme(theme, sizes)
        self._cancel.set_theme(theme, sizes)

    def _pause_or_resume(self) -> None:
        runs = self._figures.phase in ("running", "waiting")
        (self.pause_wanted if runs else self.resume_wanted).emit(self._figures.key)


def progress_in_words(figures: DownloadFigures) -> str:
    """ "4.1 of 18.2 GB · 32.1 MB/s · 7 min left"."""
    how_much = bytes_of(figures.done, figures.total) if figures.total else ""
    match figures.phase:
        case "waiting":
            return "Waiting" if not how_much else f"{how_much} · waiting"
        case "done":
            return f"{bytes_in_words(figures.total)} · downloaded"
        case "paused" | "failed":
            state = "paused" if figures.phase == "paused" else "stopped"
            return f"{how_much} · {state}" if how_much else state.capitalize()
        case "running":
            speed = figures.bytes_per_second
            parts = [how_much or bytes_in_words(figures.done)]
            if speed > 0:
                parts.append(f"{bytes_in_words(speed)}/s")
                if figures.total:
                    left = duration_in_words((figures.total - figures.done) / speed)
                    parts.append(f"{left} left")
            return " · ".join(parts)
