"""Formulas as pictures: LaTeX is typeset in a thread, then drawn in any colour and size.

Rich text has formulas as LaTeX source, each with its source as title. Once they are typeset, images
replace them, whose names tell the formula and how it is drawn.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from html import unescape
from math import ceil
from typing import NamedTuple
from xml.etree.ElementTree import Element, fromstring

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt
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

from app.start.threads import LatestTask
from app.window.transcript.markdown_text import FormulaKey

INK, EM = "#010203", 32
"""Colour and font size in pixels of typeset formulas."""
AS_HIGH = 1.1
"""Scale of formulas, whose font has lower letters than the interface's."""
SMALLEST = 0.6
"""Least scale of a formula that is wider than the page."""
LONGEST = 1000
"""Most characters of a formula; one of 3,000 takes seconds."""
MOST_NODES = 8_000
"""Most nodes that ziamath makes of a formula, about half a second."""
LONG = re.compile(r"(?<![\w.#])\d{3}|\d[eE][-+]?\d")
"""Matches lengths in MathML of hundreds of letters, which take too long to draw."""
LARGEST = 2**20
"""Most pixels of a picture; a larger formula stays as LaTeX."""
MOST = 1000
"""Typeset formulas that are cached."""
OTHER_SCRIPTS = "[\u0530-\u1cff\u2e80-\ud7ff\uf900-\ufaff]"
"""Letters that the font for formulas lacks; compiled on first use."""
NUMBERED = re.compile(r"\{(equation|align|gather|multline)\}")
"""Environments that would number formulas."""
VIEW_BOX = re.compile(r'viewBox="([-\d.]+) ([-\d.]+) ([\d.]+) ([\d.]+)"')
SCHEME = "formula"
NAME = re.compile(
    SCHEME + r":((?:[\da-f]{2})+),(\d+),(\d+),(\d+),(\d+(?:\.\d+)?(?:e-?\d+)?),(#\w{6})"
)
TITLE = re.compile('title="([^"]*)"')
OBJECT = "\ufffc"
"""Character of an image in Qt's texts."""


class Searched(NamedTuple):
    """A text with formulas as LaTeX; places: document positions of its characters, and of its
    end.
    """

    text: str
    places: Sequence[int]


def in_sources(text: str, pictured: Sequence[FormulaKey]) -> Searched:
    """Replace the images of a text by the LaTeX of these formulas."""
    if not pictured:
        return Searched(text, range(len(text) + 1))
    parts, places, keys = [], list[int](), iter(pictured)
    for at, letter in enumerate(text):
        key = next(keys, None) if letter == OBJECT else None
        shown = key.source if key else letter
        parts.append(shown)
        places += [at] * len(shown)
    return Searched("".join(parts), [*places, len(text)])


class Formula(NamedTuple):
    """A typeset formula.

    svg: in the colour INK. width, above, below: pixels at a font size of EM, from the baseline.
    """

    svg: str
    width: float
    above: float
    below: float


def set_formula(key: FormulaKey) -> Formula | None:
    """Typeset with ziamath, on any thread, in 5 to 50 ms; None if it cannot or is too complex."""
    if len(key.latex) > LONGEST or re.search(OTHER_SCRIPTS, key.latex):
        return None
    from ziamath.config import config
    from ziamath.tex import tex2mml
    from ziamath.zmath import Latex

    config.svg2 = False  # Qt's SVG has no symbols
    latex, inline = NUMBERED.sub(r"{\1*}", key.latex), not key.is_display
    try:
        if _is_too_much(fromstring(tex2mml(latex, inline=inline))):
            return None
        svg = Latex(latex, size=EM, color=INK, inline=inline).svg()
    except Exception:  # of its own, of its parsers, assertions, too deep: all mean the same
        return None
    box = VIEW_BOX.search(svg)
    if box is None:
        return None
    _, top, width, height = map(float, box.groups())
    return Formula(svg, width, -top, height + top)


def _is_too_much(mathml: Element) -> bool:
    """Whether typesetting the formula would take seconds."""
    lengths = (value for element in mathml.iter() for value in element.attrib.values())
    return any(map(LONG.search, lengths)) or _nodes_of(mathml) > MOST_NODES


def _nodes_of(element: Element, times: int = 1) -> int:
    """Estimate the nodes that ziamath makes of MathML: rows and cells count twice."""
    inner = 2 * times if element.tag.rpartition("}")[2] in ("math", "mrow", "mtd") else times
    return times + sum(_nodes_of(child, inner) for child in element)


class Waiting(NamedTuple):
    """A text, and its formulas that are not typeset yet."""

    missing: set[FormulaKey]
    show: Callable[[], object]


class Formulas(QObject):
    """All formulas of a transcript; a thread typesets one after the other."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._task = LatestTask(self)
        self._known: OrderedDict[FormulaKey, Formula | None] = OrderedDict()
        self._wanted: OrderedDict[FormulaKey, None] = OrderedDict()
        self._is_setting = False
        self._waiting: list[Waiting] = []

    @property
    def is_busy(self) -> bool:
        """Whether a formula is being typeset or waits."""
        return self._is_setting or bool(self._wanted)

    def get(self, key: FormulaKey) -> Formula | None:
        """Return a typeset formula; None if it is not typeset or cannot be."""
        return self._known.get(key)

    def forget_wanted(self) -> None:
        """Drop all waiting formulas."""
        self._wanted.clear()
        self._waiting.clear()

    def once_set(self, keys: Iterable[FormulaKey], show: Callable[[], object]) -> None:
        """Call `show` once all of these formulas are typeset; never if they were before."""
        missing = {key for key in keys if key not in self._known}
        if missing:
            self._wanted.update(dict.fromkeys(missing))
            self._waiting.append(Waiting(missing, show))
            self._set_next()

    def _set_next(self) -> None:
        if self._wanted and not self._is_setting:
            self._is_setting = True
            key, _ = self._wanted.popitem(last=False)
            self._task.run_each(partial(set_formula, key), lambda found: self._keep(key, found))

    def _keep(self, key: FormulaKey, found: Formula | None) -> None:
        self._known[key] = found
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        self._is_setting = False
        self._set_next()
        for text in self._waiting:
            text.missing.discard(key)
        done = [text for text in self._waiting if not text.missing]
        self._waiting = [text for text in self._waiting if text.missing]
        for text in done:
            text.show()


def formulas_in(html: str) -> list[FormulaKey]:
    """Return the formulas in HTML of `markdown_html`."""
    return [FormulaKey.of(unescape(title)) for title in TITLE.findall(html)]


class Placed(NamedTuple):
    """How a formula is drawn: pixels of the image, and below the line, scale and colour."""

    key: FormulaKey
    width: int
    height: int
    below: int
    scale: float
    ink: str

    @property
    def name(self) -> str:
        """Name of the image."""
        source, *how = self.key.source.encode().hex(), *self[1:]
        return f"{SCHEME}:{','.join(map(str, [source, *how]))}"


def read_name(name: str) -> Placed | None:
    """Parse the name of an image; None for other images."""
    found = NAME.fullmatch(name)
    if found is None:
        return None
    digits, width, height, below, scale, ink = found.groups()
    key = FormulaKey.of(bytes.fromhex(digits).decode(errors="replace"))
    return Placed(key, int(width), int(height), int(below), float(scale), ink)


SIZE = QTextFormat.Property.UserProperty
"""Image property: pixels of the font around it."""


def place_formulas(
    document: QTextDocument, formulas: Formulas, pixels: int, width: int, ratio: float
) -> list[FormulaKey]:
    """Replace typeset formulas of a document by pictures in the present size and colours.

    Return all pictures, from the top. A picture is no wider than `width`; a formula that would be
    too small to read stays as LaTeX, which wraps. Unchanged pictures are kept, since each change is
    a new layout. pixels: of the document's font. ratio: device pixel ratio.
    """
    step = next((n for n in (1, 2, 4) if (n * ratio).is_integer()), 1)
    placed, cursor = [], QTextCursor(document)
    cursor.beginEditBlock()
    for title, start, end, form in reversed(_found(document)):
        key = FormulaKey.of(title)
        formula, font, image = formulas.get(key), form.font(), form.toImageFormat()
        is_placed = image.isValid()
        if formula is None:
            placed += [key] * is_placed
            continue
        if not is_placed:
            is_sized = form.hasProperty(QTextFormat.Property.FontPixelSize)
            image = QTextImageFormat()
            image.merge(form)
            image.setProperty(SIZE, font.pixelSize() if is_sized else pixels)
        natural = image.intProperty(SIZE) * AS_HIGH / EM
        scale = min(natural, width / formula.width)
        pixels_of_it = formula.width * (formula.above + formula.below) * scale**2
        if not is_placed and (scale < natural * SMALLEST or pixels_of_it > LARGEST):
            continue
        placed.append(key)
        below = ceil(formula.below * scale - HARDLY)
        one = Placed(
            key,
            _up_to(step, formula.width * scale),
            _up_to(step, ceil(formula.above * scale) + below),
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
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        if is_placed:
            cursor.setCharFormat(image)
        else:
            cursor.insertImage(image)
    cursor.endEditBlock()
    return placed[::-1]


def _up_to(step: int, length: float) -> int:
    """Round up to whole device pixels, since Qt would cut off a row."""
    return step * ceil(length / step)


HARDLY = 0.6
"""Pixels below the baseline that are ignored: the margin of an image."""


def _put_below(image: QTextImageFormat, font: QFont, below: int) -> None:
    """Draw so many pixels of an image below the baseline.

    Qt places as much of it there as the descent of the image's own font, which no text uses.
    """
    way = QTextCharFormat.VerticalAlignment
    image.setVerticalAlignment(way.AlignBaseline if below > 0 else way.AlignNormal)
    size = max(1, 2 * below)
    font.setPixelSize(size)
    while QFontMetrics(font).descent() < below:
        size += max(1, below - QFontMetrics(font).descent())
        font.setPixelSize(size)
    image.setFont(font)


class Found(NamedTuple):
    """A formula in a document; form: of its picture or its first letters."""

    title: str
    start: int
    end: int
    form: QTextCharFormat


def _found(document: QTextDocument) -> list[Found]:
    found: list[Found] = []
    block = document.begin()
    while block.isValid():
        for piece in block.textFormats():
            title, start = piece.format.toolTip(), block.position() + piece.start
            end = start + piece.length
            if title and found and (found[-1].title, found[-1].end) == (title, start):
                found[-1] = found[-1]._replace(end=end)
            elif title:
                found.append(Found(title, start, end, QTextCharFormat(piece.format)))
        block = block.next()
    return found


@lru_cache(maxsize=MOST)
def drawn(formula: Formula, place: Placed, ratio: float) -> QImage:
    """Draw a formula for a device pixel ratio."""
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
