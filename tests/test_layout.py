"""The house rules hold in this repository, and each rule notices when it is broken."""

import re
import tomllib
from pathlib import Path

import pytest
from layout_rules import (
    project_files,
    stray_top_level,
    unended_painters,
    without_first_sentence,
    wrong_arrows,
    wrong_libraries,
)
from rooms import circle, imports, room_map, sizes

ROOT = Path(__file__).parents[1]
FOREIGN = [
    re.compile(r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot)/"),
    re.compile("pypi" + r"\.org/simple|pytho" + r"nhosted\.org|index" + r"-url"),
]


def test_arrows() -> None:
    assert wrong_arrows(ROOT) == []


def test_no_circle_of_modules() -> None:
    assert circle(imports(ROOT)) == []


def test_libraries() -> None:
    assert wrong_libraries(ROOT) == []


def test_top_level() -> None:
    assert stray_top_level(ROOT) == set()


def test_every_module_begins_with_one_sentence() -> None:
    assert without_first_sentence(ROOT) == []


def test_every_painter_ends_with_its_block() -> None:
    assert unended_painters(ROOT) == []


def foreign_lines(root: Path) -> list[str]:
    """Lines that name a place on somebody's machine or a package registry."""
    found = []
    for path in project_files(root):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(root)}:{number}"
            for number, line in enumerate(lines, 1)
            if any(pattern.search(line) for pattern in FOREIGN)
        ]
    return found


def test_no_machine_paths_or_registries() -> None:
    assert foreign_lines(ROOT) == []


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """A small project: packages get their __init__ by themselves."""
    (root / ".gitignore").write_text("build/\n*.egg-info/\n")
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for folder in path.relative_to(root).parents[:-1]:
            if folder.parts[0] in ("app", "mlx_engine", "metal_kernels"):
                init = root / folder / "__init__.py"
                init.write_text(init.read_text() if init.exists() else '"""A room."""\n')
    return root


CONTRACT = {"mlx_engine/cache/contract.py": "", "mlx_engine/values/errors.py": ""}


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("metal_kernels/a.py", "import mlx_engine"),
        ("mlx_engine/values/a.py", "from mlx_engine.cache import contract"),
        ("mlx_engine/values/a.py", "from ..cache import contract"),
        ("mlx_engine/values/a.py", "from ..cache.contract import LayerCache"),
        ("mlx_engine/values/__init__.py", "from .. import cache"),
        ("mlx_engine/text/a.py", "import mlx_engine.cache.contract"),
        ("mlx_engine/cache/a.py", "def f():\n    from mlx_engine.models import registry"),
        ("mlx_engine/decoding/a.py", "import metal_kernels"),
        ("mlx_engine/decoding/a.py", "from mlx_engine.loading import load"),
        ("mlx_engine/decoding/a.py", "from mlx_engine import Engine"),
        ("mlx_engine/engine.py", "from mlx_engine.command_line import run"),
        ("mlx_engine/command_line/a.py", "from mlx_engine.cache.contract import LayerCache"),
        ("mlx_engine/command_line/a.py", "from mlx_engine.engine import Engine"),
        ("mlx_engine/engine.py", "import app"),
        ("app/window/a.py", "from mlx_engine import load"),
        ("app/window/a.py", "from app.store import database"),
        ("app/store/a.py", "from app.worker import engine_worker"),
        ("app/state/chat.py", "from mlx_engine.cache import contract"),
        ("mlx_engine/attic/a.py", ""),
    ],
)
def test_a_wrong_arrow_is_seen(tmp_path: Path, file: str, line: str) -> None:
    write_tree(tmp_path, CONTRACT | {"mlx_engine/engine.py": "", file: line})
    assert wrong_arrows(tmp_path)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("metal_kernels/a.py", "from metal_kernels.kernel import Call"),
        ("mlx_engine/cache/a.py", "from .contract import LayerCache"),
        ("mlx_engine/cache/a.py", "from mlx_engine.values.errors import EngineError"),
        ("mlx_engine/engine.py", "from mlx_engine.cache import contract\nimport metal_kernels"),
        ("mlx_engine/__init__.py", "from mlx_engine.engine import Engine"),
        ("mlx_engine/command_line/a.py", "import mlx_engine\nfrom mlx_engine import load"),
        ("app/window/a.py", "from mlx_engine.values import errors\nfrom PySide6 import QtCore"),
        ("app/worker/a.py", "from mlx_engine import load"),
        ("app/app.py", "from app.state.chat import ChatState"),
    ],
)
def test_a_right_arrow_is_let_through(tmp_path: Path, file: str, line: str) -> None:
    write_tree(tmp_path, CONTRACT | {"mlx_engine/engine.py": "", file: line})
    assert wrong_arrows(tmp_path) == []
    assert wrong_libraries(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mlx_engine/values/a.py", "import mlx.core as mx"),
        ("mlx_engine/command_line/a.py", "def f():\n    import mlx.core as mx"),
        ("mlx_engine/decoding/a.py", "from PySide6.QtCore import QObject"),
        ("mlx_engine/decoding/a.py", "from mlx_lm.models import qwen3"),
        ("app/store/a.py", "from PySide6 import QtCore"),
        ("app/values/a.py", "import PySide6"),
        ("app/window/a.py", "import mlx.core"),
    ],
)
def test_a_wrong_library_is_seen(tmp_path: Path, file: str, line: str) -> None:
    assert wrong_libraries(write_tree(tmp_path, {file: line}))


def test_a_stray_entry_is_seen(tmp_path: Path) -> None:
    files = {"scripts/a.sh": "", "app/a.py": "", "x.egg-info/a": "", ".ci/run": "", "LICENSE": ""}
    assert stray_top_level(write_tree(tmp_path, files)) == {"scripts"}


@pytest.mark.parametrize("text", ["", '"""No full stop"""', '"""Over two\nlines."""'])
def test_a_bad_first_sentence_is_seen(tmp_path: Path, text: str) -> None:
    assert without_first_sentence(write_tree(tmp_path, {"app/a.py": text})) == ["app.a"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("painter = QPainter(self)", ["app.window.a"]),
        ("paint(QPainter(picture))", ["app.window.a"]),
        ("with QPainter(self) as painter: pass", []),
    ],
)
def test_a_painter_that_does_not_end_is_seen(tmp_path: Path, line: str, found: list[str]) -> None:
    assert unended_painters(write_tree(tmp_path, {"app/window/a.py": line})) == found


@pytest.mark.parametrize("line", ["see /wo" + "rk/x", "index" + "-url = y", "'/ro" + "ot/v'"])
def test_a_foreign_line_is_seen(tmp_path: Path, line: str) -> None:
    assert foreign_lines(write_tree(tmp_path, {"tests/a.md": f"fine\n{line}\n"})) == [
        "tests/a.md:2"
    ]


def test_the_map_lists_packages_and_no_files(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": '"""The program. More."""',
        "app/window/view.py": '"""Shows it."""',
        "app/start.py": '"""Starts it.\n\nLonger."""',
    }
    assert room_map(write_tree(tmp_path, files)).splitlines() == [
        "app/       The program.",
        "  window/  A room.",
    ]


def test_a_circle_is_seen(tmp_path: Path) -> None:
    files = {
        "app/window/a.py": "from app.window import b",
        "app/window/b.py": "def f():\n    from app.window.c import g",
        "app/window/c.py": "import app.window.a",
        "app/window/d.py": "from app.window import a",
    }
    a, b, c = (f"app.window.{name}" for name in "abc")
    found = circle(imports(write_tree(tmp_path, files)))
    assert (len(found), {*found}) == (4, {a, b, c})


def test_what_is_worth_a_look_is_told(tmp_path: Path) -> None:
    files = {"app/long.py": "1\n" * 401, "app/b.py": "import app.long\nimport app.short"}
    told = sizes(write_tree(tmp_path, files | {"app/short.py": "1\n", "app/c.py": "import app.b"}))
    assert told.splitlines()[0] == "app: 5 files, 406 lines"
    assert "401 lines: app.long" in told
    assert "1 lines, only for app.b: app.short" in told


def test_an_installation_has_its_version_and_all_its_assets() -> None:
    """What pyproject.toml names is there: an installation fails, or lacks files, if it moved."""
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    version = hatch["version"]
    pattern = version["pattern"]
    assert re.search(pattern, (ROOT / version["path"]).read_text())
    sent = hatch["build"]["targets"]["wheel"]["force-include"]
    assert all((ROOT / path).exists() for path in sent)
    read = {path.name for path in (ROOT / "assets").iterdir()} - {"readme"}
    assert {path.split("/")[1] for path in sent} == read
