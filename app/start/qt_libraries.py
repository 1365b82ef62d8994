"""Why no window can be shown here: no display, no Qt, or no library of the system that it needs."""

import builtins
import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from app.start.folders import WindowSystem, has_display, window_systems

NEEDED = (
    *("libGL.so.1", "libEGL.so.1", "libX11.so.6", "libglib-2.0.so.0", "libxkbcommon.so.0"),
    *("libdbus-1.so.3", "libfontconfig.so.1", "libfreetype.so.6", "libzstd.so.1"),
    *("libbrotlidec.so.1", "libgssapi_krb5.so.2"),
)
"""Libraries that PySide6's wheel leaves to the system."""

NEEDED_BY: Mapping[WindowSystem, Sequence[str]] = MappingProxyType(
    {
        "x11": (
            *("libX11-xcb.so.1", "libxkbcommon-x11.so.0", "libxcb-cursor.so.0"),
            *("libxcb-icccm.so.4", "libxcb-image.so.0", "libxcb-keysyms.so.1"),
            *("libxcb-randr.so.0", "libxcb-render.so.0", "libxcb-render-util.so.0"),
            *("libxcb-shape.so.0", "libxcb-shm.so.0", "libxcb-sync.so.1", "libxcb-util.so.1"),
            *("libxcb-xfixes.so.0", "libxcb-xkb.so.1"),
        ),
        "wayland": ("libwayland-client.so.0", "libwayland-cursor.so.0"),
    }
)
"""What Qt's plugin of a window system needs besides; without it Qt ends the whole process."""

OTHER_NAMES = {"libglib-2.0.so.0": "libglib2.0-0", "libbrotlidec.so.1": "libbrotli1"}


def package_of(library: str) -> str:
    """The package of Debian that a library comes in, by the rule of its policy (section 8.1)."""
    name, _, version = library.lower().replace("_", "-").partition(".so.")
    return OTHER_NAMES.get(library, name + "-" * name[-1].isdigit() + version)


Opens = Callable[[str], bool]


def opens(library: str) -> bool:
    """Whether the system's loader finds a library and all that it needs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def missing_packages(systems: tuple[WindowSystem, ...], opens: Opens = opens) -> tuple[str, ...]:
    """Packages to install for a window on Linux; one of several window systems is enough."""
    lacking = [[one for one in NEEDED_BY[system] if not opens(one)] for system in systems]
    missing = (*(one for one in NEEDED if not opens(one)), *min(lacking, key=len, default=[]))
    return tuple(map(package_of, missing))


CONNECTING: Mapping[WindowSystem, tuple[str, str, str]] = MappingProxyType(
    {
        "x11": ("libX11.so.6", "XOpenDisplay", "XCloseDisplay"),
        "wayland": ("libwayland-client.so.0", "wl_display_connect", "wl_display_disconnect"),
    }
)
"""A library, its function from the name of a server, or NULL, to a pointer, and what ends that."""


def answers(system: WindowSystem) -> bool:
    """Whether the display server that the environment names is there; else Qt ends the process."""
    library, connect, disconnect = CONNECTING[system]
    if not opens(library):
        return False
    functions = ctypes.CDLL(library)
    begin, end = functions[connect], functions[disconnect]
    begin.restype = ctypes.c_void_p
    connection = begin(None)
    if connection is not None:
        end(ctypes.c_void_p(connection))
    return connection is not None


def why_no_qt(platform: str = sys.platform, opens: Opens = opens) -> str:
    """A sentence for the user, "" where Qt can be used."""
    missing = missing_packages(window_systems(), opens) if platform == "linux" else ()
    if missing:
        names = " ".join(missing)
        return f"The window needs libraries that are not here. On Debian: apt install {names}"
    import_of_python = builtins.__import__
    try:
        import_module("PySide6.QtWidgets")
    except ImportError as error:
        return f"Qt, which the window is made of, cannot be loaded: {error}"
    finally:
        # PySide's own reads the text of every module that comes later, and Python keeps it: 20 MB
        # and half a second with a model, to look for a `__feature__` that nobody here uses
        builtins.__import__ = import_of_python
    return ""


def why_no_window() -> str:
    """The same, "" where Qt can be used and has a display."""
    why_not = why_no_qt()
    if why_not:
        return why_not
    if not has_display():
        return "There is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set."
    systems = window_systems() if sys.platform == "linux" else ()
    if systems and not any(map(answers, systems)):
        return "The display that DISPLAY or WAYLAND_DISPLAY names does not answer."
    return ""
