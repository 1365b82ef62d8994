"""Bind controls to fields of settings that are owned elsewhere."""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from PySide6.QtCore import Signal, SignalInstance
from PySide6.QtWidgets import QWidget

Settings = Any
"""A frozen dataclass, possibly nested."""


class Bindable(Protocol):
    """A control that can be bound; signal `chosen` brings the user's value."""

    @property
    def chosen(self) -> Any:
        """Signal with the user's value."""

    def set_value(self, value: Any, /) -> None:
        """Show a value without emitting it."""


class Control(QWidget):
    """Base of widgets for one value, with `set_value`. Signal `chosen`: the user's choice."""

    chosen = Signal(object)


AnyBindable = TypeVar("AnyBindable", bound=Bindable)


class Bound:
    """Binds controls to fields of settings, by paths as "sampling.top_k".

    A control is only updated when its field changes, so that text being typed stays.
    """

    def __init__(self, prefix: str = "") -> None:
        """prefix: before the path of every field."""
        self._prefix = prefix
        self._controls: dict[str, Bindable] = {}
        self._listeners: list[Callable[[], object]] = []
        self._read: Callable[[], Settings] | None = None
        self._write: Callable[[Settings], object] = lambda _: None
        self._shown: Settings = None

    def bind(self, path: str, control: AnyBindable) -> AnyBindable:
        """Join a control with the field at a path; return the control."""
        self._controls[self._prefix + path] = control
        control.chosen.connect(lambda value: self._take(path, value))
        if self._read is not None:
            control.set_value(self[path])
        return control

    def listen(self, listener: Callable[[], object]) -> None:
        """Call a function after the settings have changed."""
        self._listeners.append(listener)
        if self._read is not None:
            listener()

    def watch(
        self,
        read: Callable[[], Settings],
        write: Callable[[Settings], object],
        changed: SignalInstance,
    ) -> None:
        """Show the settings that `read` returns, now and after `changed`, and `write` changed
        ones.
        """
        self._read, self._write = read, write
        changed.connect(self._refresh)
        self.show_all()

    def __getitem__(self, path: str) -> Any:
        return None if self._read is None else attrgetter(self._prefix + path)(self._read())

    def __setitem__(self, path: str, value: object) -> None:
        if self._read is not None:
            self._write(with_field(self._read(), self._prefix + path, value))

    def show_all(self) -> None:
        """Show the settings in every control, replacing text being typed."""
        self._shown = None
        self._refresh()

    def _refresh(self) -> None:
        assert self._read is not None
        now, before = self._read(), self._shown
        self._shown = now
        for path, control in self._controls.items():
            field = attrgetter(path)
            if before is None or field(now) != field(before):
                control.set_value(field(now))
        for listener in self._listeners:
            listener()

    def _take(self, path: str, value: object) -> None:
        """Write the user's value of a control, which shows it already."""
        if self._read is not None and value != self[path]:
            taken = self._prefix + path
            self._shown = with_field(self._read(), taken, value)
            for whole, control in self._controls.items():
                if taken.startswith(f"{whole}."):
                    control.set_value(attrgetter(whole)(self._shown))
            self._write(self._shown)


def with_field(settings: Settings, path: str, value: object) -> Settings:
    """Return settings with another value of the field at a path. Raises BadOption."""
    name, _, rest = path.partition(".")
    inner = with_field(getattr(settings, name), rest, value) if rest else value
    return replace(settings, **{name: inner})
