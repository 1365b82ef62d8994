"""Colours and text size of the whole window: from the settings and the system's own scheme."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.control.kept_settings import KeptSettings
from app.values.app_settings import Theme as Wish
from app.values.app_settings import zoomed
from app.window.frame_style import frame_style
from app.window.palette import palette_of
from app.window.style_sheet import style_sheet
from app.window.theme import Scheme, Theme, TypeSizes, load_theme

Dress = Callable[[Theme, TypeSizes], object]
"""Gives a widget that paints itself its colours and sizes."""


class LookController(QObject):
    """Dresses the application, and every widget that paints itself."""

    def __init__(
        self, application: QApplication, settings: KeptSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._application = application
        self._settings = settings
        self._dresses: tuple[Dress, ...] = ()
        self._worn: tuple[Scheme, float] | None = None
        application.styleHints().colorSchemeChanged.connect(self.refresh)
        settings.changed.connect(self.refresh)
        self.refresh()

    @property
    def scheme(self) -> Scheme:
        """Light or dark: as the user wants it, or as the system has it."""
        return scheme_for(self._settings.value.theme, self._application.styleHints().colorScheme())

    @property
    def theme(self) -> Theme:
        """The colours of now."""
        return load_theme(self.scheme)

    @property
    def sizes(self) -> TypeSizes:
        """The text sizes of now."""
        return TypeSizes().zoomed(self._settings.value.text_zoom)

    def dress(self, dresses: Sequence[Dress]) -> None:
        """These are called from now on, whenever the look changes."""
        self._dresses = tuple(dresses)

    def zoom(self, steps: int) -> None:
        """Text larger or smaller by tenths; 0 for its normal size."""
        self._settings.change(zoomed(self._settings.value, steps))

    def choose(self, wish: Wish) -> None:
        """Light, dark, or as the system has it."""
        self._settings.change(replace(self._settings.value, theme=wish))

    def refresh(self) -> None:
        """Dress everything, if the look has changed."""
        wanted = (self.scheme, self._settings.value.text_zoom)
        if wanted == self._worn:
            return
        self._worn = wanted
        theme, sizes = self.theme, self.sizes
        application = self._application
        application.setPalette(palette_of(theme))
        font = application.font()
        font.setPixelSize(sizes.interface)
        application.setFont(font)
        sheet = style_sheet(theme, sizes) + frame_style(theme, sizes)
        if application.styleSheet() != sheet:  # Qt polishes every widget, also for the same one
            application.setStyleSheet(sheet)
        for dress in self._dresses:
            dress(theme, sizes)


def scheme_for(wish: Wish, system: Qt.ColorScheme) -> Scheme:
    """A system that does not say is light."""
    if wish != "system":
        return wish
    return "dark" if system == Qt.ColorScheme.Dark else "light"
