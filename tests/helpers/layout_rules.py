"""The arrows between rooms and the other house rules, checked on any source tree."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("app", "mlx_engine", "metal_kernels")
TOP_LEVEL = {"pyproject.toml", "README.md", "LICENSE", "assets", "tests", *PACKAGES}

VALUES = "mlx_engine.values"
HUB = "mlx_engine.hub"


def _rooms(names: str) -> set[str]:
    return {f"mlx_engine.{name}" for name in names.split()}


BELOW_ENGINE = {"metal_kernels"} | _rooms(
    "values hub text cache sampling models loading drafting decoding"
)
ENGINE_LEVEL = {"mlx_engine"} | _rooms("bench self_check")
PUBLIC = {"mlx_engine", VALUES}
APP_ROOMS = {"app.values", "app.store", "app.library", "app.worker", "app.state", "app.window"} | {
    "app.start",
    "app.start.threads",
}

MAY_IMPORT: dict[str, set[str]] = {
    "metal_kernels": set(),
    VALUES: set(),
    HUB: {VALUES},
    "mlx_engine.text": {VALUES},
    "mlx_engine.cache": {"metal_kernels", VALUES},
    "mlx_engine.sampling": {"metal_kernels"} | _rooms("cache values"),
    "mlx_engine.models": {"metal_kernels"} | _rooms("cache values"),
    "mlx_engine.loading": {"metal_kernels"} | _rooms("models text cache hub values"),
    "mlx_engine.drafting": {"metal_kernels"} | _rooms("models cache sampling values"),
    "mlx_engine.decoding": _rooms("drafting models cache sampling text values"),
    **dict.fromkeys(ENGINE_LEVEL, BELOW_ENGINE | ENGINE_LEVEL),
    "mlx_engine.service": PUBLIC,
    "mlx_engine.server": PUBLIC | {"mlx_engine.service"},
    "mlx_engine.command_line": {VALUES, "mlx_engine.server"} | ENGINE_LEVEL,
    "mlx_engine.__main__": {"mlx_engine.command_line"},
    "app.values": {VALUES},
    "app.start.folders": set(),
    "app.start.threads": set(),
    "app.start": {VALUES, "app.values", "app.start.folders"},
    "app.store": PUBLIC | {"app.values"},
    "app.library": PUBLIC | {"app.values", "app.start.folders", HUB},
    "app.worker": PUBLIC | {"app.values"} | _rooms("service server"),
    "app.state": PUBLIC
    | {"app.values", "app.store", "app.library", "app.worker", "app.start.threads", HUB}
    | {"mlx_engine.service"},
    "app.window": {VALUES, "app.values", "app.state", "app.start.folders", "app.start.threads"},
    "app.control": PUBLIC | APP_ROOMS | {HUB},
    "app.__main__": PUBLIC | {"app", "app.start", "app.start.folders", "mlx_engine.command_line"},
    "app": PUBLIC | APP_ROOMS | {HUB, "app.control", "app.start.folders"},
}
"""Room -> other rooms of ours it may import; a room not listed here is itself a mistake."""

OUTSIDE_ENGINE = ("mlx_engine.command_line", "mlx_engine.server", "mlx_engine.service")

QT = ("PySide6", "shiboken6")
MLX = ("mlx", "mlx_lm", "metal_kernels")
MAY_NOT_IMPORT: dict[str, tuple[str, ...]] = {
    VALUES: (*MLX, *QT, "numpy"),
    "metal_kernels": (*QT, "mlx_lm"),
    "mlx_engine": QT,
    "mlx_engine.command_line": (*MLX, *QT),
    HUB: (*MLX, *QT, "numpy"),
    "app": MLX,
    **dict.fromkeys(("app.values", "app.store", "app.library"), (*MLX, *QT)),
    "app.state": (*MLX, "PySide6.QtWidgets", "PySide6.QtGui"),
    "app.start.folders": (*MLX, *QT),
}
"""Package prefix -> other people's packages nothing below it may import."""


UNENDED_PAINTER = re.compile(r"(?<!with )\bQPainter\(")


class Import(NamedTuple):
    """`import name`, or `from base import name` at a level of dots."""

    name: str
    base: str | None = None
    level: int = 0


class Source(NamedTuple):
    """What the rules ask of a file."""

    docstring: str
    imports: tuple[Import, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """One source file; `path` from the root, `name` dotted, without a trailing __init__."""

    path: Path
    name: str
    text: str

    @property
    def source(self) -> Source:
        return _read(self.text)

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


def modules(root: Path) -> list[Module]:
    """All modules of the three packages, sorted by path."""
    found = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            place = path.relative_to(root)
            parts = place.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(Module(place, name, path.read_text(encoding="utf-8")))
    return found


@cache
def _read(text: str) -> Source:
    tree = ast.parse(text)
    found: list[Import] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [Import(alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [Import(alias.name, node.module or "", node.level) for alias in node.names]
    return Source(ast.get_docstring(tree) or "", tuple(found))


def room_of(name: str) -> str:
    """The most specific room a module belongs to: "mlx_engine.cache.contract" is of the cache."""
    if name in MAY_IMPORT:
        return name
    parts = name.split(".")
    if parts[0] == "metal_kernels":
        return "metal_kernels"
    return name if len(parts) < 2 else ".".join(parts[:2])


def imported_names(module: Module, known: set[str]) -> Iterator[str]:
    """Dotted names a module imports; of `from a import b`, a.b where that is a module, else a."""
    for one in module.source.imports:
        if one.base is None:
            yield one.name
        else:
            base = _base_of(module, one.base, one.level)
            inner = f"{base}.{one.name}" if base else one.name
            yield inner if inner in known else base


def imported_modules(module: Module, known: set[str]) -> set[str]:
    """Modules of ours that a module imports."""
    return {name for name in imported_names(module, known) if name in known}


def _base_of(module: Module, base: str, level: int) -> str:
    if level == 0:
        return base
    parts = module.name.split(".")
    drop = level - 1 if module.is_package else level
    kept = parts[: len(parts) - drop]
    return ".".join([*kept, *([base] if base else [])])


def _room_with_rules(name: str, packages: set[str]) -> str:
    """A top-level module such as mlx_engine.engine has the rules of mlx_engine itself."""
    room = room_of(name)
    if room in MAY_IMPORT or room in packages:
        return room
    return room.split(".", maxsplit=1)[0]


def wrong_arrows(root: Path) -> list[str]:
    """Imports of ours against the arrows, and rooms without rules; empty when all is well."""
    sources = modules(root)
    known = {module.name for module in sources}
    packages = {module.name for module in sources if module.is_package}
    wrong = []
    for module in sources:
        here = _room_with_rules(module.name, packages)
        if here not in MAY_IMPORT:
            wrong.append(f"{here} is a room without rules in layout_rules.MAY_IMPORT")
            continue
        for name in imported_names(module, known):
            if name.split(".")[0] not in PACKAGES:
                continue
            there = _room_with_rules(name, packages)
            if there != here and there not in MAY_IMPORT[here]:
                wrong.append(f"{module.name} imports {name}")
            elif not _is_public_enough(here, name, there):
                wrong.append(f"{module.name} imports {name}, which is not a public name")
    return wrong


def _is_public_enough(here: str, name: str, there: str) -> bool:
    """The window's side and the command line take names from `mlx_engine`, not from its modules."""
    outside = here.startswith("app") or here in OUTSIDE_ENGINE
    return not outside or there != "mlx_engine" or name == "mlx_engine"


def wrong_libraries(root: Path) -> list[str]:
    """Imports of other people's packages where they have no business."""
    sources = modules(root)
    known = {module.name for module in sources}
    wrong = []
    for module in sources:
        banned = {
            library
            for prefix, libraries in MAY_NOT_IMPORT.items()
            if module.name == prefix or module.name.startswith(prefix + ".")
            for library in libraries
        }
        for name in imported_names(module, known):
            if any(f"{name}.".startswith(f"{one}.") for one in banned - set(PACKAGES)):
                wrong.append(f"{module.name} imports {name}")
            elif name.startswith("mlx_lm.models") and room_of(module.name) != "mlx_engine.models":
                wrong.append(f"{module.name} imports {name}: that is the business of models")
    return wrong


def first_sentence(module: Module) -> str | None:
    """The docstring's first sentence, None when there is none or it leaves its first line."""
    lines = module.source.docstring.splitlines()
    if not lines:
        return None
    head, dot, _ = (lines[0] + " ").partition(". ")
    return head + "." if dot else None


def without_first_sentence(root: Path) -> list[str]:
    """Modules whose docstring does not begin with one sentence on one line."""
    return [module.name for module in modules(root) if first_sentence(module) is None]


def unended_painters(root: Path) -> list[str]:
    """Modules with a painter that no `with` ends: after a mistake it is there still, and crashes
    when it goes after what it painted on.
    """
    return [module.name for module in modules(root) if UNENDED_PAINTER.search(module.text)]


def ignored_patterns(root: Path) -> list[str]:
    """What .gitignore leaves out, as patterns for a single name."""
    return [line.rstrip("/") for line in (root / ".gitignore").read_text().split() if line]


def project_files(root: Path) -> Iterator[Path]:
    """Every file that is the project's own: not ignored, not git's."""
    skipped = [".git", *ignored_patterns(root)]
    for entry in sorted(root.iterdir()):
        if any(fnmatch(entry.name, pattern) for pattern in skipped):
            continue
        if entry.is_dir():
            inner = (path for path in sorted(entry.rglob("*")) if path.is_file())
            yield from (
                path
                for path in inner
                if not any(fnmatch(p, s) for p in path.relative_to(root).parts for s in skipped)
            )
        else:
            yield entry


def stray_top_level(root: Path) -> set[str]:
    """Names at the top that have no place there; dotfiles are free."""
    names = {path.relative_to(root).parts[0] for path in project_files(root)}
    return {name for name in names if not name.startswith(".")} - TOP_LEVEL
