"""What every front end needs of an engine and of a conversation with it."""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from mlx_engine.values.conversation import Message
from mlx_engine.values.events import Event
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.stats import GenerationStats

SessionT_co = TypeVar("SessionT_co", covariant=True)


class ChatSession(Protocol):
    """One conversation; a new `draft` or `sampling` counts from the next round on."""

    system: str | None
    sampling: SamplingOptions
    draft: DraftOptions

    @property
    def messages(self) -> tuple[Message, ...]:
        """All turns so far, oldest first."""

    @property
    def stats(self) -> GenerationStats:
        """Figures of the newest answer."""

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation."""

    def regenerate(self) -> Iterator[Event]:
        """Answer the last question again."""

    def continue_answer(self) -> Iterator[Event]:
        """Go on with the last answer."""

    def stop(self) -> None:
        """End the running answer after the present round; what was said stays."""


class ChatEngine(Protocol[SessionT_co]):
    """A loaded model and its conversations."""

    @property
    def description(self) -> ModelDescription:
        """The model and what is in effect."""

    def session(
        self,
        system: str | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        thinking: bool | None = None,
    ) -> SessionT_co:
        """Begin a conversation; what is None is as the model recommends."""

    def close(self) -> None:
        """Give the memory back."""
