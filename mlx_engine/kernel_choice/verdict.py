"""What was found out about the kernels on this machine, as a small JSON file."""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import metal_kernels
from metal_kernels.choice import ALL_ROWS, KERNELS, KernelName, Measured, Work, this_chip


@dataclass(frozen=True, slots=True)
class Verdict:
    """off: why a kernel is not used. measured: what was timed, nothing after a quick check."""

    off: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[KernelName, tuple[Measured, ...]] = field(default_factory=dict)


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
        chip=this_chip().name or "CPU",
        system=f"{platform.system()} {platform.mac_ver()[0] or platform.release()}",
        mlx=version("mlx"),
        sources=hashlib.sha256(text).hexdigest()[:16],
    )


def write_verdict(file: Path, verdict: Verdict, here: Circumstances) -> None:
    """Whole or not at all. Raises OSError."""
    kernels = {
        name: {
            "off": verdict.off.get(name, ""),
            "measured": [
                {**one.work._asdict(), "rows": sorted(one.rows)}
                for one in verdict.measured.get(name, ())
            ],
        }
        for name in KERNELS
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    content = {**_as_json(here), "kernels": kernels}
    fresh.write_text(json.dumps(content, indent=1), encoding="utf-8")
    fresh.replace(file)


def read_verdict(file: Path, here: Circumstances) -> Verdict | None:
    """None where there is none, or it is damaged, or for other circumstances."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if {name: content[name] for name in _as_json(here)} != _as_json(here):
            return None
        kernels = {name: content["kernels"][name] for name in KERNELS}
        off: dict[str, str] = {
            name: str(kernel["off"]) for name, kernel in kernels.items() if kernel["off"]
        }
        measured = {
            name: tuple(_measured(one) for one in kernel["measured"])
            for name, kernel in kernels.items()
            if kernel["measured"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Verdict(off, measured)


def _measured(stored: Mapping[str, object]) -> Measured:
    form, outputs, inputs, rows = (stored[key] for key in ("form", "outputs", "inputs", "rows"))
    if not isinstance(form, str) or not isinstance(outputs, int) or not isinstance(inputs, int):
        raise TypeError("sizes are numbers")
    if not isinstance(rows, list) or not ALL_ROWS.issuperset(rows) or min(outputs, inputs) < 0:
        raise ValueError("rows are 1 to 9")
    return Measured(Work(form, outputs, inputs), frozenset(rows))


def _as_json(here: Circumstances) -> dict[str, str]:
    return {"chip": here.chip, "system": here.system, "mlx": here.mlx, "sources": here.sources}
