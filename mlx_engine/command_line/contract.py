"""What the terminal needs of an engine and of a conversation, beside what every front end does."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from mlx_engine.values import chat_contract
from mlx_engine.values.conversation import Generation
from mlx_engine.values.events import Event
from mlx_engine.values.options import DraftOptions, DraftOutput, SamplingOptions
from mlx_engine.values.reason import Reason


class ChatSession(chat_contract.ChatSession, Protocol):
    """One conversation, as it is typed."""

    @property
    def why_not_drafting(self) -> Reason | None:
        """Why nothing is drafted whatever the depth; None when drafting can run."""

    @property
    def draft_output(self) -> DraftOutput | None:
        """The output head that MTP heads draft with; None without them."""

    def send(self, text: str) -> Iterator[Event]:
        """Add a message and answer it."""

    def edit(self, index: int, text: str) -> Iterator[Event]:
        """Replace messages[index], forget what came after it, and answer."""


class ChatEngine(chat_contract.ChatEngine[ChatSession], Protocol):
    """A loaded model that also goes on with raw text."""

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
