"""Joins the settings page with the app's settings."""

from dataclasses import replace

from PySide6.QtCore import QObject

from app.control.kept_settings import KeptSettings
from app.control.look import LookController
from app.values.app_settings import AppSettings
from app.values.chat_settings import ChatSettings
from app.window.session_panel.panel_values import SessionSettings
from app.window.settings_page.settings_values import Appearance
from app.window.settings_page.settings_view import SettingsView


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
        view.appearance.changed.connect(self._change_appearance)
        view.appearance.zoom_wanted.connect(look.zoom)
        view.new_chat.changed.connect(self._change_defaults)
        settings.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        value = self._settings.value
        self._view.appearance.show_appearance(appearance_of(value))
        self._view.new_chat.show_settings(session_settings(value.new_chat))

    def _change_appearance(self, wanted: Appearance) -> None:
        self._settings.change(
            replace(
                self._settings.value,
                theme=wanted.colours,
                show_drafted=wanted.show_drafted,
                reduce_motion=wanted.reduce_motion,
            )
        )

    def _change_defaults(self, wanted: SessionSettings) -> None:
        value = self._settings.value
        changed = with_session_settings(value.new_chat, wanted)
        self._settings.change(replace(value, new_chat=changed))


def appearance_of(settings: AppSettings) -> Appearance:
    """What the page shows of the look."""
    return Appearance(
        settings.theme, settings.text_zoom, settings.show_drafted, settings.reduce_motion
    )


def session_settings(settings: ChatSettings) -> SessionSettings:
    """What panel and page show of a chat's settings."""
    return SessionSettings(
        settings.system,
        settings.draft,
        settings.sampling,
        settings.generation,
        settings.load.numerics,
        settings.thinking,
        str(settings.load.draft_model or ""),
    )


def with_session_settings(settings: ChatSettings, wanted: SessionSettings) -> ChatSettings:
    """Those of the page, and what it does not show as it was."""
    return replace(
        settings,
        system=wanted.system,
        draft=wanted.draft,
        sampling=wanted.sampling,
        generation=wanted.generation,
        load=replace(settings.load, numerics=wanted.numerics),
        thinking=wanted.thinking,
    )
