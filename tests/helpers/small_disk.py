"""Tests on a disk that is really full: a small one, which only they see."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IN_A_NAMESPACE = ["unshare", "--map-root-user", "--mount"]
ON_A_SMALL_DISK = """
import subprocess, sys
from pathlib import Path

disk, size, module, function, *given = sys.argv[1:6]
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
sys.path[:0] = sys.argv[6:]
getattr(__import__(module), function)(Path(disk), *given)
"""


def run_on_a_small_disk(disk: Path, size: str, function: str, test: str, given: str = "") -> None:
    """Call function(disk, given) of a file of tests, in a process with mounts of its own: they are
    gone with it, whatever happens. size: of the disk, as `mount` takes it.
    """
    try:
        subprocess.run([*IN_A_NAMESPACE, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small disk needs Linux with user namespaces")
    here = Path(test)
    done = subprocess.run(
        [
            *IN_A_NAMESPACE,
            *(sys.executable, "-c", ON_A_SMALL_DISK, str(disk), size, here.stem, function, given),
            *(str(ROOT), str(ROOT / "tests" / "helpers"), str(here.parent)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
