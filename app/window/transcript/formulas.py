"""Formulas as pictures: LaTeX set once, beside the window, then drawn in any colour and size.

A formula in rich text is an image whose name says which one it is and how it is drawn. What cannot
be set stays in the letters and signs of `latex`.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QImage,
    QPainter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
)
from PySide6.QtSvg import QSvgRenderer

from app.start.threads import Beside, Turns
from app.window.transcript.latex import latex_html
from app.window.transcript.markdown_text import html_words

INK, EM = "#010203", 32
"""Colour and size in pixels in which formulas are set."""
AS_HIGH = 1.1
"""Formulas are set in a font with lower letters than the interface's."""
SMALLEST = 0.6
"""Of its size, to which a formula may shrink that is wider than the page."""
LONGEST = 1000
"""Characters; a formula of 3,000 takes seconds."""
MOST = 1000
"""Formulas that are remembered."""
OTHER_SCRIPTS = "[\u0530-\u1cff\u2e80-\ud7ff\uf900-\ufaff]"
"""Letters that the font for formulas does not have; compiled when it is first used."""
NUMBERED = re.compile(r"\{(equation|align|gather|multline)\}")
"""Environments that would count through all formulas."""
VIEW_BOX = re.compile(r'viewBox="([-\d.]+) ([-\d.]+) ([\d.]+) ([\d.]+)"')
SCHEME = "formula"
NAME = re.compile(SCHEME + r":(\d+),(\d+),(\d+),(\d+),([\d.e-]+),(#\w{6})")
OBJECT = "\ufffc"
"""In Qt's texts, where an image stands."""


class FormulaKey(NamedTuple):
    """LaTeX without its dollars. is_display: it stands on a line of its own."""

    latex: str
    is_display: bool

    @property
    def source(self) -> str:
        """As it is typed."""
        return f"$${self.latex}$$" if self.is_display else f"${self.latex}$"


class Searched(NamedTuple):
    """A text in which formulas are letters and signs; places: of its characters where they are
    images, and of its end.
    """

    text: str
    places: Sequence[int]


def in_letters(text: str, pictured: Sequence[FormulaKey]) -> Searched:
    """A text with images of these formulas."""
    if not pictured:
        return Searched(text, range(len(text) + 1))
    parts, places, keys = [], list[int](), iter(pictured)
    for at, letter in enumerate(text):
        key = next(keys, None) if letter == OBJECT else None
        shown = html_words(latex_html(key.latex)) if key else letter
        parts.append(shown)
        places += [at] * len(shown)
    return Searched("".join(parts), [*places, len(text)])


class Formula(NamedTuple):
    """svg: in INK. width, above, below: pixels where its font is EM high, from the baseline."""

    svg: str
    width: float
    above: float
    below: float


def set_formula(key: FormulaKey) -> Formula | None:
    """Set by ziamath, on any thread, in 5 to 50 ms; None for what it cannot read."""
    if len(key.latex) > LONGEST or re.search(OTHER_SCRIPTS, key.latex):
        return None
    from ziamath.config import config
    from ziamath.zmath import Latex

    config.svg2 = False  # Qt's SVG has no symbols
    try:
        svg = Latex(
            NUMBERED.sub(r"{\1*}", key.latex), size=EM, color=INK, inline=not key.is_display
        ).svg()
    except Exception:  # of its own, of its parsers, assertions, too deep: all mean the same
        return None
    box = VIEW_BOX.search(svg)
    if box is None:
        return None
    _, top, width, height = map(float, box.groups())
    return Formula(svg, width, -top, height + top)


class Formulas(QObject):
    """All formulas of one transcript. Signals `known`(FormulaKey): one more was set, or cannot be;
    `shown`: a text has become another that waited for some.

    Several are set one after the other.
    """

    known = Signal(object)
    shown = Signal()

    def __init__(self, turns: Turns, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._turns = turns
        self._beside = Beside(self)
        self._known: OrderedDict[FormulaKey, Formula | None] = OrderedDict()
        self._wanted: OrderedDict[FormulaKey, None] = OrderedDict()
        self._is_setting = False
        self._shows: deque[Callable[[], object]] = deque()

    @property
    def is_busy(self) -> bool:
        """Whether one is being set, or a text waits to show those that were."""
        return self._is_setting or bool(self._shows)

    def is_known(self, key: FormulaKey) -> bool:
        """Whether it has been tried; if not it will be."""
        if key in self._known:
            self._known.move_to_end(key)
            return True
        self._wanted.setdefault(key)
        self._set_next()
        return False

    def get(self, key: FormulaKey) -> Formula | None:
        """As it was set; None if it was not or cannot be."""
        return self._known.get(key)

    def forget_wanted(self) -> None:
        """Nobody waits any more for those that have not been tried."""
        self._wanted.clear()

    def show_later(self, show: Callable[[], object]) -> None:
        """One text whose formulas are known now after the other: each takes milliseconds."""
        self._shows.append(show)
        self._turns.do(self._show_one)

    def _show_one(self) -> None:
        self._shows.popleft()()
        self.shown.emit()
        if self._shows:
            self._turns.do(self._show_one)

    def _set_next(self) -> None:
        if self._wanted and not self._is_setting:
            self._is_setting = True
            key, _ = self._wanted.popitem(last=False)
            self._beside.run_each(lambda: set_formula(key), lambda found: self._keep(key, found))

    def _keep(self, key: FormulaKey, found: Formula | None) -> None:
        self._known[key] = found
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        self._is_setting = False
        self._set_next()
        self.known.emit(key)


class Wanted:
    """Writes formulas into rich text, on lines of `room` times the font's size; `missing` are those
    that have yet to be set. One that would be too small to be read stays in letters, which wrap.
    """

    def __init__(self, formulas: Formulas, room: float) -> None:
        self._formulas = formulas
        self._widest = room * EM / AS_HIGH / SMALLEST
        self.missing: set[FormulaKey] = set()
        self.pictured: list[FormulaKey] = []

    def html(self, latex: str, is_display: bool) -> str:
        """An image, "" where there is none."""
        key = FormulaKey(latex.strip(), is_display)
        if not self._formulas.is_known(key):
            self.missing.add(key)
            return ""
        formula = self._formulas.get(key)
        if formula is None or formula.width > self._widest:
            return ""
        self.pictured.append(key)
        return f'<img src="{SCHEME}:{len(self.pictured) - 1}">'


class Placed(NamedTuple):
    """How a formula is drawn: pixels of its image, and of them below the line, scale and colour."""

    number: int
    width: int
    height: int
    below: int
    scale: float
    ink: str

    @property
    def name(self) -> str:
        """Of the image."""
        return f"{SCHEME}:{','.join(map(str, self))}"


def read_name(name: str) -> Placed | None:
    """What the name of an image says; None for any other."""
    found = NAME.fullmatch(name)
    if found is None:
        return None
    *sizes, scale, ink = found.groups()
    number, width, height, below = map(int, sizes)
    return Placed(number, width, height, below, float(scale), ink)


SIZE = QTextFormat.Property.UserProperty
"""Of an image: pixels of the font around it."""


def place_formulas(
    document: QTextDocument, found: Sequence[Formula | None], pixels: int, width: int
) -> None:
    """Give the images of formulas their sizes, and put them on the line; no wider than `width`.
    Those that have them already are left alone: each change has the text laid out anew.

    found: by the numbers of the images. pixels: of the document's font.
    """
    cursor = QTextCursor(document)
    cursor.beginEditBlock()
    for position, image in list(_images(document)):
        number = int(re.split("[:,]", image.name())[1])
        formula, font = found[number], image.font()
        if formula is None:
            continue
        if not image.hasProperty(SIZE):
            is_sized = image.hasProperty(QTextFormat.Property.FontPixelSize)
            image.setProperty(SIZE, font.pixelSize() if is_sized else pixels)
        scale = min(image.intProperty(SIZE) * AS_HIGH / EM, width / formula.width)
        below = ceil(formula.below * scale - HARDLY)
        one = Placed(
            number,
            ceil(formula.width * scale),
            ceil(formula.above * scale) + below,
            below,
            scale,
            image.foreground().color().name(),
        )
        if one.name == image.name():
            continue
        image.setName(one.name)
        image.setWidth(one.width)
        image.setHeight(one.height)
        _put_below(image, font, below)
        cursor.setPosition(position)
        cursor.setPosition(position + 1, QTextCursor.MoveMode.KeepAnchor)
        cursor.setCharFormat(image)
    cursor.endEditBlock()


HARDLY = 0.6
"""Pixels below the line that are no reason to put an image below it: its margin."""


def _put_below(image: QTextImageFormat, font: QFont, below: int) -> None:
    """Put so many pixels of an image below the line. Qt puts as much below it as the image's own
    font reaches, which nothing is written in.
    """
    way = QTextCharFormat.VerticalAlignment
    image.setVerticalAlignment(way.AlignBaseline if below > 0 else way.AlignNormal)
    size = 1
    font.setPixelSize(size)
    while QFontMetrics(font).descent() < below:
        size += max(1, below - QFontMetrics(font).descent())
        font.setPixelSize(size)
    image.setFont(font)


def _images(document: QTextDocument) -> Iterator[tuple[int, QTextImageFormat]]:
    block = document.begin()
    while block.isValid():
        pieces = block.begin()
        while not pieces.atEnd():
            piece = pieces.fragment()
            if piece.charFormat().isImageFormat():
                for position in range(piece.position(), piece.position() + piece.length()):
                    yield position, piece.charFormat().toImageFormat()
            pieces += 1
        block = block.next()


def drawn(formula: Formula, place: Placed, ratio: float) -> QImage:
    """The image of a formula, for a screen with this many pixels in each of ours."""
    svg = formula.svg.replace(INK, place.ink)
    width, height = ceil(place.width * ratio), ceil(place.height * ratio)
    image = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.transparent)
    top = place.height - place.below - formula.above * place.scale
    with QPainter(image) as painter:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        high = (formula.above + formula.below) * place.scale
        area = QRectF(0, top, formula.width * place.scale, high)
        QSvgRenderer(QByteArray(svg.encode())).render(painter, area)
    return image
