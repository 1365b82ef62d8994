"""What an engine finds out about its model between answers, and tells in its description."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from metal_kernels.few_row_matvec import MOST_ROWS
from mlx_engine.decoding.device_memory import told_when_full
from mlx_engine.decoding.opening import computes_beside
from mlx_engine.drafting.contract import DEEPEST
from mlx_engine.drafting.depth.cost_meter import CostMeter
from mlx_engine.drafting.depth.costs import PassCosts
from mlx_engine.loading.load import LoadedModel
from mlx_engine.self_check.chores import Chores
from mlx_engine.self_check.head_fit import with_head_check
from mlx_engine.self_check.kernel_record import Verdict
from mlx_engine.values.errors import NumericsError, Reason
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import MAX_DEPTH, LoadOptions

A_LITTLE_S = 0.5
"""Seconds behind an answer for what need not stand in front of one."""


class Upkeep:
    """Kernels are tried, rows compared, passes timed, heads checked; left and taken up again.

    description: of the model, as it is known by now; it stays when the model is let go.
    is_awaited: whether something else is to be done on this thread than `go_on`.
    """

    def __init__(
        self, loaded: LoadedModel, options: LoadOptions, verdict: Verdict | None = None
    ) -> None:
        """verdict: what is known of the model's kernels on this machine; None: they are sound."""
        self._loaded = loaded
        self.is_awaited: Callable[[], bool] = lambda: False
        self._meter = CostMeter(
            loaded.model, loaded.read_heads, self.deepest, on_host=not computes_beside()
        )
        self._chores = Chores(loaded, options.numerics, verdict)
        self.description = self._chores.told(loaded.description)
        self._trouble: Reason | None = None
        self._checks_heads = options.check_heads and len(loaded.model.heads) > 0
        self.costs_now, self.go_deep = self._meter.costs_now, self._meter.go_deep

    def let_go(self) -> None:
        """Nothing more is found out."""
        del self._loaded, self._meter, self._chores, self.costs_now, self.go_deep

    def told(self) -> ModelDescription:
        """The description, as kernels and rows are now."""
        self.description = self._chores.told(self.description)
        return self.description

    def deepest(self) -> int:
        """Drafts at most: as many as rows are compared of, or exact kernels take."""
        return MAX_DEPTH if self._has_kernels and self.description.numerics == "exact" else DEEPEST

    def most_rows(self) -> int:
        """Of a pass of several conversations: exact kernels read the weights once for so many."""
        return MOST_ROWS if self._has_kernels else DEEPEST + 1

    @property
    def _has_kernels(self) -> bool:
        return self._loaded.kernels.launcher is not None

    def use_heads(self) -> None:
        """Bring the MTP heads into memory; the first time, check whether they fit."""
        self._meter.use_heads()
        if self._checks_heads:
            self._checks_heads = False
            self.description = with_head_check(self._loaded, self.description)

    def measure(self, stop: Callable[[], bool], *, heads: bool = False) -> PassCosts | None:
        """What passes cost; None where stop() ended it too early, or where a kernel failed and
        stock MLX has its work now. Kernels that were never tried on this machine are, first.
        """
        with told_when_full():
            if not self._do_chores(stop):
                return None
            try:
                if heads:
                    self._meter.use_heads()
                return self._meter.measure(stop)
            except Exception as error:
                if not self.survives(error):
                    raise
                return None

    def go_on(self) -> None:
        """What is wanted of all this, for a little while, or until something else is awaited."""
        end = perf_counter() + A_LITTLE_S
        work = self.measure if self._meter.is_wanted else self._do_chores
        work(lambda: perf_counter() > end or self.is_awaited())

    def _do_chores(self, stop: Callable[[], bool]) -> bool:
        """Whether all are done."""
        is_done = self._chores.go_on(stop)
        if self._chores.news:
            self.told()
        return is_done

    def survives(self, error: Exception) -> bool:
        """Whether it works otherwise from now on, which the description says at once.

        Raises NumericsError with the name of the file where that is to blame.
        """
        is_survived = self._chores.survives(error)
        if is_survived:
            self.told()
        elif isinstance(error, NumericsError):
            raise NumericsError(
                "{path}: {error}", path=self.description.path, error=error.args[0]
            ) from error
        return is_survived

    def tell(self, trouble: Reason | None) -> None:
        """In the description, as anything that is off, in place of the last; None: it is over."""
        if trouble != self._trouble:
            others = (reason for reason in self.description.declined if reason != self._trouble)
            new = () if trouble is None else (trouble,)
            self.description = replace(self.description, declined=(*others, *new))
            self._trouble = trouble
