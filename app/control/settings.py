"""The app's settings while it runs: kept on the disk, seen in the look and on their page."""

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QApplication

from app.store.settings_file import read_settings, save_settings
from app.values.app_settings import AppSettings, zoomed
from app.values.app_settings import Theme as Wish
from app.values.chat_settings import ChatSettings
from app.values.errors import SettingsNotSaved
from app.window.look import Scheme
from app.window.settings_view import SettingsView
from app.window.style_sheet import dress


class KeptSettings(QObject):
    """`value` is what holds now.

    Signals:
        changed: there are other settings.
        failed: they could not be saved, in words; said once.
    """

    changed = Signal()
    failed = Signal(str)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        reading = read_settings(path)
        self.notes = reading.notes
        self._value = reading.value
        self._has_failed = False

    @property
    def value(self) -> AppSettings:
        """The settings of now."""
        return self._value

    def change(self, settings: AppSettings) -> None:
        """Use these from now on, and keep them."""
        if settings == self._value:
            return
        self._value = settings
        try:
            save_settings(self._path, settings)
        except SettingsNotSaved as error:
            if not self._has_failed:
                self._has_failed = True
                self.failed.emit(str(error))
        self.changed.emit()


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


class SettingsController(QObject):
    """The page shows what holds, wherever it was changed."""

    def __init__(
        self,
        view: SettingsView,
        settings: KeptSettings,
        look: LookController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._view, self._settings = view, settings
        view.appearance.changed.connect(settings.change)
        view.appearance.zoom_wanted.connect(look.zoom)
        view.new_chat.changed.connect(self._change_defaults)
        settings.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        value = self._settings.value
        self._view.appearance.show_appearance(value)
        self._view.new_chat.show_settings(value.new_chat)

    def _change_defaults(self, wanted: ChatSettings) -> None:
        self._settings.change(replace(self._settings.value, new_chat=wanted))
