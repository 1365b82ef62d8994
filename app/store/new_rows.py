"""A whole chat, its messages numbered by their places, written at once."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.store.message_rows import spans_to_json, stats_to_json
from app.store.session_store import SessionStore
from app.values.chat_settings import ChatSettings
from app.values.chats import DraftedSpan
from mlx_engine.values.conversation import Message
from mlx_engine.values.events import FinishReason
from mlx_engine.values.stats import GenerationStats


@dataclass(frozen=True, slots=True)
class NewMessage:
    """parent: the place of an earlier one in the same sequence. created_at: None for now."""

    parent: int | None
    message: Message
    model: str = ""
    stopped: bool = False
    finish_reason: FinishReason | None = None
    stats: GenerationStats | None = None
    spans: tuple[DraftedSpan, ...] = ()
    created_at: float | None = None
    thinking_seconds: float | None = None
    problem: str = ""


def insert_chat(
    store: SessionStore,
    title: str,
    settings: ChatSettings,
    messages: Sequence[NewMessage],
    leaf: int,
) -> int:
    """Its id; `leaf` is the place of the selected message, -1 for none. Raises StoreError."""
    database = store.database
    with database.transaction():
        chat_id = store.chats.create(settings, title)
        now = store.chats.get(chat_id).created_at
        ids: list[int] = []
        for new in messages:
            ids.append(
                database.insert(
                    """INSERT INTO message (chat, parent, role, state, finish_reason, model,
                        created_at, text, thinking, spans, stats, thinking_seconds, problem)
                        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                    chat_id,
                    None if new.parent is None else ids[new.parent],
                    new.message.role,
                    "stopped" if new.stopped else "done",
                    new.finish_reason,
                    new.model,
                    now if new.created_at is None else new.created_at,
                    new.message.text,
                    new.message.thinking,
                    spans_to_json(new.spans),
                    stats_to_json(new.stats),
                    new.thinking_seconds,
                    new.problem,
                )
            )
        if leaf >= 0:
            database.write("UPDATE chat SET leaf = ? WHERE id = ?", ids[leaf], chat_id)
    database.checkpoint()
    return chat_id
