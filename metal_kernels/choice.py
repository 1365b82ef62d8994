"""Which kernel serves which work: the one table of them, and those in use on a machine.

A layer sees a kernel as an alternative to stock MLX. Some are needed for exact rows: with them
plain decoding and verifying run the same order of operations for 1 to 9 rows. All others are a
matter of speed, measured by `headstart doctor` where it was run, presumed elsewhere.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import log
from types import MappingProxyType
from typing import Literal, NamedTuple

import mlx.core as mx

from metal_kernels.few_query_attention import takes
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import dense_cache
from metal_kernels.stock import MLX, Stock
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

KernelName = Literal[
    "products",
    "attention",
    "delta",
    "delta-inputs",
    "gate-up",
    "product-add",
    "experts",
    "mtp-input",
    "pick",
    "noise",
]
MOST_ROWS = 9
"""Rows of the longest verify pass: the newest token and eight drafts."""

ALL_ROWS = frozenset(range(1, MOST_ROWS + 1))
NO_ROWS = frozenset[int]()

_ARCHITECTURE = re.compile(r"applegpu_g(\d+)([a-z])")


class Chip(NamedTuple):
    """generation: 13 for M1 to 17 for M5, 0 where it is not known. letter: p phone, g base or Pro,
    s Max (some Pros too), d Ultra. name: as MLX has it, "Apple M4 Pro".
    """

    generation: int
    letter: str
    name: str


NO_CHIP = Chip(0, "", "")


def chip_of(architecture: str, name: str) -> Chip:
    """From MLX's words for a GPU ("applegpu_g16s")."""
    found = _ARCHITECTURE.match(architecture)
    return Chip(int(found[1]), found[2], name) if found else Chip(0, "", name)


def this_chip() -> Chip:
    """The GPU that MLX computes on; NO_CHIP without one."""
    if not mx.metal.is_available():
        return NO_CHIP
    facts = mx.device_info()
    return chip_of(str(facts["architecture"]), str(facts["device_name"]))


class Work(NamedTuple):
    """What a layer does. form: the name of its weights' format. outputs, inputs: of a matrix;
    size of a value and of a key for attention and recurrent states; for noise nothing counts.
    """

    form: str = ""
    outputs: int = 0
    inputs: int = 0


class Measured(NamedTuple):
    """Counts of rows at which the kernel was faster than stock MLX at this work."""

    work: Work
    rows: frozenset[int]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the table.

    is_exact: rows are exact only with it. misfit: why the kernel cannot do some work, "" when it
    can. presumed: rows at which it is taken to be faster where nobody has measured.
    """

    words: str
    is_exact: bool
    misfit: Callable[[Work], str]
    presumed: Callable[[Work, Chip], frozenset[int]]


def _any_work(work: Work) -> str:
    del work
    return ""


def _whole_units(work: Work) -> str:
    return f"rows of {work.inputs} weights are not whole units of 8" if work.inputs % 8 else ""


def _attention_sizes(work: Work) -> str:
    fits = takes(work.inputs, work.outputs, dense_cache())
    return "" if fits else f"heads of {work.inputs} are not among the sizes it takes"


def _state_sizes(work: Work) -> str:
    return f"keys of {work.inputs} are not a multiple of 16" if work.inputs % 16 else ""


def _always(work: Work, chip: Chip) -> frozenset[int]:
    del work, chip
    return ALL_ROWS


def _never(work: Work, chip: Chip) -> frozenset[int]:
    del work, chip
    return NO_ROWS


def _where_stock_reads_again(work: Work, chip: Chip) -> frozenset[int]:
    """Stock MLX reads packed weights once for up to 5 rows from M3 on, once a row before; what it
    computes a weight grows with the rows, most at 2 and 3 bits (issues 3839, 3852, PR 3764).
    """
    if work.form == "dense":
        return NO_ROWS
    if work.form in BLOCK_FORMS:  # stock MLX cannot read them, only unpack them for every product
        return ALL_ROWS
    if chip.generation < 15 and work.form.startswith("affine"):
        return frozenset(range(2, MOST_ROWS + 1))
    return frozenset(range(3 if work.form in ("affine2", "affine3") else 6, MOST_ROWS + 1))


KERNELS: Mapping[KernelName, Kernel] = MappingProxyType(
    {
        "products": Kernel("matrix products", True, _whole_units, _where_stock_reads_again),
        "attention": Kernel("attention", True, _attention_sizes, _always),
        "delta": Kernel("recurrent states", True, _state_sizes, _always),
        "delta-inputs": Kernel("what recurrent states read", False, _any_work, _always),
        "gate-up": Kernel("gate and up in one", False, _whole_units, _always),
        "product-add": Kernel("products onto the residual", False, _whole_units, _always),
        "experts": Kernel("experts read once", False, _whole_units, _never),
        "mtp-input": Kernel("the heads' input", False, _whole_units, _always),
        "pick": Kernel("choosing without logits", False, _whole_units, _always),
        "noise": Kernel("noise", False, _any_work, _never),
    }
)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of one machine and one wish; layers ask it when they are built.

    launcher: None where nothing can run kernels. exact: rows are to be exact. off: why a kernel is
    not used at all, by name. measured: by name, what was timed. stock: MLX's own operations. asked:
    all work that layers have asked for so far, to tell in the end which kernels a model uses.
    """

    launcher: Launcher | None
    exact: bool = True
    chip: Chip = NO_CHIP
    off: Mapping[KernelName, str] = field(default_factory=dict)
    measured: Mapping[KernelName, tuple[Measured, ...]] = field(default_factory=dict)
    stock: Stock = MLX
    asked: dict[KernelName, set[Work]] = field(default_factory=dict, compare=False)

    def has(self, name: KernelName) -> bool:
        """Whether the kernel is there for some work."""
        return self.launcher is not None and name not in self.off

    def rows(self, name: KernelName, work: Work) -> frozenset[int]:
        """Counts of rows, 1 to 9, at which this work goes through the kernel.

        With exact numerics all or none: the count must not decide.
        """
        if not self.has(name):
            return NO_ROWS
        self.asked.setdefault(name, set()).add(work)
        return self._rows(name, work)

    def why_unused(self, name: KernelName) -> str:
        """Why the layers built so far do not use a kernel, "" when some do."""
        if self.launcher is None:
            return "There is no Metal here: stock operations are used."
        if name in self.off:
            return f"Switched off: {self.off[name]}."
        asked = sorted(self.asked.get(name, ()))
        if not asked:
            return "No layer of this model can use it."
        if any(self._rows(name, work) for work in asked):
            return ""
        misfits = [KERNELS[name].misfit(work) for work in asked]
        if all(misfits):
            return f"It does not fit this model: {misfits[0]}."
        told = "measured" if self.measured.get(name) else "taken"
        return f"Stock MLX is {told} to be as fast here."

    def _rows(self, name: KernelName, work: Work) -> frozenset[int]:
        kernel = KERNELS[name]
        if kernel.misfit(work):
            return NO_ROWS
        if self.exact and kernel.is_exact:
            return ALL_ROWS
        faster = self._faster(name, work)
        if not self.exact:
            return faster
        return ALL_ROWS if 2 * len(faster) > MOST_ROWS else NO_ROWS

    def launcher_of(self, name: KernelName, work: Work) -> Launcher | None:
        """Of a kernel that serves all counts of rows or none; None for none."""
        return self.launcher if 2 * len(self.rows(name, work)) > MOST_ROWS else None

    def _faster(self, name: KernelName, work: Work) -> frozenset[int]:
        """As measured with the work most like this."""
        alike = [one for one in self.measured.get(name, ()) if one.work.form == work.form]
        if not alike:
            return KERNELS[name].presumed(work, self.chip)
        return min(alike, key=lambda one: _distance(one.work, work)).rows


def _distance(one: Work, other: Work) -> float:
    return sum(
        abs(log((mine + 1) / (its + 1))) for mine, its in zip(one[1:], other[1:], strict=True)
    )


NO_KERNELS = Kernels(None)
"""Stock MLX throughout."""
