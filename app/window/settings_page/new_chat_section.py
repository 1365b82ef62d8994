"""What a new chat begins with."""

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.values.chat_settings import ChatSettings, as_preset
from app.window.controls.labels import paragraph
from app.window.controls.text_field import TextField
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SamplingGroup
from app.window.session_panel.thinking_field import ThinkingField
from mlx_engine.values.options import Numerics

EXPLANATION = (
    "A new chat begins with these; chats you have keep their own. Sampling that is left as it is "
    "here becomes what the model recommends."
)


class NewChatSection(QWidget):
    """Signal `changed`(ChatSettings): the user wants new chats to begin with these."""

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._shown = ChatSettings()
        self._system = TextField("System prompt of new chats", 4, "How to answer in every new chat")
        self._thinking = ThinkingField()
        self._draft = DraftGroup(shows_effect=False)
        self._sampling = SamplingGroup()
        self._reset = QPushButton("Back to Headstart's own defaults")
        last = QHBoxLayout()
        last.addWidget(self._reset)
        last.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(paragraph(EXPLANATION, "muted"))
        for part in (self._system, self._thinking, self._draft, self._sampling):
            column.addWidget(part)
        column.addLayout(last)
        self._system.changed.connect(lambda text: self._take(system=text))
        self._thinking.changed.connect(lambda thinking: self._take(thinking=thinking))
        self._draft.changed.connect(lambda draft: self._take(draft=draft))
        self._draft.numerics_changed.connect(self._take_numerics)
        self._sampling.sampling_changed.connect(lambda options: self._take(sampling=options))
        self._sampling.generation_changed.connect(lambda options: self._take(generation=options))
        self._reset.clicked.connect(self._take_own)
        self.show_settings(self._shown)

    def show_settings(self, settings: ChatSettings) -> None:
        """Show what new chats begin with now; nothing is emitted."""
        self._shown = settings
        self._system.show_text(settings.system)
        self._thinking.show_thinking(settings.thinking)
        self._draft.show_settings(settings.draft, settings.load.numerics)
        self._sampling.show_settings(settings.sampling, settings.generation)
        self._reset.setEnabled(as_preset(settings) != ChatSettings())

    def _take(self, **changes: object) -> None:
        self._shown = replace(self._shown, **changes)  # type: ignore[arg-type]
        self._reset.setEnabled(as_preset(self._shown) != ChatSettings())
        self.changed.emit(self._shown)

    def _take_numerics(self, numerics: Numerics) -> None:
        self._take(load=replace(self._shown.load, numerics=numerics))

    def _take_own(self) -> None:
        self.show_settings(ChatSettings())
        self.changed.emit(self._shown)
