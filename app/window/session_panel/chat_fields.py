"""The controls of a chat's settings, for the panel of a chat and for what new chats begin with."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from app.values.chat_settings import ChatSettings
from app.window.controls.cache_fields import CacheFields
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import LineField, TextField
from app.window.controls.labels import label, set_tip
from app.window.controls.layouts import column
from app.window.language import tr
from app.window.session_panel.abilities import ModelAbilities
from app.window.session_panel.draft_group import DraftGroup
from app.window.session_panel.sampling_group import SamplingGroup
from mlx_engine.values.options import TemplateValue, read_template_value, template_value_text
from mlx_engine.values.words import Words

OPTIONS = (
    Option("model", Words("Model default")),
    Option("on", Words("On")),
    Option("off", Words("Off")),
)
VALUES: dict[str, bool | None] = {"model": None, "on": True, "off": False}


class ThinkingField(QWidget):
    """Whether the model thinks before it answers: as its template has it, on, or off.

    Signal `changed`(bool | None): from the next answer on; None is the template's own way.
    """

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._choice = Segments(tr("Thinking"))
        self._choice.show_options(OPTIONS)
        self._choice.chosen.connect(lambda value: self.changed.emit(VALUES[value]))
        column(
            label(tr("Thinking"), "muted"), self._choice, of=self, margins=(0, 4, 0, 0), spacing=4
        )
        self.show_thinking(None)

    def show_thinking(self, thinking: bool | None) -> None:
        """Show a chat's setting; nothing is emitted."""
        self._choice.select(next(name for name, value in VALUES.items() if value is thinking))


WHAT = Words("A text, a number, true, false, or null. Empty: the model's default.")
NOT_ASKED = Words("The template of the model in use does not ask for it.")
LONGEST_VALUE = 2000


class ArgumentField(LineField):
    """Signal `changed`(str): a value to try, "" for none."""

    def __init__(self, name: str) -> None:
        self._edit = QLineEdit()
        super().__init__(self._edit, name, WHAT, tr("default"))
        self._edit.setMaxLength(LONGEST_VALUE)

    def show_value(self, text: str) -> None:
        """Show a value, "" for none; nothing is emitted."""
        self.pending.stop()
        if self._edit.text().strip() != text:
            self._edit.setText(text)
        self.show_problem("")

    def tell_use(self, is_asked_for: bool) -> None:
        """Whether the model in use looks at it."""
        set_tip(self._edit, tr(WHAT if is_asked_for else NOT_ASKED))

    def settle(self) -> None:
        """Whatever was typed is tried."""
        super().settle()
        self.changed.emit(self._edit.text().strip())


class TemplateFields(QWidget):
    """What the chat template is given beside the messages: a field for each name that the model's
    asks for, and for each that the chat gives.

    Signal `changed`(dict): names and values as ChatSettings have them, from the next answer on.
    """

    changed = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[str, ...] = ()
        self._given: Mapping[str, TemplateValue] = {}
        self._fields: dict[str, ArgumentField] = {}
        heading = label(tr("Chat template"), "muted")
        self._lines = column(heading, of=self, margins=(0, 4, 0, 0), spacing=4)
        self._have_fields()

    def show_asked(self, names: tuple[str, ...]) -> None:
        """The names that the template of the model in use asks for."""
        self._asked = names
        self._have_fields()

    def show_given(self, given: Mapping[str, TemplateValue]) -> None:
        """Show what a chat gives; nothing is emitted."""
        self._given = given
        self._have_fields()
        for name in self._fields:
            self._show(name)

    def _have_fields(self) -> None:
        """Those that are there already keep what is typed."""
        names = dict.fromkeys((*self._asked, *self._given))
        for name in [name for name in self._fields if name not in names]:
            field = self._fields.pop(name)
            self._lines.removeWidget(field)
            field.hide()
            field.deleteLater()
        for place, name in enumerate(names, 1):
            if name not in self._fields:
                self._fields[name] = field = ArgumentField(name)
                field.changed.connect(lambda text, name=name: self._try(name, text))
                self._lines.insertWidget(place, field)
                self._show(name)
            self._fields[name].tell_use(name in self._asked)
        self.setVisible(bool(names))

    def _show(self, name: str) -> None:
        is_given = name in self._given
        self._fields[name].show_value(template_value_text(self._given[name]) if is_given else "")

    def _try(self, name: str, text: str) -> None:
        given = dict(self._given)
        given.pop(name, None)
        tried = self._fields[name].tried(
            lambda: given | ({name: read_template_value(text)} if text else {})
        )
        if tried is not None:
            self._given = tried
            self.changed.emit({"template_arguments": tried})


class ChatFields(QObject):
    """`system`, `draft` and `sampling`, which are given, `thinking` and `template` are there to be
    laid out; what the cache is like is among the advanced settings of drafting.

    Signal `changed`(dict): fields of ChatSettings and the values the user gave them.
    """

    changed = Signal(object)

    def __init__(self, system: TextField, draft: DraftGroup, sampling: SamplingGroup) -> None:
        super().__init__()
        self.system, self.draft, self.sampling = system, draft, sampling
        self.thinking, self.template = ThinkingField(), TemplateFields()
        self._cache, self._why_16_bits = CacheFields(Words("Model default")), ""
        self.draft.advanced.add(self._cache)
        self.system.changed.connect(lambda text: self.changed.emit({"system": text}))
        self.thinking.changed.connect(lambda wanted: self.changed.emit({"thinking": wanted}))
        self._cache.changed.connect(lambda: self.changed.emit({"cache": self._cache.choice}))
        for part in (self.template, self.draft, self.sampling):
            part.changed.connect(self.changed)

    def show_settings(self, settings: ChatSettings) -> None:
        """Show these; nothing is emitted."""
        self.system.show_text(settings.system)
        self.thinking.show_thinking(settings.thinking)
        self.template.show_given(settings.template_arguments)
        self.draft.show_settings(settings.draft, settings.load)
        self.sampling.show_settings(settings.sampling, settings.generation)
        self._cache.show_choice(settings.cache, self._why_16_bits)

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Show what the model in use can do, None for no model."""
        self.thinking.setVisible(abilities is not None and abilities.can_switch_thinking)
        self.template.show_asked(abilities.template_arguments if abilities else ())
        self.draft.show_abilities(abilities)
        self.sampling.show_recommended(abilities.recommended if abilities else None)
        self._why_16_bits = abilities.why_16_bits if abilities else ""
        self._cache.show_choice(self._cache.choice, self._why_16_bits)
