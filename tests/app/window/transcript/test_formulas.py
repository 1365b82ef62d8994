"""Formulas are pictures in what is finished: on the line, in its colours, and LaTeX when copied."""

import pytest
from PySide6.QtGui import QColor, QFontMetrics, QGuiApplication, QImage
from shown_transcript import begin, of, settle, show, stream

from app.values.chats import DraftedSpan
from app.window.transcript.formulas import (
    OBJECT,
    Formulas,
    Placed,
    place_formulas,
    read_name,
    set_formula,
)
from app.window.transcript.markdown_text import FormulaKey
from app.window.transcript.prose_segment import ProseSegment
from app.window.transcript.shown_message import ShownMessage
from mlx_engine.values.conversation import TextPiece


def until_set(qtbot, view, source, **how):
    show(view, ShownMessage(1, "assistant", source, **how))
    wait(qtbot, view)
    return of(view, 1).texts()[0]


def wait(qtbot, view):
    qtbot.waitUntil(lambda: not view.reader.formulas.is_busy)
    settle()


def select(prose: ProseSegment, start: int, end: int) -> None:
    cursor = prose.textCursor()
    cursor.setPosition(start)
    cursor.setPosition(end, cursor.MoveMode.KeepAnchor)
    prose.setTextCursor(cursor)


def places(prose: ProseSegment) -> list[Placed]:
    found, block = [], prose.document().begin()
    while block.isValid():
        pieces = block.begin()
        while not pieces.atEnd():
            shape = pieces.fragment().charFormat()
            if shape.isImageFormat():
                found += [read_name(shape.toImageFormat().name())] * pieces.fragment().length()
            pieces += 1
        block = block.next()
    return found


def test_its_source_stands_there_until_the_picture_does_also_while_it_grows(view, qtbot):
    begin(view)
    view.append_pieces(1, [TextPiece("So $x^2$ is $y^")])
    assert of(view, 1).texts()[0].text() == "So $x^2$ is $y^"
    wait(qtbot, view)
    assert of(view, 1).texts()[0].text() == f"So {OBJECT} is $y^"
    stream(view, "2$.")
    wait(qtbot, view)
    assert of(view, 1).texts()[0].text() == f"So {OBJECT} is {OBJECT}."


@pytest.mark.parametrize(
    "latex",
    [r"\frac{a", "{{{", "^", "&", r"\text{你好}", "x" * 1001, "{" * 900 + "}" * 99, r"\left(", "%"],
)
def test_what_cannot_be_set_stays_as_it_is_typed(view, qtbot, latex):
    show(view, ShownMessage(1, "assistant", f"So ${latex}$ is"))
    wait(qtbot, view)
    assert of(view, 1).texts()[0].text() == f"So ${latex}$ is"


@pytest.mark.parametrize(
    "latex",
    [r"\frac12", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\unknown{x}", "a<b>c"],
)
def test_what_can_be_set_has_a_size(latex):
    made = set_formula(FormulaKey(latex, True))
    assert made is not None and made.width > 0 and made.above > 0


def test_environments_are_not_numbered_through_all_formulas():
    key = FormulaKey(r"\begin{align}a&=b\end{align}", True)
    assert set_formula(key) == set_formula(key)


@pytest.mark.parametrize("beside", ["", r"$\frac{\frac12}{\frac34}$", r"$\sum_{i=1}^n$"])
def test_a_formula_stands_on_the_line(view, qtbot, beside):
    prose = until_set(qtbot, view, rf"HHHHHH $\mathrm{{HHHHHH}}$ HHHHHH {beside}")
    line = prose.document().begin().layout().lineAt(0)
    image = prose.grab().toImage()
    first = QFontMetrics(prose.font()).horizontalAdvance("HHHHHH")
    start, end = (round(line.cursorToX(at)[0]) for at in (7, 8))
    assert 0 < first < start < end
    assert abs(_lowest(image, 0, first) - _lowest(image, start, end)) <= 1


@pytest.mark.parametrize("deep", ["Hgg", r"H_{\frac{\frac12}{\frac34}}"])
def test_what_reaches_below_the_line_hangs_from_it(view, qtbot, deep):
    prose = until_set(qtbot, view, rf"$\mathrm{{H}}$ $\mathrm{{{deep}}}$")
    line = prose.document().begin().layout().lineAt(0)
    image, edges = prose.grab().toImage(), [round(line.cursorToX(at)[0]) for at in (0, 1, 2)]
    rows = [
        next(y for y in range(image.height()) if _is_inked(image, y, left, left + edges[1]))
        for left in (edges[0], edges[2])
    ]
    assert abs(rows[0] - rows[1]) <= 1


def _is_inked(image: QImage, y: int, left: int, right: int) -> bool:
    return any(image.pixelColor(x, y).lightness() < 110 for x in range(left, right))


def _lowest(image: QImage, left: int, right: int) -> int:
    """The last row with ink between two columns."""
    rows = range(image.height() - 1, -1, -1)
    dark = (
        y
        for y in rows
        if any(QColor(image.pixel(x, y)).lightness() < 110 for x in range(left, right))
    )
    return next(dark)


def test_colour_and_size_are_those_of_the_words_around_it(view, qtbot, wear):
    source = "$x$\n\n# $x$\n\n> $x$\n\n[$x$](https://example.org)"
    prose = until_set(qtbot, view, source)
    text, heading, quote, link = places(prose)
    assert heading.scale == pytest.approx(text.scale * 19 / 15, rel=0.02)
    assert len({text.ink, quote.ink, link.ink}) == 3
    wear("dark", 1.5)
    settle()
    dark = places(prose)
    assert QColor(dark[0].ink).lightness() > 200 > QColor(text.ink).lightness()
    assert dark[0].scale == pytest.approx(text.scale * 1.5, rel=0.05)
    wear("light", 1.0)
    settle()
    assert places(prose) == [text, heading, quote, link]


def test_a_long_formula_is_no_wider_than_the_page(view, qtbot):
    prose = until_set(qtbot, view, "$$" + "+".join(f"a_{{{n}}}" for n in range(24)) + "$$")
    assert 0.8 * prose.width() < places(prose)[0].width <= prose.width()
    view.resize(420, 500)
    settle()
    assert 0.8 * prose.width() < places(prose)[0].width <= prose.width()


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 1.75, 2.0])
def test_an_image_fills_whole_pixels_of_the_screen(view, qtbot, ratio):
    prose = until_set(qtbot, view, r"So $e^{-\frac{(x-\mu)^2}{2\sigma^2}}$ and $a_{i_j}$")
    fonts = range(11, 20)
    for pixels in fonts:
        place_formulas(prose.document(), view.reader.formulas, pixels, 600, ratio)
        for place in places(prose):
            assert (place.width * ratio).is_integer() and (place.height * ratio).is_integer()


def test_a_formula_that_would_be_too_small_wraps_as_it_is_typed(view, qtbot):
    source = "$$" + "+".join(f"a_{{{n}}}" for n in range(70)) + "$$"
    prose = until_set(qtbot, view, source)
    assert places(prose) == [] and prose.height() > 2 * prose.fontMetrics().height()


def test_the_source_of_a_formula_is_found(view, qtbot):
    show(view, ShownMessage(1, "assistant", "😀 n $\\alpha + n^2$ n"))
    wait(qtbot, view)
    prose = of(view, 1).texts()[0]
    assert len(places(prose)) == 1
    view.open_find()
    view.find_bar.field.setText("alpha")
    settle()
    (found,) = prose.extraSelections()
    assert (found.cursor.selectionStart(), found.cursor.selectionEnd()) == (5, 6)
    assert view.find_bar.count.text() == "1 of 1"


def test_latex_is_what_is_copied(view, qtbot):
    prose = until_set(qtbot, view, "So $a_1$, $b_2$ and\n\n$$c^3$$\n\nend $d$")
    select(prose, 0, prose.document().characterCount() - 1)
    prose.copy()
    assert QGuiApplication.clipboard().text() == "So $a_1$, $b_2$ and\n$$c^3$$\nend $d$"
    select(prose, 4, 7)
    prose.copy()
    assert QGuiApplication.clipboard().text() == ", $b_2$"


def test_a_drafted_formula_is_tinted_whole_and_nothing_beside_it(view, qtbot):
    source = "One $a + a$ a two"
    start = source.index("a + a")
    prose = until_set(qtbot, view, source, spans=(DraftedSpan(start, start + 2, 2),))
    assert [(tint.start, tint.end) for tint in prose.tinted()] == [(4, 5)]


def test_another_chat_does_not_wait_for_the_formulas_of_this_one(qtbot):
    formulas, shown = Formulas(), []
    keys = [FormulaKey(f"x_{{{number}}}", False) for number in range(20)]
    formulas.once_set(keys, lambda: shown.append("of the other chat"))
    formulas.forget_wanted()
    formulas.once_set([FormulaKey("y", False)], lambda: shown.append("of this one"))
    qtbot.waitUntil(lambda: bool(shown))
    assert shown == ["of this one"]
    assert sum(formulas.get(key) is not None for key in keys) == 1, "it was being set already"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_formula_can_be_read_under_a_selection(view, qtbot, wear, scheme):
    wear(scheme, 1.0)
    prose = until_set(qtbot, view, "So $x^2$ is.")
    select(prose, 0, 5)
    (formula,) = places(prose)
    ground = prose.grab().toImage().pixelColor(1, 1)
    assert ground == prose.palette().highlight().color()
    assert abs(QColor(formula.ink).lightness() - ground.lightness()) > 110


def test_a_selection_stays_where_formulas_become_pictures(view, qtbot):
    begin(view, ShownMessage(2, "assistant", "", state="live"))
    view.append_pieces(2, [TextPiece("# Known\n\nSo $x^2$ is\n")])
    settle()
    prose = of(view, 2).texts()[0]
    select(prose, 6, 8)
    wait(qtbot, view)
    view.append_pieces(2, [TextPiece("```\n")])
    assert prose.text() == f"Known\nSo {OBJECT} is"
    assert prose.textCursor().selectedText() == "So"


def test_a_stored_answer_is_shown_with_the_pictures_that_are_known(view, qtbot):
    until_set(qtbot, view, "$x^2$")
    view.show_messages([ShownMessage(2, "assistant", "So $x^2$ is")])
    assert of(view, 2).texts()[0].text() == f"So {OBJECT} is"


def test_equal_formulas_beside_each_other_are_as_many_pictures(view, qtbot):
    prose = until_set(qtbot, view, "$x$$x$ and $$y$$\n\n$$z$$\n\n$$z$$")
    assert prose.text().count(OBJECT) == 5


@pytest.mark.parametrize("rest", ["two", "$x^2$ two", "![a picture](https://a/b.png) two"])
def test_the_sign_of_an_image_in_the_text_itself_is_none(view, qtbot, rest):
    """As in what was copied from a letter, and what a model repeats of it."""
    prose = until_set(qtbot, view, f"One {OBJECT}{rest}")
    select(prose, 0, prose.document().characterCount() - 1)
    prose.copy()
    assert QGuiApplication.clipboard().text().startswith("One ")
    assert OBJECT not in QGuiApplication.clipboard().text()
    assert OBJECT not in prose.searched().text


NESTED = [
    ("{", "}"), (r"\hat{", "}"), (r"\overset{a}{", "}"), (r"\frac{1}{1+", "}"), ("x^{", "}"),
    ("{x^{", "}}^2"), (r"\left(", r"\right)"), (r"\begin{matrix}", r"\end{matrix}"),
    (r"\sqrt[", "x]{x}"), (r"\substack{", "}"),
]  # fmt: skip


def test_a_formula_that_would_take_seconds_stays_as_it_is_typed():
    for opened, closed in NESTED:
        assert set_formula(FormulaKey(opened * 4 + "x" + closed * 4, False)) is not None, opened
        assert set_formula(FormulaKey(opened * 30 + "x" + closed * 30, False)) is None, opened
    for wide in (r"\overleftarrow{\kern99999999em x}", r"\overline{\hspace{9999999em}}"):
        assert set_formula(FormulaKey(wide, False)) is None
    assert set_formula(FormulaKey(r"a\quad\hspace{2em}\color{#123456}{b}\,c", False)) is not None
