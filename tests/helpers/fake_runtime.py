"""The world around a command, in memory: streams one can read back, and a scripted engine."""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scripted_engine import ScriptedEngine

from mlx_engine.command_line.run import run_command_line
from mlx_engine.command_line.runtime import Runtime
from mlx_engine.self_check import Finding
from mlx_engine.self_check.doctor import Machine
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import LoadOptions


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@dataclass
class FakeRuntime:
    """Run commands with `run`, then look at out, err and what was asked of the engine."""

    engine: ScriptedEngine = field(default_factory=ScriptedEngine)
    stdin: io.StringIO = field(default_factory=io.StringIO)
    stdout: io.StringIO = field(default_factory=io.StringIO)
    stderr: io.StringIO = field(default_factory=io.StringIO)
    findings: Iterable[Finding] = ()
    gpu_bytes: int = 0
    error: Exception | None = None
    asked: list[tuple[str | None, LoadOptions | None]] = field(default_factory=list)

    @property
    def out(self) -> str:
        return self.stdout.getvalue()

    @property
    def err(self) -> str:
        return self.stderr.getvalue()

    def type(self, *lines: str) -> None:
        self.stdin.write("".join(f"{line}\n" for line in lines))
        self.stdin.seek(0)

    def run(self, *arguments: str) -> int:
        world = Runtime(
            stdin=self.stdin,
            stdout=self.stdout,
            stderr=self.stderr,
            load=self.load,
            inspect=self.inspect,
            examine=lambda _: self.findings,
            machine=lambda: Machine("CPU", "", 0, self.gpu_bytes),
        )
        return run_command_line(arguments, world)

    def load(
        self,
        path: str | None = None,
        *,
        options: LoadOptions | None = None,
        on_progress: Callable[[int, int], None] | None = None,
        on_download: Callable[[int, int], None] | None = None,
    ) -> ScriptedEngine:
        self.asked.append((path, options))
        if on_download is not None and path is not None and path.startswith("hub/"):
            on_download(300, 900)
        if self.error is not None:
            raise self.error
        if on_progress is not None:
            on_progress(500, 1000)
        return self.engine

    def inspect(
        self,
        path: str | None = None,
        *,
        heads: Path | None = None,
        vision: Path | None = None,
        on_download: Callable[[int, int], None] | None = None,
        text: bool = False,
    ) -> ModelDescription:
        assert text  # a tokenizer that does not load is told before a load
        if on_download is not None and path is not None and path.startswith("hub/"):
            on_download(300, 900)
        self.asked.append((path, LoadOptions(heads=heads, vision=vision)))
        if self.error is not None:
            raise self.error
        return self.engine.description
