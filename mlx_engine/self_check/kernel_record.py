"""Verdicts on Metal kernels and exact rows on this machine, kept in a small JSON file."""

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx

import metal_kernels
from metal_kernels.choice import ALL_ROWS, Kernels, Verdict
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.words import Words

DIED = Words("the program ended while it was tried")


def machine_and_versions() -> dict[str, str]:
    """Describe what kernel verdicts are valid for: machine, system, MLX, and the kernels' code."""
    from importlib.metadata import version  # costs more than loading a small model's headers

    folder = Path(metal_kernels.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return {
        "chip": str(mx.device_info()["device_name"]) if mx.metal.is_available() else "CPU",
        "system": f"{platform.system()} {platform.mac_ver()[0] or platform.release()}",
        "mlx": version("mlx"),
        "sources": hashlib.sha256(text).hexdigest()[:16],
    }


class ExactRows(NamedTuple):
    """Whether each row of a model's pass has the same bits whatever rows are beside it.

    differ: where a row's bits depend on the rows beside it, "" for nowhere. cost: share by which
    exact rows make a pass slower, 0 where that was not measured.
    """

    differ: str = ""
    cost: float = 0.0


class KernelRecord:
    """Stored verdicts on Metal kernels by trial and dtype, and on exact rows by model.

    The name of a trial is on disk while it runs, so that a trial that ends the program is not run
    again. file: None keeps the record in memory. A file that is damaged, or written in other
    circumstances, is ignored; a file that cannot be written is no error.
    """

    def __init__(self, file: Path | None, conditions: Mapping[str, str]) -> None:
        self.file, self._here = file, conditions
        self.trials: dict[str, Verdict] = {}
        self.rows: dict[str, ExactRows] = {}
        self._trying = ""
        if file is not None:
            self._read_record(file)

    def known_verdicts(self, dtype: mx.Dtype) -> dict[str, Verdict]:
        """Return the stored kernel verdicts by trial for activations of this dtype.

        A kernel that is wrong for one dtype counts as wrong for all.
        """
        found = {}
        for key, verdict in self.trials.items():
            trial, _, kind = key.rpartition(" ")
            if verdict.wrong or (kind == _dtype_name(dtype) and trial not in found):
                found[trial] = name_trial_in_reason(trial, verdict)
        return found

    @contextmanager
    def claim_trial(self, name: str) -> Iterator[None]:
        """Keep the name of a kernel trial on disk while it runs, in case it ends the program."""
        self._trying = name
        self.write_record()
        try:
            yield
        finally:  # whatever interrupts it did not end the program
            self._trying = ""
            self.write_record()

    def write_record(self) -> bool:
        """Write the file of kernel verdicts, whole or not at all; return whether it is on disk."""
        if self.file is None:
            return False
        content = {
            **self._here,
            "trying": self._trying,
            "trials": {name: _verdict_as_json(verdict) for name, verdict in self.trials.items()},
            "rows": self.rows,
        }
        fresh = self.file.with_suffix(".new")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
            fresh.replace(self.file)
        except OSError:
            return False
        return True

    def _read_record(self, file: Path) -> None:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if {name: content[name] for name in self._here} != self._here:
                return
            trials = {name: _read_verdict(**found) for name, found in content["trials"].items()}
            rows = {
                name: ExactRows(str(where), float(cost))
                for name, (where, cost) in content["rows"].items()
            }
            died = [str(content["trying"])] if content["trying"] else []
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return
        self.trials, self.rows = trials | dict.fromkeys(died, Verdict(DIED)), rows


def open_kernel_record(file: Path | None = None) -> KernelRecord:
    """Open this machine's stored kernel verdicts; file: None for one in the user's caches."""
    caches = Path.home() / "Library" / "Caches"  # Apple's File System Programming Guide
    return KernelRecord(file or caches / "Headstart" / "kernels.json", machine_and_versions())


def record_key(trial: str, dtype: mx.Dtype) -> str:
    """Key of a kernel trial in the record, with the dtype: "products affine4 bfloat16"."""
    return f"{trial} {_dtype_name(dtype)}"


def name_trial_in_reason(trial: str, verdict: Verdict) -> Verdict:
    """Return the verdict with the kernel trial and this GPU named in its reason, if any."""
    if not verdict.wrong:
        return verdict
    why = Words("on this GPU {trial} is wrong: {why}", trial=trial, why=verdict.wrong)
    return verdict._replace(wrong=why)


def rows_origin(kernels: Kernels) -> Callable[[ModelDescription], dict[str, str]]:
    """Return a function that tells, for a model's description, how its trunk's rows are computed.

    Saved prompts are valid where the description is equal. It tells which rows were asked for, not
    whether they were found exact: a comparison cut short finds other words and changes no row. To
    be called when the trunk's layers have asked for their kernels; heads ask later and change none.
    """
    works = sorted((name, work) for name, asked in kernels.asked.items() for work in asked)
    here = machine_and_versions()

    def rows_origin_of(model: ModelDescription) -> dict[str, str]:
        rows = [(name, work, sorted(kernels.row_counts(name, work))) for name, work in works]
        used = hashlib.sha256(repr(rows).encode()).hexdigest()[:8]
        numerics = "exact" if kernels.exact else "fast"
        kinds = {"numerics": numerics, "activations": model.activations}
        return {**here, **kinds, "kernels": used if rows else "none"}

    return rows_origin_of


def _dtype_name(dtype: mx.Dtype) -> str:
    return str(dtype).removeprefix("mlx.core.")


def _verdict_as_json(verdict: Verdict) -> dict[str, object]:
    """Return a kernel verdict as JSON; its reason stays translatable."""
    wrong, faster, share = verdict
    words = (wrong.template, wrong.fields) if isinstance(wrong, Words) else (wrong, {})
    return {"wrong": words, "faster": None if faster is None else sorted(faster), "share": share}


def _read_verdict(wrong: list[object], faster: list[int] | None, share: float) -> Verdict:
    """Read a kernel verdict from JSON. Raises TypeError and ValueError for anything else."""
    template, fields = wrong
    if not isinstance(fields, Mapping) or not ALL_ROWS.issuperset(faster or ()):
        raise TypeError("fields have names, and counts of rows are 1 to 9")
    counts = None if faster is None else frozenset(faster)
    return Verdict(Words(str(template), **fields), counts, float(share))
