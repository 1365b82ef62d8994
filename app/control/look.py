"""Colours and text size of the whole window: from the settings and the system's own scheme."""

from dataclasses import replace

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.control.kept_settings import KeptSettings
from app.values.app_settings import Theme as Wish
from app.values.app_settings import zoomed
from app.window.look import Scheme
from app.window.style_sheet import dress


class LookController(QObject):
    """Dresses the application; Qt hands its palette, font and style sheet on to every widget."""

    def __init__(
        self, application: QApplication, settings: KeptSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._application = application
        self._settings = settings
        self._worn: tuple[Scheme, float] | None = None
        application.styleHints().colorSchemeChanged.connect(self.refresh)
        settings.changed.connect(self.refresh)
        self.refresh()

    @property
    def scheme(self) -> Scheme:
        """Light or dark: as the user wants it, or as the system has it."""
        return scheme_for(self._settings.value.theme, self._application.styleHints().colorScheme())

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
        dress(self._application, *wanted)


def scheme_for(wish: Wish, system: Qt.ColorScheme) -> Scheme:
    """A system that does not say is light."""
    if wish != "system":
        return wish
    return "dark" if system == Qt.ColorScheme.Dark else "light"
