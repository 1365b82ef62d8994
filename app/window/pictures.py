"""Pictures of messages: thumbnails that open them large, conversions of Qt's images, copies."""

import json
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QIODevice,
    QMimeData,
    QPoint,
    QRect,
    QSize,
    Qt,
    QTemporaryDir,
    QUrl,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QGuiApplication,
    QImage,
    QImageReader,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPixmap,
)
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QMenu, QWidget
from shiboken6 import isValid
from typing_extensions import override

from app.start.threads import LatestTask
from app.window.controls.labels import set_tip
from app.window.language import tr
from app.window.look import look
from mlx_engine.values.errors import BadPicture
from mlx_engine.values.picture import Picture

WIDEST_SHAPE = 2.5
"""Sides of a thumbnail differ by this factor at most; what is longer is cut at both ends."""
LARGE = 0.9
"""Share of the window's width and height that a picture opened large takes at most."""


def png_of(image: QImage) -> bytes:
    """Return an image as the bytes of a PNG file, b"" if it has no pixels."""
    content = QByteArray()
    file = QBuffer(content)
    file.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(file, "PNG", 80)  # type: ignore[call-overload]
    return bytes(content.data())


def png_by_system(data: bytes) -> bytes:
    """Convert a picture that a plug-in of Qt reads, as TIFF, or HEIC on a Mac; b"" if none does.

    Files of several pages are not read: all but one would be lost.
    """
    file = QBuffer()
    file.setData(QByteArray(data))
    file.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(file)
    reader.setAutoTransform(True)
    has_pages = reader.format() == b"tiff" and reader.imageCount() > 1
    png = b"" if has_pages else png_of(reader.read())
    del reader  # before its file, which the reader of TIFF still uses at its end
    return png


def scaled(picture: Picture, width: int, height: int) -> QImage:
    """Decode a picture as a model sees it, no larger than these pixels; null if it is lost."""
    try:
        image = picture.decode()
    except BadPicture:
        return QImage()
    image.thumbnail((width, height))
    data, line = image.tobytes(), 3 * image.width
    return QImage(data, image.width, image.height, line, QImage.Format.Format_RGB888).copy()


COPIED = "application/x-headstart-pictures"
"""Format of all copied pictures: a line with their sizes in bytes, and their files."""
ENDINGS = {b"\x89PNG": ".png", b"\xff\xd8": ".jpg", b"GIF8": ".gif", b"BM": ".bmp"}
"""First bytes of a picture -> ending of its file's name; of WebP else."""


def mime_of(pictures: Sequence[Picture], text: str = "") -> QMimeData:
    """Make the clipboard's content of pictures and a text; other programs get the first picture.

    Lost pictures are left out.
    """
    data, first = QMimeData(), pictures[0]
    data.setImageData(scaled(first, first.width, first.height))
    files = [file for picture in pictures if (file := _file_of(picture))]
    data.setData(COPIED, b"\n".join((json.dumps(list(map(len, files))).encode(), b"".join(files))))
    if text:
        data.setText(text)
    return data


def _file_of(picture: Picture) -> bytes:
    """Read a picture's file, b"" if it is lost."""
    try:
        return picture.data
    except BadPicture:
        return b""


def copied_pictures(data: QMimeData) -> list[bytes]:
    """Return the files of the pictures that `mime_of` copied, [] for other contents."""
    sizes, _, files = bytes(data.data(COPIED).data()).partition(b"\n")
    try:
        ends = accumulate(map(int, json.loads(sizes)), initial=0) if sizes else ()
        return [files[start:end] for start, end in pairwise(ends)]
    except (TypeError, ValueError):  # of another program
        return []


def size_in_words(picture: Picture) -> str:
    """Say how large a picture is."""
    return tr("{width} × {height} pixels", width=picture.width, height=picture.height)


class Thumbnail(QAbstractButton):
    """A small picture, which a click opens large; it appears once it is decoded.

    It is dragged out as a file, and copied by its menu.

    disk: decodes in a background thread, for all thumbnails of a message.
    """

    def __init__(
        self, picture: Picture, height: int, number: int, disk: LatestTask, parent: QWidget
    ) -> None:
        """height: in pixels at a zoom of 1. number: from 1, of the picture in its message."""
        super().__init__(parent)
        self._picture, self._height, self._pixmap = picture, height, QPixmap()
        self._pressed_at = QPoint()
        self._folder: QTemporaryDir | None = None
        self.setAccessibleName(tr("Picture {number}", number=number))
        self.show_tokens(None)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(lambda: PictureDialog(picture, self.window()).open())
        ratio = self.devicePixelRatioF()
        side = round(WIDEST_SHAPE * self.sizeHint().height() * ratio)

        def show(image: QImage) -> None:
            if isValid(self):
                image.setDevicePixelRatio(ratio)
                self._pixmap = QPixmap.fromImage(image)
                self.update()

        disk.run_each(lambda: scaled(picture, 2 * side, side), show)

    def show_tokens(self, tokens: int | None) -> None:
        """Tell the size and, if it is known, what the picture takes of the model's context."""
        size = size_in_words(self._picture)
        told = [] if tokens is None else [tr("{n:,} tokens", "1 token", tokens)]
        words = ", ".join([size, *told])
        self.setAccessibleDescription(words)
        set_tip(self, tr("{size}: open it large", size=words))

    def drag_data(self) -> QMimeData:
        """Return the picture as an image and as a file, which is there as long as this widget."""
        picture, self._folder = self._picture, self._folder or QTemporaryDir()
        content = _file_of(picture)
        ending = next((ENDINGS[key] for key in ENDINGS if content.startswith(key)), ".webp")
        file = Path(self._folder.filePath(f"{self.accessibleName()}{ending}"))
        file.write_bytes(content)
        data = mime_of([picture])
        data.setUrls([QUrl.fromLocalFile(str(file))])
        return data

    # Qt

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pressed_at = event.position().toPoint()
        super().mousePressEvent(event)

    @override
    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        way = (event.position().toPoint() - self._pressed_at).manhattanLength()
        is_held = bool(event.buttons() & Qt.MouseButton.LeftButton)
        if not is_held or way < QApplication.startDragDistance():
            super().mouseMoveEvent(event)
            return
        self.setDown(False)
        drag = QDrag(self)
        drag.setMimeData(self.drag_data())
        drag.setPixmap(self.grab())
        drag.exec(Qt.DropAction.CopyAction)

    @override
    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.addAction(tr("Copy Picture"), lambda: _copy(self._picture))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    @override
    def sizeHint(self) -> QSize:
        height = round(self._height * look().zoom)
        shape = self._picture.width / max(1, self._picture.height)
        return QSize(round(height * min(max(shape, 1 / WIDEST_SHAPE), WIDEST_SHAPE)), height)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        edge, shape = self.rect().toRectF().adjusted(1, 1, -1, -1), QPainterPath()
        shape.addRoundedRect(edge, 6, 6)
        with QPainter(self) as painter:
            painter.setRenderHints(
                QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform
            )
            painter.fillPath(shape, look().colour("side"))
            if not self._pixmap.isNull():
                painter.setClipPath(shape)
                mode = Qt.AspectRatioMode.KeepAspectRatioByExpanding
                size = self._pixmap.deviceIndependentSize().toSize().scaled(self.size(), mode)
                place = QRect(0, 0, size.width(), size.height())
                place.moveCenter(self.rect().center())
                painter.drawPixmap(place, self._pixmap)
                painter.setClipping(False)
            painter.setPen(look().colour("accent" if self.hasFocus() else "line"))
            painter.drawPath(shape)


def _copy(picture: Picture) -> None:
    QGuiApplication.clipboard().setMimeData(mime_of([picture]))


class PictureDialog(QDialog):
    """A picture as large as the window allows; Escape, Return, Space and a click close it, Copy
    copies it.
    """

    def __init__(self, picture: Picture, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Picture, {size}", size=size_in_words(picture)))
        self.setAccessibleName(self.windowTitle())
        room = QSize(round(parent.width() * LARGE), round(parent.height() * LARGE))
        size = QSize(picture.width, picture.height)
        ratio = self.devicePixelRatioF()
        if size.width() > room.width() or size.height() > room.height():
            size = size.scaled(room, Qt.AspectRatioMode.KeepAspectRatio)
        self._picture, self._pixmap, disk = picture, QPixmap(), LatestTask(self)
        pixels = size * ratio
        disk.run(lambda: scaled(picture, pixels.width(), pixels.height()), self._show)
        self.resize(size.expandedTo(QSize(160, 120)))

    def _show(self, image: QImage) -> None:
        self._pixmap = QPixmap.fromImage(image)
        self.update()

    # Qt

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.fillRect(self.rect(), look().colour("page"))
            if not self._pixmap.isNull():
                mode = Qt.AspectRatioMode.KeepAspectRatio
                size = self._pixmap.size().scaled(self.size(), mode)
                place = QRect(0, 0, size.width(), size.height())
                place.moveCenter(self.rect().center())
                painter.drawPixmap(place, self._pixmap)

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.accept()

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.accept()
        elif event.matches(QKeySequence.StandardKey.Copy):
            _copy(self._picture)
        else:
            super().keyPressEvent(event)
