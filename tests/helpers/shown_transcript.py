"""What the transcript's tests share: messages, streaming, scrolling, and waiting for layouts."""

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QScrollBar

from app.window.transcript.message_view import MessageView
from app.window.transcript.shown_message import ShownMessage
from app.window.transcript.transcript_view import TranscriptView
from mlx_engine.values.conversation import Channel, TextPiece
from mlx_engine.values.stats import GenerationStats

PARAGRAPH = "Some words that make a paragraph of a few lines. " * 6 + "\n\n"
STATS = GenerationStats(
    generated_tokens=212, drafted=212, accepted=174, drafted_by_depth=(106, 106),
    accepted_by_depth=(96, 78), passes=106, tokens_per_pass=2.6, tokens_per_second=41.3,
    time_to_first_token_s=0.4,
)  # fmt: skip


def settle() -> None:
    for _ in range(5):
        QApplication.processEvents()


def show(view: TranscriptView, *messages: ShownMessage) -> None:
    view.show_messages(messages)
    settle()


def stream(view: TranscriptView, text: str, channel: Channel = "answer") -> None:
    view.append_pieces(1, [TextPiece(text, channel)])
    settle()


def of(view: TranscriptView, message_id: int) -> MessageView:
    found = view.column.view(message_id)
    assert found is not None
    return found


def shown_text(view: TranscriptView, message_id: int) -> str:
    return "\n".join(text.text() for text in of(view, message_id).texts())


def bar(view: TranscriptView) -> QScrollBar:
    return view.column.verticalScrollBar()


def wheel(view: TranscriptView, pixels: int) -> None:
    place = QPointF(300, 200)
    event = QWheelEvent(
        place, place, QPoint(0, pixels), QPoint(0, pixels), Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.ScrollUpdate, False,
    )  # fmt: skip
    QApplication.sendEvent(view.column.viewport(), event)
    settle()


LIVE = ShownMessage(1, "assistant", "", state="live")


def begin(view: TranscriptView, message: ShownMessage = LIVE) -> None:
    """Add a message."""
    view.add_message(message)
