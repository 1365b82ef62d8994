"""The theme and text size of the whole application."""

from dataclasses import replace

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.state.settings import KeptSettings
from app.values.app_settings import Theme as Wish
from app.values.app_settings import zoomed
from app.window.look import Scheme
from app.window.style_sheet import apply_theme

COLOURS: dict[Wish, Qt.ColorScheme] = {
    "system": Qt.ColorScheme.Unknown,
    "light": Qt.ColorScheme.Light,
    "dark": Qt.ColorScheme.Dark,
}


class LookController(QObject):
    """Applies the theme and text zoom that the settings and the system ask for."""

    def __init__(
        self, application: QApplication, settings: KeptSettings, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._application = application
        self._settings = settings
        self._applied: tuple[Scheme, float] | None = None
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
        """Apply the theme and text zoom where they have changed."""
        self._application.styleHints().setColorScheme(COLOURS[self._settings.value.theme])
        wanted = self.scheme, self._settings.value.text_zoom
        if wanted != self._applied:
            self._applied = wanted
            apply_theme(self._application, *wanted)


def scheme_for(wish: Wish, system: Qt.ColorScheme) -> Scheme:
    """A system that does not say is light."""
    if wish != "system":
        return wish
    return "dark" if system == Qt.ColorScheme.Dark else "light"
