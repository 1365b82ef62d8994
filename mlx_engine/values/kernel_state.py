"""Whether a kernel of ours is in use in a model, for the window and the API."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelState:
    """One kernel. name: stable ("products"). words: what it does. why_not: "" when it is in use."""

    name: str
    words: str
    why_not: str

    @property
    def in_use(self) -> bool:
        """Whether some layer goes through the kernel."""
        return not self.why_not
