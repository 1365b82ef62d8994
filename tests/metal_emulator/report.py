"""What one launch moved and did, independent of the machine it was emulated on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metal_emulator.registers import Registers


@dataclass(frozen=True, slots=True)
class Traffic:
    """One device buffer in one launch.

    size: bytes. loads, stores: accesses by lanes. bytes_loaded, bytes_stored: what those moved.
    lines_loaded, lines_stored: 64-byte lines, each counted once for every threadgroup that touches
    it; the figure to assert on, as the host compiler does not change it. lines: lines touched by
    anyone. together: most bytes a thread loads before it meets others, across lanes or at a
    barrier: what it can have in flight.
    """

    size: int
    loads: int = 0
    stores: int = 0
    bytes_loaded: int = 0
    bytes_stored: int = 0
    lines_loaded: int = 0
    lines_stored: int = 0
    lines: int = 0
    together: int = 0

    @property
    def size_in_lines(self) -> int:
        """64-byte lines the whole buffer has."""
        return -(-self.size // 64)

    @property
    def times_read(self) -> float:
        """lines_loaded over the buffer's own lines: 1.0 when every byte is read by one group."""
        return self.lines_loaded / max(1, self.size_in_lines)

    @property
    def times_written(self) -> float:
        """lines_stored over the buffer's own lines."""
        return self.lines_stored / max(1, self.size_in_lines)


@dataclass(frozen=True, slots=True)
class Report:
    """One launch.

    buffers: by name, `<input>_shape` and the like included; loads, stores and lines are 0 with
    check=False. simd_ops: operations across lanes, one for each SIMD-group that did it.
    barriers: threadgroup barriers, one for each threadgroup. threadgroup_bytes: the most that any
    threadgroup declared. group_loads, group_stores: accesses to threadgroup memory. arithmetic:
    operations by type and kind, {"float": {"add": 3}}; empty unless asked for. seconds: of the
    emulation, without the compile. need: registers and instructions of a thread, with lint.
    """

    kernel: str
    buffers: Mapping[str, Traffic]
    threads: int
    simd_ops: int
    barriers: int
    threadgroup_bytes: int
    group_loads: int
    group_stores: int
    seconds: float
    arithmetic: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    need: Registers | None = None
