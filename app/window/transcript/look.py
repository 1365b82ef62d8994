"""How the transcript is drawn: a theme and type sizes as fonts, colours and rich text styles."""

from dataclasses import dataclass, replace

from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.window.style_sheet import mixed
from app.window.theme import Theme, TypeSizes

TEXT_WIDTH = 760
"""Widest column of text, in pixels."""
MARGIN = 24
"""Around the transcript."""
GAP = 16
"""Between messages, and between blocks of code and prose."""
PARAGRAPH_GAP = 10
QUOTE_STEP = 16
"""Pixels a quote is set in."""
LIST_STEP = 26
"""Pixels a list is set in."""
LINE_HEIGHT = 130
"""Percent of the font's own line spacing, which is about 1.2 times its size: 1.55 in all."""


@dataclass(frozen=True, slots=True)
class Look:
    """Theme and sizes of one moment; shows_drafted: whether drafted words are tinted."""

    theme: Theme
    sizes: TypeSizes
    shows_drafted: bool = False

    def text_font(self) -> QFont:
        """Of prose."""
        font = QFont(QGuiApplication.font())
        font.setPixelSize(self.sizes.transcript)
        return font

    def interface_font(self) -> QFont:
        """Of words that belong to the window, not to the chat."""
        font = QFont(QGuiApplication.font())
        font.setPixelSize(self.sizes.interface)
        return font

    def code_font(self) -> QFont:
        """Of code blocks."""
        font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        font.setPixelSize(self.sizes.code)
        return font

    def small_font(self) -> QFont:
        """Of footers and labels, with figures of equal width."""
        font = QFont(QGuiApplication.font())
        font.setPixelSize(self.sizes.small)
        font.setFeature(QFont.Tag("tnum"), 1)
        return font

    def muted_icons(self) -> Theme:
        """The theme for buttons that should not compete with the text."""
        return replace(self.theme, text=self.theme.muted)

    def bar_colour(self) -> str:
        """Of lines that must be seen, such as a quote's bar."""
        return mixed(self.theme.line, self.theme.muted, 0.25)

    def tint(self, depth: int) -> QColor:
        """Behind a word drafted at this depth."""
        colour = QColor(self.theme.tint)
        colour.setAlphaF(self.theme.tint_strength(depth))
        return colour

    def found(self, current: bool) -> QColor:
        """Behind what a search found."""
        colour = QColor(self.theme.warning)
        colour.setAlphaF(0.5 if current else 0.25)
        return colour

    def css(self, muted: bool = False) -> str:
        """The style sheet of a prose document."""
        theme, size = self.theme, self.sizes.transcript
        colour = theme.muted if muted else theme.text
        family = self.code_font().family()
        line = f"line-height:{LINE_HEIGHT}%"
        return f"""
            p, li, pre {{ {line}; }}
            p {{ color:{colour}; margin:0 0 {PARAGRAPH_GAP}px 0; }}
            ul, ol {{ color:{colour}; margin:0 0 {PARAGRAPH_GAP}px 0; }}
            li {{ margin:0 0 4px 0; }}
            li p {{ margin:0 0 4px 0; }}
            .h1, .h2, .h3 {{ color:{colour}; font-weight:600; }}
            .h1 {{ font-size:{round(size * 1.25)}px; margin:14px 0 8px 0; }}
            .h2 {{ font-size:{round(size * 1.1)}px; margin:14px 0 6px 0; }}
            .h3 {{ font-size:{size}px; margin:10px 0 4px 0; }}
            code, pre {{ font-family:'{family}'; font-size:{self.sizes.code}px; }}
            pre {{ background-color:{theme.code}; margin:4px 0 8px 0; white-space:pre-wrap; }}
            blockquote {{ color:{theme.muted}; margin:0 0 {PARAGRAPH_GAP}px {QUOTE_STEP}px; }}
            blockquote p {{ color:{theme.muted}; }}
            table {{ border-color:{mixed(theme.line, theme.muted, 0.1)};
                     border-collapse:collapse; border-style:solid; margin:4px 0 12px 0; }}
            th {{ font-weight:600; background-color:{theme.side}; color:{colour}; }}
            td {{ color:{colour}; }}
            a {{ color:{theme.accent}; text-decoration:none; }}
            .problem {{ color:{theme.error}; }}
            .display {{ margin:4px 0 {PARAGRAPH_GAP}px 24px; }}
        """


def keeps_height(widget: QWidget) -> None:
    """Let a widget be as wide as there is room, and never higher than it needs."""
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
