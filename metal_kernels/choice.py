"""Choice of Metal kernels: which of ours computes what on this machine, at which row counts.

Layers fall back to MLX where no kernel is chosen. Exact kernels add in the same order for 1 to 9
rows, so that plain decoding and verifying give the same bits. The others only save time, and run
where they were timed and found faster than MLX.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

from metal_kernels.filtered_pick import MOST_TOKENS
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import named_cache_format
from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import MLX
from metal_kernels.stream_exchange import MOST_STREAMS
from metal_kernels.weight_formats.gguf_blocks import BLOCK_FORMS

KernelName = Literal[
    "products",
    "tiles",
    "attention",
    "delta",
    "delta-inputs",
    "gate-up",
    "product-add",
    "experts",
    "prompt-products",
    "prompt-experts",
    "embedding",
    "mtp-input",
    "pick",
    "filtered-pick",
    "noise",
    "norms",
    "exchange",
]
MOST_ROWS = 9
"""Rows of the longest verify pass: the newest token and eight drafts."""

ALL_ROWS = frozenset(range(1, MOST_ROWS + 1))
NO_ROWS = frozenset[int]()


DECAYS_BY_CHANNEL = "channels"
"""Form of the delta rule with a decay for each column of the state."""


class KernelWork(NamedTuple):
    """An operation of a layer that a Metal kernel may do: weight format and sizes.

    form: name of the weights' format, for attention of the KV cache's, for "delta" that of decays.
    outputs, inputs: sizes of a matrix; of values and keys for attention and recurrent states; of
    the latent and the rotated part for latent attention. shared: query heads per key head.
    """

    form: str = ""
    outputs: int = 0
    inputs: int = 0
    shared: int = 1


def trial_name(name: KernelName, work: KernelWork) -> str:
    """Name of a kernel's trial: kernel and weight format or head size, as "products affine4"."""
    return f"{name} {work.form or work.inputs or ''}".rstrip()


class Verdict(NamedTuple):
    """Result of trying a Metal kernel on this machine.

    wrong: why the kernel is not used, "" if it is right. faster: row counts at which it beats MLX,
    None before it was timed. share: its time divided by MLX's, at the fewest rows.
    """

    wrong: str = ""
    faster: frozenset[int] | None = None
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """Properties of one of our Metal kernels, by which it is chosen or not.

    is_exact: rows are bit-equal in passes of any size, which MLX's own operation does not promise.
    per_row_count: timing decides for each row count, else by majority for all. fits: whether the
    kernel supports an operation's sizes. adds_otherwise: it replaces an exact kernel by one whose
    rows have other bits, so timing always decides and the caller minds exact numerics.
    """

    is_exact: bool = False
    per_row_count: bool = False
    fits: Callable[[KernelWork], bool] = lambda _: True
    adds_otherwise: bool = False

    def has_alternative(self, work: KernelWork) -> bool:
        """Return whether MLX can do this work too; it cannot multiply few rows by GGUF blocks."""
        return self.adds_otherwise or not (self.per_row_count and work.form in BLOCK_FORMS)


def _inputs_divide_by_8(work: KernelWork) -> bool:
    return work.inputs % 8 == 0


def _can_share_heads(work: KernelWork) -> bool:
    form = named_cache_format(work.form, work.inputs, work.outputs)
    return form.lane_shares(work.inputs, work.outputs) is not None


KERNELS: Mapping[KernelName, Kernel] = MappingProxyType(
    {
        "products": Kernel(True, True, _inputs_divide_by_8),
        "tiles": Kernel(False, True, _inputs_divide_by_8, adds_otherwise=True),
        "attention": Kernel(True, fits=_can_share_heads),
        "delta": Kernel(True, fits=lambda work: work.inputs % 16 == 0),
        "delta-inputs": Kernel(),
        "gate-up": Kernel(False, True, _inputs_divide_by_8),
        "product-add": Kernel(False, True, _inputs_divide_by_8),
        "experts": Kernel(False, True, _inputs_divide_by_8),
        "prompt-products": Kernel(),
        "prompt-experts": Kernel(),
        "embedding": Kernel(),
        "mtp-input": Kernel(False, True, _inputs_divide_by_8),
        "pick": Kernel(False, True, _inputs_divide_by_8),
        "filtered-pick": Kernel(fits=lambda work: work.outputs <= MOST_TOKENS),
        "noise": Kernel(),
        "norms": Kernel(fits=lambda work: work.inputs >= 8),
        "exchange": Kernel(fits=lambda work: work.inputs <= MOST_STREAMS),
    }
)


@dataclass(eq=False, slots=True)
class Kernels:
    """Metal kernels in use on this machine for one loaded model; layers ask it in every pass.

    launcher: None where no kernel can run. exact: rows must be bit-equal in passes of any size.
    stock: MLX's own operations. verdicts: by trial name. presumed: verdict before a trial; None:
    MLX does the work until then. asked: all work that layers have requested. changes: incremented
    whenever the kernels in use may have changed. why_none: why no kernel is used at all, or "".
    try_now: runs a kernel's trial for some work.
    """

    launcher: Launcher | None
    exact: bool = True
    stock: StockOperations = MLX
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    presumed: Verdict | None = None
    asked: dict[KernelName, set[KernelWork]] = field(default_factory=dict)
    changes: int = 0
    why_none: str = ""
    try_now: Callable[[KernelName, KernelWork], None] | None = None

    def served_row_counts(self, name: KernelName, work: KernelWork) -> "KernelRowCounts | None":
        """Return the row counts at which a kernel is used for `work`; None where it never is."""
        if self.launcher is None or self.why_none:
            return None
        self.asked.setdefault(name, set()).add(work)
        return (
            KernelRowCounts(self, self.launcher, name, work)
            if self.may_run_kernel(name, work)
            else None
        )

    def row_counts(self, name: KernelName, work: KernelWork) -> frozenset[int]:
        """Row counts, 1 to 9, at which the named kernel does this work now.

        With exact numerics it is all counts or none, since results must not depend on the count.
        """
        verdict = self.verdict(name, work)
        if verdict is None or not self._can_run_kernel(name, work):
            return NO_ROWS
        return self._faster_row_counts(name, work, verdict)

    def row_counts_after_trial(self, name: KernelName, work: KernelWork) -> frozenset[int]:
        """Row counts at which the named kernel does this work, after its trial if that is pending.

        For work that MLX cannot do and that therefore cannot wait.
        """
        if self.try_now and self.verdict(name, work) is None and self.may_run_kernel(name, work):
            self.try_now(name, work)
        return self.row_counts(name, work)

    def may_run_kernel(self, name: KernelName, work: KernelWork) -> bool:
        """Whether the named kernel does this work now, or may once it was checked and timed."""
        verdict = self.verdict(name, work)
        is_open = verdict is None or self.needs_timing(name, work)
        return self._can_run_kernel(name, work) and (is_open or bool(self.row_counts(name, work)))

    def why_off(self, name: KernelName, work: KernelWork) -> str:
        """Why the named kernel never does this work on this machine; "" where it may."""
        verdict = self.verdict(name, work)
        return "" if verdict is None else verdict.wrong

    def needs_timing(self, name: KernelName, work: KernelWork) -> bool:
        """Whether the named kernel was found correct for this work but not timed yet."""
        verdict = self.verdict(name, work)
        if verdict is None or verdict.wrong or verdict.faster is not None:
            return False
        return KERNELS[name].has_alternative(work)

    def verdict(self, name: KernelName, work: KernelWork) -> Verdict | None:
        """Result of the named kernel's trial for this work; None before the trial."""
        return self.verdicts.get(trial_name(name, work), self.presumed)

    def add_trial_verdicts(self, verdicts: Mapping[str, Verdict]) -> None:
        """Add results of kernel trials, by trial name; in effect from the next pass on."""
        self.verdicts.update(verdicts)
        self.changes += 1

    def disable_all_kernels(self, why: str) -> None:
        """Use none of our kernels from the next pass on; why: the reason, for the user."""
        self.why_none = why
        self.changes += 1

    def set_exact_numerics(self, *, exact: bool) -> None:
        """Choose kernels for bit-equal rows in passes of any size, or for speed, from now on."""
        self.exact = exact
        self.changes += 1

    def _can_run_kernel(self, name: KernelName, work: KernelWork) -> bool:
        return self.launcher is not None and not self.why_none and KERNELS[name].fits(work)

    def _faster_row_counts(
        self, name: KernelName, work: KernelWork, verdict: Verdict
    ) -> frozenset[int]:
        kernel = KERNELS[name]
        if verdict.wrong:
            return NO_ROWS
        if (self.exact and kernel.is_exact) or not kernel.has_alternative(work):
            return ALL_ROWS
        faster = verdict.faster or NO_ROWS
        if kernel.adds_otherwise or (kernel.per_row_count and not self.exact):
            return faster
        return ALL_ROWS if 2 * len(faster) > MOST_ROWS else NO_ROWS


class KernelRowCounts:
    """Row counts at which a kernel is used for one operation: `rows in served`.

    Each test sees the verdicts and settings of `kernels` at that time. launcher: runs the kernel.
    """

    __slots__ = ("_as_of", "_counts", "_kernels", "_name", "_work", "launcher")

    def __init__(
        self, kernels: Kernels, launcher: Launcher, name: KernelName, work: KernelWork
    ) -> None:
        self.launcher = launcher
        self._kernels, self._name, self._work = kernels, name, work
        self._counts, self._as_of = NO_ROWS, -1

    def __contains__(self, rows: object) -> bool:
        if self._as_of != self._kernels.changes:
            self._as_of = self._kernels.changes
            self._counts = self._kernels.row_counts(self._name, self._work)
        return rows in self._counts


NO_KERNELS = Kernels(None)
"""Stock MLX throughout."""
