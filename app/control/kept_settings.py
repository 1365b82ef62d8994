"""The app's settings while it runs: changed in one place, saved at once."""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.store.settings_file import read_settings, save_settings
from app.values.app_settings import AppSettings
from app.values.errors import SettingsNotSaved


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
