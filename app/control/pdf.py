"""Chats as PDF files, set by Qt from their Markdown."""

import os
from errno import ENOSPC
from pathlib import Path

from PySide6.QtCore import QLocale, QMarginsF
from PySide6.QtGui import QPageLayout, QPageSize, QPdfWriter, QTextDocument

PDF_END = b"%%EOF"
MARGIN_MM = 18.0
POINTS = 10
STYLE = "table { border-collapse: collapse; } td, th { border: 1px solid #999; padding: 3px; }"


def write_pdf(markdown: str, title: str, path: Path) -> None:
    """Write Markdown as a PDF of Letter or A4 pages, as the locale has them, over what is there.

    Formulas stand as their source, and pictures are left out: nothing is loaded from the web.
    Raises OSError if the file cannot be written.
    """
    part = path.with_name(path.name + ".part")
    part.write_bytes(b"")  # raises what is in the way; Qt only says that it failed
    document = _Document()
    document.setDefaultStyleSheet(STYLE)
    font = document.defaultFont()
    font.setPointSize(POINTS)
    document.setDefaultFont(font)
    document.setMarkdown(markdown)
    document.setMetaInformation(QTextDocument.MetaInformation.DocumentTitle, title)
    try:
        writer = QPdfWriter(str(part))
        writer.setTitle(title)
        writer.setPageLayout(_page())
        document.print_(writer)
        del writer  # closes the file
        if not part.read_bytes().rstrip().endswith(PDF_END):  # Qt does not tell of a full disk
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


class _Document(QTextDocument):
    """A document that loads nothing."""

    def loadResource(self, kind: int, name: object) -> object:  # noqa: N802
        """Nothing, for pictures of any address."""
        del kind, name
        return None


def _page() -> QPageLayout:
    """One page, in the size of the locale's country."""
    is_imperial = QLocale().measurementSystem() == QLocale.MeasurementSystem.ImperialUSSystem
    size = QPageSize.PageSizeId.Letter if is_imperial else QPageSize.PageSizeId.A4
    margins = QMarginsF(MARGIN_MM, MARGIN_MM, MARGIN_MM, MARGIN_MM)
    return QPageLayout(
        QPageSize(size),
        QPageLayout.Orientation.Portrait,
        margins,
        QPageLayout.Unit.Millimeter,
    )
