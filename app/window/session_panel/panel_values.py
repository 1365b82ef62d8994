"""What the model in use can be asked for, as the session panel shows it."""

from dataclasses import dataclass

from mlx_engine.values.options import DraftSourceName, Numerics, SamplingOptions


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
