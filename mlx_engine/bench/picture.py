"""A report as one picture: speed and acceptance of every arm on every kind of prompt."""

import math
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from mlx_engine.bench.card import INTERRUPTED, condition_lines
from mlx_engine.bench.report import BenchReport, Row
from mlx_engine.values.errors import BadOption
from mlx_engine.values.words import percent_words

IN_ALL = "in all"
CELL_WIDTH, CELL_HEIGHT = 0.95, 0.4
MARGIN_WIDTH, MARGIN_HEIGHT = 2.0, 0.9
"""Inches."""

DOTS_AN_INCH = 110
COLOURS = 128


class _Cell(NamedTuple):
    """tint: where it stands between the panel's colours."""

    words: str
    tint: float


def check_picture(path: Path) -> None:
    """Asked before anything is measured. Raises BadOption where none could be drawn."""
    if find_spec("matplotlib") is None:
        raise BadOption("--png draws with matplotlib: pip install 'headstart[picture]'.")
    if not path.parent.is_dir():
        raise BadOption(f"--png {path} is not possible: there is no folder {path.parent}.")


def draw(report: BenchReport, path: Path) -> None:
    """Write a PNG to `path`, nothing for a report without drafting. Raises BadOption."""
    from matplotlib.figure import Figure
    from PIL import Image

    if report.drafting is None:
        return
    columns = {kind.kind: kind.rows for kind in report.drafting.kinds}
    columns |= {IN_ALL: report.drafting.total}
    rows = {(row.arm, kind): row for kind, found in columns.items() for row in found}
    arms = list(dict.fromkeys(arm for arm, _ in rows))
    drafted = {arm for (arm, _), row in rows.items() if row.drafted}
    drafting = [arm for arm in arms if arm in drafted]
    heights = [MARGIN_HEIGHT + CELL_HEIGHT * len(some) for some in (arms, drafting)]
    size = (MARGIN_WIDTH + CELL_WIDTH * len(columns), MARGIN_HEIGHT + sum(heights))
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle("\n".join(heading(report)), fontsize=9)
    above, below = figure.subplots(2, height_ratios=heights)
    speeds = {at: _speed(row) for at, row in rows.items()}
    _panel(above, "Tokens a second, and speed over drafting off", arms, list(columns), speeds)
    above.images[0].set(cmap="BrBG", clim=(-2, 2))
    if drafting:
        shares = {at: _share(row) for at, row in rows.items()}
        _panel(below, "Drafts accepted, and tokens a pass", drafting, list(columns), shares)
        below.images[0].set(cmap="Greens", clim=(0, 1.4))
    else:
        below.set_axis_off()
    drawn = BytesIO()
    figure.savefig(drawn, dpi=DOTS_AN_INCH, format="png")
    with Image.open(drawn) as picture:  # a quarter of the bytes
        small = picture.convert("RGB").quantize(COLOURS)
    try:
        small.save(path, "PNG", optimize=True)
    except OSError as error:
        raise BadOption(f"--png {path} cannot be written: {error.strerror}.") from error


def heading(report: BenchReport) -> list[str]:
    """What was measured on what, and whether that is all of it."""
    lines = condition_lines(report.conditions)
    return [*lines, INTERRUPTED] if report.is_interrupted else lines


def _speed(row: Row) -> _Cell:
    """Tinted by doublings over drafting off, one at most: deep colours hide the figure."""
    speed = row.speed
    if speed is None:
        return _Cell("other\ntext", math.nan)
    if speed.tokens_per_second is None or speed.ratio is None:
        return _Cell("–", math.nan)
    words = f"{speed.tokens_per_second:.1f}\n× {speed.ratio:.2f}"
    return _Cell(words, max(-1.0, min(math.log2(speed.ratio), 1.0)))


def _share(row: Row) -> _Cell:
    words = f"{percent_words(row.accepted, row.drafted)}\n{row.tokens_per_pass:.2f}"
    return _Cell(words, math.nan if row.rate is None else row.rate)


def _panel(
    axes: Any, title: str, arms: list[str], kinds: list[str], cells: dict[tuple[str, str], _Cell]
) -> None:
    """A table of arms and kinds on matplotlib's axes."""
    nothing = _Cell("", math.nan)
    table = [[cells.get((arm, kind), nothing) for kind in kinds] for arm in arms]
    axes.imshow([[cell.tint for cell in line] for line in table], aspect="auto")
    for y, line in enumerate(table):
        for x, cell in enumerate(line):
            axes.text(x, y, cell.words, ha="center", va="center", fontsize=8)
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.set_xticks(range(len(kinds)), [fill(kind, 12) for kind in kinds], fontsize=8)
    axes.set_yticks(range(len(arms)), arms, fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
