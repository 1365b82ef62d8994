"""What the session panel shows, as plain values."""

from dataclasses import dataclass, field

from mlx_engine.values.options import (
    DraftOptions,
    DraftSourceName,
    GenerationOptions,
    Numerics,
    SamplingOptions,
)
from mlx_engine.values.reason import Reason


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Everything a chat answers with that can be set in the panel."""

    system: str = ""
    draft: DraftOptions = field(default_factory=DraftOptions)
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    generation: GenerationOptions = field(default_factory=GenerationOptions)
    numerics: Numerics = "exact"
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class SourceAbility:
    """A draft source of the model in use: the deepest draft it can make, or why it cannot."""

    name: DraftSourceName
    max_depth: int
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class ModelAbilities:
    """What the model in use can be asked for.

    numerics: those in effect; numerics_why: why they are not the ones asked for. recommended: the
    model's own sampling. can_switch_thinking: a chat can switch its thinking on or off.
    """

    sources: tuple[SourceAbility, ...]
    numerics: Numerics = "exact"
    numerics_why: str = ""
    recommended: SamplingOptions | None = None
    can_switch_thinking: bool = False

    def source(self, name: DraftSourceName) -> SourceAbility:
        """What is known of a source; one that is not listed cannot be used."""
        for ability in self.sources:
            if ability.name == name:
                return ability
        return SourceAbility(name, 0, "This version cannot draft from this source.")


@dataclass(frozen=True, slots=True)
class DraftingNow:
    """The newest round of this chat: its depth, and the reason when that is not as asked.

    auto_depth: what the automatic choice would be now, None when it is not known.
    """

    depth: int
    why: Reason | None = None
    auto_depth: int | None = None
    is_answering: bool = False
