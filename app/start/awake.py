"""Keeps a Mac from sleeping, and this program from App Nap, while there is work to finish.

By a power assertion (IOKit's IOPMLib.h): a program that holds one is no candidate for App Nap
either (Apple's Energy Efficiency Guide for Mac Apps, "Extend App Nap"), and the system lets it go
with the program, however that ends.
"""

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

FRAMEWORK = "/System/Library/Frameworks/{0}.framework/{0}"
KIND = b"PreventUserIdleSystemSleep"
UTF8, LEVEL_ON, SUCCESS = 0x08000100, 255, 0


class IOKit:
    """Assertions of macOS. Raises OSError where its libraries are not."""

    def __init__(self, library: Callable[[str], Any] = ctypes.CDLL) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_uint32
        core, kit = (library(FRAMEWORK.format(name)) for name in ("CoreFoundation", "IOKit"))
        self._text, self._free = core.CFStringCreateWithCString, core.CFRelease
        self._create, self._end = kit.IOPMAssertionCreateWithName, kit.IOPMAssertionRelease
        self._text.restype, self._text.argtypes = pointer, [pointer, ctypes.c_char_p, number]
        self._free.restype, self._free.argtypes = None, [pointer]
        self._create.argtypes = [pointer, number, pointer, ctypes.POINTER(number)]
        self._end.argtypes = [number]

    def hold(self, why: str) -> int | None:
        """The number of a new one, None when the system gives none; `why` is what Activity Monitor
        and `pmset -g assertions` show.
        """
        kind, name = (self._text(None, text, UTF8) for text in (KIND, why.encode()))
        made = ctypes.c_uint32()
        status = self._create(kind, LEVEL_ON, name, ctypes.byref(made))
        for text in (kind, name):
            self._free(text)
        return made.value if status == SUCCESS else None

    def release(self, number: int) -> None:
        """End one."""
        self._end(number)


def this_systems_power() -> IOKit | None:
    """None elsewhere than on a Mac."""
    if sys.platform == "darwin":
        with suppress(OSError):
            return IOKit()
    return None


class Awake:
    """Holds one assertion while it is needed."""

    def __init__(self, power: IOKit | None) -> None:
        self._power = power
        self._number: int | None = None

    def hold(self, is_needed: bool, why: str) -> None:
        """From now on; the same as before changes nothing."""
        if self._power is None or is_needed == (self._number is not None):
            return
        if self._number is None:
            self._number = self._power.hold(why)
        else:
            self._power.release(self._number)
            self._number = None
