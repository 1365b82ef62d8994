"""Colours the lines of a code block: at once by simple rules, by Pygments when it is complete."""

from functools import cache

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app.window.look import Theme, look
from app.window.transcript.code_tokens import pygments_words
from app.window.transcript.code_words import Colour, LineReader, Word
from app.window.transcript.drafted_spans import Tint, in_utf16


class CodeColours(QSyntaxHighlighter):
    """Highlights one document."""

    def __init__(self, document: QTextDocument, language: str) -> None:
        super().__init__(document)
        self._language = language
        self._reader = LineReader(language)
        self._complete: list[list[Word]] | None = None

    def complete(self, code: str) -> None:
        """The code will not change any more."""
        self._complete = pygments_words(code, self._language)
        if self._complete is not None:
            self.rehighlight()

    # Qt

    def highlightBlock(self, text: str) -> None:  # noqa: N802
        """Colour one line."""
        formats = _formats(look().theme)
        for start, length, colour in self._words(text):
            if text.isascii():
                self.setFormat(start, length, formats[colour])
            else:
                ((first, last, *_),) = in_utf16(text, [Tint(start, start + length, 0)])
                self.setFormat(first, last - first, formats[colour])

    def _words(self, text: str) -> list[Word]:
        number = self.currentBlock().blockNumber()
        if self._complete is not None and number < len(self._complete):
            return self._complete[number]
        words, state = self._reader.read(text, max(0, self.previousBlockState()))
        self.setCurrentBlockState(state)
        return words


@cache
def _formats(theme: Theme) -> dict[Colour, QTextCharFormat]:
    colours: dict[Colour, str] = {
        "keyword": theme.code_keyword,
        "string": theme.code_string,
        "number": theme.code_number,
        "comment": theme.code_comment,
        "name": theme.code_name,
    }
    result: dict[Colour, QTextCharFormat] = {}
    for name, colour in colours.items():
        result[name] = QTextCharFormat()
        result[name].setForeground(QColor(colour))
    return result
