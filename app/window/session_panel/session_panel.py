"""The panel at the right: settings of the chat on show, presets, and its model."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget
from typing_extensions import override

from app.state.chat import ChatState
from app.state.chat_list import Deeds
from app.state.drafting import DraftingFigures
from app.state.models import ModelState
from app.state.settings import KeptSettings
from app.values.app_settings import with_preset, with_preset_named, without_preset
from app.values.chat_settings import ChatSettings, as_preset
from app.values.models import ModelCard
from app.window.controls.bound import Bound
from app.window.controls.choices import DropDown, Option
from app.window.controls.fields import TextField
from app.window.controls.icons import IconButton
from app.window.controls.labels import describe, label, unmarked
from app.window.controls.layouts import STRETCH, Group, Wide, column, row, scrolled
from app.window.controls.notice_bar import UndoBar
from app.window.language import tr
from app.window.look import look
from app.window.models.model_facts import ModelFacts
from app.window.session_panel.abilities import ModelAbilities, abilities
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SUCH_AS, SamplingGroup, TemplateFields
from app.window.session_panel.tools_group import FormatGroup, ToolsGroup
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words


class Presets:
    """The presets in `settings`, as used by the `chat` on show."""

    def __init__(self, chat: ChatState, settings: KeptSettings) -> None:
        self.chat, self.settings = chat, settings

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all presets."""
        return tuple(self.settings.value.presets)

    @property
    def current(self) -> str | None:
        """Name of the preset the chat began with, even if its settings were changed since."""
        name = self.chat.settings.preset
        return name if name in self.settings.value.presets else None

    @property
    def is_changed(self) -> bool:
        """Whether the chat's settings differ from `current`."""
        preset = self.settings.value.presets.get(self.current or "")
        return preset is not None and as_preset(preset) != as_preset(self.chat.settings)

    def use(self, name: str) -> None:
        """Apply a preset to the chat."""
        preset = self.settings.value.presets.get(name)
        if preset is not None:
            now = self.chat.settings
            own = replace(preset, model_path=now.model_path, read_from=now.read_from)
            self.chat.change_settings(replace(own, preset=name, allowed_tools=now.allowed_tools))

    def save(self, name: str) -> Callable[[], None] | None:
        """Store the chat's settings as a preset.

        Return a function that restores a replaced preset, None for none.
        """
        old, preset = self.settings.value.presets.get(name), as_preset(self.chat.settings)
        self.settings.change(with_preset(self.settings.value, name, preset))
        self.chat.change_settings(replace(self.chat.settings, preset=name))
        return None if old is None or as_preset(old) == preset else self._giving_back(name, old)

    def rename(self, name: str, new: str) -> None:
        """Rename a preset, also in all chats that began with it."""
        self.settings.change(with_preset_named(self.settings.value, name, new))
        self.chat.rename_preset(name, new)

    def delete(self, name: str) -> Callable[[], None]:
        """Delete a preset; return a function that restores it."""
        preset = self.settings.value.presets[name]
        self.settings.change(without_preset(self.settings.value, name))
        return self._giving_back(name, preset)

    def _giving_back(self, name: str, preset: ChatSettings) -> Callable[[], None]:
        return lambda: self.settings.change(with_preset(self.settings.value, name, preset))

    def use_for_new_chats(self) -> None:
        """Make the chat's settings the default for new chats."""
        settings = self.chat.settings
        chosen = replace(as_preset(settings), preset=settings.preset)
        self.settings.change(replace(self.settings.value, new_chat=chosen))


WIDTH = 288
"""Width in pixels at a zoom of 1 or less."""

LONGEST_NAME = 60
LONGEST_ON_A_BUTTON = 16


SAVE_AS = Words("Save this chat's settings as a preset")


class PresetsGroup(Group):
    """Use, save, rename and delete presets. undo, deeds: of deleted and replaced ones."""

    def __init__(self) -> None:
        what = Words("Presets are saved chat settings you can reuse in other chats.")
        super().__init__(Words("Presets"), is_open=False, what=what)
        self.presets: Presets
        self._names: tuple[str, ...] = ()
        self._current: str | None = None
        self._is_changed = False
        self._choice = DropDown(tr("Preset"), tr("Choosing a preset gives this chat its settings."))
        self._rename = IconButton("edit", tr("Rename this preset"))
        self._rename.setCheckable(True)
        self._delete = IconButton("delete", tr("Delete this preset"))
        self.undo, self.deeds = UndoBar(), Deeds(self)
        self.undo.watch(self.deeds)
        self._name = QLineEdit()
        self._name.setAccessibleName(tr("Name of a new preset"))
        self._name.setPlaceholderText(tr("Name"))
        describe(self._name, tr("A name under which this chat's settings are saved."))
        self._name.setMaxLength(LONGEST_NAME)
        self._save = QPushButton(tr("Save As"))
        self._update = QPushButton()
        describe(self._update, tr("Update the preset with this chat's settings"))
        self._defaults = QPushButton(tr("Use as Defaults"))
        describe(self._defaults, tr("New chats start with the settings of this chat"))
        which, name = row(Wide(self._choice), self._rename, self._delete), Wide(self._name)
        self.add(which, self.undo, self._update, row(name, self._save), self._defaults)
        self._choice.chosen.connect(self._choose)
        self._rename.toggled.connect(self._show_name)
        self._delete.clicked.connect(self._delete_current)
        self._name.textChanged.connect(self._allow)
        self._name.returnPressed.connect(self._save_as)
        self._save.clicked.connect(self._save_as)
        self._update.clicked.connect(lambda: self._save_under(self._current or ""))
        self._defaults.clicked.connect(lambda _: self.presets.use_for_new_chats())
        self.show_presets(())

    def watch(self, presets: Presets) -> None:
        """Show these presets."""
        self.presets = presets
        for changed in (presets.chat.settings_changed, presets.settings.changed):
            changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        """Update the list if the presets changed; a name being typed stays."""
        now = self.presets.names, self.presets.current, self.presets.is_changed
        if now != (self._names, self._current, self._is_changed):
            self.show_presets(*now)

    def _delete_current(self) -> None:
        name = self._choice.currentData()
        self.deeds.add(tr("“{name}” is deleted.", name=name), self.presets.delete(name))

    def show_presets(
        self, names: Sequence[str], current: str | None = None, is_changed: bool = False
    ) -> None:
        """Show presets with the current one, None for none. is_changed: the chat's settings
        differ from it.
        """
        self._names, self._current, self._is_changed = tuple(names), current, is_changed
        changed = current if is_changed else None
        options = [Option(n, tr("{name} (changed)", name=n) if n == changed else n) for n in names]
        self._choice.show_options(options, current)
        self._update.setVisible(changed is not None)
        words = tr("Save Changes to “{name}”", name=shortened(changed or ""))
        self._update.setText(unmarked(words))
        self._choice.setEnabled(bool(names))
        self._choice.setPlaceholderText(tr("Choose a preset") if names else tr("No presets yet"))
        self._rename.setChecked(False)
        self._allow()

    def _choose(self, name: str) -> None:
        self._rename.setChecked(False)
        self._allow()
        self.presets.use(name)

    def _show_name(self, is_renamed: bool) -> None:
        """Put the preset's name into the field to rename it."""
        self._name.setText(self._choice.currentData() if is_renamed else "")
        if is_renamed:
            self._name.setFocus()
            self._name.selectAll()
        self._allow()

    def _save_as(self) -> None:
        name, old = self._name.text().strip(), self._choice.currentData()
        if not self._save.isEnabled():
            return
        is_renamed = self._rename.isChecked()
        self._rename.setChecked(False)
        self._name.clear()
        if is_renamed:
            self.presets.rename(old, name)
        else:
            self._save_under(name)

    def _save_under(self, name: str) -> None:
        give_back = self.presets.save(name)
        if give_back is not None:
            self.deeds.add(tr("“{name}” is replaced.", name=name), give_back)

    def _allow(self) -> None:
        name, is_renamed = self._name.text().strip(), self._rename.isChecked()
        is_taken = name in self._names
        self._save.setEnabled(bool(name) and not (is_renamed and is_taken))
        other = tr("Replace") if is_taken else tr("Save As")
        self._save.setText(tr("Rename") if is_renamed else other)
        taken = tr("Another preset has this name") if is_renamed and is_taken else ""
        is_refused = taken and name != self._choice.currentData()
        describe(self._save, taken if is_refused else tr(SAVE_AS))
        for button in (self._rename, self._delete):
            button.setEnabled(self._choice.currentIndex() >= 0)


def shortened(name: str) -> str:
    """Shorten a name for a button."""
    return name if len(name) <= LONGEST_ON_A_BUTTON else f"{name[: LONGEST_ON_A_BUTTON - 1]}…"


class SessionPanel(QWidget):
    """Settings of the chat on show, and its model.

    fold, options: buttons that hide the panel, and open the load options.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Chat Settings"))
        self._model: ModelDescription | None = None
        self.fold = IconButton("panel", tr("Hide this panel"))
        self.settings = bound = Bound()
        what = Words("Instructions the model follows in every answer, such as a role or tone.")
        system = TextField(tr("System prompt"), 5, tr(SUCH_AS), shows_name=False, what=tr(what))
        self.draft, self.sampling = DraftGroup(bound), SamplingGroup(bound)
        self.presets, self._template = PresetsGroup(), TemplateFields(bound)
        self.tools, self.format = ToolsGroup(), FormatGroup(bound)
        self._facts, self.options = ModelFacts(), QPushButton(tr("Load Options…"))
        describe(self.options, tr("Change how the model is loaded: memory, longest chat, drafting"))
        prompt = Group(Words("System prompt"), what=what)
        model = Group(Words("Model"), what=Words("The model that answers in this chat."))
        model.add(self._facts, row(self.options, STRETCH), self._template)
        prompt.add(bound.bind("system", system))
        groups = (prompt, self.presets, self.tools, self.sampling, self.draft, model, self.format)
        self._groups = (*groups, self.draft.advanced, self.sampling.advanced)
        body = QWidget()
        column(*groups, STRETCH, of=body, margins=(16, 0, 16, 16), spacing=4)
        top = QWidget()
        heading = label(tr("Chat Settings"), "heading")
        row(Wide(heading), self.fold, of=top, margins=(16, 8, 8, 4))
        area = scrolled(body)
        for ground in (area.viewport(), body):
            ground.setAutoFillBackground(False)
        column(top, Wide(area), of=self, spacing=0)
        self.show_model(None, None)

    def watch(
        self,
        chat: ChatState,
        models: ModelState,
        figures: DraftingFigures,
        settings: KeptSettings,
        card_of: Callable[[ModelDescription], ModelCard],
    ) -> None:
        """Show and change these settings. card_of: returns the card of the model in use."""
        self._chat, self._models, self._kept, self._card_of = chat, models, settings, card_of
        self.settings.watch(lambda: chat.settings, chat.change_settings, chat.settings_changed)
        chat.opened.connect(self.settings.show_all)
        chat.changed.connect(self._show_last_seed)
        models.changed.connect(self._refresh)
        self.draft.watch(figures)
        self.presets.watch(Presets(chat, settings))
        self.fold_groups(settings.value.folded_groups)
        for group in self._groups:
            group.folded.connect(self._keep_folded)
        self._refresh()

    def _refresh(self) -> None:
        """Show the model in use, or the resting one."""
        models, model = self._models, self._models.description
        if model is self._model or (model is None and models.resting is not None):
            return
        self._model, in_use = model, models.in_use
        card = self._card_of(model) if model else None
        known = abilities(model, in_use.options if in_use else None) if model else None
        self.show_model(card, known)

    def _show_last_seed(self) -> None:
        stats = self._chat.last_stats
        self.sampling.seed.show_last(stats.seed if stats else None)

    def _keep_folded(self) -> None:
        kept = self._kept
        kept.change(replace(kept.value, folded_groups=self.folded_groups()))

    def folded_groups(self) -> tuple[str, ...]:
        """Names of the groups that are folded away."""
        return tuple(group.name for group in self._groups if not group.is_open)

    def fold_groups(self, names: Sequence[str]) -> None:
        """Fold these groups and unfold the others."""
        for group in self._groups:
            group.open(group.name not in names)

    def show_model(self, facts: ModelCard | None, known: ModelAbilities | None) -> None:
        """Show the model in use and what it can be asked for; None for no model."""
        self._facts.show_facts(facts)
        self.options.setEnabled(facts is not None)
        self._template.show_abilities(known)
        self.draft.show_abilities(known)
        self.sampling.show_recommended(known.recommended if known else None)

    # Qt

    @override
    def sizeHint(self) -> QSize:
        return QSize(round(WIDTH * max(1.0, look().zoom)), 600)
