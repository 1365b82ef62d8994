"""Which kernel serves which work: the one table of them, and those in use on a machine.

A layer sees a kernel as an alternative to stock MLX. Some are needed for exact rows: with them
plain decoding and verifying run the same order of operations for 1 to 9 rows. All others are a
matter of speed: they are used where they were measured to be faster than stock MLX, behind answers
or by `headstart doctor`, and not before.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import log
from types import MappingProxyType
from typing import Literal, NamedTuple

from metal_kernels.filtered_pick import MOST_TOKENS
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import cache_form
from metal_kernels.stock import Stock
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

KernelName = Literal[
    "products",
    "attention",
    "delta",
    "delta-inputs",
    "gate-up",
    "product-add",
    "experts",
    "prompt-products",
    "prompt-experts",
    "mtp-input",
    "pick",
    "filtered-pick",
    "noise",
    "norms",
]
MOST_ROWS = 9
"""Rows of the longest verify pass: the newest token and eight drafts."""

ALL_ROWS = frozenset(range(1, MOST_ROWS + 1))
NO_ROWS = frozenset[int]()


class Work(NamedTuple):
    """What a layer does. form: the name of its weights' format, of its cache's for attention.
    outputs, inputs: of a matrix; size of a value and of a key for attention and recurrent states,
    of a latent and of what is rotated for latent attention; for noise nothing counts. shared: heads
    of queries to each of keys.
    """

    form: str = ""
    outputs: int = 0
    inputs: int = 0
    shared: int = 1


def trial_name(name: KernelName, work: Work) -> str:
    """What a verdict is about: the kernel with one format, or with heads of one size."""
    return f"{name} {work.form or work.inputs or ''}".rstrip()


class Measured(NamedTuple):
    """Counts of rows at which the kernel was faster than stock MLX at this work.

    at_one: its time over that of stock MLX at one row, 0 where that was not timed.
    """

    work: Work
    rows: frozenset[int]
    at_one: float = 0.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the table.

    is_exact: rows are exact only with it. fits: whether the kernel can do some work.
    """

    is_exact: bool = False
    fits: Callable[[Work], bool] = lambda _: True


def _whole_units(work: Work) -> bool:
    return work.inputs % 8 == 0


def _attention_sizes(work: Work) -> bool:
    form = cache_form(work.form, work.inputs, work.outputs)
    return form.shares(work.inputs, work.outputs) is not None


KERNELS: Mapping[KernelName, Kernel] = MappingProxyType(
    {
        "products": Kernel(True, _whole_units),
        "attention": Kernel(True, _attention_sizes),
        "delta": Kernel(True, lambda work: work.inputs % 16 == 0),
        "delta-inputs": Kernel(),
        "gate-up": Kernel(False, _whole_units),
        "product-add": Kernel(False, _whole_units),
        "experts": Kernel(False, _whole_units),
        "prompt-products": Kernel(),
        "prompt-experts": Kernel(),
        "mtp-input": Kernel(False, _whole_units),
        "pick": Kernel(False, _whole_units),
        "filtered-pick": Kernel(fits=lambda work: work.outputs <= MOST_TOKENS),
        "noise": Kernel(),
        "norms": Kernel(),
    }
)


@dataclass(eq=False, slots=True)
class Kernels:
    """The kernels of one machine and one wish; layers ask it in every pass (see Served).

    launcher: None where nothing can run kernels. exact: rows are to be exact. off: why something is
    not used at all, by the name of a kernel or of a trial. measured: by name, what was timed.
    stock: MLX's own operations. trusted: trials that were passed here, the others wait for theirs
    and stock MLX does their work; None where all are trusted. asked: all work that layers have
    asked for so far, to tell in the end which kernels a model uses. changes: how often what is in
    use has changed. try_now: runs the trial of some work.
    """

    launcher: Launcher | None
    exact: bool = True
    off: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[KernelName, tuple[Measured, ...]] = field(default_factory=dict)
    stock: Stock = MLX
    trusted: frozenset[str] | None = None
    asked: dict[KernelName, set[Work]] = field(default_factory=dict)
    changes: int = 0
    try_now: Callable[[KernelName, Work], None] | None = None

    def has(self, name: KernelName) -> bool:
        """Whether the kernel is there for some work."""
        return self.launcher is not None and name not in self.off

    def rows(self, name: KernelName, work: Work) -> frozenset[int]:
        """Counts of rows, 1 to 9, at which this work goes through the kernel now.

        With exact numerics all or none: the count must not decide.
        """
        if self.is_pending(name, work) or not self.may_serve(name, work):
            return NO_ROWS
        return self._wanted(name, work)

    def rows_now(self, name: KernelName, work: Work) -> frozenset[int]:
        """The same for work that stock MLX cannot do: a trial that is pending is run at once."""
        if self.try_now and self.is_pending(name, work) and self.may_serve(name, work):
            self.try_now(name, work)
        return self.rows(name, work)

    def may_serve(self, name: KernelName, work: Work) -> bool:
        """Whether the kernel does this work, now or once it was tried and measured."""
        if self.launcher is None or self.why_off(name, work) or not KERNELS[name].fits(work):
            return False
        return not self.is_measured(name, work) or bool(self._wanted(name, work))

    def is_measured(self, name: KernelName, work: Work) -> bool:
        """Whether it is known how fast this work is; stock MLX has nothing to set against kernels
        that read blocks of a GGUF, but to unpack them every time.
        """
        return work.form in BLOCK_FORMS or bool(self._alike(name, work))

    def served(self, name: KernelName, work: Work, *, whole: bool = False) -> "Served | None":
        """The counts as they are now and later; None where the kernel will never do this work.

        whole: all counts or none.
        """
        if self.launcher is None or name in self.off:
            return None
        self.asked.setdefault(name, set()).add(work)
        may_serve = self.may_serve(name, work)
        return Served(self, self.launcher, name, work, whole) if may_serve else None

    def why_off(self, name: KernelName, work: Work) -> str:
        """Why this work never goes through the kernel on this machine, "" where it may."""
        return self.off.get(name) or self.off.get(trial_name(name, work), "")

    def is_pending(self, name: KernelName, work: Work) -> bool:
        """Whether the kernel has still to be tried here with this format."""
        return self.trusted is not None and trial_name(name, work) not in self.trusted

    def trust(self, trials: Iterable[str]) -> None:
        """They are right here: from the next pass on they are used."""
        if self.trusted is not None:
            self.trusted |= frozenset(trials)
            self.changes += 1

    def switch_off(self, name: str, why: str) -> None:
        """Stock MLX does the work of this kernel, or trial, from the next pass on."""
        self.off = {**self.off, name: why}
        self.changes += 1

    def want(self, *, exact: bool) -> None:
        """From the next pass on rows are exact, or whatever is faster."""
        self.exact = exact
        self.changes += 1

    def _wanted(self, name: KernelName, work: Work) -> frozenset[int]:
        kernel = KERNELS[name]
        if not kernel.fits(work):
            return NO_ROWS
        if self.exact and kernel.is_exact:
            return ALL_ROWS
        faster = self._faster(name, work)
        if not self.exact:
            return faster
        return ALL_ROWS if 2 * len(faster) > MOST_ROWS else NO_ROWS

    def _faster(self, name: KernelName, work: Work) -> frozenset[int]:
        """As measured with the work most like this."""
        if work.form in BLOCK_FORMS:
            return ALL_ROWS
        alike = self._alike(name, work)
        return min(alike, key=lambda one: _distance(one.work, work)).rows if alike else NO_ROWS

    def _alike(self, name: KernelName, work: Work) -> list[Measured]:
        return [one for one in self.measured.get(name, ()) if one.work.form == work.form]


class Served:
    """Counts of rows at which one kernel does one work, as they are at the moment of asking.

    launcher: what runs it.
    """

    __slots__ = ("_as_of", "_counts", "_kernels", "_name", "_whole", "_work", "launcher")

    def __init__(
        self, kernels: Kernels, launcher: Launcher, name: KernelName, work: Work, whole: bool
    ) -> None:
        self.launcher = launcher
        self._kernels, self._name, self._work, self._whole = kernels, name, work, whole
        self._counts, self._as_of = NO_ROWS, -1

    def __contains__(self, rows: object) -> bool:
        if self._as_of != self._kernels.changes:
            self._as_of = self._kernels.changes
            self._counts = self._kernels.rows(self._name, self._work)
            if self._whole:
                self._counts = ALL_ROWS if 2 * len(self._counts) > MOST_ROWS else NO_ROWS
        return rows in self._counts


def _distance(one: Work, other: Work) -> float:
    return sum(
        abs(log((mine + 1) / (its + 1))) for mine, its in zip(one[1:], other[1:], strict=True)
    )


NO_KERNELS = Kernels(None)
"""Stock MLX throughout."""
