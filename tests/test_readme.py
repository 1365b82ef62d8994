"""The README's map is the packages' own words, and its commands are ones that there are."""

import re
import shlex
from pathlib import Path

from rooms import room_map

from mlx_engine.command_line.arguments import parse_command_line
from mlx_engine.models.registry import FAMILIES

ROOT = Path(__file__).parents[1]
HINT = "paste what `python tests/helpers/rooms.py` prints between two fences of README.md"
PARITY_HINT = (
    "run `PYTHONPATH=.:tests:tests/helpers python tests/helpers/parity_page.py TYPE`"
    " for types that are new, or without a type for those that are gone"
)
TEST_COMMAND = (
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]' && .venv/bin/pytest -n 2"
)


def fenced_blocks(text: str) -> list[str]:
    """What stands between fences, without the fences' own lines."""
    return [block.partition("\n")[2].rstrip("\n") for block in text.split("```")[1::2]]


def test_the_map_is_what_the_packages_say() -> None:
    assert room_map(ROOT) in fenced_blocks((ROOT / "README.md").read_text()), HINT


def test_it_is_short_and_its_pictures_are_there() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert pictures
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_the_parity_table_has_every_type_and_nothing_wrong() -> None:
    page = (ROOT / "assets" / "readme" / "parity.md").read_text()
    types = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(types) == sorted(FAMILIES), PARITY_HINT
    assert "**wrong**" not in page
    assert "assets/readme/parity.md" in (ROOT / "README.md").read_text()


def test_the_test_command_is_there() -> None:
    assert TEST_COMMAND in (ROOT / "README.md").read_text()


def test_ci_installs_as_the_readme_does() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert "install -q -e '.[test]'" in script
    assert 'pytest" -n 2' in script


def test_its_commands_are_ones() -> None:
    text = (ROOT / "README.md").read_text()
    lines = re.findall(r"^headstart (.+?)(?:  .*)?$", text, re.MULTILINE)
    assert len(lines) > 10
    for line in lines:
        parse_command_line(shlex.split(line))
