"""What the chat template of a model is given beside the messages."""

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.window.controls.bound import Bound
from app.window.controls.choices import Option, Segments
from app.window.controls.fields import LineField
from app.window.controls.labels import label, set_tip
from app.window.controls.layouts import column, named
from app.window.language import tr
from app.window.session_panel.abilities import ModelAbilities
from mlx_engine.values.options import TemplateValue, read_template_value, template_value_text
from mlx_engine.values.words import Words

THINKING = (
    Option(None, Words("Model default")),
    Option(True, Words("On")),
    Option(False, Words("Off")),
)
WHAT = Words("A text, a number, true, false, or null. Empty: the model's default.")
NOT_ASKED = Words("The template of the model in use does not ask for it.")


class ArgumentField(LineField):
    """One argument of a chat template. Signal `chosen`: a tuple of its value, () for none."""

    def __init__(self, name: str) -> None:
        super().__init__(
            name,
            tr(WHAT),
            tr("default"),
            lambda text: (read_template_value(text),) if text else (),
            lambda value: template_value_text(*value) if value else "",
        )

    def tell_use(self, is_asked_for: bool) -> None:
        """Say whether the model in use asks for the argument."""
        set_tip(self._edit, tr(WHAT if is_asked_for else NOT_ASKED))


class ArgumentFields(QWidget):
    """A field for each argument that the template of the model in use asks for, and for each that
    the chat gives. Signal `chosen`: all given names and values.
    """

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._asked: tuple[str, ...] = ()
        self._given: Mapping[str, TemplateValue] = {}
        self._fields: dict[str, ArgumentField] = {}
        heading = label(tr("Chat template"), "muted")
        self._lines = column(heading, of=self, margins=(0, 4, 0, 0), spacing=4)
        self._have_fields()

    def ask(self, names: tuple[str, ...]) -> None:
        """Offer the names that the template of the model in use asks for."""
        self._asked = names
        self._have_fields()

    def set_value(self, given: Mapping[str, TemplateValue]) -> None:
        """Show what a chat gives without emitting it."""
        self._given = given
        self._have_fields()
        for name in self._fields:
            self._show(name)

    def _have_fields(self) -> None:
        """Make and remove fields; what is typed in the others stays."""
        names = dict.fromkeys((*self._asked, *self._given))
        for name in [name for name in self._fields if name not in names]:
            field = self._fields.pop(name)
            self._lines.removeWidget(field)
            field.hide()
            field.deleteLater()
        for place, name in enumerate(names, 1):
            if name not in self._fields:
                self._fields[name] = field = ArgumentField(name)
                field.chosen.connect(lambda value, name=name: self._take(name, value))
                self._lines.insertWidget(place, field)
                self._show(name)
            self._fields[name].tell_use(name in self._asked)
        self.setVisible(bool(names))

    def _show(self, name: str) -> None:
        self._fields[name].set_value((self._given[name],) if name in self._given else ())

    def _take(self, name: str, value: tuple[TemplateValue, ...]) -> None:
        others = {key: given for key, given in self._given.items() if key != name}
        self._given = {**others, name: value[0]} if value else others
        self.chosen.emit(self._given)


class TemplateFields(QWidget):
    """Whether the model thinks before it answers, and the other arguments of its chat template."""

    def __init__(self, bound: Bound) -> None:
        super().__init__()
        thinking = bound.bind("thinking", Segments(tr("Thinking"), THINKING))
        self._thinking = named(tr("Thinking"), thinking)
        self._arguments = bound.bind("template_arguments", ArgumentFields())
        column(self._thinking, self._arguments, of=self, spacing=8)

    def show_abilities(self, abilities: ModelAbilities | None) -> None:
        """Offer what the template of the model in use asks for; None for no model."""
        self._thinking.setVisible(abilities is not None and abilities.can_switch_thinking)
        self._arguments.ask(abilities.template_arguments if abilities else ())
