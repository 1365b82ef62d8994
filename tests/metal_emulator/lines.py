"""The line of a kernel's source that an address of its code came from, by its DWARF records."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.die import DIE
from elftools.dwarf.dwarfinfo import DWARFInfo
from elftools.elf.elffile import ELFFile

OWN = re.compile(r"msl\w*\.h$")
ELF = b"\x7fELF"


class Line(NamedTuple):
    """file: the name in the kernel's #line, which is the kernel's own. line: 1 is the first."""

    file: str
    line: int


def line_of(library: Path, address: int) -> Line | None:
    """The innermost frame that is not the emulator's own. address: from the library's start.

    None where no record covers it, or the library is no ELF file (on a Mac).
    """
    with library.open("rb") as file:
        if file.read(len(ELF)) != ELF:
            return None
        dwarf = ELFFile(file).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            for frame in _frames(dwarf, unit, address):
                if not OWN.search(frame.file):
                    return frame
    return None


def _frames(dwarf: DWARFInfo, unit: CompileUnit, address: int) -> Iterator[Line]:
    """Innermost first: where the code is, then where each inlined function was called."""
    program = dwarf.line_program_for_CU(unit)
    names = [Path(entry.name.decode()).name for entry in program["file_entry"]]
    first = 0 if program["version"] >= 5 else 1
    states = [entry.state for entry in program.get_entries() if entry.state]
    for state, after in pairwise(states):
        if not state.end_sequence and state.address <= address < after.address:
            yield Line(names[state.file - first], state.line)
            break
    for die in reversed(_inlined(dwarf, unit.get_top_DIE(), address)):
        file, line = (die.attributes[f"DW_AT_call_{what}"].value for what in ("file", "line"))
        yield Line(names[file - first], line)


def _inlined(dwarf: DWARFInfo, parent: DIE, address: int) -> list[DIE]:
    """The inlined functions around an address, outermost first."""
    found = []
    for die in parent.iter_children():
        if _covers(dwarf, die, address):
            found += [die] if die.tag == "DW_TAG_inlined_subroutine" else []
            found += _inlined(dwarf, die, address)
    return found


def _covers(dwarf: DWARFInfo, die: DIE, address: int) -> bool:
    if "DW_AT_ranges" in die.attributes:
        lists = dwarf.range_lists()
        ranges = lists.get_range_list_at_offset(die.attributes["DW_AT_ranges"].value, cu=die.cu)
        base = die.cu.get_top_DIE().attributes["DW_AT_low_pc"].value
        return any(base + one.begin_offset <= address < base + one.end_offset for one in ranges)
    if "DW_AT_low_pc" not in die.attributes or "DW_AT_high_pc" not in die.attributes:
        return False
    low, high = die.attributes["DW_AT_low_pc"].value, die.attributes["DW_AT_high_pc"]
    is_size = describe_form_class(high.form) == "constant"
    return bool(low <= address < (low + high.value if is_size else high.value))
