"""The table of kernels, and which of them do which work on this machine.

Layers see a kernel as an alternative to stock MLX. The exact ones add in the same order for 1 to 9
rows, so that plain decoding and verifying give the same bits. All others only save time, and run
where they were timed and found to be faster than stock MLX.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    """What a layer computes.

    form: the name of the weights' format, for attention of the cache's. outputs, inputs: of a
    matrix; sizes of values and keys for attention and recurrent states, of the latent and the
    rotated part for latent attention. shared: query heads to each key head.
    """

    form: str = ""
    outputs: int = 0
    inputs: int = 0
    shared: int = 1


def trial_name(name: KernelName, work: Work) -> str:
    """The kernel with one format, or with heads of one size: "products affine4"."""
    return f"{name} {work.form or work.inputs or ''}".rstrip()


class Verdict(NamedTuple):
    """What a trial found.

    wrong: why the kernel is not used, "" for no reason. faster: counts of rows at which it beats
    stock MLX, None before it was timed. share: its time over that of stock MLX at the fewest rows.
    """

    wrong: str = ""
    faster: frozenset[int] | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """One row of the table.

    is_exact: rows are exact only with it. by_count: each count of rows is for or against it, else
    most of them decide for all. fits: whether the kernel can do some work.
    """

    is_exact: bool = False
    by_count: bool = False
    fits: Callable[[Work], bool] = lambda _: True

    def is_timed(self, work: Work) -> bool:
        """Whether stock MLX has something to set against it: not for few rows by a GGUF's blocks,
        which it would unpack in every pass.
        """
        return not (self.by_count and work.form in BLOCK_FORMS)


def _whole_units(work: Work) -> bool:
    return work.inputs % 8 == 0


def _attention_sizes(work: Work) -> bool:
    form = cache_form(work.form, work.inputs, work.outputs)
    return form.shares(work.inputs, work.outputs) is not None


KERNELS: Mapping[KernelName, Kernel] = MappingProxyType(
    {
        "products": Kernel(True, True, _whole_units),
        "attention": Kernel(True, fits=_attention_sizes),
        "delta": Kernel(True, fits=lambda work: work.inputs % 16 == 0),
        "delta-inputs": Kernel(),
        "gate-up": Kernel(False, True, _whole_units),
        "product-add": Kernel(False, True, _whole_units),
        "experts": Kernel(False, True, _whole_units),
        "prompt-products": Kernel(),
        "prompt-experts": Kernel(),
        "mtp-input": Kernel(False, True, _whole_units),
        "pick": Kernel(False, True, _whole_units),
        "filtered-pick": Kernel(fits=lambda work: work.outputs <= MOST_TOKENS),
        "noise": Kernel(),
        "norms": Kernel(),
    }
)


@dataclass(eq=False, slots=True)
class Kernels:
    """The kernels of one machine for one loaded model; layers ask it in every pass (see Served).

    launcher: None where nothing can run kernels. exact: rows are to be exact. stock: MLX's own
    operations. verdicts: by trial. presumed: the verdict where there is none; None: stock MLX does
    the work until the kernel was tried. asked: all work that layers have asked for. changes: counts
    the changes of what is in use. why_none: why no kernel is used at all, "" where some may be.
    try_now: runs the trial of some work.
    """

    launcher: Launcher | None
    exact: bool = True
    stock: Stock = MLX
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    presumed: Verdict | None = None
    asked: dict[KernelName, set[Work]] = field(default_factory=dict)
    changes: int = 0
    why_none: str = ""
    try_now: Callable[[KernelName, Work], None] | None = None

    def served(self, name: KernelName, work: Work) -> "Served | None":
        """Row counts served now and later; None where the kernel never does this work."""
        if self.launcher is None or self.why_none:
            return None
        self.asked.setdefault(name, set()).add(work)
        return Served(self, self.launcher, name, work) if self.may_serve(name, work) else None

    def rows(self, name: KernelName, work: Work) -> frozenset[int]:
        """Counts of rows, 1 to 9, at which this work goes through the kernel now.

        With exact numerics all or none: the count must not decide.
        """
        verdict = self.verdict(name, work)
        if verdict is None or not self._can_run(name, work):
            return NO_ROWS
        return self._counts(name, work, verdict)

    def rows_now(self, name: KernelName, work: Work) -> frozenset[int]:
        """The same for work that stock MLX cannot do: a kernel that waits is tried at once."""
        if self.try_now and self.verdict(name, work) is None and self.may_serve(name, work):
            self.try_now(name, work)
        return self.rows(name, work)

    def may_serve(self, name: KernelName, work: Work) -> bool:
        """Whether the kernel does this work, now or after its trial."""
        verdict = self.verdict(name, work)
        is_open = verdict is None or self.waits_for_clock(name, work)
        return self._can_run(name, work) and (is_open or bool(self.rows(name, work)))

    def why_off(self, name: KernelName, work: Work) -> str:
        """Why this work never goes through the kernel on this machine, "" where it may."""
        verdict = self.verdict(name, work)
        return "" if verdict is None else verdict.wrong

    def waits_for_clock(self, name: KernelName, work: Work) -> bool:
        """Whether the kernel is right and was not timed, but has to be."""
        verdict = self.verdict(name, work)
        if verdict is None or verdict.wrong or verdict.faster is not None:
            return False
        return KERNELS[name].is_timed(work)

    def verdict(self, name: KernelName, work: Work) -> Verdict | None:
        """What is known of the kernel for this work, None while it waits for its trial."""
        return self.verdicts.get(trial_name(name, work), self.presumed)

    def learn(self, verdicts: Mapping[str, Verdict]) -> None:
        """Use these verdicts from the next pass on."""
        self.verdicts.update(verdicts)
        self.changes += 1

    def stop(self, why: str) -> None:
        """Use no kernel at all from the next pass on."""
        self.why_none = why
        self.changes += 1

    def want(self, *, exact: bool) -> None:
        """From the next pass on prefer exact rows, or the fastest way."""
        self.exact = exact
        self.changes += 1

    def _can_run(self, name: KernelName, work: Work) -> bool:
        return self.launcher is not None and not self.why_none and KERNELS[name].fits(work)

    def _counts(self, name: KernelName, work: Work, verdict: Verdict) -> frozenset[int]:
        kernel = KERNELS[name]
        if verdict.wrong:
            return NO_ROWS
        if (self.exact and kernel.is_exact) or not kernel.is_timed(work):
            return ALL_ROWS
        faster = verdict.faster or NO_ROWS
        if kernel.by_count and not self.exact:
            return faster
        return ALL_ROWS if 2 * len(faster) > MOST_ROWS else NO_ROWS


class Served:
    """Counts of rows at which one kernel does one work, as they are at the moment of asking.

    launcher: what runs it.
    """

    __slots__ = ("_as_of", "_counts", "_kernels", "_name", "_work", "launcher")

    def __init__(self, kernels: Kernels, launcher: Launcher, name: KernelName, work: Work) -> None:
        self.launcher = launcher
        self._kernels, self._name, self._work = kernels, name, work
        self._counts, self._as_of = NO_ROWS, -1

    def __contains__(self, rows: object) -> bool:
        if self._as_of != self._kernels.changes:
            self._as_of = self._kernels.changes
            self._counts = self._kernels.rows(self._name, self._work)
        return rows in self._counts


NO_KERNELS = Kernels(None)
"""Stock MLX throughout."""
