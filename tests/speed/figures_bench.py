"""Times one tick of the live figures: status strip, in-effect line, and the open Drafting view.

`PYTHONPATH=. python tests/speed/figures_bench.py`; ticks of three rounds, laid out and painted.
"""

import os
import statistics
import time

from PySide6.QtWidgets import QApplication, QHBoxLayout, QWidget

from app.window.drafting.drafting_view import DraftingView
from app.window.drafting.round_history import RoundHistory
from app.window.drafting.status_strip import StatusStrip, StripFigures
from app.window.session_panel.abilities import ModelAbilities, SourceAbility
from app.window.session_panel.session_panel import SessionPanel
from app.window.style_sheet import dress, wear
from mlx_engine.values.stats import GenerationStats, RoundStats

TICKS = 300
BEFORE = 20_000
"""Rounds that were played before the first tick that is timed."""


def a_round(n: int) -> RoundStats:
    """Some round or other."""
    accepted = n % 4
    return RoundStats(n, 3, 3, accepted, accepted + 1, 1.0, 9.0, 0.5, accept_ms=0.2)


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QApplication([])
    list(dress(application, "light", 1.0))
    frame = QWidget()
    strip, view = StatusStrip(), DraftingView()
    panel = SessionPanel()
    panel.show_model(None, ModelAbilities((SourceAbility("mtp", 8),)))
    row = QHBoxLayout(frame)
    for part in (strip, view, panel):
        row.addWidget(part)
    wear(frame)
    frame.resize(1180, 780)
    frame.show()
    history = RoundHistory([GenerationStats(passes=9, tokens_per_pass=2.5)] * 50)
    history.begin_answer()
    history.add(map(a_round, range(BEFORE)))
    view.show_costs((6.0, 8.0, 9.5, 12.0, 15.0), 3)
    times = []
    for tick in range(TICKS):
        began = time.thread_time()
        history.add(a_round(3 * tick + n) for n in range(3))
        strip.show_figures(history, StripFigures(40.0, 3000 + tick, 32_768))
        panel.fields.draft.show_now(history.state)
        view.show_history(history)
        application.processEvents()
        times.append(1000 * (time.thread_time() - began))
    p95 = statistics.quantiles(times, n=20)[-1]
    print(f"{statistics.median(times):.2f} ms median, {p95:.2f} ms p95 of {TICKS} ticks")


if __name__ == "__main__":
    main()
