"""Draws a picture of the terminal chat, from a real chat with the built-in model.

`python tests/speed/terminal_shot.py FILE.png`
"""

import io
import sys
from pathlib import Path

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QGuiApplication, QImage, QPainter
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

import mlx_engine
from mlx_engine.command_line.conversation import Chat, run_command
from mlx_engine.command_line.screen import PROMPT_MARK, Screen

COLUMNS, PIXELS, MARGIN = 100, 15, 20
QUESTIONS = ("What does os.path.join do?", "What is the signature of re.sub?")
GROUND, INK, FAINT = "#1B1C1E", "#ECECEA", "#9A9B97"


def record() -> list[list[Segment]]:
    """The lines of a chat, as a terminal would show them."""
    shown = io.StringIO()
    console = Console(
        force_terminal=True,
        color_system="truecolor",
        width=COLUMNS,
        file=shown,
        legacy_windows=False,
    )
    screen = Screen(console, console)
    engine = mlx_engine.load()
    draft = mlx_engine.DraftOptions(depth=3)
    session = engine.session(draft=draft, sampling=mlx_engine.SamplingOptions(temperature=0))
    chat = Chat(engine, session, mlx_engine.GenerationOptions(), None, screen, "CPU")
    chat.greet()
    chat.invite()
    for question in QUESTIONS:
        screen.note("")
        screen.note(PROMPT_MARK + question, "bold")
        chat.send(question)
    screen.note("")
    screen.note(PROMPT_MARK + "/stats", "bold")
    run_command(chat, "/stats")
    return console.render_lines(Text.from_ansi(shown.getvalue()), pad=False)


def paint(lines: list[list[Segment]]) -> QImage:
    """The lines in a monospaced font, each segment in its own colour."""
    font = QFont("DejaVu Sans Mono")
    font.setPixelSize(PIXELS)
    metrics = QFontMetricsF(font)
    advance, leading = metrics.horizontalAdvance("x"), round(PIXELS * 1.5)
    width = round(COLUMNS * advance) + 2 * MARGIN
    image = QImage(width, len(lines) * leading + 2 * MARGIN, QImage.Format.Format_RGB32)
    image.fill(QColor(GROUND))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    for row, line in enumerate(lines):
        column = 0
        for text, style, _ in line:
            font.setBold(bool(style and style.bold))
            painter.setFont(font)
            painter.setPen(QColor(_ink(style)))
            corner = QPointF(MARGIN + column * advance, MARGIN + row * leading)
            painter.drawText(QRectF(corner.x(), corner.y(), width, leading), text)
            column += len(text)
    painter.end()
    return image


def _ink(style: Style | None) -> str:
    if style is None:
        return INK
    if style.color is not None:
        return style.color.get_truecolor().hex
    return FAINT if style.dim else INK


def main(path: Path) -> None:
    """Write the picture."""
    application = QGuiApplication(["terminal_shot", "-platform", "offscreen"])
    paint(record()).save(str(path), "PNG", 20)
    application.quit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
