"""What the terminal needs of an engine and of a conversation."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from mlx_engine.values.conversation import Generation, Message
from mlx_engine.values.events import Event
from mlx_engine.values.model_description import ModelDescription
from mlx_engine.values.options import DraftOptions, GenerationOptions, SamplingOptions
from mlx_engine.values.reason import Reason
from mlx_engine.values.stats import GenerationStats


class ChatSession(Protocol):
    """One conversation; a new `draft` or `sampling` counts from the next round on."""

    system: str | None
    sampling: SamplingOptions
    draft: DraftOptions

    @property
    def messages(self) -> Sequence[Message]:
        """All turns so far, oldest first."""

    @property
    def stats(self) -> GenerationStats:
        """Figures of the last answer."""

    @property
    def why_not_drafting(self) -> Reason | None:
        """Why nothing is drafted whatever the depth; None when drafting can run."""

    def load_messages(self, messages: Sequence[Message]) -> None:
        """Replace the conversation."""

    def send(self, text: str) -> Iterator[Event]:
        """Add a message and answer it."""

    def regenerate(self) -> Iterator[Event]:
        """Answer the last message again."""

    def continue_answer(self) -> Iterator[Event]:
        """Go on with the last answer."""

    def edit(self, index: int, text: str) -> Iterator[Event]:
        """Replace messages[index], forget what came after it, and answer."""

    def stop(self) -> None:
        """End the running answer after the present round; what was said stays."""


class ChatEngine(Protocol):
    """A loaded model."""

    @property
    def description(self) -> ModelDescription:
        """What was loaded."""

    def session(
        self,
        system: str | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        generation: GenerationOptions | None = None,
        thinking: bool | None = None,
    ) -> ChatSession:
        """Begin a conversation; thinking None leaves it to the model's template."""

    def generate(
        self,
        prompt: str,
        max_tokens: int | None = None,
        sampling: SamplingOptions | None = None,
        draft: DraftOptions | None = None,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
    ) -> Generation:
        """Continue a raw prompt."""

    def close(self) -> None:
        """Give the memory back."""
