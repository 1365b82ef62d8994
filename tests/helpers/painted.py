"""What was painted, pixel by pixel."""

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QImage, QPixmap


def pixels(picture: QPixmap | QImage) -> NDArray[np.uint8]:
    """Red, green, blue and opacity: [height, width, 4]."""
    image = picture if isinstance(picture, QImage) else picture.toImage()
    image = image.convertToFormat(QImage.Format.Format_RGBA8888)
    shape = image.height(), image.bytesPerLine() // 4, 4
    return np.frombuffer(image.constBits(), np.uint8).reshape(shape)[:, : image.width()].copy()


def solid_colours(picture: QPixmap | QImage) -> set[str]:
    """The colours of all that is not seen through, as "#rrggbb"."""
    found = pixels(picture).reshape(-1, 4)
    solid = found[found[:, 3] == 255].astype(np.uint32)
    packed = (solid[:, 0] << 16) | (solid[:, 1] << 8) | solid[:, 2]
    return {f"#{colour:06x}" for colour in np.unique(packed)}
