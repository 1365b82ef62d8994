"""Stored and running messages as the transcript shows them."""

from app.control.answers import CLOSED, WITHDRAWN
from app.control.running_answer import RunningAnswer
from app.values.chats import StoredMessage, Turn
from app.window.transcript.shown_message import ShownMessage, State

ENDINGS = {
    "max-tokens": "Ended at this chat's limit of tokens. Continue goes on from here.",
    "context-full": "The context is full. Edit an earlier message or start a new chat.",
}
INTERRUPTED = "Interrupted reply. Continue goes on from here."


def shown_turn(turn: Turn, *, is_last: bool = False) -> ShownMessage:
    """A message that is not being written."""
    message = turn.message
    was_cut = message.state == "stopped" or message.finish_reason == "max-tokens"
    return ShownMessage(
        id=message.id,
        role="assistant" if message.role == "assistant" else "user",
        text=message.text,
        thinking=message.thinking,
        thinking_seconds=message.thinking_seconds,
        spans=message.spans,
        stats=message.stats,
        state=_state(message),
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
        notice=_notice(message),
        can_continue=is_last and was_cut and message.role == "assistant",
    )


def shown_answer(answer: RunningAnswer, turn: Turn) -> ShownMessage:
    """The answer that is being written in the place of `turn`."""
    return ShownMessage(
        id=answer.message_id,
        role="assistant",
        text=answer.answer.text,
        thinking=answer.thinking.text,
        thinking_seconds=answer.thinking_seconds,
        spans=tuple(answer.answer.spans),
        thinking_spans=tuple(answer.thinking.spans),
        state="live",
        branch_index=turn.number - 1,
        branch_count=len(turn.siblings),
    )


def _state(message: StoredMessage) -> State:
    if message.interrupted and message.problem not in (CLOSED, WITHDRAWN):
        return "failed"
    return "stopped" if message.state == "stopped" else "done"


def _notice(message: StoredMessage) -> str:
    if message.interrupted:
        return message.problem or INTERRUPTED
    return ENDINGS.get(message.finish_reason or "", "")
