"""Joins the settings page with the app's settings."""

from dataclasses import replace

from PySide6.QtCore import QObject

from app.control.kept_settings import KeptSettings
from app.control.look import LookController
from app.values.chat_settings import ChatSettings
from app.window.settings_view import SettingsView


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
