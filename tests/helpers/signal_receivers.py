"""Which signals our classes declare, and which of them nobody listens to."""

import gc
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from layout_rules import modules
from PySide6.QtCore import QMetaMethod, QObject, Signal
from shiboken6 import isValid


def declared_signals(root: Path) -> dict[type, tuple[str, ...]]:
    """Class of the app -> names of the signals that it declares itself, those with "_" too."""
    found: dict[type, tuple[str, ...]] = {}
    for module in modules(root):
        if not module.name.startswith("app."):
            continue
        for kind in vars(import_module(module.name)).values():
            if not isinstance(kind, type) or kind.__module__ != module.name:
                continue
            signals = tuple(n for n, value in vars(kind).items() if isinstance(value, Signal))
            if signals:
                found[kind] = signals
    return found


def unheard(declared: dict[type, tuple[str, ...]], living: Iterable[QObject]) -> list[str]:
    """Signals to which no living object of their class has a receiver, as "module.Class.name"."""
    heard = {pair for thing in living for pair in _heard(declared, thing)}
    return sorted(
        f"{kind.__module__}.{kind.__name__}.{name}"
        for kind, names in declared.items()
        for name in names
        if (kind, name) not in heard
    )


def _heard(declared: dict[type, tuple[str, ...]], thing: QObject) -> Iterator[tuple[type, str]]:
    meta = thing.metaObject()
    methods = (meta.method(number) for number in range(meta.methodCount()))
    connected = {
        bytes(method.name().data()).decode()
        for method in methods
        if method.methodType() == QMetaMethod.MethodType.Signal and thing.isSignalConnected(method)
    }
    for kind in type(thing).__mro__:
        yield from ((kind, name) for name in declared.get(kind, ()) if name in connected)


def living_objects() -> list[QObject]:
    """All objects of our classes that are there now."""
    gc.unfreeze()  # what was there before the test is left out of collections
    # an object that only claims a class, as some of torch's, may warn when it is asked for it
    things = (thing for thing in gc.get_objects() if issubclass(type(thing), QObject))
    return [t for t in things if type(t).__module__.startswith("app.") and isValid(t)]
