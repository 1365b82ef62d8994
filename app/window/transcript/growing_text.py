"""Text that arrives in pieces, and which of it was drafted."""

from collections.abc import Iterable

from app.values.chats import DraftedSpan
from mlx_engine.values.events import TextPiece


class GrowingText:
    """Remembers its length, so that a new piece knows where it stands."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        """All of it."""
        self._parts = ["".join(self._parts)]
        return self._parts[0]

    def add(self, text: str) -> None:
        """Append text of which nothing is known."""
        self._parts.append(text)
        self._length += len(text)

    def spans_of(self, pieces: Iterable[TextPiece]) -> list[DraftedSpan]:
        """Append pieces of one channel; what was drafted of them."""
        found = []
        for piece in pieces:
            start = self._length
            self.add(piece.text)
            if piece.depth > 0 and piece.text:
                found.append(DraftedSpan(start, self._length, piece.depth, piece.source))
        return found
