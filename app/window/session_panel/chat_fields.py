"""The controls of a chat's settings, for the panel of a chat and for what new chats begin with."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.values.chat_settings import ChatSettings
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import TextField
from app.window.controls.labels import label
from app.window.controls.layouts import column
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SamplingGroup

OPTIONS = (Option("model", "Model's way"), Option("on", "On"), Option("off", "Off"))
VALUES: dict[str, bool | None] = {"model": None, "on": True, "off": False}


class ThinkingField(QWidget):
    """Whether the model thinks before it answers: as its template has it, on, or off.

    Signal `changed`(bool | None): from the next answer on; None is the template's own way.
    """

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._choice = Segments("Thinking")
        self._choice.show_options(OPTIONS)
        self._choice.chosen.connect(lambda value: self.changed.emit(VALUES[value]))
        column(label("Thinking", "muted"), self._choice, of=self, margins=(0, 4, 0, 0), spacing=4)
        self.show_thinking(None)

    def show_thinking(self, thinking: bool | None) -> None:
        """Show a chat's setting; nothing is emitted."""
        self._choice.select(next(name for name, value in VALUES.items() if value is thinking))


class ChatFields(QObject):
    """`system`, `thinking`, `draft` and `sampling` are there to be laid out.

    Signal `changed`(dict): fields of ChatSettings and the values the user gave them.
    """

    changed = Signal(object)

    def __init__(self, system: TextField, *, of_chat: bool) -> None:
        """of_chat: False for settings of no chat that could draft."""
        super().__init__()
        self.system, self.thinking = system, ThinkingField()
        self.draft, self.sampling = DraftGroup(of_chat), SamplingGroup()
        self.system.changed.connect(lambda text: self.changed.emit({"system": text}))
        self.thinking.changed.connect(lambda wanted: self.changed.emit({"thinking": wanted}))
        self.draft.changed.connect(self.changed)
        self.sampling.changed.connect(self.changed)

    def show_settings(self, settings: ChatSettings) -> None:
        """Show these; nothing is emitted."""
        self.system.show_text(settings.system)
        self.thinking.show_thinking(settings.thinking)
        self.draft.show_settings(settings.draft, settings.load)
        self.sampling.show_settings(settings.sampling, settings.generation)
