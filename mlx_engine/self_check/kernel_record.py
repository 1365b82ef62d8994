"""What was found out on this machine, remembered from one load to the next in a small JSON file."""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

import metal_kernels
from metal_kernels.choice import ALL_ROWS, KERNELS, KernelName, Measured, Work
from mlx_engine.values.words import Words

DIED = Words("the program ended while it was tried")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a verdict holds for. sources: a hash of the kernels' own."""

    chip: str
    system: str
    mlx: str
    sources: str


def circumstances() -> Circumstances:
    """Those of this machine and this version."""
    from importlib.metadata import version  # costs more than loading a small model's headers

    folder = Path(metal_kernels.__file__).parent
    text = b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
    return Circumstances(
        chip=str(mx.device_info()["device_name"]) if mx.metal.is_available() else "CPU",
        system=f"{platform.system()} {platform.mac_ver()[0] or platform.release()}",
        mlx=version("mlx"),
        sources=hashlib.sha256(text).hexdigest()[:16],
    )


def verdict_here(file: Path | None = None) -> "Verdict":
    """That of this machine; where no file is named, the one of the program on a Mac."""
    caches = Path.home() / "Library" / "Caches"  # as Apple's File System Programming Guide has it
    return Verdict(file or caches / "Headstart" / "kernels.json", circumstances())


def typed(trial: str, dtype: mx.Dtype) -> str:
    """A trial with the type of its activations: "products affine4 bfloat16"."""
    return f"{trial} {str(dtype).removeprefix('mlx.core.')}"


class Verdict:
    """What was found by trials and by the clock.

    tried: by typed trial, what is wrong, "" for nothing. measured: what was timed.
    rows: by model, what was found of its rows (numerics.py).

    A trial is written down before it begins: one that ends the program is not begun again. file:
    None for this process alone; one that is damaged, or for other circumstances, counts for
    nothing, and one that cannot be written is no obstacle.
    """

    def __init__(self, file: Path | None, here: Circumstances) -> None:
        self.file, self._here = file, here
        self.tried: dict[str, str] = {}
        self.measured: dict[KernelName, tuple[Measured, ...]] = {}
        self.rows: dict[str, str] = {}
        self._trying = ""
        if file is not None:
            self._read(file)

    def off(self) -> dict[str, str]:
        """Why a trial's kernel is not used, by the trial without its type: wrong in one, in all."""
        found = {name.rpartition(" ")[0]: why for name, why in self.tried.items() if why}
        return {trial: wrong_here(trial, why) for trial, why in found.items()}

    def sound(self, dtype: mx.Dtype) -> frozenset[str]:
        """Trials passed with activations of this type."""
        end = typed("", dtype)
        return frozenset(
            name.removesuffix(end)
            for name, why in self.tried.items()
            if not why and name.endswith(end)
        )

    def begin(self, name: str) -> None:
        """A typed trial is about to run."""
        self._trying = name
        self.write()

    def end(self, wrong: str | None) -> None:
        """It has run; None: whether it is wrong will be asked again."""
        if wrong is not None:
            self.tried[self._trying] = wrong
        self._trying = ""
        self.write()

    def note_rows(self, model: str, found: str) -> None:
        """Remember what was found of a model's rows."""
        self.rows[model] = found
        self.write()

    def note_speed(self, name: KernelName, measured: Iterable[Measured]) -> None:
        """Remember what was timed, in the place of what was before."""
        self.measured[name] = tuple(measured)
        self.write()

    def write(self) -> bool:
        """Whole or not at all; whether there is a file now."""
        if self.file is None:
            return False
        content = {
            **asdict(self._here),
            "tried": {name: _unfilled(why) for name, why in self.tried.items()},
            "trying": self._trying,
            "rows": self.rows,
            "measured": {
                name: [
                    {**one.work._asdict(), "rows": sorted(one.rows), "at_one": one.at_one}
                    for one in found
                ]
                for name, found in self.measured.items()
            },
        }
        fresh = self.file.with_suffix(".new")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
            fresh.replace(self.file)
        except OSError:
            return False
        return True

    def _read(self, file: Path) -> None:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            here = asdict(self._here)
            if {name: content[name] for name in here} != here:
                return
            tried = {str(name): _filled(*why) for name, why in content["tried"].items()}
            rows, trying = _words(content["rows"]), str(content["trying"])
            measured = _measured(content["measured"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return
        self.tried, self.rows, self.measured = tried, rows, measured
        if trying:
            self.tried[trying] = DIED


def wrong_here(trial: str, why: str) -> Words:
    """That its kernel is not used."""
    return Words("on this GPU {trial} is wrong: {why}", trial=trial, why=why)


def _unfilled(why: str) -> tuple[str, dict[str, object]]:
    """What a translation of it needs too."""
    return (why.template, why.fields) if isinstance(why, Words) else (why, {})


def _filled(template: str, fields: Mapping[str, object]) -> str:
    return Words(template, **fields)


def _words(stored: Mapping[Any, Any]) -> dict[str, str]:
    if not all(isinstance(word, str) for pair in stored.items() for word in pair):
        raise TypeError("names and reasons are words")
    return dict(stored)


def _measured(stored: Mapping[str, Any]) -> dict[KernelName, tuple[Measured, ...]]:
    return {name: tuple(_one(work) for work in stored[name]) for name in KERNELS if name in stored}


def _one(stored: Mapping[str, object]) -> Measured:
    form, rows = stored["form"], stored["rows"]
    sizes = [size for name in Work._fields[1:] if isinstance(size := stored[name], int)]
    if not isinstance(form, str) or len(sizes) < len(Work._fields) - 1:
        raise TypeError("sizes are numbers")
    if not isinstance(rows, list) or not ALL_ROWS.issuperset(rows) or min(sizes) < 0:
        raise ValueError("rows are 1 to 9")
    at_one = stored["at_one"]
    if not isinstance(at_one, float):
        raise TypeError("shares are numbers")
    return Measured(Work(form, *sizes), frozenset(rows), at_one)
