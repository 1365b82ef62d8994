"""What a GPU executes in the loops of a kernel, integer work included.

Counted in the assembly text that registers are counted in (gfx1030), whose instructions are near
Apple's: a thread's, of 32 bits. What all threads of a SIMD-group share is left out, as it is done
once for all of them. gfx1030 converts any byte of a register at once, where Apple's move the upper
one of a half down first: that counts as a shift, too. Both read half a register as it lies.
"""

import re
from collections import Counter
from typing import NamedTuple


class Instructions(NamedTuple):
    """Instructions of one trip of a loop, without those of loops inside it.

    loads, stores: of memory, whatever their width. fused: products with a sum. floats: other
    arithmetic on floats. conversions: between integers and floats. halves: between halves and
    floats, which Apple's convert as they read them. shifts: of bits, and products of integers.
    integers: masks, sums, comparisons, choices. exchanges: across lanes. moves: copies, which other
    compilers may not need.
    """

    loads: float = 0
    stores: float = 0
    fused: float = 0
    floats: float = 0
    conversions: float = 0
    halves: float = 0
    shifts: float = 0
    integers: float = 0
    exchanges: float = 0
    moves: float = 0

    @property
    def total(self) -> float:
        """All instructions but copies and conversions of halves."""
        return sum(self) - self.moves - self.halves

    @property
    def slow(self) -> float:
        """Those that M1 and M2 execute at a quarter of the rate of the others."""
        return self.conversions + self.shifts


_KINDS = (
    ("loads", re.compile(r"(global|flat|buffer|scratch)_load|ds_read")),
    ("stores", re.compile(r"(global|flat|buffer|scratch)_store|ds_write")),
    ("exchanges", re.compile(r"; exchanged")),
    ("fused", re.compile(r"v_(pk_)?(fma|fmac|mad_f|mac_f|fmaak|fmamk)")),
    ("halves", re.compile(r"v_cvt_f32_f16|v_cvt_f16_f32")),
    ("conversions", re.compile(r"v_cvt")),
    ("moves", re.compile(r"v_(mov|accvgpr|swap)")),
    ("floats", re.compile(r"v_(pk_)?\w+_f(16|32)|; computed")),
    ("shifts", re.compile(r"v_(lshl|lshr|ashr|bfe|alignb|perm|bcnt|ff|mul_(lo|hi|u|i)|mad_(u|i))")),
    ("integers", re.compile(r"v_")),
)
_ODD_BYTE = re.compile(r"v_cvt_f32_ubyte[13]|v_cvt.*BYTE_[13]")
_LABEL = re.compile(r"^(?:\.LBB\d+_\d+:|; %bb\.\d+:)")
_DEPTH = re.compile(r"Depth[= ](\d+)")
_CHILD = re.compile(r"Child Loop")


def instructions_by_depth(assembly: str) -> tuple[Instructions, ...]:
    """Instructions of a kernel outside of loops, in its loops, in the loops of those, and so on."""
    found = dict[int, Counter[str]]()
    depth, in_label = 0, False
    for line in assembly.splitlines():
        code, _, note = line.partition(";")
        if _LABEL.match(line):
            depth, in_label = 0, True
        if in_label and (told := _DEPTH.search(note)) and not _CHILD.search(note):
            depth = int(told.group(1))
        word = code.strip()
        if word and not word.endswith(":"):
            in_label = False
        text = word or line.strip()
        kind = next((name for name, known in _KINDS if known.match(text)), None)
        if kind is not None:
            found.setdefault(depth, Counter())[kind] += 1
            found[depth]["shifts"] += bool(_ODD_BYTE.match(text))
    return tuple(Instructions(**found.get(n, {})) for n in range(max(found, default=0) + 1))
