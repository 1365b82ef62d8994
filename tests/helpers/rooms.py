"""The house as it stands: its rooms, its files, its arrows, and what is worth a look.

python tests/helpers/rooms.py           one line a room, as README.md shows it
python tests/helpers/rooms.py files     one line a module
python tests/helpers/rooms.py arrows    who imports whom by room, and a circle of modules, if any
python tests/helpers/rooms.py sizes     files over 400 lines; files under 100 with one importer
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from layout_rules import (
    PACKAGES,
    Module,
    first_sentence,
    imported_modules,
    modules,
    room_of,
)

INDENT = "  "
LONG, SHORT = 400, 100
REPOSITORY = Path(__file__).parents[2]


def room_map(root: Path) -> str:
    """One line a package: its name, and the first sentence of its docstring."""
    return _table(module for module in modules(root) if module.is_package)


def file_list(root: Path) -> str:
    """One line a module, under the line of its package."""
    return _table(modules(root))


def _table(chosen: Iterable[Module]) -> str:
    rows = [_row(module) for module in sorted(chosen, key=_order)]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {sentence}" for name, sentence in rows)


def _order(module: Module) -> tuple[str, ...]:
    """Folders in place of their names: a package before what is in it, files before rooms."""
    *folders, file = module.path.parts
    keys = [f"1{folder}" for folder in folders]
    return (*keys, "" if module.is_package else f"0{file}")


def _row(module: Module) -> tuple[str, str]:
    level = module.name.count(".")
    label = module.path.parent.name + "/" if module.is_package else module.path.name
    return INDENT * level + label, first_sentence(module) or "(no first sentence)"


def arrows(root: Path) -> str:
    """A line a room with the rooms it imports, then a circle of modules, if any."""
    graph = imports(root)
    rooms: defaultdict[str, set[str]] = defaultdict(set)
    for here, others in graph.items():
        rooms[room_of(here)] |= {room_of(there) for there in others} - {room_of(here)}
    lines = [f"{room} -> {' '.join(sorted(there)) or '(nothing)'}" for room, there in rooms.items()]
    found = circle(graph)
    return "\n".join([*sorted(lines), *([f"CIRCLE {' <- '.join(found)}"] if found else [])])


def imports(root: Path) -> dict[str, set[str]]:
    """Module -> modules of ours that it imports, those inside functions and TYPE_CHECKING too."""
    sources = modules(root)
    known = {module.name for module in sources}
    return {module.name: imported_modules(module, known) for module in sources}


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """A closed walk of imports, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def sizes(root: Path) -> str:
    """Figures, then what whoever changes a room looks at; nothing here is enforced."""
    sources = modules(root)
    lines = {m.name: len((root / m.path).read_text().splitlines()) for m in sources}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for here, others in imports(root).items():
        for there in others - {here}:
            importers[there].add(here)
    counted = [
        f"{package}: {sum(1 for name in lines if name.split('.')[0] == package)} files, "
        f"{sum(n for name, n in lines.items() if name.split('.')[0] == package)} lines"
        for package in PACKAGES
    ]
    packages = {module.name for module in sources if module.is_package}
    long = [f"{n} lines: {name}" for name, n in lines.items() if n > LONG]
    lonely = [
        f"{n} lines, only for {next(iter(importers[name]))}: {name}"
        for name, n in lines.items()
        if n < SHORT and len(importers[name]) == 1 and name not in packages
    ]
    return "\n".join([*counted, *long, *lonely])


if __name__ == "__main__":
    shown = {"files": file_list, "arrows": arrows, "sizes": sizes}
    print(shown[sys.argv[1]](REPOSITORY) if sys.argv[1:] else room_map(REPOSITORY))
