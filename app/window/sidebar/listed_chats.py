"""What the sidebar lists, as plain values: headings with chats under them."""

from dataclasses import dataclass

from app.values.chats import ChatSummary, TextRange

PINNED, TODAY = "Pinned", "Today"
"""Headings of the chats that come first."""


@dataclass(frozen=True, slots=True)
class ListedChat:
    """A chat; snippet and ranges say where a search found its words."""

    chat: ChatSummary
    title_ranges: tuple[TextRange, ...] = ()
    snippet: str = ""
    snippet_ranges: tuple[TextRange, ...] = ()
    message_id: int | None = None

    @property
    def title(self) -> str:
        """What is shown of a chat that nobody has named yet, too."""
        return self.chat.title or "New chat"


@dataclass(frozen=True, slots=True)
class ChatGroup:
    """A heading ("Today") and the chats under it."""

    heading: str
    chats: tuple[ListedChat, ...]
