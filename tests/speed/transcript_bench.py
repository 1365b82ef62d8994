"""Times the transcript: one update while an answer grows, and opening a chat of 200 messages.

`python tests/speed/transcript_bench.py` prints a table; every update is laid out and painted.
"""

import statistics
import time

from PySide6.QtWidgets import QApplication
from rich_answer import ANSWER, drafted

from app.start.threads import Collector
from app.window.style_sheet import apply_theme
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.conversation import TextPiece


def clock() -> float:
    """Milliseconds this thread has worked: other programs on the machine do not count."""
    return time.thread_time() * 1e3


UPDATES = 150
"""Timed at each length; an update adds two pieces of about six characters."""
LENGTHS = (1_000, 5_000, 20_000)
PROSE = (ANSWER.partition("```")[0].strip() + " ") * 3 + "\n\n"


def view_with(app: QApplication, tinted: bool) -> TranscriptView:
    """An empty transcript of 900 x 700 on show."""
    apply_theme(app, "light", 1.0)
    view = TranscriptView()
    view.set_drafted_shown(tinted)
    view.resize(900, 700)
    view.show()
    app.processEvents()
    return view


def update_times(app: QApplication, words: int, tinted: bool, source: str = ANSWER) -> list[float]:
    """Milliseconds of updates of an answer that has `words` words already."""
    view = view_with(app, tinted)
    view.add_message(ShownMessage(1, "assistant", "", state="live"))
    head = source * (words // len(source.split()))
    for at in range(0, len(head), 2000):
        view.append_pieces(1, [TextPiece(head[at : at + 2000], depth=at // 2000 % 4)])
        app.processEvents()
    formulas = view.reader.formulas  # of thousands of words that came at once
    while formulas.is_busy or view.reader.turns.is_busy:
        app.processEvents()
    times = []
    text = (source * 2)[: UPDATES * 12]
    for at in range(0, len(text), 12):
        pieces = [TextPiece(text[at : at + 6], depth=at % 5), TextPiece(text[at + 6 : at + 12])]
        started = clock()
        view.append_pieces(1, pieces)
        app.processEvents()
        times.append(clock() - started)
    view.close()
    view.deleteLater()
    app.processEvents()
    return times


def opening_times(app: QApplication) -> list[float]:
    """Milliseconds until a chat of 200 messages is on the screen."""
    spans = drafted(ANSWER)
    messages = [
        ShownMessage(n, "assistant", ANSWER, spans=spans)
        if n % 2
        else ShownMessage(n, "user", f"Question {n}, and some words about it.")
        for n in range(200)
    ]
    view = view_with(app, False)
    times = []
    for _ in range(7):
        view.show_messages(())
        app.processEvents()
        started = clock()
        view.show_messages(messages)
        app.processEvents()
        times.append(clock() - started)
    return times


def finding_times(app: QApplication) -> tuple[float, float]:
    """Milliseconds the window stands still at most, and in all, for a letter sought in 200."""
    view = view_with(app, False)
    view.show_messages([ShownMessage(n, "assistant", ANSWER) for n in range(200)])
    app.processEvents()
    steps = []
    view.open_find()
    started = clock()
    view.find_bar.field.setText("e")
    steps.append(clock() - started)
    for _ in range(9):
        started = clock()
        app.processEvents()
        steps.append(clock() - started)
    return max(steps), sum(steps)


def p95(times: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times, n=20)[-1]


def main() -> None:
    """Print the table."""
    app = QApplication([])
    Collector(app).settle()  # as in the window, where Python's own collection does not run
    print("update, ms        median   p95")
    for tinted in (False, True):
        for words in LENGTHS:
            times = update_times(app, words, tinted)
            name = f"{words:,} words" + (" tinted" if tinted else "")
            print(f"{name:20}{statistics.median(times):5.1f} {p95(times):5.1f}")
    times = update_times(app, 20_000, True, PROSE)
    print(f"{'prose only, tinted':20}{statistics.median(times):5.1f} {p95(times):5.1f}")
    times = opening_times(app)
    print(f"opening 200 messages: first {times[0]:.0f}, median {statistics.median(times):.0f} ms")
    longest, whole = finding_times(app)
    print(f"finding a letter in 200 answers: {longest:.0f} ms at most at once, {whole:.0f} in all")


if __name__ == "__main__":
    main()
