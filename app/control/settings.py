"""The settings seen: in the theme, and on their page."""

from dataclasses import replace

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QApplication

from app.state.settings import KeptSettings
from app.values.app_settings import Theme as Wish
from app.values.app_settings import zoomed
from app.values.chat_settings import ChatSettings
from app.window.look import Scheme
from app.window.settings_view import SettingsView
from app.window.style_sheet import apply_theme
from mlx_engine import PromptFolder

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


class SettingsController(QObject):
    """The page shows what holds, wherever it was changed."""

    def __init__(
        self,
        view: SettingsView,
        settings: KeptSettings,
        look: LookController,
        prompts: PromptFolder,
        parent: QObject | None = None,
    ) -> None:
        """prompts: files of what models have read of chats."""
        super().__init__(parent)
        self._view, self._settings, self._prompts = view, settings, prompts
        self._new_chat: ChatSettings | None = None
        view.appearance.changed.connect(settings.change)
        view.appearance.zoom_wanted.connect(look.zoom)
        view.models.changed.connect(settings.change)
        view.models.seen.connect(self._show_kept)
        view.models.forget_wanted.connect(self._forget)
        view.new_chat.changed.connect(self._change_new_chat)
        settings.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        value = self._settings.value
        self._view.appearance.show_appearance(value)
        self._view.models.show_settings(value)
        if value.new_chat != self._new_chat:  # many fields, few changes
            self._new_chat = value.new_chat
            self._view.new_chat.show_settings(value.new_chat)

    def _change_new_chat(self, wanted: ChatSettings) -> None:
        """They are on show already; what is typed wrong beside them stays."""
        self._new_chat = wanted
        self._settings.change(replace(self._settings.value, new_chat=wanted))

    def _show_kept(self) -> None:
        self._view.models.show_kept(self._prompts.nbytes)

    def _forget(self) -> None:
        self._prompts.forget_all()
        self._show_kept()
