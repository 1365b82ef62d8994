"""The panel at the right of the window: everything one chat answers with."""

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.values.chat_settings import ChatSettings
from app.values.models import ModelCard
from app.window.controls.fields import TextField
from app.window.controls.group import Group
from app.window.controls.icons import IconButton
from app.window.controls.labels import label
from app.window.drafting.round_history import DraftingState
from app.window.look import look
from app.window.models.model_facts import ModelFacts
from app.window.session_panel.abilities import ModelAbilities
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.presets_group import PresetsGroup
from app.window.session_panel.sampling_group import SamplingGroup
from app.window.session_panel.thinking_field import ThinkingField
from mlx_engine.values.options import DraftOutput

WIDTH = 288
"""Pixels at a zoom of 1."""


class SessionPanel(QFrame):
    """Shows one chat's settings; `system`, `thinking`, `draft`, `sampling` and `presets` say what
    the user changed in them.

    Signals: `fold_wanted`; `groups_folded` (titles of the groups that are folded away now).
    """

    fold_wanted = Signal()
    groups_folded = Signal(tuple)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "side")
        self.setAccessibleName("Session")
        self._fold = IconButton("panel", "Hide this panel")
        self._facts = ModelFacts()
        self._model = Group("Model")
        self.thinking = ThinkingField()
        self._model.add(self._facts)
        self._model.add(self.thinking)
        self.system = TextField("System prompt", 5, "How to answer in this chat", False)
        self._system_group = Group("System prompt")
        self._system_group.add(self.system)
        self.draft = DraftGroup()
        self.sampling = SamplingGroup()
        self.presets = PresetsGroup()
        self._lay_out()
        self._connect()

    def _groups(self) -> tuple[Group, ...]:
        return (self._model, self.draft, self.sampling, self._system_group, self.presets)

    def _lay_out(self) -> None:
        top = QHBoxLayout()
        top.setContentsMargins(16, 8, 8, 4)
        top.addWidget(label("Session", "heading"), 1)
        top.addWidget(self._fold)
        body = QWidget()
        body.setProperty("role", "side")
        groups = QVBoxLayout(body)
        groups.setContentsMargins(12, 0, 16, 16)
        groups.setSpacing(4)
        for group in self._groups():
            groups.addWidget(group)
        groups.addStretch(1)
        scroll = QScrollArea()
        scroll.setProperty("role", "side")
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top)
        column.addWidget(scroll, 1)

    def _connect(self) -> None:
        self._fold.clicked.connect(self.fold_wanted)
        for group in self._groups():
            group.folded.connect(lambda _: self.groups_folded.emit(self.folded_groups()))

    def folded_groups(self) -> tuple[str, ...]:
        """Titles of the groups that are folded away."""
        return tuple(group.title for group in self._groups() if not group.is_open)

    def fold_groups(self, titles: Sequence[str]) -> None:
        """Fold these away, and show the others."""
        for group in self._groups():
            group.open(group.title not in titles)

    def show_settings(self, settings: ChatSettings) -> None:
        """Show a chat's settings; nothing is emitted."""
        self.system.show_text(settings.system)
        self.thinking.show_thinking(settings.thinking)
        load = settings.load
        self.draft.show_settings(settings.draft, load.numerics, str(load.draft_model or ""))
        self.sampling.show_settings(settings.sampling, settings.generation)

    def show_model(self, facts: ModelCard | None, abilities: ModelAbilities | None) -> None:
        """Show the model in use and what it can be asked for; None for no model."""
        self._facts.show_facts(facts)
        self.thinking.setVisible(abilities is not None and abilities.can_switch_thinking)
        self.draft.show_abilities(abilities)
        self.sampling.show_recommended(abilities.recommended if abilities else None)

    def show_drafting(self, now: DraftingState) -> None:
        """Show what drafting did in the newest round, None before the first one."""
        self.draft.show_now(now)

    def show_output(self, output: DraftOutput | None) -> None:
        """Show the output head that drafts go through, None where that is not known."""
        self.draft.show_output(output)

    def show_last_seed(self, seed: int | None) -> None:
        """Show the seed of the newest answer."""
        self.sampling.show_last_seed(seed)

    def show_presets(
        self, names: Sequence[str], current: str | None = None, is_changed: bool = False
    ) -> None:
        """Show the presets there are, the one in use, and whether the chat has left it."""
        self.presets.show_presets(names, current, is_changed)

    # Qt

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for all depths side by side; narrower, the panel scrolls sideways."""
        return QSize(round(WIDTH * look().zoom), 600)
