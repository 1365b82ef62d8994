"""Keeps a Mac from sleeping while there is work to finish, by its own program `caffeinate`.

A program with such an assertion is no candidate for App Nap either (Apple's Energy Efficiency Guide
for Mac Apps, "Extend App Nap").
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

CAFFEINATE = "/usr/bin/caffeinate"
"""`-i`: no idle sleep; `-w`: until the process of this number is gone."""


def this_systems_command() -> Sequence[str]:
    """Return the program that keeps this machine awake, with its arguments; empty for none."""
    return (CAFFEINATE, "-i", "-w", str(os.getpid())) if Path(CAFFEINATE).exists() else ()


class Awake:
    """Runs the program `command` while it is needed; an empty command does nothing."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def hold(self, is_needed: bool) -> None:
        """Keep the machine awake from now on, or no longer."""
        if self._process is not None and not is_needed:
            self._process.terminate()
            self._process.wait()
            self._process = None
        elif self._process is None and is_needed and self._command:
            with suppress(OSError):
                self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)
