"""Settings under names of the user's, and those that new chats begin with."""

from collections.abc import Callable
from dataclasses import replace

from app.state.chat import ChatState
from app.state.settings import KeptSettings
from app.values.app_settings import with_preset, with_preset_named, without_preset
from app.values.chat_settings import as_preset


class Presets:
    """Presets in `settings`, for the `chat` on show, whose signals tell of changes."""

    def __init__(self, chat: ChatState, settings: KeptSettings) -> None:
        self.chat, self.settings = chat, settings

    @property
    def names(self) -> tuple[str, ...]:
        """All there are."""
        return tuple(self.settings.value.presets)

    @property
    def current(self) -> str | None:
        """The one that the chat began with, also after its settings were changed by hand."""
        name = self.chat.settings.preset
        return name if name in self.settings.value.presets else None

    @property
    def is_changed(self) -> bool:
        """Whether the chat's settings are no longer those of `current`."""
        preset = self.settings.value.presets.get(self.current or "")
        return preset is not None and as_preset(preset) != as_preset(self.chat.settings)

    def use(self, name: str) -> None:
        """Have the chat answer with a preset."""
        preset = self.settings.value.presets.get(name)
        if preset is not None:
            now = self.chat.settings
            own = replace(preset, model_path=now.model_path, read_from=now.read_from)
            self.chat.change_settings(replace(own, preset=name))

    def save(self, name: str) -> None:
        """Keep the chat's settings under this name, in place of a preset that has it."""
        preset = as_preset(self.chat.settings)
        self.settings.change(with_preset(self.settings.value, name, preset))
        self.chat.change_settings(replace(self.chat.settings, preset=name))

    def rename(self, name: str, new: str) -> None:
        """In all chats that began with it."""
        self.settings.change(with_preset_named(self.settings.value, name, new))
        self.chat.rename_preset(name, new)

    def delete(self, name: str) -> Callable[[], None]:
        """Delete a preset; call the result to have it back. Chats still name it until then."""
        preset = self.settings.value.presets[name]
        self.settings.change(without_preset(self.settings.value, name))

        def give_back() -> None:
            self.settings.change(with_preset(self.settings.value, name, preset))

        return give_back

    def use_for_new_chats(self) -> None:
        """New chats begin with the settings of this one."""
        settings = self.chat.settings
        chosen = replace(as_preset(settings), preset=settings.preset)
        self.settings.change(replace(self.settings.value, new_chat=chosen))
